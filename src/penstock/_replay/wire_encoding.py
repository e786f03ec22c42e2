"""Encodes events as a provider sends them: `encode_events("anthropic", events)`, as a stream or as one body.

For tests and for packaged streams. Bedrock, Cohere and Ollama have encoders here, because penstock itself only reads
their protocols. Content that these providers cannot express is left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from penstock import _protocols as protocols
from penstock import events as ev
from penstock import request as rq
from penstock._bridge import encoding, write_body
from penstock._fold import fold
from penstock._framing import WRITERS
from penstock._pipeline import Pipe
from penstock._transforms.serialize import SerializeParts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._framing.base import Frame

Object: TypeAlias = dict[str, Any]
JSON = "application/json"
MEDIA_TYPES = {
    "sse": "text/event-stream",
    "ndjson": "application/x-ndjson",
    "eventstream": "application/vnd.amazon.eventstream",
    "jsonarray": JSON,
    "eventstream+sse": "application/vnd.amazon.eventstream",
    "sse+json": "text/event-stream",
}


def encode_events(
    protocol: str,
    events: Sequence[ev.AnyEvent],
    *,
    stream: bool = True,
    framing: str = "",
    options: Mapping[str, Any] | None = None,
) -> list[bytes]:
    """Returns a chunk for each event that is written; one chunk for a body. `framing`: if not the protocol's own."""
    if not stream:
        return [_encode_body(protocol, events, options)]
    encoder = PROVIDER_ENCODERS.get(protocol)
    writer = WRITERS[framing or _default_framing(protocol)]()
    stages = (SerializeParts(), encoder()) if encoder else encoding(protocol, options, frames=True).stages
    pipe = Pipe(*stages, writer)
    chunks = [b"".join(pipe.feed([event])) for event in events]
    return [chunk for chunk in (*chunks, b"".join(pipe.finish())) if chunk]


def media_type(protocol: str, *, stream: bool = True, framing: str = "") -> str:
    """Returns the content type of a protocol's streams or bodies."""
    return MEDIA_TYPES[framing or _default_framing(protocol)] if stream else JSON


def error_body(protocol: str, fault: ev.Fault) -> bytes:
    """Returns the body of an error response."""
    return _encode_body(protocol, [ev.Start(), fault], None)


def _default_framing(protocol: str) -> str:
    encoder = PROVIDER_ENCODERS.get(protocol)
    return encoder.framing if encoder else protocols.protocol(protocol).writes


def _encode_body(protocol: str, events: Sequence[ev.AnyEvent], options: Mapping[str, Any] | None) -> bytes:
    if encoder := PROVIDER_ENCODERS.get(protocol):
        return encoder.encode_body(events)
    body = protocols.protocol(protocol).body
    pipe = encoding(protocol, options, frames=body is not None)
    output: list[Any] = [*pipe.feed(events), *pipe.finish()]
    return write_body(body, output) if body is not None else b"".join(output)


# ── providers whose protocols penstock only reads ─────────────────────────────────────────────────────────────────────


class ProviderEncoder(ABC):
    """Encodes events as frames. Handlers call `write`; events without a handler are left out."""

    framing: ClassVar[str] = "sse"
    handlers: ClassVar[Mapping[type, Callable[[Any, Any], None]]]

    def __init__(self) -> None:
        self._frames: list[Frame] = []
        self.model = ""
        self.usage = ev.Usage()

    def feed(self, events: Sequence[ev.AnyEvent], /) -> list[Frame]:
        self._frames = []
        for event in events:
            if isinstance(event, ev.Usage):
                self.usage = event
            elif isinstance(event, ev.Start):
                self.model = event.model
            if type(event) in self.handlers and not getattr(event, "broken", False):
                self.handlers[type(event)](self, event)
        return self._frames

    def finish(self) -> list[Frame]:
        return []

    def write(self, name: str, body: Object) -> None:
        self._frames.append((name.encode(), msgspec.json.encode(body)))

    @classmethod
    def encode_body(cls, events: Sequence[ev.AnyEvent]) -> bytes:
        """Encodes the events as one body."""
        turn = fold(events)
        return msgspec.json.encode(cls.error(turn.fault) if turn.fault else cls.body(turn))

    @classmethod
    @abstractmethod
    def body(cls, turn: rq.Turn) -> Object: ...

    @classmethod
    def error(cls, fault: ev.Fault) -> Object:
        return {"message": fault.message}


