"""Diagnostics: what a stage could not express or had to repair, reported beside the stream.

A repeated finding is one row with a count. The number of rows is limited, because input may be hostile.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 200
Losses: TypeAlias = Mapping[str, str]  # what a protocol cannot express → what happens instead


class Diagnostic(msgspec.Struct, gc=False):
    """One finding. `code` is stable and kebab-case, `where` names the stage or the path.

    `name` is the setting or field that the finding is about, if there is one: programs need it.
    """

    code: str
    message: str
    where: str = ""
    count: int = 1
    name: str = ""


class Diagnostics:
    """The findings of one stage, in the order they were first seen."""

    __slots__ = ("_rows", "_where")

    def __init__(self, where: str = "") -> None:
        self._where = where
        self._rows: dict[tuple[str, str], Diagnostic] = {}

    def add(self, code: str, message: str, name: str = "") -> None:
        """Adds a finding. A repeated finding only increases the count."""
        row = self._rows.get((code, message))
        if row is not None:
            row.count += 1
        elif len(self._rows) < LIMIT:
            self._rows[code, message] = Diagnostic(code, message, self._where, name=name)
        else:
            self._overflow()

    def _overflow(self) -> None:
        key = ("more", "further findings are not listed one by one")
        self._rows.setdefault(key, Diagnostic(*key, self._where, count=0)).count += 1

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)


@cache
def read_package_file(package: str, name: str) -> bytes:
    """Returns a file beside the modules of a package. `importlib.resources` does the same and takes 10 ms to import."""
    module = import_module(package)
    loader: Any = module.__loader__
    if not hasattr(loader, "get_data"):
        raise FileNotFoundError(name)
    data: bytes = loader.get_data(f"{module.__path__[0]}/{name}")
    return data


def read_package_text(package: str, name: str) -> str:
    """Returns a text file beside the modules of a package."""
    return read_package_file(package, name).decode("utf-8")


def read_tables(package: str, name: str) -> dict[str, Any]:
    """Returns the tables of a TOML file beside the modules of a package."""
    import tomllib  # noqa: PLC0415 — the tables are read when they are first used, and the import takes 2 ms

    return tomllib.loads(read_package_text(package, name))


def read_losses(module: str, table: str) -> Losses:
    """Return a table of the `losses.toml` beside a protocol's module: `answers`, `requests` or `some_requests`."""
    losses: Losses = read_tables(module.rpartition(".")[0], "losses.toml")[table]
    return losses
