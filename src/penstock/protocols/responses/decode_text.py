"""What an item says: text, refusals, reasoning. Each place in an item is said once, however often it is repeated.

Deltas, `*.done`, the part's end, the item's end and the final snapshot all tell the same words; whatever comes first is
delivered, and of the later ones only what is new. A part is opened by its first word, so nothing empty is.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock import lenient_fields as lenient
from penstock.protocols.responses.decode_items import Repeats, equals, repeats
from penstock.protocols.responses.wire import NAME, Item, own

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.events import Extra, ReasoningForm
    from penstock.ledger import Ledger, Part
    from penstock.protocols.responses.decode_items import Slot

FORMS: dict[str, ReasoningForm] = {"summary": "summary", "full": "full"}


class Speech:
    """Says the words of items through the ledger. A place is `(kind, number)` inside an item."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def say(self, slot: Slot, kind: str, place: int, text: str, logprobs: Any = None) -> Part | None:
        """A delta. Gives the open part, so that the next ones need not look for it."""
        if not text:
            return None
        if (kind, place) in slot.closed:
            self._ledger.diagnostics.add("after-close", f"a delta of {kind} that was closed before is ignored")
            return None
        part = self._ledger.find((slot.number, kind, place)) or self._open(slot, kind, place)
        if part is not None:
            self._ledger.append_to_part(part, text, logprobs)
        return part

    def match(self, slot: Slot, event: str, kind: str, place: int, whole: str) -> int:
        """The place of the part that `event` means when it repeats all of a part, and names this place."""
        if not whole.strip():
            return place  # no words: the part that has this number may be repeated at another place
        known = slot.repeats.get((event, kind))
        if known is None:
            known = slot.repeats[event, kind] = Repeats()
        return known.find(
            place, slot.places.get(kind, ()), lambda one: repeats(self._words(slot, kind, one), whole)
        )  # fmt: skip

    def match_all(self, slot: Slot, event: str, kind: str, wholes: list[str]) -> None:
        """The same for all parts of an item at once. Equal words decide first, then words that begin others, and only
        then the number: a part that was never streamed takes the place of no other.
        """
        streamed = slot.places.get(kind)
        if not streamed:
            return
        known = slot.repeats.setdefault((event, kind), Repeats())
        for is_alike in (equals, repeats):
            for place, whole in enumerate(wholes):
                if whole.strip():
                    known.claim(place, streamed, partial(self._is_alike, slot, kind, whole, is_alike))

    def _is_alike(self, slot: Slot, kind: str, whole: str, is_alike: Callable[[str, str], bool], place: int) -> bool:
        return is_alike(self._words(slot, kind, place), whole)

    def _words(self, slot: Slot, kind: str, place: int) -> str:
        part = self._ledger.find((slot.number, kind, place))
        return part.streamed_text if part is not None else slot.closed.get((kind, place), "")

    def settle(self, slot: Slot, kind: str, place: int, whole: str) -> None:
        """A later word on all of it: what is new is said."""
        said = slot.closed.get((kind, place))
        if said is None:
            if whole and self._ledger.find((slot.number, kind, place)) is None:
                self._open(slot, kind, place)
            self._ledger.reconcile((slot.number, kind, place), whole)
        elif len(whole) > len(said) and whole.startswith(said):
            del slot.closed[kind, place]
            self.say(slot, kind, place, whole[len(said) :])
            self.close(slot, kind, place)
            slot.closed[kind, place] = whole
        elif whole and whole != said:
            self._ledger.diagnostics.add("conflict", f"{kind} differs from what was said of it before; the first wins")

    def close(self, slot: Slot, kind: str, place: int, extra: Extra | None = None) -> None:
        """The part is whole."""
        part = self._ledger.find((slot.number, kind, place))
        if part is not None:
            slot.closed[kind, place] = part.streamed_text
            self._ledger.close((slot.number, kind, place), extra)

    def close_all(self, slot: Slot) -> None:
        for kind, place in list(slot.parts):
            self.close(slot, kind, place)

    def _open(self, slot: Slot, kind: str, place: int) -> Part | None:
        key, extra = (slot.number, kind, place), own(id=slot.id, phase=lenient.get_text(slot.item, "phase"))
        if kind == "text":
            part = self._ledger.open_text(key, item=slot.id, extra=extra, keep=True)
        elif kind == "refusal":
            part = self._ledger.open_refusal(key, item=slot.id, extra=extra, keep=True)
        else:
            part = self._ledger.open_reasoning(key, item=slot.id, form=FORMS[kind], extra=extra, keep=True)
        if part is not None:
            slot.parts[kind, place] = part.index
            slot.places.setdefault(kind, []).append(place)
        return part


