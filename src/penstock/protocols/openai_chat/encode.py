"""Events → Chat Completions chunks, as the official SDKs read them.

Calls are numbered per choice from 0, whatever their part number. Reasoning goes into the field most readers share
(`reasoning_content`), settable. The stream ends with a finish, the usage, and exactly one `[DONE]`; a fault ends it
with an error object and no `[DONE]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import events as ev
from penstock.codec import Encoder, Losses

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra, FaultKind, Reason

NAME = "openai-chat"
REASONS: dict[Reason, str] = {
    "stop": "stop", "length": "length", "calls": "tool_calls", "filter": "content_filter", "refusal": "content_filter",
    "pause": "stop", "other": "stop",
}  # fmt: skip
ERRORS: dict[FaultKind, str] = {
    "auth": "authentication_error", "permission": "permission_error", "not-found": "not_found_error",
    "invalid": "invalid_request_error", "too-large": "invalid_request_error", "rate-limit": "rate_limit_error",
    "filter": "content_filter", "overloaded": "overloaded_error", "timeout": "timeout_error",
}  # fmt: skip
LOSSES: Losses = {
    "data": "an application's own data has no field",
    "provider-call": "a tool run by the provider has no field; its words are in the text that follows",
    "approval": "a request for approval has no field",
    "opaque": "opaque state of another protocol has no field",
    "file": "a file that is neither image nor audio has no field",
    "pause": "a paused turn is written as stopped",
    "reason": "a finish reason without a word here is written as the nearest",
    "unknown": "another protocol's unknown payload is not written",
}
_UNSAID: dict[Reason, str] = {"pause": "pause", "refusal": "reason", "other": "reason"}
_encode = msgspec.json.Encoder().encode
_DONE = (b"", b"[DONE]")


class Slot:
    """Where a part goes: its choice, and for a call its number there."""

    __slots__ = ("call", "choice", "text")

    def __init__(self, choice: int, call: int = -1, *, text: bool = False) -> None:
        self.choice = choice
        self.call = call
        self.text = text


class ChatEncoder(Encoder):
    """State: the head of every chunk, the slots of open parts, call numbers per choice, the usage so far."""

    protocol = NAME
    losses = LOSSES

    def __init__(
        self, *, id: str = "chatcmpl", model: str = "unknown", created: int = 0, include_usage: bool = True,
        whole_calls: bool = False,
        reasoning: Literal["reasoning_content", "reasoning"] = "reasoning_content",
    ) -> None:  # fmt: skip
        super().__init__()
        self._id, self._model, self._created = id, model, created
        self._include_usage = include_usage
        self._whole_calls = whole_calls
        self._field = reasoning.encode()
        self._head = b""
        self._slots: dict[int, Slot] = {}
        self._calls: dict[int, int] = {}
        self._cited = 0
        self._refused = False
        self._usage: dict[str, Any] | None = None

    def _own(self, extra: Extra | None) -> dict[str, Any]:
        return (extra or {}).get(NAME, {})

    def _send(self, choice: int, delta: bytes, finish: bytes = b"null", logprobs: bytes = b"null") -> None:
        self.out.append((
            b"",
            b'%b"choices":[{"index":%d,"delta":%b,"logprobs":%b,"finish_reason":%b}]}'
            % (self._head, choice, delta, logprobs, finish),
        ))  # fmt: skip

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _start(self, event: ev.Start) -> None:
        self._slots, self._calls, self._usage, self._cited, self._refused = {}, {}, None, 0, False
        head = {
            "id": event.id or self._id, "object": "chat.completion.chunk",
            "created": self._created if event.created is None else event.created, "model": event.model or self._model,
            **self._own(event.extra),
        }  # fmt: skip
        self._head = _encode(head)[:-1] + b","
        self._send(0, b'{"role":"assistant","content":""}')

    def _usage_event(self, event: ev.Usage) -> None:
        if event.step:
            return
        own = self._own(event.extra)
        if own:
            self._usage = {"prompt_tokens": event.input, "completion_tokens": event.output, **own}
            return
        total = (event.input or 0) + (event.output or 0)
        usage: dict[str, Any] = {
            "prompt_tokens": event.input or 0, "completion_tokens": event.output or 0, "total_tokens": total
        }  # fmt: skip
        if event.cached is not None or event.written is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": event.cached or 0}
            if event.written is not None:
                usage["prompt_tokens_details"]["cache_write_tokens"] = event.written
        if event.reasoning is not None:
            usage["completion_tokens_details"] = {"reasoning_tokens": event.reasoning}
        self._usage = usage

    def _finish(self, event: ev.Finish) -> None:
        if event.reason in _UNSAID:
            self.lose(_UNSAID[event.reason])
        reason = "stop" if event.reason == "refusal" and self._refused else REASONS[event.reason]
        kept = {key: value for key, value in self._own(event.extra).items() if key == "extra_content"}
        self._send(0, _encode(kept), _encode(reason))
        for choice, other in enumerate(event.others, 1):
            self._send(choice, b"{}", _encode(REASONS[other]))
        self._count()
        self.out.append(_DONE)

    def _count(self) -> None:
        if self._include_usage and self._usage is not None:
            self.out.append((b"", b'%b"choices":[],"usage":%b}' % (self._head, _encode(self._usage))))

    def _fault(self, event: ev.Fault) -> None:
        error = {
            "message": event.message, "type": ERRORS.get(event.kind, "server_error"), "param": None,
            "code": event.code or event.kind,
        }  # fmt: skip
        self._count()
        self.out.append((b"", _encode({"error": error})))

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _open(self, event: ev.TextStart | ev.RefusalStart | ev.ReasoningStart) -> None:
        self._slots[event.index] = Slot(event.choice, text=type(event) is ev.TextStart)

    def _text(self, event: ev.TextDelta) -> None:
        logprobs = b"null" if event.logprobs is None else _encode(event.logprobs)
        self._send(self._slots[event.index].choice, b'{"content":%b}' % _encode(event.text), logprobs=logprobs)

    def _refusal(self, event: ev.RefusalDelta) -> None:
        self._refused = True
        self._send(self._slots[event.index].choice, b'{"refusal":%b}' % _encode(event.text))

    def _reasoning(self, event: ev.ReasoningDelta) -> None:
        self._send(self._slots[event.index].choice, b'{"%b":%b}' % (self._field, _encode(event.text)))

    def _reasoning_end(self, event: ev.ReasoningEnd) -> None:
        details = self._own(event.extra).get("reasoning_details")
        if details:
            self._send(self._slots[event.index].choice, _encode({"reasoning_details": details}))
        elif event.extra:
            self.lose("opaque")
        self._close(event)

    def _close(self, event: Any) -> None:
        self._slots.pop(event.index, None)

    def _call_start(self, event: ev.CallStart) -> None:
        if event.by == "provider":
            self.lose("provider-call")
            return
        number = self._calls.get(event.choice, 0)
        self._calls[event.choice] = number + 1
        self._slots[event.index] = Slot(event.choice, number)
        if not self._whole_calls:
            self._announce(event, "", event.form)

    def _announce(self, event: ev.CallStart | ev.CallEnd, given: str, form: str) -> None:
        slot = self._slots[event.index]
        call: dict[str, Any] = {"index": slot.call, "id": event.id}
        if form == "text":
            call.update(type="custom", custom={"name": event.name, "input": given})
        else:
            call.update(type="function", function={"name": event.name, "arguments": given})
        call.update(self._own(event.extra))
        slot.text = form == "text"
        self._send(slot.choice, b'{"tool_calls":[%b]}' % _encode(call))

    def _call_delta(self, event: ev.CallDelta) -> None:
        slot = self._slots.get(event.index)
        if slot is None or self._whole_calls:
            return
        shape = b'{"tool_calls":[{"index":%d,"custom":{"input":%b}}]}' if slot.text else (
            b'{"tool_calls":[{"index":%d,"function":{"arguments":%b}}]}')  # fmt: skip
        self._send(slot.choice, shape % (slot.call, _encode(event.json)))

    def _call_end(self, event: ev.CallEnd) -> None:
        if self._whole_calls and event.index in self._slots:
            self._announce(event, event.json, event.form)
        self._close(event)

    def _source(self, event: ev.Source) -> None:
        """Annotations need an index of their own: the official accumulator asks for it."""
        own = self._own(event.extra).get("annotation")
        first, last = event.span or (0, 0)
        cited = {"url": event.url, "title": event.title, "start_index": first, "end_index": last}
        annotation = own or {"type": "url_citation", "url_citation": cited}
        slot = self._slots.get(-1 if event.of is None else event.of)
        self._send(slot.choice if slot else 0, _encode({"annotations": [{**annotation, "index": self._cited}]}))
        self._cited += 1

    def _file_start(self, event: ev.FileStart) -> None:
        self._slots[event.index] = Slot(event.choice)
        if event.url and event.media.startswith("image"):
            self._image(event.choice, event.url)
        elif not event.media.startswith(("image", "audio")):
            self.lose("file")
        self._media = event.media

    def _file_delta(self, event: ev.FileDelta) -> None:
        choice = self._slots[event.index].choice
        if self._media.startswith("image"):
            self._image(choice, f"data:{self._media};base64,{event.data}")
        elif self._media.startswith("audio"):
            self._send(choice, _encode({"audio": {"data": event.data}}))

    def _image(self, choice: int, url: str) -> None:
        self._send(choice, _encode({"images": [{"type": "image_url", "image_url": {"url": url}, "index": 0}]}))

    def _unknown(self, event: ev.Unknown) -> None:
        if event.protocol == NAME:
            self.out.append((event.name.encode(), event.data.encode()))
        else:
            self.lose("unknown")

    def _result(self, _: ev.Result) -> None:
        self.lose("provider-call")

    def _ask(self, _: ev.Ask) -> None:
        self.lose("approval")

    def _opaque(self, _: ev.Opaque) -> None:
        self.lose("opaque")

    def _data(self, _: ev.Data) -> None:
        self.lose("data")

    def _nothing(self, _: Any) -> None:
        """Framing without a word here."""

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _start, ev.Step: _nothing,
        ev.TextStart: _open, ev.TextDelta: _text, ev.TextEnd: _close,
        ev.RefusalStart: _open, ev.RefusalDelta: _refusal, ev.RefusalEnd: _close,
        ev.ReasoningStart: _open, ev.ReasoningDelta: _reasoning, ev.ReasoningEnd: _reasoning_end,
        ev.CallStart: _call_start, ev.CallDelta: _call_delta, ev.CallEnd: _call_end, ev.CallCut: _close,
        ev.FileStart: _file_start, ev.FileDelta: _file_delta, ev.FileEnd: _close,
        ev.Result: _result, ev.Ask: _ask, ev.Source: _source, ev.Opaque: _opaque,
        ev.Data: _data, ev.Usage: _usage_event, ev.Finish: _finish, ev.Fault: _fault, ev.Unknown: _unknown,
    }  # fmt: skip
