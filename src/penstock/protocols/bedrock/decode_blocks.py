"""The content blocks of one Converse message → parts, by block index.

A text block has no start, and some models stop and begin one with every delta. So a block that has stopped rests, open
in the ledger, until the next one shows what it is: text goes on in it, a block of citations alone cites it. A cited
block keeps to itself. A call that stopped without input rests too: cut off, if the answer turns out to be.
"""

from __future__ import annotations

from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.jsontext import as_json, fit
from penstock.protocols.bedrock import wire

if TYPE_CHECKING:
    from penstock.events import By, Extra
    from penstock.ledger import Ledger

NAME = "bedrock"
_CLIENT = frozenset({None, "", "tool_use"})  # the types of a call that is not Bedrock's own


class Blocks:
    """State: the part of each open block, the one that rests, citations and results that wait for their end."""

    def __init__(self, ledger: Ledger, names: dict[str, str]) -> None:
        self._ledger = ledger
        self._names = names  # of calls, by id
        self._at: dict[int, int] = {}
        self._resting: int | None = None
        self._text: int | None = None  # the number of the last text part
        self._cited = False  # whether that part is
        self._citations: dict[int, list[dict[str, Any]]] = {}
        self._results: dict[int, wire.ToolResult] = {}
        self._formats: dict[int, str] = {}

    # ── start, delta, stop ────────────────────────────────────────────────────────────────────────

    def start(self, index: int, start: dict[str, Any]) -> bool:
        """Begin a block; False if it is of no kind known here. Text has nothing to begin with."""
        if index in self._at or index in self._results:
            self.stop(index)
        if "toolUse" in start:
            self._call(index, fit(start["toolUse"], wire.ToolUse)[0])
        elif "toolResult" in start:
            self._wake()
            self._results[index] = fit(start["toolResult"], wire.ToolResult)[0]
        elif "image" in start:
            self._formats[index] = lenient.get_text(lenient.get_object(start, "image"), "format")
        else:
            return not start or "text" in start
        return True

    def delta(self, index: int, delta: wire.Delta) -> bool:
        """Go on with a block; False if the delta is of no kind known here."""
        if self._resting is not None and index in self._at:
            self._wake()
        if delta.text is not None:
            self.say(index, delta.text)
        elif delta.toolUse is not None:
            self._input(index, delta.toolUse.input or "")
        elif delta.reasoningContent is not None:
            self.reason(index, delta.reasoningContent)
        elif delta.citation is not None:
            self._cite(index, delta.citation)
        elif delta.toolResult is not None:
            result = self._results.setdefault(index, wire.ToolResult())
            result.content = [*(result.content or ()), *delta.toolResult]
        elif delta.image is not None:
            self.file(index, f"image/{self._formats.get(index) or '*'}", delta.image)
        else:
            return False
        return True

    def stop(self, index: int, *, partial: bool = False) -> None:
        """End a block, or let it rest."""
        result = self._results.pop(index, None)
        if result is not None:
            self.result(result, partial=partial)
        for citation in self._citations.pop(index, ()):
            self._source(citation)
        key = self._at.pop(index, None)
        if key is None or self._ledger.find(key) is None or self._resting == key:
            return
        self._wake()
        if self._may_go_on(key):
            self._resting = key
        else:
            self._ledger.close(key)

    def close(self, *, partial: bool = False) -> None:
        """The message ended: say what waits. The ledger closes the rest."""
        for index in [*self._results, *self._citations]:
            self.stop(index, partial=partial)
        self._resting = None

    def _may_go_on(self, key: int) -> bool:
        part = self._ledger.find(key)
        if part is None:
            return False
        if part.is_call:
            return not part.pieces and not part.given and not part.muted
        return part.delta is not ev.FileDelta and part.extra is None

    def _wake(self) -> None:
        """Something else begins: what rests has ended."""
        if self._resting is not None:
            self._ledger.close(self._resting)
            self._resting = None

    def _goes_on(self, index: int, delta: type[ev.Event]) -> bool:
        """Take the resting part up again for this block, if it is of the same kind."""
        part = None if self._resting is None else self._ledger.find(self._resting)
        if part is None or part.delta is not delta or self._resting is None:
            return False
        self._at[index], self._resting = self._resting, None
        return True

    # ── text and reasoning ────────────────────────────────────────────────────────────────────────

    def say(self, index: int, text: str) -> None:
        key = self._at.get(index)
        if key is None:
            if not text and index not in self._citations:
                return
            key = self._begin_text(index)
        self._ledger.append_text(key, text)

    def _begin_text(self, index: int) -> int:
        waiting = self._citations.pop(index, ())
        if waiting or self._cited or not self._goes_on(index, ev.TextDelta):
            self._wake()
            self._at[index], self._cited = index, bool(waiting)
            part = self._ledger.open_text(index)
            self._text = part.index if part else None
        for citation in waiting:
            self._source(citation)
        return self._at[index]

    def reason(self, index: int, said: wire.Reasoning) -> None:
        """Text, or what must be sent back next turn: a signature, or reasoning that only Bedrock can read."""
        hidden = said.redactedContent
        if index not in self._at and (hidden or not self._goes_on(index, ev.ReasoningDelta)):
            self._wake()
            self._at[index] = index
            self._ledger.open_reasoning(index, form="redacted" if hidden else "full")
        key = self._at[index]
        self._ledger.append_text(key, said.text or "")
        part = self._ledger.find(key)
        if part is not None and said.signature:
            part.extra = _grown(part.extra, "signature", said.signature)
        if part is not None and hidden:
            part.extra = _grown(part.extra, "redactedContent", hidden)

    # ── citations ─────────────────────────────────────────────────────────────────────────────────

    def _cite(self, index: int, citation: dict[str, Any]) -> None:
        """A citation stands before the text of its block (Claude), or in a block after it (Nova)."""
        if index in self._at:
            self._source(citation)
        else:
            self._citations.setdefault(index, []).append(citation)

    def _source(self, citation: dict[str, Any]) -> None:
        self._cited = True
        web, source = (
            lenient.get_object(lenient.get_object(citation, "location"), "web"),
            lenient.get_text(citation, "source"),
        )
        url = lenient.get_text(web, "url") or (source if "://" in source else "")
        quote = "".join(lenient.get_text(piece, "text") for piece in lenient.get_objects(citation, "sourceContent"))
        title = lenient.get_text(citation, "title") or lenient.get_text(web, "domain")
        of = self._text
        self._ledger.cite((of, citation), url, title, of, None, quote, "", "", "", {NAME: citation})

    # ── calls and results ─────────────────────────────────────────────────────────────────────────

    def _call(self, index: int, call: wire.ToolUse) -> None:
        self._wake()
        call_id, name = call.toolUseId or f"call_{self._ledger.id_prefix}_{index}", call.name or ""
        by: By = "client" if call.type in _CLIENT else "provider"
        given = "" if call.input is None else as_json(call.input)
        extra: Extra | None = {NAME: {"type": call.type}} if by == "provider" else None
        self._names[call_id] = name
        self._at[index] = index
        self._ledger.open_call(index, call_id, name, by=by, given=given, extra=extra)

    def _input(self, index: int, json: str) -> None:
        key = self._at.get(index)
        if key is None:
            self._ledger.diagnostics.add("no-block", "input of a call that never began is ignored")
        else:
            self._ledger.append_call_input(key, json)

    def result(self, said: wire.ToolResult, *, partial: bool = False) -> None:
        self._wake()
        call, kind = said.toolUseId or "", said.type or ""
        name = self._names.get(call) or kind.removesuffix("_result")
        json = as_json(said.content or [])
        extra: Extra = {NAME: {"type": kind, "status": said.status or ""}}
        self._ledger.add_whole_part(ev.Result, call, name, json, said.status == "error", partial, extra)

    # ── files, and whole blocks ───────────────────────────────────────────────────────────────────

    def file(self, index: int, media: str, said: wire.Media) -> None:
        if index not in self._at:
            self._wake()
            self._at[index] = index
            url = lenient.get_text((said.source and said.source.s3Location) or {}, "uri")
            self._ledger.open_file(index, media, url, extra={NAME: {"error": said.error}} if said.error else None)
        self._ledger.append_text(self._at[index], (said.source and said.source.data) or "")

    def whole(self, index: int, raw: dict[str, Any]) -> None:
        """A block of an answer that was not streamed, by way of the same parts."""
        block: wire.Block = fit(raw, wire.Block)[0]
        if block.text is not None:
            self.say(index, block.text)
        elif block.toolUse is not None:
            self._call(index, block.toolUse)
        elif block.reasoningContent is not None:
            self._reasoned(index, block.reasoningContent)
        elif block.citationsContent is not None:
            self._cited_text(index, block.citationsContent)
        elif block.toolResult is not None:
            self.result(block.toolResult)
        else:
            self._rare(index, block, raw)
        self.stop(index)

    def _reasoned(self, index: int, said: wire.Reasoning) -> None:
        text = said.reasoningText or wire.ReasoningText()
        self.reason(index, wire.Reasoning(text.text, text.signature, said.redactedContent))

    def _cited_text(self, index: int, said: wire.CitationsContent) -> None:
        self._citations[index] = list(said.citations or ())
        self.say(index, "".join(lenient.get_text(piece, "text") for piece in said.content or ()))

    def _rare(self, index: int, block: wire.Block, raw: dict[str, Any]) -> None:
        for kind in ("image", "audio", "video"):
            media: wire.Media | None = getattr(block, kind)
            if media is not None:
                self.file(index, f"{kind}/{media.format or '*'}", media)
                return
        self._wake()
        self._ledger.add_whole_part(ev.Opaque, NAME, next(iter(raw), ""), raw)


def _grown(extra: Extra | None, key: str, more: str) -> Extra:
    """What was to be kept so far, and more of it."""
    kept = (extra or {}).get(NAME, {})
    join = _join if key == "redactedContent" else str.__add__
    return {NAME: {**kept, key: join(kept[key], more) if key in kept else more}}


def _join(first: str, second: str) -> str:
    """Two pieces of base64 as one: each may end in padding of its own."""
    try:
        return b2a_base64(a2b_base64(first) + a2b_base64(second), newline=False).decode()
    except (NotBase64, ValueError):
        return first + second
