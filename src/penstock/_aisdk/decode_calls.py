"""Tool calls and their results in AI SDK streams → events.

A call streams its input, or comes complete, or both; then the complete one decides. A call that the SDK or a page
refused (`invalid`, `tool-input-error`) is cut, however complete its input is.

The stream says late who runs a call: the complete call does (`providerExecuted`), or a result in the same step, which
means that the SDK ran it. An event cannot be taken back, so a call is held until one of these comes or its step ends.
Calls that nobody ran by then are the client's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._aisdk import PENSTOCK, SDK, our_fields, read_metadata, sdk_extra, to_json_text, wire
from penstock._lenient_json import as_json, complete_json, decode_unless_too_deep, is_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._ledger import Ledger, LedgerPart
    from penstock._lenient_fields import Object
    from penstock.events import By, CallForm, Extra

_KEPT_FIELDS = {"dynamic": "dynamic", "title": "title", "tool_metadata": "toolMetadata"}


def _call_extra(chunk: wire.CallChunk, **more: Any) -> Extra:
    """Returns the chunk's metadata and the fields that another AI SDK reader wants back."""
    fields = {name: value for key, name in _KEPT_FIELDS.items() if (value := getattr(chunk, key))}
    fields.update({key: value for key, value in more.items() if value})
    extra = read_metadata(chunk.provider_metadata)
    if fields:
        extra.setdefault(SDK, {}).update(fields)
    return extra


def _part_key(call: str) -> tuple[str, str]:
    return ("call", call)


@dataclass(slots=True)
class HeldCall:
    """A call that streams and may still turn out to be the provider's."""

    start: wire.CallChunk
    form: CallForm
    deltas: list[str] = field(default_factory=list[str])
    complete: wire.CompleteCallChunk | None = None


