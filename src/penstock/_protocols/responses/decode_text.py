"""Decodes text, refusals and reasoning of items. Each part is delivered once, however often it is repeated.

Deltas, `*.done`, the end of the part, the end of the item and the final snapshot all carry the same text. The first one
is delivered; of later ones only new text. A part opens with its first text, so empty parts never open.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock import _lenient_fields as lenient
from penstock._protocols.responses.decode_items import ItemReader, ItemSlot, RepeatMatcher, is_same_start, is_same_text
from penstock._protocols.responses.wire import NAME, Item, wrap_extra

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._ledger import LedgerPart
    from penstock.events import Extra, ReasoningForm

_REASONING = {"summary": "summary", "full": "content"}  # kind of reasoning part → the item's list of them


class TextReader(ItemReader):
    """Writes the text of items to the ledger. A part is named by its kind and its index inside the item."""

    def append_delta(self, slot: ItemSlot, kind: str, index: int, text: str, logprobs: Any = None) -> None:
        self.close_complete_parts(slot, kind, index)
        if not text:
            return
        if (kind, index) in slot.closed:
            self._ledger.diagnostics.add("after-close", f"a delta of {kind} that was closed before is ignored")
            return
        part = self._ledger.find((slot.number, kind, index)) or self._open_part(slot, kind, index)
        if part is not None:
            self._ledger.append_to_part(part, text, logprobs)

    def close_complete_parts(self, slot: ItemSlot, kind: str, index: int) -> None:
        """Closes the complete parts if the named part is new."""
        if slot.complete and (kind, index) not in slot.parts:
            for part in slot.complete:
                self.close_part(slot, *part)
            slot.complete.clear()

    def match_part(self, slot: ItemSlot, event: str, kind: str, index: int, text: str) -> int:
        """Returns the index of the streamed part that `event` repeats under this index."""
        if not text.strip():
            return index  # without text: the part of this index may be repeated under another one
        matcher = slot.matchers.setdefault((event, kind), RepeatMatcher())
        is_alike = partial(self._is_alike, slot, kind, text, is_same_start)
        return matcher.find(index, slot.indices.get(kind, ()), is_alike)

    def match_parts(self, slot: ItemSlot, event: str, kind: str, texts: list[str]) -> None:
        """Matches all parts of an item at once: by equal text, then by a common start, and only then by index.

        So a part that was never streamed is not mistaken for another one.
        """
        streamed = slot.indices.get(kind)
        if not streamed:
            return
        matcher = slot.matchers.setdefault((event, kind), RepeatMatcher())
        for compare in (is_same_text, is_same_start):
            for index, text in enumerate(texts):
                if text.strip():
                    matcher.claim(index, streamed, partial(self._is_alike, slot, kind, text, compare))

    def _is_alike(self, slot: ItemSlot, kind: str, text: str, compare: Callable[[str, str], bool], index: int) -> bool:
        part = self._ledger.find((slot.number, kind, index))
        return compare(part.streamed_text if part is not None else slot.closed.get((kind, index), ""), text)

    def reconcile_part(self, slot: ItemSlot, event: str, kind: str, index: int, text: str) -> int:
        """Reads the complete text of a part. Returns the index of the streamed part that it repeats."""
        index = self.match_part(slot, event, kind, index, text)
        if text:
            self.close_complete_parts(slot, kind, index)
        self.reconcile(slot, kind, index, text)
        if kind in _REASONING and (kind, index) not in slot.closed and (kind, index) not in slot.complete:
            slot.complete.append((kind, index))
        return index

    def reconcile(self, slot: ItemSlot, kind: str, index: int, text: str) -> None:
        """Compares the complete text with the streamed text, and delivers what is new."""
        known = slot.closed.get((kind, index))
        if known is None:
            if text and self._ledger.find((slot.number, kind, index)) is None:
                self._open_part(slot, kind, index)
            self._ledger.reconcile((slot.number, kind, index), text)
        elif len(text) > len(known) and text.startswith(known):
            del slot.closed[kind, index]
            self.append_delta(slot, kind, index, text[len(known) :])
            self.close_part(slot, kind, index)
            slot.closed[kind, index] = text
        elif text and text != known:
            self._ledger.diagnostics.add("conflict", f"{kind} differs from what was sent before; the first text stays")

    def close_part(self, slot: ItemSlot, kind: str, index: int, extra: Extra | None = None) -> None:
        part = self._ledger.find((slot.number, kind, index))
        if part is not None:
            slot.closed[kind, index] = part.streamed_text
            self._ledger.close((slot.number, kind, index), extra)

    def _open_part(self, slot: ItemSlot, kind: str, index: int) -> LedgerPart | None:
        key, extra = (slot.number, kind, index), wrap_extra(id=slot.id, phase=lenient.get_text(slot.item, "phase"))
        if kind in _REASONING:
            form: ReasoningForm = "summary" if kind == "summary" else "full"
            part = self._ledger.open_reasoning(key, item=slot.id, form=form, extra=extra, keep=True)
        else:
            open_part = self._ledger.open_text if kind == "text" else self._ledger.open_refusal
            part = open_part(key, item=slot.id, extra=extra, keep=True)
        if part is not None:
            slot.parts[kind, index] = part.index
            slot.indices.setdefault(kind, []).append(index)
        return part


class MessageReader(TextReader):
    """Reads items of type `message`: content parts and annotations.

    Early content of an announced item is ignored, because deltas may repeat it. The ledger closes open text.
    """

    def on_done(self, slot: ItemSlot, event: str = "done") -> None:
        contents = lenient.get_objects(slot.item, "content")
        for kind in ("text", "refusal"):
            texts = [
                lenient.get_text(row, kind) if lenient.get_text(row, "type").endswith(kind) else "" for row in contents
            ]
            self.match_parts(slot, event, kind, texts)
        for index, content in enumerate(contents):
            self.read_content_part(slot, event, index, content)
        for kind, index in list(slot.parts):
            self.close_part(slot, kind, index)

    def on_snapshot(self, slot: ItemSlot) -> None:
        self.on_done(slot, "snapshot")

    def read_content_part(self, slot: ItemSlot, event: str, index: int, content: Item) -> None:
        """Reads a complete content part."""
        kind = lenient.get_text(content, "type")
        if kind == "refusal":
            index = self.reconcile_part(slot, event, "refusal", index, lenient.get_text(content, "refusal"))
            self.close_part(slot, "refusal", index)
        elif kind.endswith("text"):
            text, logprobs = lenient.get_text(content, "text"), lenient.get_list(content, "logprobs")
            index = self.match_part(slot, event, "text", index, text)
            if logprobs and ("text", index) not in slot.parts:  # not streamed: the log probabilities are new, too
                self.append_delta(slot, "text", index, text, {"content": logprobs})
            else:
                self.reconcile(slot, "text", index, text)
            for annotation in lenient.get_objects(content, "annotations"):
                self._add_citation(slot, index, annotation)
            self.close_part(slot, "text", index)
        else:
            self._ledger.diagnostics.add("unknown-content", f"content of type {kind!r} is left out")

    def add_streamed_annotation(self, slot: ItemSlot, index: int, annotation: Item) -> None:
        """Adds a streamed annotation. Its index may differ from that of its text."""
        streamed = slot.indices.get("text", ())
        self._add_citation(slot, index if index in streamed or not streamed else streamed[-1], annotation)

    def _add_citation(self, slot: ItemSlot, index: int, annotation: Item) -> None:
        first, last = lenient.get_integer(annotation, "start_index"), lenient.get_integer(annotation, "end_index")
        span = (first, last) if first is not None and last is not None and last > first >= 0 else None
        filename, file_id = lenient.get_text(annotation, "filename"), lenient.get_text(annotation, "file_id")
        url, title = lenient.get_text(annotation, "url"), lenient.get_text(annotation, "title") or filename
        key, of = (slot.number, index, annotation), slot.parts.get(("text", index))
        extra = {NAME: {"annotation": annotation}}
        self._ledger.cite(key, url, title, of, span, "", file_id, "", filename, extra)


class ReasoningReader(TextReader):
    """Reads items of type `reasoning`: summary parts, full text parts, and encrypted content.

    Parts may overlap. A complete part closes when another one begins; the last part closes when its item is done,
    because only then the encrypted content is final.
    """

    def on_done(self, slot: ItemSlot, event: str = "done") -> None:
        for kind, key in _REASONING.items():
            texts = [lenient.get_text(part, "text") for part in lenient.get_objects(slot.item, key)]
            self.match_parts(slot, event, kind, texts)
            for index, text in enumerate(texts):
                self.reconcile_part(slot, event, kind, index, text)
        self._close_item(slot)

    def on_snapshot(self, slot: ItemSlot) -> None:
        self.on_done(slot, "snapshot")

    def on_response_end(self, slot: ItemSlot, *, complete: bool) -> None:
        if slot.announced and not slot.done and complete:
            self._close_item(slot)

    def _close_item(self, slot: ItemSlot) -> None:
        """Closes the last part with the state that the next request must echo; without a part, opens one for it."""
        known = ("type", "summary", "content", "status")
        state = {key: value for key, value in slot.item.items() if key not in known}
        extra, encrypted = wrap_extra(**state), bool(state.get("encrypted_content"))
        unclosed = [part for part in slot.parts if part not in slot.closed]
        for part in unclosed:
            self.close_part(slot, *part, extra=extra if part == unclosed[-1] else None)
        if not unclosed and extra is not None and (not slot.parts or (encrypted and not slot.sealed)):
            self._ledger.open_reasoning(key := (slot.number, "sealed"), item=slot.id, form="redacted", extra=extra)
            self._ledger.close(key, extra)
            slot.parts["sealed", 0], slot.closed["sealed", 0] = -1, ""
        slot.sealed = slot.sealed or encrypted  # later encrypted content differs, but holds the same
