"""What it takes to point an agent at a gateway: an address, models, and the files, variables and commands for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote

import msgspec

from penstock.cli.setup.config_files import FileEdit

KEY_VARIABLE = "PENSTOCK_KEY"
ANY = "any"  # the key where the gateway asks for none: most agents insist on one


class Gateway(msgspec.Struct, frozen=True):
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


class Plan(msgspec.Struct, frozen=True):
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
    plan: Callable[[Gateway], Plan]
    hint: Callable[[Gateway], str] | None = None


def shell_words(env: Mapping[str, str]) -> str:
    """Variables before a command."""
    return " ".join(f"{name}={quote(value)}" for name, value in env.items())