class SdkCallReader:
    """Reads the calls of one turn into a ledger. Methods return False for a chunk that has too few fields."""

    def __init__(self, ledger: Ledger, protocol: str) -> None:
        self._ledger = ledger
        self._protocol = protocol
        self._names: dict[str, str] = {}
        self._held_calls: dict[str, HeldCall] = {}
        self._delivered: set[str] = set()  # calls of the client, complete, without a result yet
        self._unanswered: set[str] = set()  # calls of the client, complete or not, without a result yet
        self._refused: set[str] = set()

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def start(self, chunk: wire.CallStartChunk) -> bool:
        if not chunk.call or chunk.tool_name is None:
            return False
        forms = (chunk.input_encoding, our_fields(chunk.provider_metadata).get("form"))
        form: CallForm = "text" if "text" in forms else "json"
        if chunk.provider_executed:
            self._open_call(chunk, form)
        else:
            self._hold_call(chunk, form)
        return True

    def _open_call(self, chunk: wire.CallChunk, form: CallForm, *, sdk: bool = False) -> LedgerPart | None:
        call, name = chunk.call, chunk.tool_name or self._names.get(chunk.call, "")
        self._names[call] = name
        by: By = "provider" if chunk.provider_executed or sdk else "client"
        if by == "client":
            self._unanswered.add(call)
        extra = _call_extra(chunk, sdk=sdk) or None
        return self._ledger.open_call(_part_key(call), call, name, by=by, form=form, extra=extra)

    def _hold_call(self, chunk: wire.CallChunk, form: CallForm) -> None:
        if chunk.call not in self._held_calls and not self._ledger.has_call(chunk.call):
            self._names[chunk.call] = chunk.tool_name or ""
            self._held_calls[chunk.call] = HeldCall(chunk, form)

    def add_delta(self, chunk: wire.CallPiece) -> bool:
        delta = chunk.delta
        if delta is None:
            delta = chunk.input_text_delta if chunk.input_text_delta is not None else chunk.args_text_delta
        if delta is None or not chunk.call:
            return False
        is_open = self._ledger.find(_part_key(chunk.call)) is not None
        if not is_open and chunk.tool_name:
            self._hold_call(chunk, "json")
        held_call = self._held_calls.get(chunk.call)
        if held_call is not None:
            held_call.deltas.append(delta)
        elif not is_open:
            self._ledger.diagnostics.add("orphan-delta", "an input delta of a call that is not open is left out")
        self._ledger.append_call_input(_part_key(chunk.call), delta)
        return True

    def refuse(self, chunk: wire.CompleteCallChunk) -> bool:
        """Reads a complete call that must not run."""
        chunk.invalid = True
        return self.complete(chunk)

    def complete(self, chunk: wire.CompleteCallChunk) -> bool:
        """Reads a complete call; its input replaces the streamed one."""
        call = chunk.call
        if not call or (chunk.tool_name is None and call not in self._names):
            return False
        part = self._ledger.find(_part_key(call))
        if part is not None or self._ledger.has_call(call):
            self._finish_call(chunk, part)
            value = _chunk_input(chunk)
            if part is None and value is not UNSET and value is not None:
                self._ledger.note_later_input(call, value if isinstance(value, str) else to_json_text(value))
            return True
        self._hold_call(chunk, "text" if _is_free_text(_chunk_input(chunk)) else "json")
        held_call = self._held_calls[call]
        if held_call.complete is not None and _chunk_input(held_call.complete) != _chunk_input(chunk):
            self._ledger.diagnostics.add(
                "conflict", f"call {call!r} came again with another input; the last one counts"
            )
        held_call.complete = chunk
        if chunk.provider_executed or chunk.invalid:
            self._release_call(call, upstream=_is_run_upstream(chunk))
        return True

    def _release_call(self, call: str, *, upstream: bool = False) -> None:
        """Opens a held call, because it is known now who runs it, and ends it if it is complete."""
        held_call = self._held_calls.pop(call, None)
        if held_call is None:
            return
        complete, chunk = held_call.complete, held_call.start
        chunk.provider_executed = bool(complete and complete.provider_executed) or bool(chunk.provider_executed)
        part = self._open_call(chunk, held_call.form, sdk=upstream and not chunk.provider_executed)
        for delta in held_call.deltas:
            self._ledger.append_call_input(_part_key(call), delta)
        if complete is not None:
            self._finish_call(complete, part)

    def release_all(self) -> None:
        """Opens all held calls: those that nobody upstream has run are the client's."""
        for call in list(self._held_calls):
            self._release_call(call)

    def next_step(self) -> None:
        """Starts a step. Call ids are unique within a step only."""
        self._ledger.forget_calls(self._unanswered)
        self._refused.clear()

    def _finish_call(self, chunk: wire.CompleteCallChunk, part: LedgerPart | None) -> None:
        if part is None:
            return
        part.void = bool(chunk.invalid)
        if part.void:
            self._refused.add(chunk.call)
        self._end_call(chunk.call, part, _chunk_input(chunk), _call_extra(chunk, sdk=sdk_extra(part.extra).get("sdk")))

    def _end_call(self, call: str, part: LedgerPart, value: Any, extra: Extra) -> None:
        before = self._ledger.calls
        self._ledger.end_call(_part_key(call), _final_input(part, value), extra=extra or None, whole=not part.void)
        if self._ledger.calls > before:
            self._delivered.add(call)

    def refuse_by_error(self, error: Object, new_id: str) -> None:
        """Reads version 4's error for a call that it refuses. It names the tool; there is no other chunk."""
        name, call_id = lenient.get_text(error, "toolName"), lenient.get_text(error, "toolCallId")
        call = call_id or next((call for call in self._held_calls if self._names[call] == name), new_id)
        value = error.get("toolArgs", error.get("toolInput"))
        ours = {PENSTOCK: {"cut": "client"}} if call_id else None
        chunk = wire.CompleteCallChunk(tool_call_id=call, tool_name=name, input=value, provider_metadata=ours)
        self.refuse(chunk)

    def void_all(self) -> None:
        """Makes sure that no open call is run."""
        for call in list(self._held_calls):
            self._release_call(call, upstream=True)
        for call in self._names:
            part = self._ledger.find(_part_key(call))
            if part is not None:
                part.void = True

    # ── results ───────────────────────────────────────────────────────────────────────────────────

    def add_failure(self, chunk: wire.CallResultChunk) -> bool:
        return self.add_result(chunk, failed=True)

    def add_denial(self, chunk: wire.CallResultChunk) -> bool:
        if chunk.error_text is None:
            chunk.error_text = "denied"
        return self.add_result(chunk, failed=True, denied=True)

    def add_result(self, chunk: wire.CallResultChunk, *, failed: bool = False, denied: bool = False) -> bool:
        call = chunk.call
        if not call:
            return False
        if chunk.invalid and chunk.tool_name is not None and call not in self._names:
            return self.refuse(chunk)
        self._close_answered(chunk, failed=failed)
        if chunk.invalid or (failed and call in self._refused):
            return True  # repeats the refusal
        output = next((value for value in (chunk.output, chunk.result) if value is not UNSET), None)
        if failed:
            output = chunk.error_text if chunk.error_text is not None else chunk.error
        partial = bool(chunk.preliminary)
        if not partial:
            self._unanswered.discard(call)
        if not partial and call in self._delivered:
            self._delivered.discard(call)
            self._ledger.calls -= 1
        name = chunk.tool_name or self._names.get(call, "")
        extra = _call_extra(chunk, denied=denied) or None
        self._ledger.add_whole_part(
            ev.Result, call, name, to_json_text(output), failed or bool(chunk.is_error), partial, extra
        )
        return True

    def _close_answered(self, chunk: wire.CallResultChunk, *, failed: bool) -> None:
        """Ends the call that this result answers, if it is still open."""
        held_call = self._held_calls.get(chunk.call)
        if held_call is not None:
            held_call.start.provider_executed = chunk.provider_executed
            self._release_call(chunk.call, upstream=_is_run_upstream(chunk) if chunk.invalid else True)
        part = self._ledger.find(_part_key(chunk.call))
        if part is None:
            return
        value = _chunk_input(chunk)
        part.void = failed or (value is UNSET and complete_json(part.streamed_text) is None)
        if part.void and chunk.invalid:
            self._refused.add(chunk.call)
        self._end_call(chunk.call, part, value, {})

    def request_approval(self, chunk: wire.ApprovalChunk) -> bool:
        call = chunk.call or lenient.get_text(lenient.as_object(chunk.tool_call), "toolCallId")
        if not call or not chunk.approval_id:
            return False
        self._release_call(call, upstream=True)
        more = {"reason": chunk.reason, "automatic": chunk.is_automatic, "signature": chunk.signature}
        self._ledger.add_whole_part(ev.Ask, call, chunk.approval_id, _call_extra(chunk, via=self._protocol, **more))
        return True


