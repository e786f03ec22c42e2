"""Sends state of the client (signatures, encrypted reasoning) only to the maker of the model that created it.

Some state names its maker: OpenRouter's reasoning details by their `format`, Gemini's signatures by their field. State
without a maker (Claude's signatures, encrypted content of Responses) is sent only in the protocol that it came in.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import events as ev
from penstock import request as rq
from penstock._lenient_fields import Object, as_object, get_objects, get_text
from penstock._messages.traversal import with_messages, without_item_ids
from penstock._providers.model_identity import identify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._diagnostics import Diagnostics
    from penstock.events import Extra

PROTOCOL, MAKER = "responses", "openai"
_FIELD = "encrypted_content"
_END_EVENTS = frozenset({ev.ReasoningEnd, ev.Opaque})


def ciphertext_of(part: Any) -> str:
    """Returns the encrypted content of a part or of its end event; empty if there is none."""
    if type(part) in (rq.Opaque, ev.Opaque):
        return get_text(as_object(part.data), _FIELD) if part.protocol == PROTOCOL else ""
    return get_text(_responses_fields(part), _FIELD)


def _responses_fields(part: Any) -> Object:
    """Returns the Responses fields of a part."""
    extra: Extra = getattr(part, "extra", None) or {}
    return extra.get(PROTOCOL, {})


def ciphertexts_of(events: Iterable[Any]) -> list[str]:
    """Returns all encrypted content in events."""
    return [found for event in events if type(event) in _END_EVENTS and (found := ciphertext_of(event))]


def drop_foreign_ciphertext(
    request: rq.Request, origin: Callable[[str], str], notes: Diagnostics, *, provider: str, maker: str
) -> rq.Request:
    """Drops encrypted content that another provider encrypted. The text next to it stays.

    `origin` returns the provider that encrypted a ciphertext, or nothing. `maker`: the maker of the model.
    """

    def foreign(part: Any) -> str:
        ciphertext = ciphertext_of(part)
        if not ciphertext:
            return ""
        origin_name = origin(ciphertext)
        if origin_name:
            return "" if not provider or origin_name == provider else origin_name
        return "" if maker == MAKER else "an unknown provider"

    messages = [_drop_encrypted(one, foreign, notes) if one.role == "assistant" else one for one in request.messages]
    unchanged = all(map(is_, messages, request.messages))
    return request if unchanged else with_messages(request, messages)


def _drop_encrypted(message: rq.Message, foreign: Callable[[Any], str], notes: Diagnostics) -> rq.Message:
    parts: list[Any] = []
    for part in message.parts:
        origin_name = foreign(part)
        if not origin_name:
            parts.append(part)
            continue
        notes.add("loss-encrypted-content", f"what {origin_name} has encrypted is not sent to another provider", _FIELD)
        if type(part) is rq.Reasoning and part.text:
            parts.append(replace(part, extra=None, item=""))
        elif type(part) not in (rq.Reasoning, rq.Opaque):
            parts.append(_without_ciphertext(part))
    if len(parts) == len(message.parts) and all(map(is_, parts, message.parts)):
        return message
    return replace(message, parts=without_item_ids(parts))


def _without_ciphertext(part: Any) -> Any:
    fields = {key: value for key, value in _responses_fields(part).items() if key != _FIELD}
    extra: Extra = part.extra
    return replace(part, extra={**extra, PROTOCOL: fields})


_DETAILS = "reasoning_details"
_MAKERS = frozenset({"anthropic", "openai", "google", "xai"})  # as formats begin: anthropic-claude-v1
_GOOGLE, _SIGNATURE_FIELD = "google", ("gemini", "thoughtSignature")


def drop_foreign_state(request: rq.Request, notes: Diagnostics) -> rq.Request:
    """Drops state of other makers than the model's. Texts stay; a model of unknown maker gets everything."""
    maker = identify(request.model).maker
    if not maker:
        return request
    messages = [
        _drop_foreign_parts(message, maker, notes) if message.role == "assistant" else message
        for message in request.messages
    ]
    return with_messages(request, messages)


def _drop_foreign_parts(message: rq.Message, maker: str, notes: Diagnostics) -> rq.Message:
    parts: list[Any] = []
    for part in message.parts:
        foreign = _foreign_maker(getattr(part, "extra", None), maker)
        if not foreign:
            parts.append(part)
            continue
        notes.add("state-foreign", f"state of {foreign} that the client carries is not sent to a model of {maker}")
        if type(part) is not rq.Reasoning:
            parts.append(_without_signature(part))
        elif part.text:
            parts.append(replace(part, extra=None, item=""))
    if len(parts) < len(message.parts):
        parts = without_item_ids(parts)
    unchanged = len(parts) == len(message.parts) and all(map(is_, parts, message.parts))
    return message if unchanged else replace(message, parts=parts)


def _foreign_maker(extra: Extra | None, maker: str) -> str:
    """Returns the maker of the state if it is another one; empty if it is the same or unknown."""
    if not extra:
        return ""
    protocol, field = _SIGNATURE_FIELD
    if maker != _GOOGLE and extra.get(protocol, {}).get(field):
        return _GOOGLE
    formats = [get_text(detail, "format") for own in extra.values() for detail in get_objects(own, _DETAILS)]
    origins = {one.partition("-")[0] for one in formats} & _MAKERS
    return next(iter(sorted(origins - {maker})), "")


def _without_signature(part: Any) -> Any:
    """Returns a call or a text without its signature."""
    extra: Extra = part.extra
    protocol, field = _SIGNATURE_FIELD
    fields = {key: value for key, value in extra.get(protocol, {}).items() if key != field}
    others: Extra = {key: value for key, value in extra.items() if key != protocol}
    return replace(part, extra={**others, **({protocol: fields} if fields else {})} or None)
