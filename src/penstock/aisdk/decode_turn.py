"""The frame of AI SDK streams → events: turns, steps, usage, ends, errors, metadata. `decode` adds what is inside.

A step ends all parts, since the next one may use their ids again. An `error` is held until the stream ends, because
usage follows it; it is a fault even if the stream then ends as if nothing had happened.
"""

from __future__ import annotations

from abc import ABC
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import msgspec

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.aisdk import READS, SDK, completed, decode, encoded, merge, read_metadata, read_usage, wire
from penstock.aisdk import wire as tool
from penstock.aisdk.decode_calls import Tools
from penstock.codec import Decoder
from penstock.events import FaultKind
from penstock.fold import sum_usage
from penstock.http_errors import MESSAGE_CHARACTERS, REQUEST_ID_HEADERS, retry_after
from penstock.jsontext import parse_lenient
from penstock.ledger import CUT_OFF
from penstock.redaction import redact, redact_cut, redact_headers, redact_json
from penstock.vendor_errors import classify_fault, fault_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from penstock.events import Extra

_HOUSED = frozenset(
    {"model", "createdAt", "usage", "rawFinishReason", "finishReason"}
)  # metadata that events have words for
_COUNTS = frozenset({"usage", "cacheCreationInputTokens", "cacheReadInputTokens"})  # told as usage
_SHAPES: dict[str, type] = {str(shape.__struct_config__.tag): shape for shape in get_args(tool.Payload)}
_REFUSALS = frozenset({"AI_InvalidToolArgumentsError", "AI_InvalidToolInputError", "AI_NoSuchToolError"})


