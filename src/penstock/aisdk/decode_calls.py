"""Calls and their answers in AI SDK streams, written into a ledger. Knows nothing of text, steps and ends.

A call streams its input, or comes whole, or both: the whole one has the last word. A call that the SDK or a page
refused (`invalid`, `tool-input-error`) is cut however complete its input is.

Whose a call is, is said late: by the whole call (`providerExecuted`), or by an answer in the same step, which means
that the SDK ran it and nobody else may. A fragment once sent on cannot be taken back, so a call is held until one of
these comes or its step ends: what nobody upstream has run by then is the client's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.aisdk import OURS, SDK, encoded, own, read_metadata, wire
from penstock.jsontext import complete_json, decode_or_keep_raw, is_json

if TYPE_CHECKING:
    from penstock.events import By, CallForm, Extra
    from penstock.ledger import Ledger, Part

_MARKS = {"dynamic": "dynamic", "title": "title", "tool_metadata": "toolMetadata"}


def _extra(chunk: wire.CallChunk, **more: Any) -> Extra:
    """The chunk's metadata, and what else a like-minded reader wants back."""
    marks = {word: value for name, word in _MARKS.items() if (value := getattr(chunk, name))}
    said = {key: value for key, value in more.items() if value}
    extra = read_metadata(chunk.provider_metadata)
    if marks or said:
        extra.setdefault(SDK, {}).update(marks, **said)
    return extra


def _key(call: str) -> tuple[str, str]:
    return ("call", call)


class Held:
    """A call that streams and may yet turn out to be the provider's."""

    __slots__ = ("form", "pieces", "start", "whole")

    def __init__(self, start: wire.CallChunk, form: CallForm) -> None:
        self.start = start
        self.form: CallForm = form
        self.pieces: list[str] = []
        self.whole: wire.WholeCall | None = None


