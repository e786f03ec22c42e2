"""Facts about models that the user has refreshed: `models.json` in the data folder, from `penstock models refresh`.

The file is read when a client or a configuration is loaded, and again if it has changed. Nothing is ever fetched here.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._providers.model_facts import LETTERS, RefreshedFacts, refreshed_facts
from penstock._providers.models import ModelFact, use_refreshed_facts
from penstock._store.provider_keys import file_stamp, replace_file
from penstock.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

FILE = "models.json"
MAX_FACTS_BYTES = 64 * 1024 * 1024
log = logging.getLogger("penstock.models")


class _Loaded:
    """What was read last, so that an unchanged file is not read again."""

    stamp: tuple[Any, ...] = ()


def load_refreshed_facts(folder: Path) -> None:
    """Uses the refreshed facts of a data folder, or none if it has none. An unusable file is logged and ignored."""
    path = folder / FILE
    stamp = (str(path), *file_stamp(path))
    if stamp == _Loaded.stamp:
        return
    _Loaded.stamp = stamp
    found: RefreshedFacts | None = None
    try:
        found = read_facts_file(path)
    except (InputError, OSError) as error:
        log.warning("%s is not used: %s; `penstock models refresh` writes it anew", path, error)
    if found is not None or refreshed_facts() is not None:
        use_refreshed_facts(found)


def read_facts_file(path: Path) -> RefreshedFacts | None:
    """Returns the facts of a file; None if there is none. Raises an `InputError` if it cannot be used."""
    if not path.is_file():
        return None
    if path.stat().st_size > MAX_FACTS_BYTES:
        raise InputError(f"it has more than {MAX_FACTS_BYTES:,} bytes")
    try:
        facts = msgspec.json.decode(path.read_bytes(), type=RefreshedFacts)
        for table in facts.tables.values():
            decode_table(table)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"it is not a file of refreshed facts: {error}") from error
    return facts


def decode_table(table: bytes | msgspec.Raw) -> dict[str, ModelFact]:
    """Returns the models of a table by their ids. Raises for letters of capabilities that are not known."""
    lines = msgspec.json.decode(table, type=list[ModelFact])
    for line in lines:
        if unknown := set(line.can) - set(LETTERS):
            raise msgspec.ValidationError(f"unknown capabilities {''.join(sorted(unknown))} of {line.id}")
    return {line.id: line for line in lines}


def write_facts_file(folder: Path, facts: RefreshedFacts) -> Path:
    """Replaces the file at once, and uses the facts."""
    path = folder / FILE
    replace_file(path, msgspec.json.encode(facts))
    load_refreshed_facts(folder)
    return path
