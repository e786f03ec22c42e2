"""Call ids on their way to a host and back: a prefix keeps them apart from other providers' in one conversation.

A stage over events for the way out; `restore` for the way back, so that a tool's result names the provider's own id.
One to one, so no two ids can meet. A `reserved` word, which the host appends to ids, never occurs in what leaves.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import events as ev

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX = "gw-"
_FIELDS: dict[type, str] = {
    ev.CallStart: "id", ev.CallEnd: "id", ev.CallCut: "id", ev.Result: "call", ev.Ask: "call",
}  # fmt: skip


class Namespace:
    """`name` on the way out, `restore` on the way back. An empty prefix leaves ids as they are."""

    def __init__(self, prefix: str = PREFIX, *, reserved: str = "") -> None:
        self.prefix = prefix
        self._reserved = reserved
        head, last = re.escape(reserved[:-1]), re.escape(reserved[-1:])
        # a reserved word gets a dash before its last letter, and one that has dashes there gets one more
        self._plain = re.compile(f"({head})(-*{last})")
        self._dashed = re.compile(f"({head})-(-*{last})")

    def name(self, id: str) -> str:
        """The id as the host sees it."""
        named = self.prefix + id
        return self._plain.sub(r"\1-\2", named) if self._reserved else named

    def restore(self, id: str) -> str:
        """The provider's own id. One that was never ours comes back as it is, less what the host appended."""
        ours = self._dashed.sub(r"\1\2", id.split(self._reserved, 1)[0]) if self._reserved else id
        return ours.removeprefix(self.prefix)

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        return [self._named(event) if type(event) in _FIELDS else event for event in events]

    def finish(self) -> list[Any]:
        return []

    def _named(self, event: Any) -> Any:
        field = _FIELDS[type(event)]
        return replace(event, **{field: self.name(getattr(event, field))})
