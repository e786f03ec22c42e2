"""Turns, steps, usage, ends, errors and metadata of AI SDK streams → events. `decode` adds the parts.

A step's end closes all parts, because the next step may use their ids again. An `error` chunk is held until the stream
ends, because usage follows it. It is a fault even if the stream then ends normally.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._aisdk import FINISH_REASONS, SDK, add_metadata_counts, read_metadata, read_usage, to_json_text, wire
from penstock._aisdk.decode_calls import SdkCallReader
from penstock._codec import Decoder
from penstock._fold import sum_usage
from penstock._http_errors import MESSAGE_CHARACTERS, REQUEST_ID_HEADERS, retry_after
from penstock._ledger import CUT_OFF
from penstock._lenient_json import parse_lenient
from penstock._redaction import redact, redact_cut, redact_headers, redact_json
from penstock._vendor_errors import classify_fault, fault_kind
from penstock.events import Extra, FaultKind

if TYPE_CHECKING:
    from collections.abc import Hashable

    from penstock._lenient_fields import Object

_EVENT_METADATA = frozenset({"model", "createdAt", "usage", "rawFinishReason", "finishReason"})  # read into events
_COUNT_METADATA = frozenset({"usage", "cacheCreationInputTokens", "cacheReadInputTokens"})  # read as usage
_REFUSED_CALL_ERRORS = frozenset({"AI_InvalidToolArgumentsError", "AI_InvalidToolInputError", "AI_NoSuchToolError"})


class TurnDecoder(Decoder):
    """State: the open part without an id, the calls, the step, the held error, the extra data of the finish."""

    shape = wire.Payload
    read = staticmethod(msgspec.json.Decoder(wire.Payload).decode)
    prune = False

    def __init__(self, *, version: str = "") -> None:
        """Ignores `version`: spellings never clash, so every version is read."""
        super().__init__()
        self._reset()

    def _reset(self) -> None:
        self._unnamed_key: Hashable = None
        self._calls = SdkCallReader(self.ledger, self.protocol)
        self._step = 0
        self._step_ended = False  # and no other step has started
        self._fault: Object | None = None
        self._finish_extra: Object = {}
        self._raw_reason = ""
        self._text_indexes: dict[str, int] = {}
        self._step_usages: dict[int, tuple[ev.Usage, ev.Usage]] = {}  # as sent, and with the counts of the metadata

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _begin_turn(
        self, id: str = "", model: str = "", created: int | None = None, extra: Extra | None = None
    ) -> None:
        """Starts a turn. Inside an unfinished turn this only closes the open parts."""
        if self.ledger.is_open:
            self._close_parts()
        elif self.ledger.turns:
            self._reset()
        self.ledger.start(id, model, created, extra)

    def _read_start(self, chunk: wire.StartChunk) -> None:
        metadata = lenient.as_object(chunk.message_metadata)
        model, created = lenient.get_text(metadata, "model"), lenient.get_integer(metadata, "createdAt")
        rest = {key: value for key, value in metadata.items() if key not in _EVENT_METADATA}
        extra = {SDK: {"messageMetadata": rest}} if rest else None
        if self.ledger.is_open:
            self._release_fault()  # another answer starts: a held error ended the one before
        self._begin_turn(chunk.message_id or "", model, None if created is None else created // 1000, extra)

    def _read_stream_start(self, chunk: wire.StreamStartChunk) -> None:
        """Starts `doStream`. The next chunk names id and model, so the turn waits for it."""
        if self.ledger.ended:
            self._begin_turn()
        self._report_warnings(chunk.warnings)

    def _read_response(self, chunk: wire.ResponseChunk) -> None:
        if not self.ledger.is_open and not self.ledger.ended:
            self._begin_turn(chunk.id or "", chunk.model_id or "", _to_seconds(chunk.timestamp))
        else:
            self._remember_response({"id": chunk.id, "modelId": chunk.model_id, "timestamp": chunk.timestamp})

    def _remember_response(self, response: Any) -> None:
        fields = lenient.as_object(response)
        known = {key: text for key in ("id", "modelId", "timestamp") if (text := lenient.get_text(fields, key))}
        if known:
            self._finish_extra["response"] = {**self._finish_extra.get("response", {}), **known}

    def _report_warnings(self, warnings: Any) -> None:
        for warning in warnings if isinstance(warnings, list) else ():  # pyright: ignore[reportUnknownVariableType]
            self.diagnostics.add("upstream-warning", to_json_text(warning)[:200])

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────

    def _read_step_start(self, chunk: wire.StepStartChunk, *, begins_turn: bool = False) -> None:
        if not self.ledger.is_open and (begins_turn or not self.ledger.ended):
            self._begin_turn(chunk.message_id or "")
        self._report_warnings(chunk.warnings)
        if self._step:  # parts before the start of the first step belong to it
            self._close_parts()
        self._next_step()

    def _read_step_start_v4(self, chunk: wire.StepStartChunk) -> None:
        """Version 4 has no `start` chunk: a step after the end of a turn starts another turn."""
        self._read_step_start(chunk, begins_turn=True)

    def _next_step(self) -> None:
        """Starts a step. It may use the call ids of earlier steps again."""
        self._step += 1
        self._step_ended = False
        if self._step > 1:
            self._calls.next_step()
            if self._step == 2 and self._step_usages:  # noqa: PLR2004 (the usage of a single step is the turn's)
                self.ledger.usage(self._step_usages[1][1])
            self.ledger.step(self._step)

    def _read_step_end(self, chunk: wire.FinishChunk) -> None:
        if self.ledger.ended:
            return
        self._close_parts(complete=FINISH_REASONS.get(_finish_reason(chunk)) not in CUT_OFF)
        if not self._step or self._step_ended:
            self._next_step()  # a `start-step` may be left out
        self._step_ended = True
        self._remember_response(chunk.response)
        self._read_finish_metadata(chunk)
        usage = read_usage(chunk.usage, self._step)
        if usage is not None:
            self._step_usages[usage.step] = (usage, add_metadata_counts(usage, chunk.provider_metadata))
            if usage.step > 1:
                self.ledger.usage(self._step_usages[usage.step][1])

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def _read_finish(self, chunk: wire.FinishChunk) -> None:
        self._remember_response(chunk.response)
        self._read_finish_metadata(chunk)
        usage = read_usage(chunk.usage if chunk.total_usage is None else chunk.total_usage)
        if usage is not None and not self.ledger.ended:  # a turn with nothing but an error has usage too
            self.ledger.usage(self._turn_usage(usage, chunk.provider_metadata))
        raw = chunk.raw_finish_reason or lenient.get_text(lenient.as_object(chunk.finish_reason), "raw")
        self._end_turn(_finish_reason(chunk), raw)

    def _turn_usage(self, usage: ev.Usage, metadata: Any) -> ev.Usage:
        """Returns the turn's usage with the counts that the metadata of its steps adds."""
        if not self._step_usages:
            return add_metadata_counts(usage, metadata)
        sent, complete = (sum_usage(pair[i] for pair in self._step_usages.values()) for i in (0, 1))
        more = (complete.input or 0) - (sent.input or 0)
        counts = complete if more or usage.cached is None else usage
        prompt = usage.input if usage.input is None else usage.input + more
        return ev.Usage(prompt, usage.output, counts.cached, counts.written, counts.reasoning, extra=usage.extra)

    def _end_turn(self, reason: str, raw: str) -> None:
        """Ends the turn: with a fault if there was an error, whatever the finish reason says."""
        if reason == "error" and self._fault is None:
            self._fault = {"kind": "other", "message": "the answer ended with an error"}
        if reason == "interrupted":
            self._fault = {"kind": "truncated", "message": "the provider's stream ended without a finish"}
        if self._release_fault():
            return
        if reason not in FINISH_REASONS:
            code = "unknown-reason" if reason else "no-reason"
            self.diagnostics.add(code, f"finish reason {reason!r} is read as a normal stop")
        extra = {SDK: self._finish_extra} if self._finish_extra else None
        self.ledger.finish(FINISH_REASONS.get(reason, "stop"), raw or self._raw_reason or reason, extra=extra)
        self.ledger.end()

    def _release_fault(self) -> bool:
        """Sends the held error, if any; also held calls and the usage of a single step."""
        self._calls.release_all()
        if self._step == 1 and self._step_usages and not self.ledger.ended and self.ledger.known_usage() is None:
            self.ledger.usage(msgspec.structs.replace(self._step_usages[1][1], step=0))
        if self._fault is None:
            return False
        fault, self._fault = self._fault, None
        self.ledger.fault(**fault)
        return True

    def _read_error(self, chunk: wire.ErrorChunk) -> None:
        error = lenient.as_object(chunk.error)
        if lenient.get_text(error, "name") in _REFUSED_CALL_ERRORS and "toolName" in error:
            self._calls.refuse_by_error(error, f"call_refused_{self.ledger.truncated_calls}")
        elif self._fault is None and not self.ledger.ended:
            text_only = chunk.error is None and chunk.error_text is not None
            self._fault = read_error(chunk.error_text if text_only else chunk.error)

    def _read_abort(self, chunk: wire.AbortChunk) -> None:
        reason = chunk.reason if isinstance(chunk.reason, str) and chunk.reason else "the answer was stopped"
        if not self._release_fault():
            self.ledger.fault("cancelled", reason)

    def _close_parts(self, *, complete: bool = True) -> None:
        self._calls.release_all()
        self.ledger.breaking = self._fault is not None
        self.ledger.close_all(whole=complete and self._fault is None)
        self.ledger.breaking = False
        self._unnamed_key = None

    def shape_of(self, value: Any) -> Any:
        return wire.CHUNK_TYPES.get(lenient.get_text(lenient.as_object(value), "type"), self.shape)

    def finish(self) -> list[ev.AnyEvent]:
        self._release_fault()
        return super().finish()

    @property
    def pending(self) -> str:
        """`error` once an error is held: only the usage and the end of the step follow it."""
        return "error" if self._fault is not None else super().pending

    # ── metadata ──────────────────────────────────────────────────────────────────────────────────

    def _read_finish_metadata(self, chunk: wire.FinishChunk) -> None:
        metadata = lenient.get_object(read_metadata(chunk.provider_metadata).get(SDK, {}), "metadata")
        rest = {
            provider: {key: value for key, value in fields.items() if key not in _COUNT_METADATA}
            for provider, fields in metadata.items()
        }
        if any(rest.values()):
            self._finish_extra["metadata"] = {provider: fields for provider, fields in rest.items() if fields}
        self._read_message_metadata(chunk)

    def _read_message_metadata(self, chunk: wire.MetadataChunk | wire.FinishChunk) -> None:
        """Reads usage and raw finish reason out of the application's metadata; keeps the rest."""
        metadata = lenient.as_object(chunk.message_metadata)
        usage = read_usage(metadata.get("totalUsage") or metadata.get("usage"))
        if usage is not None and not self.ledger.ended:
            self.ledger.usage(usage)
        self._raw_reason = lenient.get_text(metadata, "rawFinishReason") or self._raw_reason
        rest = {key: value for key, value in metadata.items() if key not in _EVENT_METADATA}
        if rest:
            self._finish_extra["messageMetadata"] = {**self._finish_extra.get("messageMetadata", {}), **rest}


