"""Both halves of a request for the page: as the client sent it, canonical, as each attempt sent it; and the losses.

The canonical form is made by reading the client's body again, when somebody looks. Slow for long requests: not for the
event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec
from msgspec.structs import replace

from penstock._inspector.captured_attempts import CapturedAttempt
from penstock._inspector.loss_places import find_places, loss_kind
from penstock._inspector.request_reasons import CUT_UNREADABLE, NO_REQUEST
from penstock._lenient_json import parse_lenient
from penstock._redaction import redact_range
from penstock._tokens.conversation import read_conversation
from penstock.errors import PenstockError
from penstock.request import Message, Request, Text

if TYPE_CHECKING:
    from penstock._diagnostics import Diagnostic
    from penstock._lenient_fields import Object

DIFFERENCE_LEAD, DIFFERENCE_LENGTH = 20, 20  # characters that are quoted before and after the first difference


class KeptRequest(Protocol):
    """What the view needs of a turn, in memory or read back from disk."""

    @property
    def request(self) -> bytes: ...
    @property
    def request_cut(self) -> bool: ...
    @property
    def client_headers(self) -> dict[str, str]: ...
    @property
    def attempts(self) -> list[CapturedAttempt]: ...
    @property
    def losses(self) -> list[Diagnostic]: ...


class ClientRequest(msgspec.Struct):
    """The client's request. `cut`: only the beginning of the body is kept."""

    method: str
    path: str
    protocol: str
    headers: dict[str, str]
    body: str
    cut: bool


class AttemptView(msgspec.Struct):
    """An attempt. `same_body`: the earlier attempt that sent the same body, which is not repeated here."""

    attempt: CapturedAttempt
    same_body: int | None = None


class LossView(msgspec.Struct):
    """A loss or repair of the request for one attempt, with its places in the bodies where they are known."""

    kind: str
    code: str
    message: str
    count: int
    attempt: int
    client: list[str]
    upstream: list[str]


class FirstDifference(msgspec.Struct):
    """Where two requests part: the number of the message, the place in its text, and what stands there in each."""

    message: int
    character: int
    before: str
    now: str


class PreviousRequest(msgspec.Struct):
    """The request before this one of the same conversation. `messages`: how many of the first ones are the same.

    `dropped`: messages of the previous request that this one does not begin with. `changed`: what else differs.
    `parts_at`: where they differ first, if a message was changed.
    """

    id: str
    messages: int
    dropped: int
    changed: list[str]
    parts_at: FirstDifference | None = None


class RequestView(msgspec.Struct, kw_only=True):
    """Both halves. `canonical_error`: why there is no canonical form. `window`: how many tokens the model takes.

    `kept`: False if nothing is known of this request.
    """

    kept: bool = True
    client: ClientRequest | None = None
    canonical: Request | None = None
    canonical_error: str = ""
    attempts: list[AttemptView] = []
    losses: list[LossView] = []
    window: int | None = None
    previous: PreviousRequest | None = None


def view_request(turn: KeptRequest, *, protocol: str, method: str, path: str) -> RequestView:
    """Returns both halves of a turn's request."""
    view = RequestView(
        client=ClientRequest(
            method, path, protocol, turn.client_headers, turn.request.decode("utf-8", "replace"), turn.request_cut
        )
    )
    view.canonical, view.canonical_error = read_canonical(turn, protocol)
    attempts = turn.attempts
    view.attempts = _without_repeated_bodies(attempts)
    view.losses = _losses(attempts, _parse_body(turn.request) if not turn.request_cut else None)
    return view


def without_bodies(turn: KeptRequest) -> RequestView:
    """Returns the attempts and the losses of a turn's request, without the bodies that were sent."""
    attempts = turn.attempts
    losses = _losses(attempts, _parse_body(turn.request) if any(one.losses for one in attempts) else None)
    return RequestView(attempts=[AttemptView(replace(one, body="")) for one in attempts], losses=losses)


def read_canonical(turn: KeptRequest, protocol: str) -> tuple[Request | None, str]:
    """Returns the canonical form of a turn's request, or why there is none."""
    if not turn.request:
        return None, NO_REQUEST
    if turn.request_cut:
        return None, CUT_UNREADABLE
    body = _parse_body(turn.request)
    if body is None:
        return None, "the body is not a JSON object"
    try:
        return read_conversation(body, protocol=protocol).request, ""
    except PenstockError as error:
        return None, f"the request cannot be read: {error}"


def _parse_body(data: bytes) -> Object | None:
    body = parse_lenient(data)
    return cast("Object", body) if isinstance(body, dict) else None


def _without_repeated_bodies(attempts: list[CapturedAttempt]) -> list[AttemptView]:
    views: list[AttemptView] = []
    seen: dict[str, int] = {}
    for number, attempt in enumerate(attempts):
        first = seen.setdefault(attempt.body, number) if attempt.body else number
        views.append(AttemptView(attempt) if first == number else AttemptView(replace(attempt, body=""), first))
    return views


def _losses(attempts: list[CapturedAttempt], body: Any) -> list[LossView]:
    return [
        LossView(
            loss_kind(row.code), row.code, row.message, row.count, number, find_places(row, body),
            find_places(row, sent),
        )
        for number, attempt in enumerate(attempts)
        for sent in (_parse_body(attempt.body.encode("utf-8", "replace")) if attempt.losses else None,)
        for row in attempt.losses
    ]  # fmt: skip


def compare_requests(id: str, before: Request, now: Request, secrets: tuple[str, ...] = ()) -> PreviousRequest:
    """Returns what of a request is the same as in an earlier one."""
    same = 0
    for old, new in zip(before.messages, now.messages, strict=False):
        if old != new:
            break
        same += 1
    changed = [name for name in ("model", "tools", "choice", "settings") if getattr(before, name) != getattr(now, name)]
    is_changed = same < min(len(before.messages), len(now.messages))
    parts_at = find_difference(same, before.messages[same], now.messages[same], secrets) if is_changed else None
    return PreviousRequest(id, same, len(before.messages) - same, changed, parts_at)


def find_difference(number: int, before: Message, now: Message, secrets: tuple[str, ...] = ()) -> FirstDifference:
    """Returns where two messages differ first: in their text, else in their JSON."""
    old, new = _message_text(before), _message_text(now)
    if old == new:
        old, new = (msgspec.json.encode(message).decode() for message in (before, now))
    at = next(
        (place for place, both in enumerate(zip(old, new, strict=False)) if both[0] != both[1]), min(len(old), len(new))
    )
    start, end = max(at - DIFFERENCE_LEAD, 0), at + DIFFERENCE_LENGTH
    return FirstDifference(number, at, *(redact_range(text, start, end, secrets) for text in (old, new)))


def _message_text(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))
