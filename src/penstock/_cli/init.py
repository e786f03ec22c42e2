"""`penstock init`: writes a commented `penstock.toml`, by questions or by options. It never overwrites one."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from penstock._cli.common_options import find_command, print_message
from penstock._cli.setup.agent_setup import EXPLANATIONS
from penstock._cli.suggestions import suggest_model
from penstock._cli.terminal import print_json
from penstock._engines.config import Config
from penstock._engines.environ import LIVE
from penstock._engines.model_resolution import list_configured_providers, resolve_targets
from penstock._gateway import PORT
from penstock._gateway.config import read_config
from penstock.errors import InputError

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

_BARE = re.compile(r"[A-Za-z0-9_-]+")  # a key of TOML that needs no quotes
DEFAULT_ALIAS = "default"
EXAMPLE_MODEL = "anthropic/claude-sonnet-4-5"


@dataclass
class NewConfig:
    """The settings of a new file. `budget` 0 is no limit."""

    aliases: dict[str, str] = field(default_factory=dict[str, str])
    budget: float = 0.0
    port: int = PORT
    caching: bool = True
    context_management: bool = True

    def to_toml(self) -> str:
        """Returns the file, with comments. What is not set is a comment too."""
        parts = (_HEAD, self._write_aliases(), self._write_features(), self._write_limits(), _PROVIDERS)
        return "\n\n".join(parts) + "\n"

    def _write_aliases(self) -> str:
        rows = [
            f"{name if _BARE.fullmatch(name) else _quote(name)} = {_quote(target)}"
            for name, target in self.aliases.items()
        ]
        about = '# Names of your own for models. A list is tried in order: fast = ["groq/…", "openai/…"]'
        return "\n".join([about, "[aliases]", *(rows or [f'# {DEFAULT_ALIAS} = "{EXAMPLE_MODEL}"'])])

    def _write_features(self) -> str:
        port = f"port = {self.port}" if self.port != PORT else f"# port = {PORT}"
        return f"""\
[serve]
# Where `penstock serve` listens on this machine.
{port}

[features]
# {EXPLANATIONS["features", "prompt_caching"]}
prompt_caching = {str(self.caching).lower()}
# {EXPLANATIONS["features", "context_management"]}
context_management = {str(self.context_management).lower()}"""

    def _write_limits(self) -> str:
        off = "" if self.budget else "# "
        return f"""\
{off}[limits]
# {EXPLANATIONS["limits", "day_cost"]}
{off}day_cost = {self.budget or 5:g}"""


_HEAD = """\
# The configuration of penstock in this folder: the gateway and the commands read it.
# Every setting is described in docs/configuration.md. `penstock serve --check` says what is wrong with it.
# Keys do not belong here: `penstock setup` stores them, or variables such as OPENAI_API_KEY hold them."""
_PROVIDERS = """\
# A provider of your own, with an API like that of OpenAI. Such settings need `penstock trust` once.
# [providers.mine]
# base_url = "http://localhost:9000/v1"
# env = "MY_KEY"
# models = ["small", "large"]"""


def run_init(options: Namespace) -> int:
    """Writes the file."""
    path: Path = options.file
    if not options.print and (path.exists() or path.is_symlink()):
        raise InputError(f"{path}: there is such a file already; it is not changed. Name another one, or edit it")
    config = _read_options(options)
    if _is_bare(options) and not options.yes and not options.print:
        _ask_user(config)
    text = config.to_toml()
    read_config(text, path)  # raises if we would write a file that cannot be read
    if options.print and not options.json:
        print(text, end="")
        return 0
    if not options.print:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    _report(config, path, options)
    return 0


def _report(config: NewConfig, path: Path, options: Namespace) -> None:
    if options.json:
        settings = {"aliases": config.aliases, "budget": config.budget or None, "port": config.port}
        print_json({"file": str(path), "written": not options.print, **settings})
        return
    print_message(f"{path} is written; edit it as you like, and check it with `{find_command()} serve --check`")
    for name, target in config.aliases.items():
        if hint := _describe_problem(target):
            print_message(f"{name}: {hint}")


def _is_bare(options: Namespace) -> bool:
    """True if no option says what to write."""
    given = (options.models, options.budget, options.port, options.no_caching, options.no_context_management)
    return not any(given) and not options.json


def _read_options(options: Namespace) -> NewConfig:
    aliases: dict[str, str] = {}
    for word in options.models or ():
        name, equals, target = word.partition("=")
        aliases[name if equals else DEFAULT_ALIAS] = (target if equals else word).strip()
    if not all(aliases) or not all(aliases.values()):
        raise InputError("--model: expected MODEL or ALIAS=MODEL, such as fast=openai/gpt-5-mini")
    if options.budget is not None and options.budget <= 0:
        raise InputError(f"--budget: expected dollars over 0, found {options.budget:g}")
    return NewConfig(
        aliases,
        budget=options.budget or 0.0,
        port=options.port or PORT,
        caching=not options.no_caching,
        context_management=not options.no_context_management,
    )


def _ask_user(config: NewConfig) -> None:
    """Asks for the settings that most people want to choose."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise InputError("there is no terminal to ask: give --model, --budget …, or --yes for the defaults")
    rows = [row.name for row in list_configured_providers(Config(), LIVE)]
    print_message(f"keys are there for: {', '.join(rows) or 'no provider yet (`penstock setup` stores one)'}")
    if target := _ask("Model for the alias default, such as openai/gpt-5 (Enter: none)"):
        config.aliases[DEFAULT_ALIAS] = target
        if hint := _describe_problem(target):
            print_message(hint)
    while True:
        answer = _ask("Dollars a day that a key may spend (Enter: no limit)").lstrip("$")
        try:
            config.budget = max(float(answer or 0), 0.0)
            break
        except ValueError:
            print_message(f"expected a number, found {answer!r}")
    config.caching = config.context_management = _ask(
        "Prompt caching and context management, for agents [Y/n]"
    ).lower() not in {"n", "no"}


def _ask(question: str) -> str:
    print(f"{question}: ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise InputError("the input ended; nothing was written")
    return line.strip()


def _describe_problem(target: str) -> str:
    """Returns what is wrong with a model's name; empty if it can be asked."""
    try:
        resolve_targets(target, Config(), LIVE)
    except InputError as error:
        return f"{str(error).split('. ')[0]}{suggest_model(target, Config(), LIVE)}"
    return ""


def _quote(text: str) -> str:
    """Returns a TOML string. JSON strings are TOML strings."""
    return msgspec.json.encode(text).decode()
