"""What it takes to point an agent at a gateway: an address, models, and the files, variables and commands for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import msgspec

from penstock._cli.common_options import find_command
from penstock._cli.setup.config_files import FileEdit
from penstock._engines.model_resolution import REPLAY, list_configured_providers, resolve_targets
from penstock._providers.models import Model
from penstock._providers.models import model as facts_of
from penstock._providers.models import models as models_of
from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock._engines.config import Config

KEY_VARIABLE = "PENSTOCK_KEY"
ANY = "any"  # the key where the gateway asks for none: most agents insist on one


class GatewayAddress(msgspec.Struct, frozen=True):
    """Where an agent is pointed. `base` has no /v1. `key` is `ANY` where none is needed. `home`, `env`: the user's."""

    base: str
    model: str
    small: str
    context: int = 0
    output: int = 0
    small_context: int = 0
    small_output: int = 0
    key: str = ANY
    home: Path = Path()
    env: Mapping[str, str] = {}

    @property
    def v1(self) -> str:
        return f"{self.base}/v1"

    @property
    def keyed(self) -> bool:
        return self.key != ANY

    def folder(self, variable: str, *default: str) -> Path:
        """A folder that a variable may name."""
        named = self.env.get(variable)
        return Path(named).expanduser() if named else self.home.joinpath(*default)


class AgentPlan(msgspec.Struct, frozen=True):
    """What one agent needs: files to write, variables to set, commands to run, then how to start it. `notes`: why."""

    start: str
    files: tuple[FileEdit, ...] = ()
    env: dict[str, str] = {}
    commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Agent(msgspec.Struct, frozen=True):
    """An agent's name for people, what it speaks, and how it is set up. `hint`: its variables do for one start."""

    title: str
    speaks: str
    plan: Callable[[GatewayAddress], AgentPlan]
    hint: Callable[[GatewayAddress], str] | None = None


def shell_variables(env: Mapping[str, str]) -> str:
    """Variables before a command."""
    return " ".join(f"{name}={quote(value)}" for name, value in env.items())


DEFAULT = "default"  # the alias for requests that name no model
_SMALL = re.compile(r"(?:^|[-_.])(?:mini|haiku|flash|small|lite|nano|fast|instant)(?:$|[-_.])")
_SPECIAL = re.compile(r"audio|image|tts|realtime|search|live|embed|transcribe|preview|exp\b|latest|vision|codex")
_NUMBERS = re.compile(r"\d+")


class ModelChoice(msgspec.Struct, frozen=True):
    """`context` and `output` are tokens; 0 where they are not known."""

    model: str
    small: str
    context: int = 0
    output: int = 0
    small_context: int = 0
    small_output: int = 0


def choose_model(
    config: Config, env: Mapping[str, str], *, model: str = "", small: str = "", context: int = 0
) -> ModelChoice:
    """What is asked for, completed from the table. Without a name: the alias `default`, or the only choice there is."""
    model = model or _default_model(config, env)
    facts = _model_facts(model, config, env)
    small = small or _find_small_model(model, facts, config)
    little = _model_facts(small, config, env)
    return ModelChoice(
        model=model,
        small=small,
        context=context or facts.context,
        output=facts.max_output,
        small_context=little.context,
        small_output=little.max_output,
    )


def _default_model(config: Config, env: Mapping[str, str]) -> str:
    if DEFAULT in config.aliases:
        return DEFAULT
    rows = list_configured_providers(config, env)
    if not rows:
        return f"{REPLAY}/agent"
    names = [f"{row.name}/{one}" for row in rows for one in _offered_models(row.name, config)][:6]
    some = f", such as {', '.join(names)}" if names else ""
    raise InputError(f"which model? Give it with --model{some}; `{find_command()} models` lists them")


def _offered_models(provider: str, config: Config) -> list[str]:
    own = config.account(provider).models
    if own and not isinstance(own, dict):
        return list(own)
    rows = [row for row in models_of(config.provider(provider)) if row.chat and "tools" in row.capabilities]
    plain = [row for row in rows if not _SPECIAL.search(row.id) and not row.version]
    return [row.id for row in sorted(plain or rows, key=lambda row: _version_rank(row.id), reverse=True)]


def _model_facts(name: str, config: Config, env: Mapping[str, str]) -> Model:
    """What is known of a model. Of an alias with several, the smallest window counts: any of them may be asked."""
    rows = [facts_of(target.provider, target.model) for target in resolve_targets(name, config, env)]
    return min((row for row in rows if row.context), key=lambda row: row.context, default=rows[0])


def _find_small_model(name: str, facts: Model, config: Config) -> str:
    """A cheaper model of the same provider and maker, else the model itself."""
    prefix, slash, _ = name.partition("/")
    if not slash or prefix != facts.provider or facts.prices is None or _SMALL.search(facts.id):
        return name
    top = facts.prices.input or 0.0
    maker = re.split(r"[-/]", facts.id)[0]
    rows = [
        row
        for row in models_of(config.provider(facts.provider))
        if row.chat
        and "tools" in row.capabilities
        and _SMALL.search(row.id)
        and not _SPECIAL.search(row.id)
        and row.id.startswith(maker)
        and row.prices is not None
        and (row.prices.input or 0.0) < top
    ]
    best = max(rows, key=lambda row: (*_version_rank(row.id), -len(row.id)), default=None)
    return f"{prefix}/{best.id}" if best is not None else name


def _version_rank(id: str) -> tuple[tuple[int, ...], bool]:
    """Newer models have higher numbers; days and months do not count."""
    numbers = tuple(int(one) for one in _NUMBERS.findall(id) if len(one) <= 2)  # noqa: PLR2004
    return numbers, not any(len(one) > 2 for one in _NUMBERS.findall(id))  # noqa: PLR2004