class TurnDecoder(Decoder, ABC):
    """State: the open part without an id, the calls, the step, the error that is held, what is said at the end."""

    shape = tool.Payload
    read = staticmethod(msgspec.json.Decoder(tool.Payload).decode)
    prune = False

    def __init__(self, *, version: str = "") -> None:
        """Make one; spellings never clash, so every version is read whichever is named."""
        super().__init__()
        self._reset()

    def _reset(self) -> None:
        self._loose: Hashable = None
        self._tools = Tools(self.ledger)
        self._step = 0
        self._fault: dict[str, Any] | None = None
        self._notes: dict[str, Any] = {}
        self._raw = ""
        self._places: dict[str, int] = {}
        self._steps: dict[int, tuple[ev.Usage, ev.Usage]] = {}  # as said, and with what the metadata tells
        self._step_over = False  # the step has ended, and no other has begun

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _begin(self, id: str = "", model: str = "", created: int | None = None, extra: Extra | None = None) -> None:
        """Open a turn; inside an unfinished one this only ends what was being said."""
        if self.ledger.is_open:
            self._hush()
        elif self.ledger.turns:
            self._reset()
        self.ledger.start(id, model, created, extra)

    def _start(self, p: wire.Start) -> None:
        metadata = lenient.as_object(p.message_metadata)
        model, created = lenient.get_text(metadata, "model"), lenient.get_integer(metadata, "createdAt")
        rest = {key: value for key, value in metadata.items() if key not in _HOUSED}
        extra = {SDK: {"messageMetadata": rest}} if rest else None
        if self.ledger.is_open:
            self._break()  # another answer begins: an error that is held ended the one before
        self._begin(p.message_id or "", model, None if created is None else created // 1000, extra)

    def _stream_start(self, p: wire.StreamStart) -> None:
        """`doStream` begins; who answers is said next, so the turn waits for that."""
        if self.ledger.ended:
            self._begin()
        self._warn(p.warnings)

    def _response(self, p: wire.ResponseMetadata) -> None:
        if not self.ledger.is_open and not self.ledger.ended:
            self._begin(p.id or "", p.model_id or "", _seconds(p.timestamp))
        else:
            self._remember({"id": p.id, "modelId": p.model_id, "timestamp": p.timestamp})

    def _remember(self, response: Any) -> None:
        said = {
            key: word
            for key in ("id", "modelId", "timestamp")
            if (word := lenient.get_text(lenient.as_object(response), key))
        }
        if said:
            self._notes["response"] = {**self._notes.get("response", {}), **said}

    def _warn(self, warnings: Any) -> None:
        for warning in warnings if isinstance(warnings, list) else ():  # pyright: ignore[reportUnknownVariableType]
            self.diagnostics.add("upstream-warning", encoded(warning)[:200])

    def _start_step(self, p: wire.StepBegin) -> None:
        if not self.ledger.is_open and (not self.ledger.ended or type(p) is wire.StepStart):
            self._begin(p.message_id or "")
        self._warn(p.warnings)
        if self._step:  # what came before the first step's start belongs to it
            self._hush()
        self._next_step()

    def _next_step(self) -> None:
        """A step begins. Call ids of the steps before it may come again."""
        self._step += 1
        self._step_over = False
        if self._step > 1:
            self._tools.next_step()
            if self._step == 2 and self._steps:  # noqa: PLR2004 (a turn of one step is counted at its end)
                self.ledger.usage(self._steps[1][1])
            self.ledger.step(self._step)

    def _finish_step(self, p: wire.Ending) -> None:
        if self.ledger.ended:
            return
        reason = READS.get(_unified(p))
        self._hush(whole=reason not in CUT_OFF)
        if not self._step or self._step_over:
            self._next_step()  # its start was not said: a `start-step` may be left out
        self._step_over = True
        self._remember(p.response)
        self._note_metadata(p)
        usage = read_usage(p.usage, self._step)
        if usage is not None:
            self._steps[usage.step] = (usage, completed(usage, p.provider_metadata))
            if usage.step > 1:
                self.ledger.usage(self._steps[usage.step][1])

    def _finish(self, p: wire.Finish) -> None:
        self._remember(p.response)
        self._note_metadata(p)
        usage = read_usage(p.usage if p.total_usage is None else p.total_usage)
        if usage is not None and not self.ledger.ended:  # a turn that has said nothing but an error has usage too
            self.ledger.usage(self._total(usage, p.provider_metadata))
        self._end(
            _unified(p),
            p.raw_finish_reason or lenient.get_text(lenient.as_object(p.finish_reason), "raw"),
        )

    def _total(self, usage: ev.Usage, metadata: Any) -> ev.Usage:
        """The turn's usage, with what the metadata of its steps told beyond their own."""
        if not self._steps:
            return completed(usage, metadata)
        said, more_said = (sum_usage(pair[place] for pair in self._steps.values()) for place in (0, 1))
        more = (more_said.input or 0) - (said.input or 0)
        counts = (more_said.cached, more_said.written, more_said.reasoning) if more or usage.cached is None else (
            usage.cached, usage.written, usage.reasoning)  # fmt: skip
        read = usage.input if usage.input is None else usage.input + more
        return ev.Usage(read, usage.output, *counts, extra=usage.extra)

    def _end(self, word: str, raw: str) -> None:
        """The end mark: a fault if there was an error, whatever word came with it."""
        if word == "error" and self._fault is None:
            self._fault = {"kind": "other", "message": "the answer ended with an error"}
        if word == "interrupted":
            self._fault = {"kind": "truncated", "message": "the provider's stream ended without a finish"}
        if self._break():
            return
        reason = READS.get(word, "stop")
        if word not in READS:
            code = "unknown-reason" if word else "no-reason"
            self.diagnostics.add(code, f"finish reason {word!r} is read as a normal stop")
        self.ledger.finish(reason, raw or self._raw or word, extra={SDK: self._notes} if self._notes else None)
        self.ledger.end()

    def _break(self) -> bool:
        """Let the error out that was held."""
        self._tools.release()
        if self._step == 1 and self._steps and not self.ledger.ended and self.ledger.known_usage() is None:
            self.ledger.usage(msgspec.structs.replace(self._steps[1][1], step=0))
        if self._fault is None:
            return False
        fault, self._fault = self._fault, None
        self.ledger.fault(**fault)
        return True

    def _error(self, p: wire.Error) -> None:
        said = lenient.as_object(p.error)
        if lenient.get_text(said, "name") in _REFUSALS and "toolName" in said:
            self._tools.cut(said, f"call_refused_{self.ledger.truncated_calls}")
        elif self._fault is None and not self.ledger.ended:
            self._fault = read_error(p.error_text if p.error is None and p.error_text is not None else p.error)

    def _abort(self, p: wire.Abort) -> None:
        said = p.reason if isinstance(p.reason, str) and p.reason else "the answer was stopped"
        if not self._break():
            self.ledger.fault("cancelled", said)

    def shape_of(self, value: Any) -> Any:
        return _SHAPES.get(lenient.get_text(lenient.as_object(value), "type"), self.shape)

    def finish(self) -> list[ev.AnyEvent]:
        self._break()
        return super().finish()

    @property
    def pending(self) -> str:
        """Only the usage and the end of the step follow an error."""
        return "error" if self._fault is not None else super().pending

    # ── metadata ──────────────────────────────────────────────────────────────────────────────────

    def _note_metadata(self, p: wire.Ending) -> None:
        said = lenient.get_object(read_metadata(p.provider_metadata).get(SDK, {}), "metadata")
        rest = {name: {key: value for key, value in said[name].items() if key not in _COUNTS} for name in said}
        if any(rest.values()):
            self._notes["metadata"] = {name: fields for name, fields in rest.items() if fields}
        self._message_metadata(p)

    def _message_metadata(self, p: wire.MessageMetadata | wire.Ending) -> None:
        """An application's own words: no content. Those that tell usage are read."""
        said = lenient.as_object(p.message_metadata)
        usage = read_usage(said.get("totalUsage") or said.get("usage"))
        if usage is not None and not self.ledger.ended:
            self.ledger.usage(usage)
        self._raw = lenient.get_text(said, "rawFinishReason") or self._raw
        rest = {key: value for key, value in said.items() if key not in _HOUSED}
        if rest:
            self._notes["messageMetadata"] = {**self._notes.get("messageMetadata", {}), **rest}

    def _note(self, key: Hashable, metadata: Any, *, reasoning: bool = False) -> None:
        part = self.ledger.find(key)
        if part is not None and metadata is not None:
            part.extra = merge(part.extra, read_metadata(metadata, reasoning=reasoning))

    # ── what both this file and the next one end ──────────────────────────────────────────────────

    def _hush(self, *, whole: bool = True) -> None:
        """End all that is being said."""
        self._tools.release()
        self.ledger.breaking = self._fault is not None
        self.ledger.close_all(whole=decode and self._fault is None)
        self.ledger.breaking = False
        self._loose = None

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        wire.Start: _start, wire.StreamStart: _stream_start, wire.ResponseMetadata: _response,
        wire.MessageMetadata: _message_metadata, wire.StartStep: _start_step, wire.StepStart: _start_step,
        wire.FinishStep: _finish_step, wire.StepFinish: _finish_step, wire.Finish: _finish, wire.Error: _error,
        wire.Abort: _abort,
    }  # fmt: skip


