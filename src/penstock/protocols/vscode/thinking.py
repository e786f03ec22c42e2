"""What a host must carry of a round's reasoning, so that the next request can send it back as it was.

VS Code keeps one thinking item a round, with the last metadata it was given, and of that, in places, only the four
words below. So every part's state is packed into one string under one of them, beside plain copies for other readers.
`unpack` is for the way back.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.events import Extra, ReasoningForm, ReasoningStart
from penstock.protocols.vscode.parts import encoded

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