def _finish_reason(chunk: wire.FinishChunk) -> str:
    """Returns the unified finish reason. `doStream` since version 6 sends it beside the provider's reason."""
    reason: Any = chunk.finish_reason
    return reason if isinstance(reason, str) else lenient.get_text(lenient.as_object(reason), "unified")


def _to_seconds(timestamp: Any) -> int | None:
    """Returns a JavaScript date in JSON as seconds."""
    try:
        return int(datetime.fromisoformat(timestamp).timestamp())
    except (TypeError, ValueError):
        return None


# ── errors ────────────────────────────────────────────────────────────────────────────────────────
#
# An `APICallError` (https://ai-sdk.dev/docs/reference/ai-sdk-errors/ai-api-call-error) has the response's status,
# headers and body. They are read like an HTTP error and kept in `extra`, without secrets. `requestBodyValues` hold the
# prompt and are dropped. An `AI_RetryError` stands for the last of its errors.

_KINDS: dict[str, FaultKind] = {kind: kind for kind in get_args(FaultKind)}
_VAGUE_KINDS = frozenset({"invalid", "server", "other"})  # the text of the body may say more
_MAX_CAUSES = 3  # nested causes that are kept
_MAX_HEADERS = 100
_MAX_PARSED_BODY = 2**20  # characters


