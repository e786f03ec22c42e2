"""Reasoning in Chat Completions requests → canonical: plain fields, detail lists and thinking parts of the dialects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import reading
from penstock import request as rq
from penstock.reading import keep, rest

if TYPE_CHECKING:
    from penstock.events import Extra
    from penstock.pick import Object

NAME = "openai-chat"
_FIELDS = ("reasoning_content", "reasoning")
# Whose state a detail's format says it is, and under which names that protocol keeps (signature, sealed data).
FORMATS: dict[str, tuple[str, str, str]] = {
    "anthropic-claude-v1": ("anthropic", "signature", "redacted"),
    "openai-responses-v1": ("responses", "", "encrypted_content"),
}


def read_thoughts(message: Object) -> list[rq.Reasoning]:
    """What an assistant's message says that it thought, in whichever field."""
    field = next((name for name in _FIELDS if message.get(name)), "")
    if not field and message.get("reasoning_details") is None:
        return []
    said = reading.text(message, field) if field else ""
    repeated = {name: message[name] for name in _FIELDS if name != field and message.get(name)}
    made = _detailed(message)
    if not made:
        return [rq.Reasoning(said, extra=keep(NAME, repeated, field=field if field == "reasoning" else ""))]
    if said and len(made) == 1 and not made[0].text and made[0].form == "full":
        made[0].text = said  # a detail that only signs what the field says
    # Fields beside the details mostly repeat them; what they say is only kept if it cannot be made from the details.
    marks = {"field": field, "said": said if said != "".join(part.text for part in made) else ""}
    own = (made[0].extra or {})[NAME]
    made[0].extra = {**(made[0].extra or {}), NAME: {**repeated, **own, "_": marks}}
    return made


def _detailed(message: Object) -> list[rq.Reasoning]:
    """One part for each run of details that continue each other."""
    made: list[rq.Reasoning] = []
    last: Any = None
    for detail in reading.rows(message, "reasoning_details", dict):
        place = detail.get("type"), detail.get("index")
        if made and place == last and "text" in detail:
            _grow(made[-1], detail)
        else:
            made.append(_detail(detail))
        last = place
    return made


def told(pieces: Any) -> str:
    """The words of a list of details, or of texts."""
    rows = [piece.get("text") or piece.get("summary") for piece in pieces]
    return "".join(words for words in rows if isinstance(words, str))


def _detail(detail: Object) -> rq.Reasoning:
    words = detail.get("text") or detail.get("summary")
    part = rq.Reasoning(words if isinstance(words, str) else "", extra={NAME: {"reasoning_details": [detail]}})
    if detail.get("type") == "reasoning.summary":
        part.form = "summary"
    elif detail.get("type") == "reasoning.encrypted":
        part.form = "redacted"
        part.item = detail["id"] if isinstance(detail.get("id"), str) else ""
    _state(part, detail)
    return part


def _grow(part: rq.Reasoning, detail: Object) -> None:
    words = detail["text"]
    part.text += words if isinstance(words, str) else ""
    part.extra = part.extra or {}
    part.extra[NAME]["reasoning_details"].append(detail)
    _state(part, detail)


def _state(part: rq.Reasoning, detail: Object) -> None:
    """State that belongs to another protocol, for when the request goes on to that one."""
    part.extra = {**(part.extra or {}), **state_of(detail)}


def state_of(detail: Object) -> Extra:
    """The state in a detail, as the protocol keeps it whose state it is."""
    form = detail.get("format")
    if not isinstance(form, str) or form not in FORMATS:
        return {}
    protocol, signed, sealed = FORMATS[form]
    found = {signed: detail.get("signature"), sealed: detail.get("data")}
    state = {name: value for name, value in found.items() if name and isinstance(value, str) and value}
    return {protocol: state} if state else {}


def has_more(extra: Extra | None) -> bool:
    """Whether state of another protocol is more than a detail can hold."""
    held = {word for _, signed, sealed in FORMATS.values() for word in (signed, sealed)}
    return any(own.keys() - held for own in (extra or {}).values())


def write_details(extra: Extra | None, **more: Any) -> list[Object]:
    """State of another protocol as a detail: sealed, or the signature of words that stand in a field beside it."""
    for form, (protocol, signed, sealed) in FORMATS.items():
        own = (extra or {}).get(protocol, {})
        if own.get(sealed):
            return [{"type": "reasoning.encrypted", "data": own[sealed], "format": form, **more}]
        if signed and own.get(signed):
            return [{"type": "reasoning.text", "text": "", "signature": own[signed], "format": form, **more}]
    return []


def read_thinking(part: Object) -> rq.AnyPart:
    """A part of a message's content that was thought, not said: a string, or a list of texts."""
    given = part.get("thinking")
    if isinstance(given, str):
        return rq.Reasoning(given, extra=keep(NAME, rest(part, {"type", "thinking"}), part="text"))
    texts = reading.rows(part, "thinking", dict)
    plain = all(one.keys() == {"type", "text"} and one["type"] == "text" for one in texts)
    words = "".join(one["text"] for one in texts if isinstance(one.get("text"), str))
    marks = {"part": "list", "given": None if plain and len(texts) == 1 else {"as": given}}
    return rq.Reasoning(words, extra=keep(NAME, rest(part, {"type", "thinking"}), **marks))
