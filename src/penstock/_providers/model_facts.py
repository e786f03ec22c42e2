"""The tables of facts about models: those of the package, and newer ones whose lines take their place.

The core reads no files of the user: `_engines.refreshed_facts` reads them and calls `models.use_refreshed_facts`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import msgspec

from penstock._diagnostics import read_package_file

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGED_DATE = "2026-07"
PACKAGED_SOURCE = f"models.dev {PACKAGED_DATE}"
# The capabilities by their letters in a line.
_CAPABILITIES = """c=chat t=tools r=reasoning i=images d=documents a=audio v=video I=image-output A=audio-output
    T=temperature e=embeddings k=rerank""".split()
LETTERS = {row[0]: row[2:] for row in _CAPABILITIES}
_Tables = dict[str, msgspec.Raw]


class RefreshedFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Tables by name. Their lines replace those of the package. `origin`: the file or URL that they were read from."""

    date: str
    origin: str
    tables: _Tables

    @property
    def source(self) -> str:
        """Where the facts are from, and of which day."""
        return f"refreshed {self.date}"


class _Current:
    refreshed: RefreshedFacts | None = None


@cache
def packaged_tables() -> Mapping[str, msgspec.Raw]:
    """Returns the tables of the package. They are decoded when they are used."""
    return msgspec.json.decode(read_package_file("penstock._providers", "models.json"), type=_Tables)


def refreshed_facts() -> RefreshedFacts | None:
    """Returns the facts that take the place of those of the package, if there are any."""
    return _Current.refreshed


def set_refreshed_facts(facts: RefreshedFacts | None) -> None:
    """Sets the newer tables. Only `models.use_refreshed_facts` calls it: it also drops what was decoded."""
    _Current.refreshed = facts


def find_tables(name: str) -> list[tuple[bytes | msgspec.Raw, str]]:
    """Returns the tables of a name, each with the source of its facts. A line of a later one replaces earlier ones."""
    refreshed = _Current.refreshed
    found: list[tuple[bytes | msgspec.Raw, str]] = [(packaged_tables().get(name, b"[]"), PACKAGED_SOURCE)]
    if refreshed is not None and name in refreshed.tables:
        found.append((refreshed.tables[name], refreshed.source))
    return found