class Messages:
    """Items of type `message`: their content parts and annotations."""

    def __init__(self, ledger: Ledger, speech: Speech) -> None:
        self._ledger = ledger
        self._speech = speech

    def added(self, slot: Slot) -> None:
        """Content that is there from the start counts when the item is done: deltas may repeat it."""

    def done(self, slot: Slot, event: str = "done") -> None:
        contents = lenient.get_objects(slot.item, "content")
        for kind in ("text", "refusal"):
            self._speech.match_all(slot, event, kind, [_words_of(content, kind) for content in contents])
        for place, content in enumerate(contents):
            self.content(slot, event, place, content)
        self._speech.close_all(slot)

    def last(self, slot: Slot) -> None:
        self.done(slot, "snapshot")

    def close(self, slot: Slot, *, whole: bool) -> None:
        """The ledger closes open text by itself."""

    def settle(self, slot: Slot, kind: str, place: int, whole: str) -> None:
        """All of a text or a refusal, before its content part is whole."""
        self._speech.settle(slot, kind, self._speech.match(slot, "text", kind, place, whole), whole)

    def content(self, slot: Slot, event: str, place: int, content: Item) -> None:
        """A whole content part, wherever it was repeated."""
        kind = lenient.get_text(content, "type")
        if kind == "refusal":
            words = lenient.get_text(content, "refusal")
            place = self._speech.match(slot, event, "refusal", place, words)
            self._speech.settle(slot, "refusal", place, words)
            self._speech.close(slot, "refusal", place)
        elif kind.endswith("text"):
            place = self._speech.match(slot, event, "text", place, lenient.get_text(content, "text"))
            self._text(slot, place, content)
            for annotation in lenient.get_objects(content, "annotations"):
                self._cite(slot, place, annotation)
            self._speech.close(slot, "text", place)
        else:
            self._ledger.diagnostics.add("unknown-content", f"content of type {kind!r} is left out")

    def _text(self, slot: Slot, place: int, content: Item) -> None:
        """Text that was not streamed may have its log probabilities beside it."""
        words, logprobs = lenient.get_text(content, "text"), lenient.get_list(content, "logprobs")
        if logprobs and ("text", place) not in slot.parts:
            self._speech.say(slot, "text", place, words, {"content": logprobs})
        else:
            self._speech.settle(slot, "text", place, words)

    # ── annotations ───────────────────────────────────────────────────────────────────────────────

    def note(self, slot: Slot, place: int, annotation: Item) -> None:
        """An annotation as it is streamed. It may name another place than its text did."""
        texts = slot.places.get("text", ())
        self._cite(slot, place if place in texts or not texts else texts[-1], annotation)

    def _cite(self, slot: Slot, place: int, annotation: Item) -> None:
        first, last = (
            lenient.get_integer(annotation, "start_index"),
            lenient.get_integer(annotation, "end_index"),
        )
        span = (first, last) if first is not None and last is not None and last > first >= 0 else None
        filename = lenient.get_text(annotation, "filename")
        self._ledger.cite(
            (slot.number, place, annotation),
            lenient.get_text(annotation, "url"),
            lenient.get_text(annotation, "title") or filename,
            slot.parts.get(("text", place)),
            span,
            "",
            lenient.get_text(annotation, "file_id"),
            "",
            filename,
            {NAME: {"annotation": annotation}},
        )


def _words_of(content: Item, kind: str) -> str:
    """The words of a content part, if it is of this kind."""
    return lenient.get_text(content, kind) if lenient.get_text(content, "type").endswith(kind) else ""


class Thoughts:
    """Items of type `reasoning`: parts of a summary, parts of the full text, and what only the provider can read.

    Parts may overlap. One that is whole ends when another begins, the last when its item is done: only then the
    encrypted content is final.
    """

    def __init__(self, ledger: Ledger, speech: Speech) -> None:
        self._ledger = ledger
        self._speech = speech

    def added(self, slot: Slot) -> None:
        """Encrypted content that is there from the start is not the final one."""

    def delta(self, slot: Slot, kind: str, place: int, text: str) -> None:
        self.begin(slot, kind, place)
        self._speech.say(slot, kind, place, text)

    def begin(self, slot: Slot, kind: str, place: int) -> None:
        """Another part begins, which ends those that are whole."""
        if (kind, place) not in slot.parts:
            for other in slot.whole:
                self._speech.close(slot, *other)
            slot.whole.clear()

    def settle(self, slot: Slot, event: str, kind: str, place: int, text: str) -> None:
        """All of a part."""
        place = self._speech.match(slot, event, kind, place, text)
        if text:
            self.begin(slot, kind, place)
        self._speech.settle(slot, kind, place, text)
        if (kind, place) not in slot.closed and (kind, place) not in slot.whole:
            slot.whole.append((kind, place))

    def done(self, slot: Slot, event: str = "done") -> None:
        for kind, key in (("summary", "summary"), ("full", "content")):
            parts = lenient.get_objects(slot.item, key)
            self._speech.match_all(slot, event, kind, [lenient.get_text(part, "text") for part in parts])
            for place, part in enumerate(parts):
                self.settle(slot, event, kind, place, lenient.get_text(part, "text"))
        self._seal(slot)

    def last(self, slot: Slot) -> None:
        self.done(slot, "snapshot")

    def close(self, slot: Slot, *, whole: bool) -> None:
        if slot.told and not slot.done and whole:
            self._seal(slot)

    def _seal(self, slot: Slot) -> None:
        """Close the last part with what must be echoed; where there is none, that is a part of its own."""
        kept = {key: value for key, value in slot.item.items() if key not in ("type", "summary", "content", "status")}
        extra = own(**kept)
        unclosed = [place for place in slot.parts if place not in slot.closed]
        for place in unclosed:
            self._speech.close(slot, *place, extra=extra if place == unclosed[-1] else None)
        if (
            not unclosed
            and extra is not None
            and (not slot.parts or (kept.get("encrypted_content") and not slot.sealed))
        ):
            self._ledger.open_reasoning(key := (slot.number, "sealed"), item=slot.id, form="redacted", extra=extra)
            self._ledger.close(key, extra)
            slot.parts["sealed", 0], slot.closed["sealed", 0] = -1, ""
        slot.sealed = slot.sealed or bool(kept.get("encrypted_content"))  # a later one differs, but opens the same
