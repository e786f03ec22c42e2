"""A request to the admin API, and what a route of it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._gateway.callers import Caller
    from penstock._gateway.key_editor import KeyEditor
    from penstock._gateway.services import Services
    from penstock._store.key_records import KeyRecords
    from penstock._store.limit_store import LimitRule


class AdminCall(NamedTuple):
    """A request to a route. `tag`: the content that the caller has seen, from If-Match; None without it."""

    services: Services
    caller: Caller
    editor: KeyEditor
    name: str
    query: Mapping[str, str]
    body: dict[str, Any]
    tag: str | None
    read_usage: Callable[[Sequence[LimitRule]], list[int]]  # what is used of limits
    apply_providers: Callable[[], None]  # has changed providers and their keys used, before it returns

    @property
    def records(self) -> KeyRecords:
        return self.editor.read()


class AdminRoute(NamedTuple):
    """A route, and what its description says. `handle` runs in a thread. `query`: its parameters and their meaning."""

    method: str
    path: str
    summary: str
    handle: Callable[[AdminCall], Any]
    result: Any  # the type of the body; None without one
    body: Any = None
    status: int = 200
    query: Mapping[str, str] = {}
    tagged: bool = False  # answers with ETag, or takes If-Match
    owner: bool = False  # also for the owner of a gateway without keys
