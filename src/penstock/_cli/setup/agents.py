"""Points a coding agent at a gateway: chooses the models, and fills in the agent's row of `agents.toml`."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._cli.common_options import find_command
from penstock._cli.setup.config_files import FileEdit, is_list, is_table
from penstock._engines.model_resolution import REPLAY, list_configured_providers, resolve_targets
from penstock._providers.models import Model
from penstock._providers.models import model as facts_of
from penstock._providers.models import models as models_of
from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock._engines.config import Config

KEY_VARIABLE = "PENSTOCK_KEY"
ANY = "any"  # the key where the gateway asks for none: most agents insist on one
DEFAULT = "default"  # the alias for requests that name no model
_CLAUDE_OUTPUT = 32_000  # what Claude Code asks for by itself
_GEMINI_WINDOW = 1_048_576  # what Gemini CLI assumes for every model that it does not know
_PLACEHOLDER = re.compile(r"\{(\w+)(?:!s)?\}")
_FOLDER = re.compile(r"<(\w+):([^<>]*)>")
_SMALL = re.compile(r"(?:^|[-_.])(?:mini|haiku|flash|small|lite|nano|fast|instant)(?:$|[-_.])")
_SPECIAL = re.compile(r"audio|image|tts|realtime|search|live|embed|transcribe|preview|exp\b|latest|vision|codex")
_NUMBERS = re.compile(r"\d+")


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A model and a cheaper one for side tasks. `context` and `output` are tokens; 0 if they are not known."""

    model: str
    small: str
    context: int = 0
    output: int = 0
    small_context: int = 0
    small_output: int = 0


class GatewayAddress(ModelChoice, frozen=True, kw_only=True):
    """Where an agent is pointed. `base` has no /v1. `key` is `ANY` if none is needed. `home`, `env`: the user's."""

    base: str
    key: str = ANY
    home: Path = Path()
    env: Mapping[str, str] = {}


class AgentPlan(msgspec.Struct, frozen=True):
    """What one agent needs: files to write, variables to set, commands to run, then how to start it. `notes`: why."""

    start: str
    files: tuple[FileEdit, ...] = ()
    env: dict[str, str] = {}
    commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Agent(msgspec.Struct, frozen=True):
    """A row of `agents.toml`: templates of an agent's settings. `hint`: how to start it once, without any file."""

    title: str
    start: str
    hint: list[str] | None = None
    variables: dict[str, str] = {}
    env: dict[str, str] = {}
    files: list[dict[str, Any]] = []
    commands: list[str] = []
    notes: list[str] = []

    def plan(self, address: GatewayAddress) -> AgentPlan:
        """Fills in the settings for a gateway."""
        facts = _template_facts(self, address)
        edits = [
            FileEdit(_choose_path(row, address), row["form"], row["values"], row.get("defaults", {}))
            for row in _fill_in(self.files, facts)
        ]
        commands, notes = (tuple(_fill_in(texts, facts)) for texts in (self.commands, self.notes))
        return AgentPlan(self.start, tuple(edits), _fill_in(self.env, facts), commands, notes)

    def hint_for(self, address: GatewayAddress) -> str:
        """Returns the command line that starts the agent once."""
        return " ".join(_fill_in(self.hint, _template_facts(self, address)))


AGENTS = msgspec.convert(
    tomllib.loads(files("penstock._cli.setup").joinpath("agents.toml").read_text(encoding="utf-8")), dict[str, Agent]
)


