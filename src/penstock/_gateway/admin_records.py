"""What the admin API receives and sends, as types. Their JSON Schemas are in its OpenAPI description."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from penstock._gateway.key_editor import KEY_FIELDS, record_tag
from penstock._gateway.limit_usage import amount_of
from penstock._store.key_records import AuditRow, Key, Limit, Organisation, Role, Team

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock._gateway.limit_usage import LimitScope
    from penstock._store.journal import UsageSum
    from penstock._store.limit_store import LimitRule

FIELDS = frozenset({*KEY_FIELDS, "name"})
CODES = {400: "invalid_value", 404: "not_found", 409: "conflict", 412: "changed_meanwhile"}  # by status
_HASH_SHOWN = 15  # characters of a hash: enough to tell two secrets apart
_Source = Literal["store", "configuration"]


class ErrorDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong. `field` names the value; empty if the error is not about a value."""

    message: str
    code: str
    field: str = ""


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every error."""

    error: ErrorDetails


# ── received ──────────────────────────────────────────────────────────────────────────────────────


class LimitFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits to change; 0 or null is no limit. Cost is in dollars."""

    requests: int | None = None
    tokens: int | None = None
    concurrent: int | None = None
    day_requests: int | None = None
    day_tokens: int | None = None
    day_cost: float | None = None
    week_requests: int | None = None
    week_tokens: int | None = None
    week_cost: float | None = None
    month_requests: int | None = None
    month_tokens: int | None = None
    month_cost: float | None = None
    total_requests: int | None = None
    total_tokens: int | None = None
    total_cost: float | None = None


class OrganisationFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields to change. null is the default."""

    models: list[str] | None = None
    limits: LimitFields | None = None


class TeamFields(OrganisationFields, frozen=True, kw_only=True, omit_defaults=True):
    """Fields to change. null is the default."""

    note: str | None = None


class NewTeam(TeamFields, frozen=True, kw_only=True, omit_defaults=True):
    """A team to make."""

    name: str


class KeyFields(TeamFields, frozen=True, kw_only=True, omit_defaults=True):
    """Fields to change. null is the default."""

    tenant: str | None = None
    team: str | None = None
    role: Role | None = None
    inspect: Literal["own", "all"] | None = None
    inspect_keep: bool | None = None
    max_output: int | None = None
    expires: datetime | None = None


class NewKey(KeyFields, frozen=True, kw_only=True, omit_defaults=True):
    """A key to make."""

    name: str


class Rotation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`overlap`: seconds that the old secret still works."""

    overlap: float = 0.0


# ── sent ──────────────────────────────────────────────────────────────────────────────────────────


class PreviousSecretView(msgspec.Struct, frozen=True, kw_only=True):
    """A replaced secret that still works. `hash` is its beginning."""

    hash: str
    expires: datetime


class CallerView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The key that a request was sent with. `owner`: it was sent with the session token of a gateway without keys."""

    name: str
    role: Role
    owner: bool = False


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret. `hash` is its beginning. A key of the configuration cannot be changed here."""

    name: str
    hash: str
    models: tuple[str, ...]
    tenant: str
    team: str
    role: Role
    inspect: Literal["own", "all"]
    inspect_keep: bool
    limits: Limit | None
    max_output: int
    expires: datetime | None
    expired: bool
    note: str
    created: str
    previous: list[PreviousSecretView]
    source: _Source
    etag: str

    @classmethod
    def of(cls, name: str, key: Key, *, configured: bool = False, **more: Any) -> Self:
        fields = {field: getattr(key, field) for field in KEY_FIELDS}
        now = datetime.now(UTC)
        return cls(
            **fields,
            **more,
            name=name,
            hash=key.hash[:_HASH_SHOWN],
            expired=key.expires is not None and key.expires <= now,
            created=key.created,
            previous=[
                PreviousSecretView(hash=one.hash[:_HASH_SHOWN], expires=one.expires)
                for one in key.previous
                if one.expires > now
            ],
            source="configuration" if configured else "store",
            etag=record_tag(key),
        )


class NewKeyView(KeyView, frozen=True, kw_only=True):
    """A key with its new secret, which is shown this once."""

    secret: str


class KeyPage(msgspec.Struct, frozen=True):
    """A page of keys, by name. `next`: the `after` of the next page; null on the last one."""

    data: list[KeyView]
    next: str | None


