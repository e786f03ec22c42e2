"""Encrypted content of Responses servers: which provider sealed it, so that no other one is sent it.

The ciphertext itself does not say. After an answer its digest is filed with the provider's name; before the next
request it is looked up. What was never seen here (a client's session with its vendor) goes to models of OpenAI only,
whose field it is.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import events as ev
from penstock import request as rq
from penstock.messages.walking import with_messages, without_item_ids
from penstock.pick import as_object, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.diagnostics import Diagnostics
    from penstock.events import Extra
    from penstock.pick import Object

PROTOCOL, MAKER = "responses", "openai"
_FIELD = "encrypted_content"
_ENDS = frozenset({ev.ReasoningEnd, ev.Opaque})


def ciphertext_of(part: Any) -> str:
    """The encrypted content of a part or of an event that ends one; nothing where there is none."""
    if type(part) in (rq.Opaque, ev.Opaque):
        return text(as_object(part.data), _FIELD) if part.protocol == PROTOCOL else ""
    return text(_own(part), _FIELD)


def _own(part: Any) -> Object:
    """The fields of Responses that a part carries."""
    extra: Extra = getattr(part, "extra", None) or {}
    return extra.get(PROTOCOL, {})


def ciphertexts_of(events: Iterable[Any]) -> list[str]:
    """All encrypted content in events."""
    return [found for event in events if type(event) in _ENDS and (found := ciphertext_of(event))]


def drop_foreign_seals(
    request: rq.Request, origin: Callable[[str], str], notes: Diagnostics, *, provider: str, maker: str
) -> rq.Request:
    """The request without encrypted content that its provider did not seal. The words beside it stay.

    `origin` is who sealed a ciphertext, or nothing; `provider` who is asked, `maker` who made the model.
    """

    def foreign(part: Any) -> str:
        sealed = ciphertext_of(part)
        if not sealed:
            return ""
        whose = origin(sealed)
        if whose:
            return "" if not provider or whose == provider else whose
        return "" if maker == MAKER else "an unknown provider"

    messages = [_opened(one, foreign, notes) if one.role == "assistant" else one for one in request.messages]
    same = all(map(is_, messages, request.messages))
    return request if same else with_messages(request, messages)


def _opened(message: rq.Message, foreign: Callable[[Any], str], notes: Diagnostics) -> rq.Message:
    parts: list[Any] = []
    for part in message.parts:
        whose = foreign(part)
        if not whose:
            parts.append(part)
            continue
        notes.add("loss-encrypted-content", f"what {whose} has encrypted is not sent to another provider", _FIELD)
        if type(part) is rq.Reasoning and part.text:
            parts.append(replace(part, extra=None, item=""))
        elif type(part) not in (rq.Reasoning, rq.Opaque):
            parts.append(_without_seal(part))
    if len(parts) == len(message.parts) and all(map(is_, parts, message.parts)):
        return message
    return replace(message, parts=without_item_ids(parts))


def _without_seal(part: Any) -> Any:
    own = {key: value for key, value in _own(part).items() if key != _FIELD}
    extra: Extra = part.extra
    return replace(part, extra={**extra, PROTOCOL: own})
