"""Requests that nobody has answered yet, of words alone: what is written around the messages is the same for all.

Such a request is converted the long way once; the next one that differs in its words alone is written from that draft.
Which words need the long way is decided here, on the side of looking again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import request as rq
from penstock.messages.content import is_encodable

if TYPE_CHECKING:
    from penstock.diagnostics import Diagnostic
    from penstock.engines.interface import Job

MOST = 20  # drafts of one plan; settings may differ with every request
LONG = 512  # bytes of settings that are worth remembering
MANY = 8  # messages
_SAID = frozenset({"system", "user"})
_OF_SETTINGS = frozenset({"output-limit"})  # diagnostics that do not depend on the words
_encode = msgspec.json.Encoder().encode


def sort_of(request: rq.Request, source: str) -> bytes | None:
    """All of a request but its words; None where it is more than words, or these may have to be mended."""
    messages = request.messages
    if request.tools or request.diagnostics or request.options or not 0 < len(messages) <= MANY:
        return None
    roles: list[str] = []
    for message in messages:
        parts = message.parts
        if len(parts) != 1 or message.role not in _SAID or message.name or message.extra is not None:
            return None
        part: Any = parts[0]
        if type(part) is not rq.Text or not _sound(part.text) or part != rq.Text(text=part.text):
            return None
        roles.append(message.role)
    try:
        key = _encode((source, roles, request.choice, request.settings, request.usage, request.extra))
    except (TypeError, ValueError, RecursionError):
        return None
    return key if len(key) <= LONG else None


def _sound(text: str) -> bool:
    """Whether a text is neither blank, which not everybody takes, nor half of a character."""
    if text.isascii():
        return text >= "!"  # what is blank sorts before all words
    return bool(text.strip()) and is_encodable(text)


class Drafts:
    """The drafts of one plan."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[dict[str, Any], list[Diagnostic]] | None] = {}

    def fill(self, sort: bytes, request: rq.Request, job: Job) -> bool:
        """Fill in the body of a request whose like was seen before; False if there was none that was simple enough."""
        draft = self._known.get(sort)
        if draft is None:
            return False
        job.body = dict(draft[0])
        job.body["messages"] = _plainly(request)
        job.diagnostics = list(draft[1])
        return True

    def learn(self, sort: bytes, request: rq.Request, job: Job) -> None:
        """Remember what the long way has made of a request, where it left the messages as they were."""
        if sort in self._known:
            return
        if len(self._known) >= MOST:
            self._known.clear()
        said = all(row.code in _OF_SETTINGS for row in job.diagnostics)
        left = said and not (job.shaping or job.losses or job.cleared)
        simple = left and job.body.get("messages") == _plainly(request)
        self._known[sort] = ({**job.body, "messages": None}, list(job.diagnostics)) if simple else None


def _plainly(request: rq.Request) -> list[dict[str, Any]]:
    """The messages as those protocols write them that have the least to say about them."""
    return [{"role": message.role, "content": getattr(message.parts[0], "text", None)} for message in request.messages]