class BedrockProviderEncoder(ProviderEncoder):
    """Converse: an AWS event stream."""

    framing = "eventstream"
    reasons: ClassVar = {"stop": "end_turn", "length": "max_tokens", "calls": "tool_use", "filter": "content_filtered"}
    faults: ClassVar = {"rate-limit": "throttlingException", "overloaded": "serviceUnavailableException"}

    def _write_start(self, _: ev.Start) -> None:
        self.write("messageStart", {"role": "assistant"})

    def _write_block_start(self, event: ev.CallStart | ev.FileStart) -> None:
        if isinstance(event, ev.CallStart):
            start: Object = {"toolUse": {"toolUseId": event.id, "name": event.name}}
        else:
            start = {"image": _image_format(event.media)}
        self.write("contentBlockStart", {"contentBlockIndex": event.index, "start": start})

    def _write_delta(self, event: Any) -> None:
        delta: Object
        match event:
            case ev.ReasoningDelta():
                delta = {"reasoningContent": {"text": event.text}}
            case ev.CallDelta():
                delta = {"toolUse": {"input": event.json}}
            case ev.FileDelta():
                delta = {"image": {"source": {"bytes": event.data}}}
            case _:
                delta = {"text": event.text}
        self.write("contentBlockDelta", {"contentBlockIndex": event.index, "delta": delta})

    def _write_end(self, event: Any) -> None:
        self.write("contentBlockStop", {"contentBlockIndex": event.index})

    def _write_finish(self, event: ev.Finish) -> None:
        self.write("messageStop", {"stopReason": self.reasons.get(event.reason, "end_turn")})
        self.write("metadata", {"usage": _bedrock_usage(self.usage), "metrics": {"latencyMs": 1}})

    def _write_fault(self, event: ev.Fault) -> None:
        self.write(self.faults.get(event.kind, "internalServerException"), {"message": event.message})

    @classmethod
    def body(cls, turn: rq.Turn) -> Object:
        content = [block for part in turn.parts for block in cls._content_blocks(part)]
        message = {"role": "assistant", "content": content}
        reason = cls.reasons.get(turn.finish.reason if turn.finish else "", "end_turn")
        return {"output": {"message": message}, "stopReason": reason, "usage": _bedrock_usage(turn.usage)}

    @classmethod
    def _content_blocks(cls, part: rq.AnyPart) -> list[Object]:
        match part:
            case rq.Text():
                return [{"text": part.text}]
            case rq.Reasoning():
                return [{"reasoningContent": {"reasoningText": {"text": part.text}}}]
            case rq.Call(cut=False):
                return [{"toolUse": {"toolUseId": part.id, "name": part.name, "input": _parse_input(part.json)}}]
            case rq.File():
                return [{"image": {**_image_format(part.media), "source": {"bytes": part.data}}}]
            case _:
                return []

    handlers: ClassVar = {
        **dict.fromkeys((ev.CallStart, ev.FileStart), _write_block_start),
        **dict.fromkeys((ev.TextDelta, ev.RefusalDelta, ev.ReasoningDelta, ev.CallDelta, ev.FileDelta), _write_delta),
        **dict.fromkeys((ev.TextEnd, ev.RefusalEnd, ev.ReasoningEnd, ev.CallEnd, ev.FileEnd), _write_end),
        ev.Start: _write_start,
        ev.Finish: _write_finish,
        ev.Fault: _write_fault,
    }


class CohereProviderEncoder(ProviderEncoder):
    """Chat, version 2."""

    reasons: ClassVar = {"stop": "COMPLETE", "length": "MAX_TOKENS", "calls": "TOOL_CALL", "filter": "ERROR_TOXIC"}

    def _write_event(self, kind: str, index: int, message: Object | None = None) -> None:
        delta: Object = {} if message is None else {"delta": {"message": message}}
        self.write(kind, {"type": kind, "index": index, **delta})

    def _write_start(self, event: ev.Start) -> None:
        delta = {"message": {"role": "assistant"}}
        self.write("message-start", {"id": event.id, "type": "message-start", "delta": delta})

    def _write_content_start(self, event: Any) -> None:
        kind = "thinking" if isinstance(event, ev.ReasoningStart) else "text"
        self._write_event("content-start", event.index, {"content": {"type": kind, kind: ""}})

    def _write_content_delta(self, event: Any) -> None:
        kind = "thinking" if isinstance(event, ev.ReasoningDelta) else "text"
        self._write_event("content-delta", event.index, {"content": {kind: event.text}})

    def _write_content_end(self, event: Any) -> None:
        self._write_event("content-end", event.index)

    def _write_call_start(self, event: ev.CallStart) -> None:
        call = {"id": event.id, "type": "function", "function": {"name": event.name, "arguments": ""}}
        self._write_event("tool-call-start", event.index, {"tool_calls": call})

    def _write_call_delta(self, event: ev.CallDelta) -> None:
        self._write_event("tool-call-delta", event.index, {"tool_calls": {"function": {"arguments": event.json}}})

    def _write_call_end(self, event: ev.CallEnd) -> None:
        self._write_event("tool-call-end", event.index)

    def _write_source(self, event: ev.Source) -> None:
        self._write_event("citation-start", event.index, {"citations": _citation(event)})
        self._write_event("citation-end", event.index)

    def _write_finish(self, event: ev.Finish) -> None:
        end = {"finish_reason": self.reasons.get(event.reason, "COMPLETE"), "usage": _cohere_usage(self.usage)}
        self.write("message-end", {"type": "message-end", "delta": end})

    def _write_fault(self, event: ev.Fault) -> None:
        self.write("message-end", {"type": "message-end", "delta": {"finish_reason": "ERROR", "error": event.message}})

    @classmethod
    def body(cls, turn: rq.Turn) -> Object:
        content: list[Object] = []
        for part in turn.parts:
            if isinstance(part, rq.Text | rq.Reasoning):
                kind = "text" if isinstance(part, rq.Text) else "thinking"
                content.append({"type": kind, kind: part.text})
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.json}}
            for call in turn.calls
        ]
        citations = [_citation(source) for source in turn.sources]
        message = {"role": "assistant", "content": content, "tool_calls": calls, "citations": citations}
        reason = cls.reasons.get(turn.finish.reason if turn.finish else "", "COMPLETE")
        return {"id": turn.id, "message": message, "finish_reason": reason, "usage": _cohere_usage(turn.usage)}

    handlers: ClassVar = {
        **dict.fromkeys((ev.TextStart, ev.RefusalStart, ev.ReasoningStart), _write_content_start),
        **dict.fromkeys((ev.TextDelta, ev.RefusalDelta, ev.ReasoningDelta), _write_content_delta),
        **dict.fromkeys((ev.TextEnd, ev.RefusalEnd, ev.ReasoningEnd), _write_content_end),
        ev.CallStart: _write_call_start,
        ev.CallDelta: _write_call_delta,
        ev.CallEnd: _write_call_end,
        ev.Start: _write_start,
        ev.Source: _write_source,
        ev.Finish: _write_finish,
        ev.Fault: _write_fault,
    }