def _template_facts(agent: Agent, address: GatewayAddress) -> dict[str, Any]:
    """Returns the placeholders of `agents.toml`. Unknown facts are 0 or empty."""
    context, output = address.context, address.output
    gateway_key = "" if address.key == ANY else address.key
    facts: dict[str, Any] = {
        **msgspec.structs.asdict(address),
        "v1": f"{address.base}/v1",
        "gateway_key": gateway_key,
        "key_variable": gateway_key and KEY_VARIABLE,
        "key_reference": f"{{env:{KEY_VARIABLE}}}" if gateway_key else address.key,
        "other_small": address.small if address.small != address.model else "",
        "prompt": max(context - output, context // 2),
        "claude_output": output if output < _CLAUDE_OUTPUT else 0,
        "gemini_threshold": round(context / 2 / _GEMINI_WINDOW, 4) if context < _GEMINI_WINDOW else 0,
    }
    variables: dict[str, str] = _fill_in(agent.variables, facts)
    shell_variables = " ".join(f"{name}={quote(value)}" for name, value in variables.items())
    return {**facts, "variables": variables, "shell_variables": shell_variables}


def _fill_in(template: Any, facts: Mapping[str, Any]) -> Any:
    """Fills in a template. Returns None for a text with an unknown fact and for a table whose `if` is not met."""
    if isinstance(template, str):
        names = _PLACEHOLDER.findall(template)
        if not all(facts[name] for name in names):
            return None
        only = names and template == f"{{{names[0]}}}"
        return facts[names[0]] if only else template.format_map(facts)
    if is_list(template):
        return [item for item in (_fill_in(one, facts) for one in template) if item is not None]
    if not is_table(template):
        return template
    if not all(facts[name] for name in template.get("if", "").split()):
        return None
    filled: dict[str, Any] = {}
    for key, inner in template.items():
        value = _fill_in(inner, facts)
        if key == "**":
            filled |= value
        elif key != "if" and value not in (None, {}):
            filled[key.format_map(facts)] = value
    return filled


def _choose_path(row: dict[str, Any], address: GatewayAddress) -> Path:
    """Returns the first path of a file that exists, else the first."""

    def expand_folder(match: re.Match[str]) -> str:
        named = address.env.get(match[1])
        return str(Path(named).expanduser() if named else address.home / match[2])

    paths: list[Path] = []
    for template in row.get(f"path_{sys.platform}", row["path"]):
        path = _FOLDER.sub(expand_folder, template)
        paths.append(address.home / _FOLDER.sub(expand_folder, path))  # a folder may be inside another's default
    return next((path for path in paths if path.is_file()), paths[0])


# ── models ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def choose_model(
    config: Config, env: Mapping[str, str], *, model: str = "", small: str = "", context: int = 0
) -> ModelChoice:
    """Completes a choice from the table of models. Without a model: the alias `default`, or the only choice."""
    model = model or _default_model(config, env)
    facts = _model_facts(model, config, env)
    small = small or _find_small_model(model, facts, config)
    small_facts = _model_facts(small, config, env)
    return ModelChoice(
        model=model,
        small=small,
        context=context or facts.context,
        output=facts.max_output,
        small_context=small_facts.context,
        small_output=small_facts.max_output,
    )


def _default_model(config: Config, env: Mapping[str, str]) -> str:
    if DEFAULT in config.aliases:
        return DEFAULT
    rows = list_configured_providers(config, env)
    if not rows:
        return f"{REPLAY}/agent"
    names = [f"{row.name}/{one}" for row in rows for one in _offered_models(row.name, config)][:6]
    examples = f", such as {', '.join(names)}" if names else ""
    raise InputError(f"which model? Give it with --model{examples}; `{find_command()} models` lists them")


def _offered_models(provider: str, config: Config) -> list[str]:
    configured = config.account(provider).models
    if configured and not isinstance(configured, dict):
        return list(configured)
    rows = _tool_models(provider, config)
    general = [row for row in rows if not _SPECIAL.search(row.id) and not row.version]
    return [row.id for row in sorted(general or rows, key=lambda row: _version_rank(row.id), reverse=True)]


def _tool_models(provider: str, config: Config) -> list[Model]:
    return [row for row in models_of(config.provider(provider)) if row.chat and "tools" in row.capabilities]


def _model_facts(name: str, config: Config, env: Mapping[str, str]) -> Model:
    """Returns what is known of a model. Of an alias with several, the smallest window counts."""
    rows = [facts_of(target.provider, target.model) for target in resolve_targets(name, config, env)]
    return min((row for row in rows if row.context), key=lambda row: row.context, default=rows[0])


def _find_small_model(name: str, facts: Model, config: Config) -> str:
    """Returns a cheaper model of the same provider and maker, else the model itself."""
    prefix, slash, _ = name.partition("/")
    if not slash or prefix != facts.provider or facts.prices is None or _SMALL.search(facts.id):
        return name
    price = facts.prices.input or 0.0
    maker = re.split(r"[-/]", facts.id)[0]
    rows = [
        row
        for row in _tool_models(facts.provider, config)
        if _SMALL.search(row.id) and not _SPECIAL.search(row.id) and row.id.startswith(maker)
        if row.prices is not None and (row.prices.input or 0.0) < price
    ]
    best = max(rows, key=lambda row: (*_version_rank(row.id), -len(row.id)), default=None)
    return f"{prefix}/{best.id}" if best is not None else name


def _version_rank(id: str) -> tuple[tuple[int, ...], bool]:
    """Ranks a model by the numbers of its name, without dates."""
    numbers = _NUMBERS.findall(id)
    versions = tuple(int(number) for number in numbers if len(number) <= 2)  # noqa: PLR2004
    return versions, len(versions) == len(numbers)
