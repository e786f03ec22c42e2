"""Changes of gateway keys, teams and the organisation, for `penstock keys`, `penstock teams` and the admin API.

Each change is one atomic step of the store, and writes a row of the audit log. Errors name the field.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from penstock._gateway.config import GatewayConfig
from penstock._gateway.keys import STARTER_KEY_NAME, VARIABLE, create_key, hash_key
from penstock._store.key_records import (
    MAX_NAME,
    MAX_PREVIOUS,
    Key,
    KeyRecords,
    Organisation,
    PreviousSecret,
    Team,
    check_name,
)
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._store.key_store import KeyStore

MAX_OVERLAP = 366 * 86_400.0  # seconds that a replaced secret may still work
KEY_FIELDS = frozenset("models tenant team role inspect inspect_keep limits max_output expires note".split())
TEAM_FIELDS = frozenset("models limits note".split())
ORGANISATION_FIELDS = frozenset("models limits".split())
_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*+)`)?$", re.DOTALL)
_UNKNOWN_FIELD = "Object contains unknown field "
_MISSING_FIELD = "Object missing required field "
_PLAIN_REASONS = {
    "expected int, found float": "expected a whole number",
    "expected int, found str": "expected a whole number, found a text",
    "expected float, found str": "expected a number, found a text",
    "expected str, found int": "expected a text, found a number",
    "expected array, found str": "expected a list, found a text",
    "invalid RFC3339 encoded datetime": "invalid RFC3339 time; expected one such as 2027-01-31T12:00:00Z",
}
_FIELD = re.compile(r"[a-z_]+")
Patch: TypeAlias = "Mapping[str, Any]"
Record = TypeVar("Record", Key, Team, Organisation)


class KeyEditError(InputError):
    """A change was refused. `status`: as in HTTP. `field`: which value is wrong; empty if it is not about a value."""

    def __init__(self, message: str, *, status: int = 400, field: str = "") -> None:
        super().__init__(message)
        self.status, self.field = status, field


def record_tag(record: msgspec.Struct) -> str:
    """Return a value that differs for every content of a record, for the header ETag."""
    return hashlib.sha256(msgspec.json.encode(record)).hexdigest()[:16]


class KeyEditor:
    """Changes the records of a store. `actor`: who, for the audit log."""

    def __init__(self, store: KeyStore, actor: str, config: GatewayConfig | None = None) -> None:
        self.store = store
        self._actor = actor
        self._config = config or GatewayConfig()

    def read(self) -> KeyRecords:
        return self.store.read()

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    def create(self, name: str, fields: Patch) -> tuple[str, Key]:
        """Add a key with a new secret. Returns the secret, which is stored nowhere, and the key."""
        secret = create_key()
        key = patch_record(Key(hash=hash_key(secret), created=_today()), fields, KEY_FIELDS)
        self.add(name, key)
        return secret, key

    def add(self, name: str, key: Key) -> None:
        """Add a key."""

        def edit(records: KeyRecords) -> KeyRecords:
            self._check_new(name, "key", self._config.keys, records.keys)
            self._check_team(key, records)
            return replace(records, keys={**records.keys, name: key})

        self._change(edit, "key.add")

    def edit(self, name: str, fields: Patch, tag: str | None = None) -> Key:
        """Change fields of a key. `tag`: of the content that the caller has seen; another one is refused."""

        def edit(records: KeyRecords) -> KeyRecords:
            key = patch_record(self._find_key(records, name, tag), fields, KEY_FIELDS)
            self._check_team(key, records)
            return replace(records, keys={**records.keys, name: key})

        return self._change(edit, "key.edit").keys[name]

    def rotate(self, name: str, overlap: float = 0.0, tag: str | None = None) -> tuple[str, Key]:
        """Give a key a new secret. The old one works for `overlap` seconds more. Returns the secret and the key."""
        if not 0 <= overlap <= MAX_OVERLAP:  # nan is neither
            raise KeyEditError(f"overlap: expected 0 to {MAX_OVERLAP:g} seconds, found {overlap:g}", field="overlap")
        secret, now = create_key(), datetime.now(UTC)

        def edit(records: KeyRecords) -> KeyRecords:
            key = self._find_key(records, name, tag)
            previous = [one for one in key.previous if one.expires > now] if overlap else []
            if overlap:
                end = (now + timedelta(seconds=overlap)).replace(microsecond=0) + timedelta(seconds=1)
                previous.append(PreviousSecret(hash=key.hash, expires=end))
            if len(previous) > MAX_PREVIOUS:
                reason = (
                    f"the key {name!r} has {MAX_PREVIOUS} replaced secrets that still work; rotate it without overlap"
                )
                raise KeyEditError(reason, status=409)
            fresh = replace(key, hash=hash_key(secret), created=_today(), previous=tuple(previous))
            return replace(records, keys={**records.keys, name: fresh})

        return secret, self._change(edit, "key.rotate").keys[name]

    def revoke(self, name: str, tag: str | None = None) -> None:
        """Delete a key."""

        def edit(records: KeyRecords) -> KeyRecords:
            self._find_key(records, name, tag)
            return replace(records, keys={other: key for other, key in records.keys.items() if other != name})

        self._change(edit, "key.revoke")

    # ── teams and the organisation ────────────────────────────────────────────────────────────────

    def add_team(self, name: str, fields: Patch) -> Team:
        """Add a team."""
        team = patch_record(Team(created=_today()), fields, TEAM_FIELDS)

        def edit(records: KeyRecords) -> KeyRecords:
            self._check_new(name, "team", self._config.teams, records.teams)
            return replace(records, teams={**records.teams, name: team})

        self._change(edit, "team.add")
        return team

    def edit_team(self, name: str, fields: Patch, tag: str | None = None) -> Team:
        """Change fields of a team."""

        def edit(records: KeyRecords) -> KeyRecords:
            team = patch_record(self._find_team(records, name, tag), fields, TEAM_FIELDS)
            return replace(records, teams={**records.teams, name: team})

        return self._change(edit, "team.edit").teams[name]

    def remove_team(self, name: str, tag: str | None = None) -> None:
        """Remove a team that has no keys."""

        def edit(records: KeyRecords) -> KeyRecords:
            self._find_team(records, name, tag)
            keys = [key for key, row in {**records.keys, **self._config.keys}.items() if row.team == name]
            if keys:
                shown = ", ".join(sorted(keys)[:5])
                reason = f"the team {name!r} has {len(keys)} keys ({shown}): revoke them, or give them another team"
                raise KeyEditError(reason, status=409)
            return replace(records, teams={other: team for other, team in records.teams.items() if other != name})

        self._change(edit, "team.remove")

    def edit_organisation(self, fields: Patch, tag: str | None = None) -> Organisation:
        """Change fields of the organisation."""
        if self._config.organisation != Organisation():
            raise KeyEditError(f"the organisation stands in {self._config.path}: change it there", status=409)

        def edit(records: KeyRecords) -> KeyRecords:
            _check_tag(records.organisation, tag, "the organisation")
            return replace(records, organisation=patch_record(records.organisation, fields, ORGANISATION_FIELDS))

        return self._change(edit, "organisation.edit").organisation

    # ── checks ────────────────────────────────────────────────────────────────────────────────────

    def _change(self, edit: Any, action: str) -> KeyRecords:
        return self.store.change(edit, actor=self._actor, action=action)

    def _check_new(self, name: str, kind: str, configured: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
        try:
            check_name(name)
        except InputError as error:
            raise KeyEditError(str(error), field="name") from None
        if kind == "key" and name == STARTER_KEY_NAME:
            reason = f"{name!r} is the name of the key in {VARIABLE}, which comes with the process; choose another name"
            raise KeyEditError(reason, status=409, field="name")
        if name in configured:
            reason = f"there is a {kind} {name!r} in {self._config.path} already; choose another name"
            raise KeyEditError(reason, status=409, field="name")
        if name in stored:
            advice = "revoke it first, or choose another name" if kind == "key" else "choose another name"
            raise KeyEditError(f"there is a {kind} {name!r} already; {advice}", status=409, field="name")

    def _check_team(self, key: Key, records: KeyRecords) -> None:
        known = {**records.teams, **self._config.teams}
        if key.team and key.team not in known:
            raise KeyEditError(f"team: there is no team {key.team!r}{_list_known(key.team, known)}", field="team")

    def _find_key(self, records: KeyRecords, name: str, tag: str | None) -> Key:
        if name in self._config.keys:
            reason = f"the key {name!r} stands in {self._config.path}: take [keys.{name}] out of it, or change it there"
            raise KeyEditError(reason, status=409)
        self._check_record("key", records.keys, name, tag)
        return records.keys[name]

    def _find_team(self, records: KeyRecords, name: str, tag: str | None) -> Team:
        if name in self._config.teams:
            reason = f"the team {name!r} stands in {self._config.path}: change [teams.{name}] there"
            raise KeyEditError(reason, status=409)
        self._check_record("team", records.teams, name, tag)
        return records.teams[name]

    def _check_record(self, kind: str, rows: Mapping[str, Any], name: str, tag: str | None) -> None:
        if name not in rows:
            where = f" in {self.store.location}{_list_known(name, rows)}"
            raise KeyEditError(f"there is no {kind} {name!r}{where}", status=404)
        _check_tag(rows[name], tag, f"the {kind} {name!r}")


def _check_tag(record: Key | Team | Organisation, tag: str | None, what: str) -> None:
    if tag is not None and tag != record_tag(record):
        raise KeyEditError(f"{what} was changed by somebody else meanwhile; read it again", status=412)


def _list_known(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = get_close_matches(name, names, 1) or get_close_matches(name.lower(), names, 1)
    return f"; did you mean {near[0]}?" if near else f"; there is: {', '.join(names[:20]) or 'none'}"


def patch_record(record: Record, fields: Patch, allowed: frozenset[str]) -> Record:
    """Return a record with some fields changed, as in RFC 7396: null is the default, and `limits` are merged."""
    data: dict[str, Any] = msgspec.to_builtins(record)
    for name, value in fields.items():
        if name not in allowed:
            near = get_close_matches(name, allowed, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(allowed))}"
            raise KeyEditError(f"{name}: no such field; {hint}", field=name)
        data[name] = _merge_limits(data.get(name), value) if name == "limits" else value
        if value is None:
            del data[name]
    _check_texts(fields)
    try:
        return msgspec.convert(data, type(record))
    except msgspec.ValidationError as error:
        field, reason = explain_error(error)
        raise KeyEditError(f"{field}: {reason}" if field else reason, field=field) from None


def _check_texts(fields: Patch) -> None:
    """Raise for texts that not every store can hold, or that are too long. The length of a note is checked later."""
    tenant, note = fields.get("tenant"), fields.get("note")
    if isinstance(tenant, str) and not (len(tenant) <= MAX_NAME and tenant.isprintable()):
        raise KeyEditError(f"tenant: expected at most {MAX_NAME} printable characters", field="tenant")
    if isinstance(note, str) and "\0" in note:
        raise KeyEditError("note: a text without NUL is expected", field="note")


def _merge_limits(before: dict[str, Any] | None, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged: dict[Any, Any] = {**(before or {}), **patch}
    return {name: amount for name, amount in merged.items() if amount is not None}


def explain_error(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the field that is wrong, and why."""
    match = _AT.match(str(error))
    assert match is not None  # noqa: S101 — it matches any text
    path, reason = match["path"] or "", match["what"]
    if reason.startswith(_UNKNOWN_FIELD):
        return f"{path}.{reason.removeprefix(_UNKNOWN_FIELD).strip('`')}".lstrip("."), "no such field"
    if reason.startswith(_MISSING_FIELD):
        return f"{path}.{reason.removeprefix(_MISSING_FIELD).strip('`')}".lstrip("."), "it is missing"
    field, colon, rest = reason.partition(": ")
    if colon and _FIELD.fullmatch(field):  # a record that checks its own values names the field
        path, reason = f"{path}.{field}".lstrip("."), rest
    reason = (reason[:1].lower() + reason[1:]).replace("`", "").replace(", got ", ", found ")
    return path, _PLAIN_REASONS.get(reason, reason)


# ── times ─────────────────────────────────────────────────────────────────────────────────────────

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `90d`, `12h` or `30` (seconds)."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= 100 * MAX_OVERLAP:
        raise InputError(f"expected a duration such as 90d, 12h, 15m or 30s, found {text!r}")
    return seconds


def parse_expiry(text: str) -> str | None:
    """Return the time of a date, a time or a duration from now, as in RFC 3339; None for `never`."""
    if text == "never":
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            moment = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=parse_duration(text))
        except InputError:
            forms = "a date (2027-01-31), a time (2027-01-31T12:00:00Z), a duration (90d) or never"
            raise InputError(f"expires: expected {forms}, found {text!r}") from None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).isoformat()


def _today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())