class OllamaProviderEncoder(ProviderEncoder):
    """`/api/chat`: a JSON line for each delta; a call is not divided."""

    framing = "ndjson"
    reasons: ClassVar = {"length": "length"}

    def _write_message(self, message: Object, **fields: Any) -> None:
        head = {"model": self.model, "created_at": "2026-01-01T00:00:00Z", "done": False, **fields}
        self.write("", {**head, "message": {"role": "assistant", "content": "", **message}})

    def _write_delta(self, event: Any) -> None:
        self._write_message({"thinking" if isinstance(event, ev.ReasoningDelta) else "content": event.text})

    def _write_call(self, event: ev.CallEnd) -> None:
        self._write_message({"tool_calls": [_ollama_call(event)]})

    def _write_finish(self, event: ev.Finish) -> None:
        reason = self.reasons.get(event.reason, "stop")
        self._write_message({}, done=True, done_reason=reason, **_ollama_usage(self.usage))

    def _write_fault(self, event: ev.Fault) -> None:
        self.write("", self.error(event))

    @classmethod
    def body(cls, turn: rq.Turn) -> Object:
        message: Object = {"role": "assistant", "content": turn.text or turn.refusal}
        if turn.reasoning:
            message["thinking"] = turn.reasoning
        if turn.calls:
            message["tool_calls"] = [_ollama_call(call) for call in turn.calls]
        reason = cls.reasons.get(turn.finish.reason if turn.finish else "", "stop")
        head = {"model": turn.model, "created_at": "2026-01-01T00:00:00Z", "message": message}
        return {**head, "done": True, "done_reason": reason, **_ollama_usage(turn.usage)}

    @classmethod
    def error(cls, fault: ev.Fault) -> Object:
        return {"error": fault.message}

    handlers: ClassVar = {
        **dict.fromkeys((ev.TextDelta, ev.RefusalDelta, ev.ReasoningDelta), _write_delta),
        ev.CallEnd: _write_call,
        ev.Finish: _write_finish,
        ev.Fault: _write_fault,
    }


PROVIDER_ENCODERS: Mapping[str, type[ProviderEncoder]] = {
    "bedrock": BedrockProviderEncoder,
    "cohere": CohereProviderEncoder,
    "ollama": OllamaProviderEncoder,
}


def _image_format(media: str) -> Object:
    return {"format": media.partition("/")[2]}


def _parse_input(json: str) -> Any:
    return msgspec.json.decode(json or "{}")


def _ollama_call(call: ev.CallEnd | rq.Call) -> Object:
    return {"id": call.id, "function": {"name": call.name, "arguments": _parse_input(call.json)}}


def _citation(source: ev.Source | rq.Source) -> Object:
    first, last = source.span or (0, 0)
    document = {"id": source.url, "title": source.title, "url": source.url}
    cited = {"type": "document", "id": source.url, "document": document}
    return {"start": first, "end": last, "text": source.quote, "sources": [cited], "content_index": source.of}


def _bedrock_usage(usage: ev.Usage | None) -> Object:
    prompt, answer = _token_counts(usage)
    return {"inputTokens": prompt, "outputTokens": answer, "totalTokens": prompt + answer}


def _cohere_usage(usage: ev.Usage | None) -> Object:
    tokens = dict(zip(("input_tokens", "output_tokens"), _token_counts(usage), strict=True))
    return {"billed_units": tokens, "tokens": tokens}


def _ollama_usage(usage: ev.Usage | None) -> Object:
    return dict(zip(("prompt_eval_count", "eval_count"), _token_counts(usage), strict=True))


def _token_counts(usage: ev.Usage | None) -> tuple[int, int]:
    return (usage.input or 0, usage.output or 0) if usage else (0, 0)
