"""Providers whose protocols penstock only reads (Bedrock, Cohere, Ollama), played: events to the frames they send.

For tests and for packaged streams. Only what a model says is played: what these providers have no word for is left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

from penstock import events as ev
from penstock import request as rq
from penstock._fold import fold

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._framing.frame import Frame

Object: TypeAlias = dict[str, Any]
_SAYING = (ev.TextStart, ev.RefusalStart)


class ProviderEncoder(ABC):
    """Events to frames. Handlers say `self.out`; what no handler is there for is not said."""

    framing: ClassVar[str] = "sse"
    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]]

    def __init__(self) -> None:
        self.out: list[Frame] = []
        self.model = ""
        self.usage = ev.Usage()

    def feed(self, events: Sequence[ev.AnyEvent], /) -> list[Frame]:
        self.out = []
        for event in events:
            if isinstance(event, ev.Usage):
                self.usage = event
            elif isinstance(event, ev.Start):
                self.model = event.model
            if type(event) in self.table and not getattr(event, "broken", False):
                self.table[type(event)](self, event)
        return self.out

    def finish(self) -> list[Frame]:
        return []

    def say(self, name: str, body: Object) -> None:
        self.out.append((name.encode(), msgspec.json.encode(body)))

    @classmethod
    def whole(cls, events: Sequence[ev.AnyEvent]) -> bytes:
        """The same, as one body."""
        turn = fold(events)[0]
        return msgspec.json.encode(cls.refused(turn.fault) if turn.fault else cls.body(turn))

    @classmethod
    @abstractmethod
    def body(cls, turn: rq.Turn) -> Object: ...

    @classmethod
    def refused(cls, fault: ev.Fault) -> Object:
        return {"message": fault.message}


class BedrockProviderEncoder(ProviderEncoder):
    """Converse: an AWS event stream."""

    framing = "eventstream"
    reasons: ClassVar = {"stop": "end_turn", "length": "max_tokens", "calls": "tool_use", "filter": "content_filtered"}
    faults: ClassVar = {"rate-limit": "throttlingException", "overloaded": "serviceUnavailableException"}

    def _start(self, _: ev.Start) -> None:
        self.say("messageStart", {"role": "assistant"})

    def _call(self, event: ev.CallStart) -> None:
        use = {"toolUse": {"toolUseId": event.id, "name": event.name}}
        self.say("contentBlockStart", {"contentBlockIndex": event.index, "start": use})

    def _file(self, event: ev.FileStart) -> None:
        self.say("contentBlockStart", {"contentBlockIndex": event.index, "start": {"image": _format(event.media)}})

    def _delta(self, event: Any, delta: Object) -> None:
        self.say("contentBlockDelta", {"contentBlockIndex": event.index, "delta": delta})

    def _text(self, event: Any) -> None:
        self._delta(event, {"text": event.text})

    def _thought(self, event: ev.ReasoningDelta) -> None:
        self._delta(event, {"reasoningContent": {"text": event.text}})

    def _input(self, event: ev.CallDelta) -> None:
        self._delta(event, {"toolUse": {"input": event.json}})

    def _bytes(self, event: ev.FileDelta) -> None:
        self._delta(event, {"image": {"source": {"bytes": event.data}}})

    def _end(self, event: Any) -> None:
        self.say("contentBlockStop", {"contentBlockIndex": event.index})

    def _finish(self, event: ev.Finish) -> None:
        self.say("messageStop", {"stopReason": self.reasons.get(event.reason, "end_turn")})
        self.say("metadata", {"usage": _counts(self.usage), "metrics": {"latencyMs": 1}})

    def _fault(self, event: ev.Fault) -> None:
        self.say(self.faults.get(event.kind, "internalServerException"), {"message": event.message})

    @classmethod
    def body(cls, turn: rq.Turn) -> Object:
        made = [block for part in turn.parts for block in cls._block(part)]
        reason = cls.reasons.get(turn.finish.reason if turn.finish else "", "end_turn")
        usage = _counts(turn.usage or ev.Usage())
        return {"output": {"message": {"role": "assistant", "content": made}}, "stopReason": reason, "usage": usage}

    @classmethod
    def _block(cls, part: rq.AnyPart) -> list[Object]:
        if isinstance(part, rq.Text):
            return [{"text": part.text}]
        if isinstance(part, rq.Reasoning):
            return [{"reasoningContent": {"reasoningText": {"text": part.text}}}]
        if isinstance(part, rq.Call) and not part.cut:
            return [{"toolUse": {"toolUseId": part.id, "name": part.name, "input": _value(part.json)}}]
        if isinstance(part, rq.File):
            return [{"image": {**_format(part.media), "source": {"bytes": part.data}}}]
        return []

    table: ClassVar = {
        ev.Start: _start, ev.CallStart: _call, ev.FileStart: _file, ev.TextDelta: _text, ev.RefusalDelta: _text,
        ev.ReasoningDelta: _thought, ev.CallDelta: _input, ev.FileDelta: _bytes, ev.TextEnd: _end, ev.RefusalEnd: _end,
        ev.ReasoningEnd: _end, ev.CallEnd: _end, ev.FileEnd: _end, ev.Finish: _finish, ev.Fault: _fault,
    }  # fmt: skip


class CohereProviderEncoder(ProviderEncoder):
    """Chat, version 2."""

    reasons: ClassVar = {"stop": "COMPLETE", "length": "MAX_TOKENS", "calls": "TOOL_CALL", "filter": "ERROR_TOXIC"}

    def _event(self, kind: str, message: Object | None = None, index: int | None = None) -> None:
        body: Object = {"type": kind}
        if index is not None:
            body["index"] = index
        if message is not None:
            body["delta"] = {"message": message}
        self.say(kind, body)

    def _start(self, event: ev.Start) -> None:
        self.say(
            "message-start", {"id": event.id, "type": "message-start", "delta": {"message": {"role": "assistant"}}}
        )

    def _open(self, event: Any) -> None:
        word = "text" if isinstance(event, _SAYING) else "thinking"
        self._event("content-start", {"content": {"type": word, word: ""}}, event.index)

    def _text(self, event: Any) -> None:
        self._event("content-delta", {"content": {"text": event.text}}, event.index)

    def _thought(self, event: ev.ReasoningDelta) -> None:
        self._event("content-delta", {"content": {"thinking": event.text}}, event.index)

    def _close(self, event: Any) -> None:
        self._event("content-end", index=event.index)

    def _call(self, event: ev.CallStart) -> None:
        made = {"id": event.id, "type": "function", "function": {"name": event.name, "arguments": ""}}
        self._event("tool-call-start", {"tool_calls": made}, event.index)

    def _input(self, event: ev.CallDelta) -> None:
        self._event("tool-call-delta", {"tool_calls": {"function": {"arguments": event.json}}}, event.index)

    def _called(self, event: ev.CallEnd) -> None:
        self._event("tool-call-end", index=event.index)

    def _source(self, event: ev.Source) -> None:
        self._event("citation-start", {"citations": _citation(event, event.of)}, event.index)
        self._event("citation-end", index=event.index)

    def _finish(self, event: ev.Finish) -> None:
        end = {"finish_reason": self.reasons.get(event.reason, "COMPLETE"), "usage": _cohere_usage(self.usage)}
        self.say("message-end", {"type": "message-end", "delta": end})

    def _fault(self, event: ev.Fault) -> None:
        self.say("message-end", {"type": "message-end", "delta": {"finish_reason": "ERROR", "error": event.message}})

    @classmethod
    def body(cls, turn: rq.Turn) -> Object:
        content: list[Object] = []
        for part in turn.parts:
            if isinstance(part, rq.Text):
                content.append({"type": "text", "text": part.text})
            elif isinstance(part, rq.Reasoning):
                content.append({"type": "thinking", "thinking": part.text})
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.json}}
            for call in turn.calls
        ]
        cites = [_citation(source, source.of) for source in turn.sources]
        message = {"role": "assistant", "content": content, "tool_calls": calls, "citations": cites}
        reason = cls.reasons.get(turn.finish.reason if turn.finish else "", "COMPLETE")
        usage = _cohere_usage(turn.usage or ev.Usage())
        return {"id": turn.id, "message": message, "finish_reason": reason, "usage": usage}

    table: ClassVar = {
        ev.Start: _start, ev.TextStart: _open, ev.RefusalStart: _open, ev.ReasoningStart: _open, ev.TextDelta: _text,
        ev.RefusalDelta: _text, ev.ReasoningDelta: _thought, ev.TextEnd: _close, ev.RefusalEnd: _close,
        ev.ReasoningEnd: _close, ev.CallStart: _call, ev.CallDelta: _input, ev.CallEnd: _called, ev.Source: _source,
        ev.Finish: _finish, ev.Fault: _fault,
    }  # fmt: skip


class OllamaProviderEncoder(ProviderEncoder):
    """`/api/chat`: a line for each piece; a call comes whole."""

    framing = "ndjson"
    reasons: ClassVar = {"length": "length"}

    def _line(self, message: Object, **more: Any) -> None:
        line = {"model": self.model, "created_at": "2026-01-01T00:00:00Z", "done": False, **more}
        self.say("", {**line, "message": {"role": "assistant", "content": "", **message}})

    def _text(self, event: Any) -> None:
        self._line({"content": event.text})

    def _thought(self, event: ev.ReasoningDelta) -> None:
        self._line({"thinking": event.text})

    def _call(self, event: ev.CallEnd) -> None:
        self._line({"tool_calls": [_ollama_call(event)]})

    def _finish(self, event: ev.Finish) -> None:
        self._line({}, done=True, done_reason=self.reasons.get(event.reason, "stop"), **_evals(self.usage))

    def _fault(self, event: ev.Fault) -> None:
        self.say("", {"error": event.message})

    @classmethod
    def body(cls, turn: rq.Turn) -> Object:
        message: Object = {"role": "assistant", "content": turn.text or turn.refusal}
        if turn.reasoning:
            message["thinking"] = turn.reasoning
        if turn.calls:
            message["tool_calls"] = [_ollama_call(call) for call in turn.calls]
        reason = cls.reasons.get(turn.finish.reason if turn.finish else "", "stop")
        head = {"model": turn.model, "created_at": "2026-01-01T00:00:00Z", "message": message}
        return {**head, "done": True, "done_reason": reason, **_evals(turn.usage or ev.Usage())}

    @classmethod
    def refused(cls, fault: ev.Fault) -> Object:
        return {"error": fault.message}

    table: ClassVar = {
        ev.TextDelta: _text, ev.RefusalDelta: _text, ev.ReasoningDelta: _thought, ev.CallEnd: _call,
        ev.Finish: _finish, ev.Fault: _fault,
    }  # fmt: skip


PROVIDER_ENCODERS: Mapping[str, type[ProviderEncoder]] = {
    "bedrock": BedrockProviderEncoder,
    "cohere": CohereProviderEncoder,
    "ollama": OllamaProviderEncoder,
}


def _format(media: str) -> Object:
    return {"format": media.partition("/")[2]}


def _value(json: str) -> Any:
    return msgspec.json.decode(json or "{}")


def _ollama_call(call: ev.CallEnd | rq.Call) -> Object:
    return {"id": call.id, "function": {"name": call.name, "arguments": _value(call.json)}}


def _citation(source: ev.Source | rq.Source, of: int | None) -> Object:
    first, last = source.span or (0, 0)
    document = {"id": source.url, "title": source.title, "url": source.url}
    found = {"type": "document", "id": source.url, "document": document}
    return {"start": first, "end": last, "text": source.quote, "sources": [found], "content_index": of}


def _counts(usage: ev.Usage) -> Object:
    given, made = usage.input or 0, usage.output or 0
    return {"inputTokens": given, "outputTokens": made, "totalTokens": given + made}


def _cohere_usage(usage: ev.Usage) -> Object:
    tokens = {"input_tokens": usage.input or 0, "output_tokens": usage.output or 0}
    return {"billed_units": tokens, "tokens": tokens}


def _evals(usage: ev.Usage) -> Object:
    return {"prompt_eval_count": usage.input or 0, "eval_count": usage.output or 0}