def read_error(value: Any, fallback: str = "the stream reported an error") -> Object:
    """Reads an error (text, an Error as JSON, a provider's object) into the fields of a fault."""
    if isinstance(value, str):
        return {"kind": "other", "message": value or fallback}
    outer = lenient.as_object(value)
    attempts = lenient.as_objects(outer.get("errors"))
    error = lenient.get_object(outer, "lastError") or (attempts[-1] if attempts else outer)
    rows = list(lenient.get_object(error, "responseHeaders").items())[:_MAX_HEADERS]
    headers = {name.lower(): header for name, header in rows if isinstance(header, str)}
    inner = _provider_error(error)
    status = lenient.get_integer(error, "statusCode") or lenient.get_integer(error, "status")
    code = lenient.get_text(inner, "code", "type") or lenient.get_text(error, "code", "type", "name")
    message = (
        lenient.get_text(outer, "message", "$js")
        or lenient.get_text(inner, "message")
        or (to_json_text(value) if value else "")
    )
    wait = error.get("retryAfter")
    return {
        "kind": _classify_error(error, inner, code, status, message),
        "message": message or fallback,
        "status": status,
        "code": code,
        "request_id": lenient.get_text(error, "requestId")
        or next((headers[name] for name in REQUEST_ID_HEADERS if headers.get(name)), ""),
        "retry_after": float(wait) if isinstance(wait, int | float) and wait >= 0 else retry_after(headers),
        "extra": _error_details(outer, error, headers),
    }


