"""Decodes the content blocks of one Converse message, by block index.

A text block has no start, and some models stop and restart a block with every delta. So a stopped block rests: its part
stays open in the ledger until the next block shows whether it continues. Text continues it; a block with only citations
cites it. Text with citations is never continued. A call that stopped without input rests, too: if the answer turns out
to be cut off, so is the call.
"""

from __future__ import annotations

from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from typing import TYPE_CHECKING, Any

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._jsontext import as_json, convert_pruned
from penstock._protocols.bedrock import wire
from penstock._protocols.bedrock.wire import NAME

if TYPE_CHECKING:
    from penstock._ledger import Ledger
    from penstock.events import By, Extra

_CLIENT_TYPES = frozenset({None, "", "tool_use"})  # types of calls that the client runs


class BlockReader:
    """State: the part of each open block, the resting part, and citations and results that wait for their end."""

    def __init__(self, ledger: Ledger, names: dict[str, str]) -> None:
        self._ledger = ledger
        self._names = names  # of calls, by id
        self._parts: dict[int, int] = {}  # block index → key of its part
        self._resting: int | None = None  # key of the resting part
        self._last_text: int | None = None  # event index of the last text part
        self._is_cited = False  # the last text part has citations
        self._citations: dict[int, list[dict[str, Any]]] = {}
        self._results: dict[int, wire.ToolResultBlock] = {}
        self._formats: dict[int, str] = {}

    # ── start, delta, stop ────────────────────────────────────────────────────────────────────────

    def start_block(self, index: int, start: dict[str, Any]) -> bool:
        """Starts a block. Returns False if its kind is unknown. Text has no start."""
        if index in self._parts or index in self._results:
            self.stop_block(index)
        if "toolUse" in start:
            self._open_call(index, convert_pruned(start["toolUse"], wire.ToolUseBlock)[0])
        elif "toolResult" in start:
            self._close_resting()
            self._results[index] = convert_pruned(start["toolResult"], wire.ToolResultBlock)[0]
        elif "image" in start:
            self._formats[index] = lenient.get_text(lenient.get_object(start, "image"), "format")
        else:
            return not start or "text" in start
        return True

    def append_delta(self, index: int, delta: wire.ConverseDelta) -> bool:
        """Continues a block. Returns False if the delta's kind is unknown."""
        if self._resting is not None and index in self._parts:
            self._close_resting()
        if delta.text is not None:
            self._append_text(index, delta.text)
        elif delta.toolUse is not None:
            self._append_input(index, delta.toolUse.input or "")
        elif delta.reasoningContent is not None:
            self._append_reasoning(index, delta.reasoningContent)
        elif delta.citation is not None:
            if index in self._parts:
                self._add_source(delta.citation)
            else:  # before the text of its block (Claude), or in a block after it (Nova)
                self._citations.setdefault(index, []).append(delta.citation)
        elif delta.toolResult is not None:
            result = self._results.setdefault(index, wire.ToolResultBlock())
            result.content = [*(result.content or ()), *delta.toolResult]
        elif delta.image is not None:
            self._append_file(index, f"image/{self._formats.get(index) or '*'}", delta.image)
        else:
            return False
        return True

    def stop_block(self, index: int, *, partial: bool = False) -> None:
        """Ends a block, or lets it rest."""
        result = self._results.pop(index, None)
        if result is not None:
            self._add_result(result, partial=partial)
        for citation in self._citations.pop(index, ()):
            self._add_source(citation)
        key = self._parts.pop(index, None)
        if key is None or self._ledger.find(key) is None or self._resting == key:
            return
        self._close_resting()
        if self._may_continue(key):
            self._resting = key
        else:
            self._ledger.close(key)

    def close_all(self, *, partial: bool = False) -> None:
        """Delivers what waits when the message ends. The ledger closes the parts."""
        for index in [*self._results, *self._citations]:
            self.stop_block(index, partial=partial)
        self._resting = None

    def _may_continue(self, key: int) -> bool:
        part = self._ledger.find(key)
        if part is None:
            return False
        if part.is_call:
            return not part.pieces and not part.given and not part.muted
        return part.delta is not ev.FileDelta and part.extra is None

    def _close_resting(self) -> None:
        """Closes the resting part, because something else begins."""
        if self._resting is not None:
            self._ledger.close(self._resting)
            self._resting = None

    def _resume(self, index: int, delta: type[ev.Event]) -> bool:
        """Continues the resting part in this block if it is of the same kind."""
        part = None if self._resting is None else self._ledger.find(self._resting)
        if part is None or part.delta is not delta or self._resting is None:
            return False
        self._parts[index], self._resting = self._resting, None
        return True

    # ── text, reasoning, citations ────────────────────────────────────────────────────────────────

    def _append_text(self, index: int, text: str) -> None:
        key = self._parts.get(index)
        if key is None:
            if not text and index not in self._citations:
                return
            key = self._open_text(index)
        self._ledger.append_text(key, text)

    def _open_text(self, index: int) -> int:
        waiting = self._citations.pop(index, ())
        if waiting or self._is_cited or not self._resume(index, ev.TextDelta):
            self._close_resting()
            self._parts[index], self._is_cited = index, bool(waiting)
            part = self._ledger.open_text(index)
            self._last_text = part.index if part else None
        for citation in waiting:
            self._add_source(citation)
        return self._parts[index]

    def _append_reasoning(self, index: int, content: wire.ReasoningContent) -> None:
        """Appends text, or state that the next request must echo: a signature, or redacted reasoning."""
        redacted = content.redactedContent
        if index not in self._parts and (redacted or not self._resume(index, ev.ReasoningDelta)):
            self._close_resting()
            self._parts[index] = index
            self._ledger.open_reasoning(index, form="redacted" if redacted else "full")
        key = self._parts[index]
        self._ledger.append_text(key, content.text or "")
        part = self._ledger.find(key)
        if part is not None and content.signature:
            part.extra = _append_state(part.extra, "signature", content.signature)
        if part is not None and redacted:
            part.extra = _append_state(part.extra, "redactedContent", redacted)

    def _add_source(self, citation: dict[str, Any]) -> None:
        self._is_cited = True
        web = lenient.get_object(lenient.get_object(citation, "location"), "web")
        source = lenient.get_text(citation, "source")
        url = lenient.get_text(web, "url") or (source if "://" in source else "")
        quote = "".join(lenient.get_text(row, "text") for row in lenient.get_objects(citation, "sourceContent"))
        title = lenient.get_text(citation, "title") or lenient.get_text(web, "domain")
        of = self._last_text
        self._ledger.cite((of, citation), url, title, of, None, quote, "", "", "", {NAME: citation})

    # ── calls and results ─────────────────────────────────────────────────────────────────────────

    def _open_call(self, index: int, call: wire.ToolUseBlock) -> None:
        self._close_resting()
        call_id, name = call.toolUseId or f"call_{self._ledger.id_prefix}_{index}", call.name or ""
        by: By = "client" if call.type in _CLIENT_TYPES else "provider"
        given = "" if call.input is None else as_json(call.input)
        extra: Extra | None = {NAME: {"type": call.type}} if by == "provider" else None
        self._names[call_id] = name
        self._parts[index] = index
        self._ledger.open_call(index, call_id, name, by=by, given=given, extra=extra)

    def _append_input(self, index: int, json: str) -> None:
        key = self._parts.get(index)
        if key is None:
            self._ledger.diagnostics.add("no-block", "input of a call that never began is ignored")
        else:
            self._ledger.append_call_input(key, json)

    def _add_result(self, result: wire.ToolResultBlock, *, partial: bool = False) -> None:
        self._close_resting()
        call, kind, status = result.toolUseId or "", result.type or "", result.status or ""
        name = self._names.get(call) or kind.removesuffix("_result")
        json, extra = as_json(result.content or []), {NAME: {"type": kind, "status": status}}
        self._ledger.add_whole_part(ev.Result, call, name, json, status == "error", partial, extra)

    # ── files and complete blocks ─────────────────────────────────────────────────────────────────

    def _append_file(self, index: int, media: str, content: wire.MediaContent) -> None:
        if index not in self._parts:
            self._close_resting()
            self._parts[index] = index
            url = lenient.get_text((content.source and content.source.s3Location) or {}, "uri")
            extra: Extra | None = {NAME: {"error": content.error}} if content.error else None
            self._ledger.open_file(index, media, url, extra=extra)
        self._ledger.append_text(self._parts[index], (content.source and content.source.data) or "")

    def read_block(self, index: int, raw: dict[str, Any]) -> None:
        """Reads a block of a non-stream answer."""
        block: wire.ConverseBlock = convert_pruned(raw, wire.ConverseBlock)[0]
        if block.text is not None:
            self._append_text(index, block.text)
        elif block.toolUse is not None:
            self._open_call(index, block.toolUse)
        elif (reasoning := block.reasoningContent) is not None:
            text = reasoning.reasoningText or wire.ReasoningText()
            content = wire.ReasoningContent(text.text, text.signature, reasoning.redactedContent)
            self._append_reasoning(index, content)
        elif (cited := block.citationsContent) is not None:
            self._citations[index] = list(cited.citations or ())
            self._append_text(index, "".join(lenient.get_text(row, "text") for row in cited.content or ()))
        elif block.toolResult is not None:
            self._add_result(block.toolResult)
        else:
            self._read_file_block(index, block, raw)
        self.stop_block(index)

    def _read_file_block(self, index: int, block: wire.ConverseBlock, raw: dict[str, Any]) -> None:
        """Reads an image, audio or video. A block of an unknown kind becomes opaque."""
        for kind in ("image", "audio", "video"):
            content: wire.MediaContent | None = getattr(block, kind)
            if content is not None:
                self._append_file(index, f"{kind}/{content.format or '*'}", content)
                return
        self._close_resting()
        self._ledger.add_whole_part(ev.Opaque, NAME, next(iter(raw), ""), raw)


def _append_state(extra: Extra | None, key: str, more: str) -> Extra:
    """Returns extra data with more of the state under `key`."""
    own = (extra or {}).get(NAME, {})
    join = _join_base64 if key == "redactedContent" else str.__add__
    return {NAME: {**own, key: join(own[key], more) if key in own else more}}


def _join_base64(first: str, second: str) -> str:
    """Joins two base64 strings. Each may end in padding."""
    try:
        return b2a_base64(a2b_base64(first) + a2b_base64(second), newline=False).decode()
    except (NotBase64, ValueError):
        return first + second
