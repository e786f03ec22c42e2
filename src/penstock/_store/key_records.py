"""Records of gateway keys, teams and the organisation: what they hold, which values are valid, how changes are audited.

The configuration and every key store use these records, so a value is checked in one place.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from penstock.errors import InputError

MAX_KEYS = 20_000
MAX_TEAMS = 2_000
MAX_NAME = 128  # characters
MAX_NOTE = 1_000
MAX_PATTERNS = 200  # of one key or team
MAX_PREVIOUS = 4  # replaced secrets of one key that still work
MAX_COUNT = 10**15  # of requests or tokens: exact in every store
MAX_COST = 10.0**9  # dollars
ANY_MODEL = ("*",)
Role: TypeAlias = Literal["user", "viewer", "admin"]
Expiry: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
_FORBIDDEN_IN_NAMES = frozenset("/\\?#%\"'`<>")
_SECRET_FIELDS = ("hash", "previous")


class KeyTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A record. An unknown field is an error."""


class Limit(KeyTable, frozen=True):
    """What one key, team or organisation may use; 0 is no limit. Tokens: input and output together. Cost: dollars."""

    requests: int = 0  # a minute
    tokens: int = 0  # a minute
    concurrent: int = 0
    day_requests: int = 0
    day_tokens: int = 0
    day_cost: float = 0.0
    week_requests: int = 0
    week_tokens: int = 0
    week_cost: float = 0.0
    month_requests: int = 0
    month_tokens: int = 0
    month_cost: float = 0.0
    total_requests: int = 0
    total_tokens: int = 0
    total_cost: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            most = MAX_COST if name.endswith("cost") else MAX_COUNT
            if not 0 <= value < math.inf:  # nan is neither
                raise ValueError(f"{name}: expected a number of at least 0, found {value:g}")
            if value > most:
                raise ValueError(f"{name}: expected a number of at most {most:,.0f}, found {value:,.0f}")


UNLIMITED = Limit()


class PreviousSecret(KeyTable, frozen=True):
    """The hash of a secret that was replaced by rotation, and until when it works."""

    hash: str
    expires: Expiry


class Key(KeyTable, frozen=True):
    """A gateway key: its hash, as `penstock keys` prints it, or the variable that holds it. `tenant`: whose it is.

    `inspect`: whose turns it sees in the inspector, those of its tenant or all. `inspect_keep`: the inspector keeps its
    turns, with prompts and answers, whether or not somebody watches. `max_output`: tokens of one answer;
    0 is the model's maximum. `previous`: replaced secrets that still work.
    """

    hash: str = ""
    env: str = ""
    models: tuple[str, ...] = ANY_MODEL
    tenant: str = ""
    team: str = ""
    role: Role = "user"
    inspect: Literal["own", "all"] = "own"
    inspect_keep: bool = False
    limits: Limit | None = None
    max_output: int = 0
    expires: Expiry | None = None
    note: str = ""
    created: str = ""
    previous: tuple[PreviousSecret, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.max_output <= MAX_COUNT:
            raise ValueError(f"max_output: expected a number from 0 to {MAX_COUNT:,}, found {self.max_output:,}")


class Team(KeyTable, frozen=True):
    """A team: the limits of its keys together, and the models that they may use."""

    limits: Limit | None = None
    models: tuple[str, ...] = ANY_MODEL
    note: str = ""
    created: str = ""


class Organisation(KeyTable, frozen=True):
    """The limits of all keys together, and the models that they may use."""

    limits: Limit | None = None
    models: tuple[str, ...] = ANY_MODEL


class KeyRecords(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a key store. `version` grows by one with each change. `required`: keys have existed."""

    keys: dict[str, Key] = {}
    teams: dict[str, Team] = {}
    organisation: Organisation = Organisation()
    version: int = 0
    required: bool = False


class RecordChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One changed record, without secrets. `before` is None for a new record, `after` for a removed one."""

    kind: Literal["key", "team", "organisation", "provider"]
    name: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the audit log: who did what, and when. Ids grow by one. `time`: seconds since the epoch."""

    id: int
    time: float
    actor: str
    action: str
    changes: tuple[RecordChange, ...] = ()


# ── checks ────────────────────────────────────────────────────────────────────────────────────────


def check_name(name: str, what: str = "name") -> None:
    """Raise if a name of a key or team cannot stand in a URL, a log line or a table."""
    if not name or len(name) > MAX_NAME:
        raise InputError(f"{what}: expected 1 to {MAX_NAME} characters, found {len(name)}")
    wrong = next((char for char in name if char in _FORBIDDEN_IN_NAMES or not char.isprintable()), None)
    if wrong is not None:
        raise InputError(f"{what}: {wrong!r} is not allowed in a name")
    if name != name.strip() or name in {".", ".."}:
        raise InputError(f"{what}: a name does not begin or end with a space, and is not . or ..")


def check_patterns(models: tuple[str, ...]) -> None:
    """Raise if patterns of models are empty or too many."""
    if not models or len(models) > MAX_PATTERNS:
        raise InputError(f"models: expected 1 to {MAX_PATTERNS} patterns, found {len(models)}; * allows every model")
    for pattern in models:
        if not pattern or len(pattern) > MAX_NAME or not pattern.isprintable():
            raise InputError(f"models: expected patterns of 1 to {MAX_NAME} printable characters")


def check_records(records: KeyRecords) -> None:
    """Raise if records that are about to be stored are not valid."""
    if len(records.keys) > MAX_KEYS or len(records.teams) > MAX_TEAMS:
        raise InputError(f"there may be {MAX_KEYS} keys and {MAX_TEAMS} teams at most; remove some first")
    check_patterns(records.organisation.models)
    noted: list[Key | Team] = [*records.keys.values(), *records.teams.values()]
    for record in noted:
        check_patterns(record.models)
        if len(record.note) > MAX_NOTE:
            raise InputError(f"note: expected at most {MAX_NOTE} characters, found {len(record.note)}")


# ── audit ─────────────────────────────────────────────────────────────────────────────────────────


def describe_record(record: Key | Team | Organisation) -> dict[str, Any]:
    """Return a record as plain data without secrets. The first digits of a hash tell two secrets apart."""
    data: dict[str, Any] = {"models": list(record.models), **msgspec.to_builtins(record)}
    if isinstance(record, Key):
        data = {name: value for name, value in data.items() if name not in _SECRET_FIELDS}
        data |= {"hash": record.hash[:15]} if record.hash else {}
        if record.previous:
            data["previous"] = [
                {"hash": one.hash[:15], "expires": msgspec.to_builtins(one.expires)} for one in record.previous
            ]
    return data


def find_changes(before: KeyRecords, after: KeyRecords) -> tuple[RecordChange, ...]:
    """Return the differences of two contents of a store, for the audit log."""
    changes = [RecordChange("key", *change) for change in _compare(before.keys, after.keys)]
    changes += [RecordChange("team", *change) for change in _compare(before.teams, after.teams)]
    if before.organisation != after.organisation:
        old, new = describe_record(before.organisation), describe_record(after.organisation)
        changes.append(RecordChange("organisation", "organisation", old, new))
    return tuple(changes)


def _compare(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    names = [name for name in before | after if before.get(name) != after.get(name)]
    old, new = ({name: describe_record(rows[name]) for name in names if name in rows} for rows in (before, after))
    return [(name, old.get(name), new.get(name)) for name in names]