class Tools:
    """The calls of one turn: their names, those held, which of the client's were handed out, which were refused.

    Methods give False for a chunk that says too little to be read.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._names: dict[str, str] = {}
        self._held: dict[str, Held] = {}
        self._due: set[str] = set()  # delivered to the client, not answered yet
        self._unanswered: set[str] = set()  # calls of the client, whole or not, that have no answer yet
        self._refused: set[str] = set()

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def open(self, chunk: wire.OpenCall) -> bool:
        if not chunk.call or chunk.tool_name is None:
            return False
        ours = lenient.get_object(lenient.as_object(chunk.provider_metadata), OURS)
        form: CallForm = "text" if "text" in (chunk.input_encoding, ours.get("form")) else "json"
        if chunk.provider_executed:
            self._open(chunk, form)
        else:
            self._hold(chunk, form)
        return True

    def _open(self, chunk: wire.CallChunk, form: CallForm, *, sdk: bool = False) -> Part | None:
        call, name = chunk.call, chunk.tool_name or self._names.get(chunk.call, "")
        self._names[call] = name
        by: By = "provider" if chunk.provider_executed or sdk else "client"
        if by == "client":
            self._unanswered.add(call)
        return self._ledger.open_call(_key(call), call, name, by=by, form=form, extra=_extra(chunk, sdk=sdk) or None)

    def _hold(self, chunk: wire.CallChunk, form: CallForm) -> None:
        if chunk.call not in self._held and not self._ledger.has_call(chunk.call):
            self._names[chunk.call] = chunk.tool_name or ""
            self._held[chunk.call] = Held(chunk, form)

    def add(self, chunk: wire.CallPiece) -> bool:
        piece = chunk.delta
        if piece is None:
            piece = chunk.input_text_delta if chunk.input_text_delta is not None else chunk.args_text_delta
        if piece is None or not chunk.call:
            return False
        is_open = self._ledger.find(_key(chunk.call)) is not None
        if not is_open and chunk.tool_name:
            self._hold(chunk, "json")
        held = self._held.get(chunk.call)
        if held is not None:
            held.pieces.append(piece)
        elif not is_open:
            self._ledger.diagnostics.add("orphan-delta", "a fragment of a call that is not open is left out")
        self._ledger.append_call_input(_key(chunk.call), piece)
        return True

    def whole(self, chunk: wire.WholeCall, *, refused: bool = False) -> bool:
        """The call as a whole, with the last word on its input."""
        call = chunk.call
        if not call or (chunk.tool_name is None and call not in self._names):
            return False
        chunk.invalid = refused or bool(chunk.invalid)
        part = self._ledger.find(_key(call))
        if part is not None or self._ledger.has_call(call):
            self._finish(chunk, part)
            said = _said(chunk)
            if part is None and said is not UNSET and said is not None:
                self._ledger.note_later_input(call, said if isinstance(said, str) else encoded(said))
            return True
        self._hold(chunk, "text" if _is_text(_said(chunk)) else "json")
        held = self._held[call]
        if held.whole is not None and _said(held.whole) != _said(chunk):
            self._ledger.diagnostics.add(
                "conflict", f"call {call!r} came again with another input; the last one counts"
            )
        held.whole = chunk
        if chunk.provider_executed or chunk.invalid:
            self._hand_out(call, upstream=_is_settled(chunk))
        return True

    def _hand_out(self, call: str, *, upstream: bool = False) -> None:
        """Open a call that was held, for whose it is is known now, and end it if it is whole."""
        held = self._held.pop(call, None)
        if held is None:
            return
        said, chunk = held.whole, held.start
        chunk.provider_executed = bool(said and said.provider_executed) or bool(chunk.provider_executed)
        part = self._open(chunk, held.form, sdk=upstream and not chunk.provider_executed)
        for piece in held.pieces:
            self._ledger.append_call_input(_key(call), piece)
        if said is not None:
            self._finish(said, part)

    def release(self) -> None:
        """Open all calls that are held: what nobody upstream has run by now is the client's."""
        for call in list(self._held):
            self._hand_out(call)

    def next_step(self) -> None:
        """A step is over. Ids are unique within a step: the next one may use them for other calls."""
        self._ledger.forget_calls(self._unanswered)
        self._refused.clear()

    def _finish(self, chunk: wire.WholeCall, part: Part | None) -> None:
        if part is None:
            return
        part.void = bool(chunk.invalid)
        if part.void:
            self._refused.add(chunk.call)
        extra = _extra(chunk, sdk=own(part.extra).get("sdk"))
        self._end(chunk.call, part, _said(chunk), extra)

    def _end(self, call: str, part: Part, said: Any, extra: Extra) -> None:
        before = self._ledger.calls
        self._ledger.end_call(_key(call), _input(part, said), extra=extra or None, whole=not part.void)
        if self._ledger.calls > before:
            self._due.add(call)

    def cut(self, error: lenient.Object, mint: str) -> None:
        """Version 4 has no chunk for a call it refuses, only an error that names the tool."""
        name, known = lenient.get_text(error, "toolName"), lenient.get_text(error, "toolCallId")
        call = known or next((call for call in self._held if self._names[call] == name), mint)
        given = error.get("toolArgs", error.get("toolInput"))
        ours = {OURS: {"cut": "client"}} if known else None
        self.whole(wire.ToolCall(tool_call_id=call, tool_name=name, input=given, provider_metadata=ours), refused=True)

    def void(self) -> None:
        """No call that is open may be run."""
        for call in list(self._held):
            self._hand_out(call, upstream=True)
        for call in self._names:
            part = self._ledger.find(_key(call))
            if part is not None:
                part.void = True

    # ── answers ───────────────────────────────────────────────────────────────────────────────────

    def answer(self, chunk: wire.Answer, *, failed: bool = False, denied: bool = False) -> bool:
        call = chunk.call
        if not call:
            return False
        if chunk.invalid and chunk.tool_name is not None and call not in self._names:
            return self.whole(chunk, refused=True)
        self._close(chunk, failed=failed)
        if chunk.invalid or (failed and call in self._refused):
            return True  # the refusal once more, in other words
        said = next((value for value in (chunk.output, chunk.result) if value is not UNSET), None)
        if failed:
            said = chunk.error_text if chunk.error_text is not None else chunk.error
        partial = bool(chunk.preliminary)
        if not partial:
            self._unanswered.discard(call)
        if not partial and call in self._due:
            self._due.discard(call)
            self._ledger.calls -= 1
        name = chunk.tool_name or self._names.get(call, "")
        extra = _extra(chunk, denied=denied) or None
        self._ledger.add_whole_part(
            ev.Result, call, name, encoded(said), failed or bool(chunk.is_error), partial, extra
        )
        return True

    def _close(self, chunk: wire.Answer, *, failed: bool) -> None:
        """End the call that is answered, if it is still open: nobody has to run it any more."""
        held = self._held.get(chunk.call)
        if held is not None:
            held.start.provider_executed = chunk.provider_executed
            self._hand_out(chunk.call, upstream=_is_settled(chunk) if chunk.invalid else True)
        part = self._ledger.find(_key(chunk.call))
        if part is None:
            return
        said = _said(chunk)
        part.void = failed or (said is UNSET and complete_json(part.streamed_text) is None)
        if part.void and chunk.invalid:
            self._refused.add(chunk.call)
        self._end(chunk.call, part, said, {})

    def ask(self, chunk: wire.ToolApprovalRequest, via: str) -> bool:
        call = chunk.call or lenient.get_text(lenient.as_object(chunk.tool_call), "toolCallId")
        if not call or not chunk.approval_id:
            return False
        self._hand_out(call, upstream=True)
        extra = _extra(chunk, via=via, reason=chunk.reason, automatic=chunk.is_automatic, signature=chunk.signature)
        self._ledger.add_whole_part(ev.Ask, call, chunk.approval_id, extra)
        return True


def _said(chunk: wire.WholeCall) -> Any:
    return chunk.args if chunk.input is UNSET else chunk.input


def _is_settled(chunk: wire.WholeCall) -> bool:
    """Whether a refused call is so complete that a client could run it: the SDK has answered it, nobody else may."""
    ours, said = lenient.get_object(lenient.as_object(chunk.provider_metadata), OURS), _said(chunk)
    if "cut" in ours or not chunk.invalid:
        return ours.get("cut") == "provider"
    return said is not UNSET and (not isinstance(said, str) or complete_json(said) is not None)


def _is_text(said: Any) -> bool:
    """Whether an input is the free text of a custom tool: JSON text that holds a string."""
    return isinstance(said, str) and said.lstrip().startswith('"') and is_json(said)


def _input(part: Part, said: Any) -> str | None:
    """The last word on a call's input as JSON text (or free text); None where the fragments say the same."""
    if said is UNSET or said is None:
        return None
    if part.form == "text":
        return str(msgspec.json.decode(said)) if _is_text(said) else said if isinstance(said, str) else encoded(said)
    if isinstance(said, str):
        return said
    streamed = complete_json(part.streamed_text) if part.streamed_text else None
    return None if streamed is not None and decode_or_keep_raw(streamed) == said else encoded(said)