def _provider_error(error: Object) -> Object:
    """Returns the provider's error object: `data`, `error`, or the parsed body."""
    fields = lenient.get_object(error, "data") or lenient.get_object(error, "error")
    body = lenient.get_text(error, "responseBody")
    if not fields and 0 < len(body) <= _MAX_PARSED_BODY:
        fields = lenient.as_object(parse_lenient(body.encode("utf-8", "surrogatepass")))
    return lenient.get_object(fields, "error") or fields


def _classify_error(error: Object, inner: Object, code: str, status: int | None, message: str) -> FaultKind:
    if code in _KINDS:
        return _KINDS[code]  # an error that we wrote
    codes = [lenient.get_text(source, key) for source in (inner, error) for key in ("type", "code", "name")]
    kind = fault_kind(*codes, status=status)
    if kind not in _VAGUE_KINDS:
        return kind
    return classify_fault([name for name in codes if name], f"{message} {lenient.get_text(inner, 'message')}", status)


def _error_details(outer: Object, error: Object, headers: dict[str, str]) -> Object | None:
    """Returns further fields of the error, bounded and without secrets."""
    fields = {
        "name": lenient.get_text(outer, "name"),
        "url": redact(lenient.get_text(error, "url")[:MESSAGE_CHARACTERS]),
        "responseHeaders": redact_headers(headers),
        "responseBody": redact_cut(lenient.get_text(error, "responseBody"), MESSAGE_CHARACTERS),
        "data": _bound_value(error.get("data")),
        "cause": _read_cause(error.get("cause")),
        "isRetryable": error.get("isRetryable"),
        "reason": lenient.get_text(outer, "reason"),
    }
    known = {key: value for key, value in fields.items() if value not in ("", None, {})}
    return {SDK: {"error": known}} if known.keys() - {"name"} else None


def _bound_value(value: Any) -> Any:
    """Returns a value without secrets; a large one as truncated text."""
    if not isinstance(value, dict | list):
        return None
    text = to_json_text(redact_json(value))
    return redact_json(value) if len(text) <= MESSAGE_CHARACTERS else redact_cut(text, MESSAGE_CHARACTERS)


def _read_cause(value: Any, depth: int = _MAX_CAUSES) -> Any:
    """Returns an error's cause: name, code, message and its cause."""
    if isinstance(value, str):
        return redact_cut(value, MESSAGE_CHARACTERS)
    error = lenient.as_object(value)
    if not error or not depth:
        return None
    fields = {
        key: redact_cut(text, MESSAGE_CHARACTERS)
        for key in ("name", "code", "message")
        if (text := lenient.get_text(error, key))
    }
    inner = _read_cause(error.get("cause"), depth - 1)
    return {**fields, "cause": inner} if inner else fields
