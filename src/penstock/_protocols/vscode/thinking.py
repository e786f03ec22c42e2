"""What a host must carry of a round's reasoning, so that the next request can send it back as it was.

VS Code keeps one thinking item a round, with the last metadata it was given, and of that, in places, only the four
words below. So every part's state is packed into one string under one of them, beside plain copies for other readers.
`unpack` is for the way back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._protocols.vscode.request_settings import NAME
from penstock._protocols.vscode.wire import encoded
from penstock.errors import BadRequest
from penstock.events import Extra, ReasoningForm, ReasoningStart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._lenient_fields import Object

COMPLETE, SIGNATURE, REDACTED, PACKED = "_completeThinking", "signature", "redactedData", "encrypted_content"
_MARK = "penstock:1:"
_PLAIN = {"signature": SIGNATURE, "redacted": REDACTED}


class Thought(msgspec.Struct, omit_defaults=True):
    """One reasoning part of a round. Packed without its text, which `size` code points of the complete text hold."""

    text: str = ""
    id: str = ""
    form: ReasoningForm = "full"
    extra: Extra | None = None
    size: int = 0


class Round:
    """The reasoning of one turn, as far as it has come."""

    def __init__(self) -> None:
        self.thoughts: dict[int, Thought] = {}
        self._pieces: dict[int, list[str]] = {}
        self.stateful = False  # some part so far has something that must be sent back

    def open(self, event: ReasoningStart) -> None:
        self.thoughts[event.index] = Thought("", event.item, event.form, event.extra)
        self.stateful = self.stateful or bool(event.extra)
        self._pieces[event.index] = []

    def say(self, index: int, text: str) -> None:
        self._pieces[index].append(text)

    def said(self, index: int) -> bool:
        return bool(self._pieces.get(index) or self.thoughts[index].text)

    def close(self, index: int, extra: Extra | None) -> None:
        thought = self.thoughts[index]
        thought.text, thought.extra = "".join(self._pieces.pop(index)), extra or thought.extra
        self.stateful = self.stateful or bool(extra)

    def metadata(self) -> dict[str, Any]:
        return pack([thought for index, thought in self.thoughts.items() if index not in self._pieces])


def pack(thoughts: list[Thought]) -> dict[str, Any]:
    """The metadata of a round's last thinking part."""
    metadata: dict[str, Any] = {COMPLETE: "".join(thought.text for thought in thoughts)}
    for thought in thoughts:
        for own in (thought.extra or {}).values():
            metadata |= {to: own[word] for word, to in _PLAIN.items() if isinstance(own.get(word), str)}
    rows = [Thought("", one.id, one.form, one.extra, len(one.text)) for one in thoughts]
    metadata[PACKED] = _MARK + encoded(rows).decode()
    return metadata


def is_packed(metadata: dict[str, Any]) -> bool:
    """Whether a round was packed here, whatever became of it since."""
    packed = metadata.get(PACKED)
    return isinstance(packed, str) and packed.startswith(_MARK)


def unpack(metadata: dict[str, Any] | None) -> list[Thought]:
    """The parts of a round out of its metadata; none if it is not ours or was tampered with."""
    packed, text = (metadata or {}).get(PACKED), (metadata or {}).get(COMPLETE)
    if not isinstance(packed, str) or not packed.startswith(_MARK) or not isinstance(text, str):
        return []
    try:
        thoughts = msgspec.json.decode(packed[len(_MARK) :], type=list[Thought])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return []
    at = 0
    for thought in thoughts:
        thought.text = text[at : at + thought.size]
        at += thought.size
        thought.size = 0
    return thoughts if at == len(text) else []


def read_run(run: Sequence[Object], given: list[Thought]) -> tuple[list[rq.Reasoning], bool]:
    """The reasoning of neighbouring thinking parts, and whether its state could be read.

    `given` are the thoughts that came before in this message; those that are packed in here again are not repeated.
    """
    value = "".join(_said(part) for part in run)
    id = next((word for part in reversed(run) if (word := strict.get_text(part, "id"))), "")  # noqa: A001 — as the part calls it
    nothing: Object = {}
    metadata = next((state for part in reversed(run) if (state := strict.get_object(part, "metadata"))), nothing)
    if is_packed(metadata):
        thoughts = unpack(metadata)
        known = thoughts[len(given) :] if thoughts[: len(given)] == given else thoughts
        given += known
        if thoughts:
            return [
                rq.Reasoning(one.text, one.form, item=one.id, extra=strict.pick_provider_state(one.extra or {}) or None)
                for one in known
            ], True
        return ([rq.Reasoning(value, item=id)] if value else []), False
    return _foreign(value, id, metadata), True


def _said(part: Object) -> str:
    if not isinstance(part.get("value"), str | list):
        raise BadRequest("a string or a list of strings", part.get("value"), "value")
    return "".join(strict.get_strings(part, "value"))


def _foreign(value: str, id: str, metadata: Object) -> list[rq.Reasoning]:
    """What another provider left: a signature is Claude's, encrypted content is of the Responses API."""
    words: dict[str, str] = {key: said for key, said in metadata.items() if isinstance(said, str) and said != ""}
    extra: Extra = {}
    if SIGNATURE in words:
        extra["anthropic"] = {"signature": words[SIGNATURE]}
    if PACKED in words:
        extra["responses"] = {"encrypted_content": words[PACKED], **({"id": id} if id else {})}
    text = words.get(COMPLETE, value)
    made = [rq.Reasoning(text, item=id, extra=extra or None)] if text or extra else []
    if REDACTED in words:
        made.append(rq.Reasoning(form="redacted", extra={"anthropic": {"redacted": words[REDACTED]}}))
    return made


def write_run(run: Sequence[rq.Reasoning]) -> Object:
    """Neighbouring reasoning as the one thinking part that a host would keep."""
    thoughts = [Thought(one.text, one.item, one.form, _others(one.extra)) for one in run]
    id = next((one.item for one in reversed(run) if one.item), "")  # noqa: A001 — as the part calls it
    part: Object = {"kind": "thinking", "value": "".join(one.text for one in run), **({"id": id} if id else {})}
    if len(run) > 1 or any(one.extra or one.form != "full" for one in thoughts):
        part["metadata"] = pack(thoughts)
    return part


def _others(extra: Extra | None) -> Extra | None:
    return strict.pick_provider_state({key: own for key, own in (extra or {}).items() if key != NAME}) or None


def note_raw(parts: list[rq.Reasoning], raw: list[Object]) -> None:
    """Note how reasoning was written, if it would be written in another way."""
    if [{**element, "kind": "thinking"} for element in raw] != [write_run(parts)]:
        parts[0].extra = {**(parts[0].extra or {}), NAME: {"_": {"raw": raw, "run": len(parts)}}}