class TeamView(msgspec.Struct, frozen=True, kw_only=True):
    """A team. `keys`: how many it has."""

    name: str
    models: tuple[str, ...]
    limits: Limit | None
    note: str
    created: str
    keys: int
    source: _Source
    etag: str

    @classmethod
    def of(cls, name: str, team: Team, keys: int, *, configured: bool = False) -> Self:
        return cls(
            name=name,
            models=team.models,
            limits=team.limits,
            note=team.note,
            created=team.created,
            keys=keys,
            source="configuration" if configured else "store",
            etag=record_tag(team),
        )


class TeamPage(msgspec.Struct, frozen=True):
    """A page of teams, by name. `next`: the `after` of the next page; null on the last one."""

    data: list[TeamView]
    next: str | None


class OrganisationView(msgspec.Struct, frozen=True, kw_only=True):
    """The organisation: what all keys together may use."""

    models: tuple[str, ...]
    limits: Limit | None
    source: _Source
    etag: str

    @classmethod
    def of(cls, organisation: Organisation, *, configured: bool = False) -> Self:
        return cls(
            models=organisation.models,
            limits=organisation.limits,
            source="configuration" if configured else "store",
            etag=record_tag(organisation),
        )


class UsageView(msgspec.Struct, frozen=True, kw_only=True):
    """What a key or team has used. `cost`: dollars. `unpriced`: requests whose price is not known."""

    name: str
    requests: int
    refused: int
    faults: int
    input: int
    output: int
    cost: float
    unpriced: int

    @classmethod
    def of(cls, row: UsageSum) -> Self:
        return cls(
            name=row.name,
            requests=row.turns,
            refused=row.refused,
            faults=row.faults,
            input=row.input,
            output=row.output,
            cost=row.cost,
            unpriced=row.unpriced,
        )


class KeyUsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of a period, in seconds since the epoch."""

    by: str
    since: float
    until: float
    data: list[UsageView]


class LimitView(msgspec.Struct, frozen=True, kw_only=True):
    """What is used of a limit; cost in dollars. `window`: seconds; 0 in total, null for requests at once.

    Windows slide. `resets`: seconds after which nothing of what is used counts any more, if nothing is added; null if
    it counts for ever, or as long as requests are open.
    """

    kind: Literal["requests", "tokens", "cost", "concurrent"]
    window: int | None
    used: float
    most: float
    resets: int | None

    @classmethod
    def of(cls, rule: LimitRule, used: int) -> Self:
        is_open = rule.kind == "concurrent"
        return cls(
            kind=rule.kind,
            window=None if is_open else rule.window,
            used=amount_of(rule, used),
            most=amount_of(rule, rule.most),
            resets=None if is_open or not rule.window else rule.window if used else 0,
        )


class ScopeUsageView(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of the organisation, which has no name, of a team or of a key, and what is used of them now."""

    scope: Literal["organisation", "team", "key"]
    name: str
    limits: list[LimitView]


class LimitPage(msgspec.Struct, frozen=True):
    """A page of those who have limits. `next`: the `after` of the next page; null on the last one."""

    data: list[ScopeUsageView]
    next: str | None

    @classmethod
    def of(cls, scopes: Sequence[LimitScope], used: Sequence[int], following: str | None) -> Self:
        left = iter(used)
        rows = [
            ScopeUsageView(scope=one.kind, name=one.name, limits=[LimitView.of(rule, next(left)) for rule in one.rules])
            for one in scopes
        ]
        return cls(rows, following)


class AuditPage(msgspec.Struct, frozen=True):
    """A page of the audit log, the newest row first. `next`: the `before` of the next page; null on the last one."""

    data: list[AuditRow]
    next: int | None


def count_members(keys: Mapping[str, Key]) -> Mapping[str, int]:
    """Return how many keys each team has."""
    return Counter(key.team for key in keys.values() if key.team)


def sum_by_team(rows: Iterable[UsageView], teams: Mapping[str, str]) -> list[UsageView]:
    """Return the usage of teams. Keys without a team, and those that are gone, are under the empty name."""
    sums: dict[str, dict[str, Any]] = {}
    for row in rows:
        total = sums.setdefault(teams.get(row.name, ""), {})
        for field in UsageView.__struct_fields__[1:]:
            total[field] = total.get(field, 0) + getattr(row, field)
    return [UsageView(name=name, **total) for name, total in sorted(sums.items())]