def _unified(p: wire.Ending) -> str:
    """The finish reason as one word: `doStream` since 6 says it beside the provider's own."""
    said: Any = p.finish_reason
    return said if isinstance(said, str) else lenient.get_text(lenient.as_object(said), "unified")


def _seconds(timestamp: Any) -> int | None:
    """A JavaScript date in JSON as seconds."""
    try:
        return int(datetime.fromisoformat(timestamp).timestamp())
    except (TypeError, ValueError):
        return None


KINDS: dict[str, FaultKind] = {kind: kind for kind in get_args(FaultKind)}
_VAGUE = frozenset({"invalid", "server", "other"})  # kinds that the words of a body may know better
_CAUSES = 3  # errors inside each other that are kept
_HEADERS = 100  # that are kept
_PARSED = 2**20  # characters of a body that is read as JSON


def read_error(value: Any, fallback: str = "the stream reported an error") -> dict[str, Any]:
    """The fields of a fault."""
    if isinstance(value, str):
        return {"kind": "other", "message": value or fallback}
    outer = lenient.as_object(value)
    said = _last_try(outer)
    headers, body = _headers(said), lenient.get_text(said, "responseBody")
    inner = _inner(said, body)
    status = lenient.get_integer(said, "statusCode") or lenient.get_integer(said, "status")
    code = lenient.get_text(inner, "code", "type") or lenient.get_text(said, "code", "type", "name")
    message = (
        lenient.get_text(outer, "message", "$js")
        or lenient.get_text(inner, "message")
        or (encoded(value) if value else "")
    )
    return {
        "kind": _kind(said, inner, code, status, message), "message": message or fallback, "status": status,
        "code": code, "request_id": lenient.get_text(said, "requestId") or _first_header(headers, REQUEST_ID_HEADERS),
        "retry_after": _wait(said, headers), "extra": _details(outer, said, headers, body),
    }  # fmt: skip