def _chunk_input(chunk: wire.CompleteCallChunk) -> Any:
    return chunk.args if chunk.input is UNSET else chunk.input


def _is_run_upstream(chunk: wire.CompleteCallChunk) -> bool:
    """True if a refused call is complete enough to run: then the SDK has answered it, and nobody else may run it."""
    ours, value = our_fields(chunk.provider_metadata), _chunk_input(chunk)
    if "cut" in ours or not chunk.invalid:
        return ours.get("cut") == "provider"
    return value is not UNSET and (not isinstance(value, str) or complete_json(value) is not None)


def _is_free_text(value: Any) -> bool:
    """True if an input is the free text of a custom tool: JSON text that holds a string."""
    return isinstance(value, str) and value.lstrip().startswith('"') and is_json(value)


def _final_input(part: LedgerPart, value: Any) -> str | None:
    """Returns a call's final input as JSON text (or free text); None if the deltas have the same value."""
    if value is UNSET or value is None:
        return None
    if part.form == "text" and _is_free_text(value):
        return str(msgspec.json.decode(value))
    if isinstance(value, str):
        return value
    streamed = complete_json(part.streamed_text) if part.streamed_text and part.form != "text" else None
    return None if streamed is not None and decode_unless_too_deep(streamed) == value else to_json_text(value)


# ── calls in non-stream bodies ────────────────────────────────────────────────────────────────────


def tool_part_chunks(kind: str, part: Object) -> Iterator[Object]:
    """Yields the chunks that led to a tool part's state."""
    state = lenient.get_text(part, "state")
    keys = ("toolCallId", "providerExecuted", "title", "toolMetadata")
    fields: Object = {key: part[key] for key in keys if part.get(key) is not None}
    fields["toolName"] = lenient.get_text(part, "toolName") or kind.removeprefix("tool-")
    fields["dynamic"] = kind == "dynamic-tool"
    if state == "input-streaming":
        yield {**fields, "type": "tool-input-start"}
        yield {**fields, "type": "tool-input-delta", "inputTextDelta": lenient.get_text(part, "rawInput")}
        return
    call = {**fields, "input": body_call_input(part), "providerMetadata": part.get("callProviderMetadata")}
    error = lenient.get_text(part, "errorText")
    if state == "output-error" and part.get("input") is None:
        yield {**call, "type": "tool-input-error", "input": part.get("rawInput"), "errorText": error}
        return
    yield {**call, "type": "tool-input-available"}
    approval = lenient.get_object(part, "approval")
    if "id" in approval:
        yield {
            "type": "tool-approval-request",
            "toolCallId": fields.get("toolCallId"),
            "approvalId": approval["id"],
        }
    result = {**fields, "providerMetadata": part.get("resultProviderMetadata")}
    if state == "output-available":
        preliminary = part.get("preliminary")
        yield {**result, "type": "tool-output-available", "output": part.get("output"), "preliminary": preliminary}
    elif state == "output-error":
        yield {**result, "type": "tool-output-error", "errorText": error}


def body_call_input(part: Object) -> Any:
    """Returns a call's input. In a body it is a value, so a string is free text, not JSON."""
    value = part.get("input")
    return as_json(value) if isinstance(value, str) else value