def _last_try(outer: lenient.Object) -> lenient.Object:
    """The error of the last try, where the SDK has tried several times."""
    tries = lenient.as_objects(outer.get("errors"))
    return lenient.get_object(outer, "lastError") or (tries[-1] if tries else outer)


def _inner(said: lenient.Object, body: str) -> lenient.Object:
    """The provider's own error object."""
    found = lenient.get_object(said, "data") or lenient.get_object(said, "error")
    if not found and 0 < len(body) <= _PARSED:
        found = lenient.as_object(parse_lenient(body.encode("utf-8", "surrogatepass")))
    return lenient.get_object(found, "error") or found


def _kind(said: lenient.Object, inner: lenient.Object, code: str, status: int | None, message: str) -> FaultKind:
    if code in KINDS:
        return KINDS[code]  # one of our own words
    words = [lenient.get_text(source, key) for source in (inner, said) for key in ("type", "code", "name")]
    kind = fault_kind(*words, status=status)
    if kind not in _VAGUE:
        return kind
    return classify_fault([word for word in words if word], f"{message} {lenient.get_text(inner, 'message')}", status)


def _headers(said: lenient.Object) -> dict[str, str]:
    rows = list(lenient.get_object(said, "responseHeaders").items())[:_HEADERS]
    return {name.lower(): value for name, value in rows if isinstance(value, str)}


def _first_header(headers: dict[str, str], names: tuple[str, ...]) -> str:
    return next((headers[name] for name in names if headers.get(name)), "")


def _wait(said: lenient.Object, headers: dict[str, str]) -> float | None:
    given = said.get("retryAfter")
    return float(given) if isinstance(given, int | float) and given >= 0 else retry_after(headers)


def _details(outer: lenient.Object, said: lenient.Object, headers: dict[str, str], body: str) -> dict[str, Any] | None:
    """What else is known of the error, bounded and without secrets."""
    found = {
        "name": lenient.get_text(outer, "name"), "url": redact(lenient.get_text(said, "url")[:MESSAGE_CHARACTERS]),
        "responseHeaders": redact_headers(headers), "responseBody": redact_cut(body, MESSAGE_CHARACTERS),
        "data": _bounded(said.get("data")), "cause": _cause(said.get("cause")), "isRetryable": said.get("isRetryable"),
        "reason": lenient.get_text(outer, "reason"),
    }  # fmt: skip
    kept = {key: value for key, value in found.items() if value not in ("", None, {})}
    return {SDK: {"error": kept}} if kept.keys() - {"name"} else None


def _bounded(value: Any) -> Any:
    """A value without secrets; a large one as text, cut."""
    if not isinstance(value, dict | list):
        return None
    shown = encoded(redact_json(value))
    return redact_json(value) if len(shown) <= MESSAGE_CHARACTERS else redact_cut(shown, MESSAGE_CHARACTERS)


def _cause(value: Any, left: int = _CAUSES) -> Any:
    """An error's cause: its words, and its own cause."""
    if isinstance(value, str):
        return redact_cut(value, MESSAGE_CHARACTERS)
    said = lenient.as_object(value)
    if not said or not left:
        return None
    words = {
        key: redact_cut(text, MESSAGE_CHARACTERS)
        for key in ("name", "code", "message")
        if (text := lenient.get_text(said, key))
    }
    inner = _cause(said.get("cause"), left - 1)
    return {**words, "cause": inner} if inner else words
