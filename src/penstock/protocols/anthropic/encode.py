"""Events → Anthropic Messages frames. Needs one part open at a time (shaping `sequence`), so indices are contiguous.

Thinking opens with an empty signature, which readers insist on, and gets a signature delta only if there is one.
A block that a fault broke off gets no `content_block_stop`: Claude Code takes a stopped call for a whole one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock import provider_tools
from penstock.codec import Encoder, lost, nothing, verbatim
from penstock.frame_templates import NO_TEMPLATE, FrameTemplate
from penstock.jsontext import is_json
from penstock.markers.marks import RAN
from penstock.protocols.anthropic.body import error_body
from penstock.protocols.anthropic.losses import LOSSES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra, Reason

NAME = "anthropic"
STOPS: dict[Reason, str] = {
    "stop": "end_turn", "length": "max_tokens", "calls": "tool_use", "filter": "refusal", "refusal": "refusal",
    "pause": "pause_turn", "other": "end_turn",
}  # fmt: skip
_CALL = "tool_use"  # the one block that asks the client to run something
_DELTA = b"content_block_delta"
_INPUT = b'{"type":"input_json_delta","partial_json":'
_encode = msgspec.json.Encoder().encode


class AnthropicEncoder(Encoder):
    """State: the part whose block is open, the number of blocks, the usage so far."""

    protocol = NAME
    losses = LOSSES

    def __init__(self, *, id: str = "msg", model: str = "unknown") -> None:
        super().__init__()
        self._id, self._model = id, model
        self._usage: dict[str, Any] = {}
        self._block = -1
        self._part = -1
        self._waiting: ev.CallStart | None = None  # a call that has no input yet
        self._refused = self._called = False
        self._broken = False  # a block was broken off: nothing follows but the error
        self._said: dict[str, Any] = {}  # the usage as the start had it
        self._citable = False  # the open block is text
        self._sources: list[ev.Source] = []  # that wait for a text
        self._mapped: dict[str, str] = {}  # another provider's runs that have a block here: call → tool
        self._runs: list[ev.CallEnd | ev.Result] = []  # of those, what waits for the next block

    def _send(self, payload: dict[str, Any]) -> None:
        self.out.append((payload["type"].encode(), _encode(payload)))

    def _own(self, extra: Extra | None) -> dict[str, Any]:
        return (extra or {}).get(NAME, {})

    # ── the message ───────────────────────────────────────────────────────────────────────────────

    def _start(self, event: ev.Start) -> None:
        self._block = self._part = -1
        self._refused = self._called = self._broken = False
        self._waiting, self.template, self._sources, self._mapped, self._runs = None, NO_TEMPLATE, [], {}, []
        self._usage = {
            "input_tokens": 0,
            "output_tokens": 0,
            **lenient.get_object(self._own(event.extra), "usage"),
        }
        self._said = dict(self._usage)
        message: dict[str, Any] = {
            "id": event.id or self._id, "type": "message", "role": "assistant", "model": event.model or self._model,
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": self._usage,
        }  # fmt: skip
        self._send({"type": "message_start", "message": message})

    def _usage_event(self, event: ev.Usage) -> None:
        if event.step:
            self.report_loss("steps")
            return
        own = self._own(event.extra)
        if own:
            self._usage = {**self._usage, **own}
            return
        written = event.written or 0
        cached = min(event.cached or 0, max((event.input or 0) - written, 0))  # parts of a prompt, and no more than it
        self._usage["input_tokens"] = max((event.input or 0) - cached - written, 0)
        self._usage["output_tokens"] = event.output or 0
        if event.cached is not None:
            self._usage["cache_read_input_tokens"] = cached
        if event.written is not None:
            self._usage["cache_creation_input_tokens"] = written
        if event.reasoning is not None:
            self._usage["output_tokens_details"] = {"thinking_tokens": event.reasoning}

    def _finish(self, event: ev.Finish) -> None:
        self._lose_waiting()
        own = self._own(event.extra)
        raw = event.raw if STOPS.get(event.reason) and own else ""
        word = STOPS["refusal" if self._refused and event.reason == "stop" else event.reason]
        stop: dict[str, Any] = {"stop_reason": raw or word, "stop_sequence": own.get("stop_sequence")}
        stop.update({key: own[key] for key in ("stop_details", "container") if own.get(key)})
        payload = {"type": "message_delta", "delta": stop, "usage": self._usage}
        if own.get("context_management"):
            payload["context_management"] = own["context_management"]
        self._send(payload)
        self._send({"type": "message_stop"})
        if event.others:
            self.report_loss("choice")
        if event.reason in {"filter", "other"} or (event.reason == "stop" and self._called):
            self.report_loss("reason")

    def _lose_waiting(self) -> None:
        """The turn ends: what still waits has no place."""
        if self._sources:
            self.report_loss("source-outside-text")
        if self._runs:
            self.report_loss("provider-call")

    def _fault(self, event: ev.Fault) -> None:
        self._lose_waiting()
        if self._usage != self._said:
            stop = {"stop_reason": None, "stop_sequence": None}
            self._send({"type": "message_delta", "delta": stop, "usage": self._usage})
        self._send(error_body(event))

    # ── blocks ────────────────────────────────────────────────────────────────────────────────────

    def _open(
        self, index: int, choice: int, block: dict[str, Any], kind: type[ev.Event] = ev.TextDelta, delta: bytes = b""
    ) -> None:
        """Begin a block; `kind` is that of its deltas, which begin with `delta`, up to the string that varies."""
        if choice:
            self.report_loss("choice")
            return
        if self._broken:
            self.report_loss("after-break")
            return
        runs, self._runs = self._runs, []
        for run in runs:
            self._write_run(run)
        self._block += 1
        self._part = index
        self._citable = block.get("type") == "text"
        before = b'{"type":"%b","index":%d,"delta":%b' % (_DELTA, self._block, delta)
        self.template = FrameTemplate(kind, index, _DELTA, before, b"}}")
        self._send({"type": "content_block_start", "index": self._block, "content_block": block})

    def _close(self, event: Any) -> None:
        if event.index == self._part:
            self._part = -1
            self.template = NO_TEMPLATE
            self._broken = self._broken or event.broken
            if event.broken:
                return
            self.out.append((b"content_block_stop", b'{"type":"content_block_stop","index":%d}' % self._block))

    def _whole(self, block: dict[str, Any]) -> None:
        """A block of a single event, which must not fall inside another."""
        self._open(-2, 0, block)
        self._close(ev.TextEnd(-2))

    def _text_start(self, event: ev.TextStart | ev.RefusalStart) -> None:
        if event.extra:
            self.report_loss("text-state")
        kind = ev.TextDelta if type(event) is ev.TextStart else ev.RefusalDelta
        self._open(event.index, event.choice, {"type": "text", "text": ""}, kind, b'{"type":"text_delta","text":')
        if event.index == self._part:
            sources, self._sources = self._sources, []
            for source in sources:
                self._source(source)

    def _text_end(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        if event.extra:
            self.report_loss("text-state")
        self._close(event)

    def _refusal_start(self, event: ev.RefusalStart) -> None:
        """Text like any other here; that it declines, the stop reason says."""
        if not event.choice:
            self._refused = True
            self.report_loss("refusal")
        self._text_start(event)

    def _text_delta(self, event: ev.TextDelta) -> None:
        """Only with log probabilities: without, more of an open text is written by `feed`."""
        self._words(event)
        if event.index == self._part and event.logprobs is not None:
            self.report_loss("logprobs")

    def _words(self, event: ev.TextDelta | ev.RefusalDelta | ev.ReasoningDelta) -> None:
        if event.index == self._part:
            self.out.append(self.template.frame(event.text))

    def _reasoning_start(self, event: ev.ReasoningStart) -> None:
        if event.form != "redacted":
            block = {"type": "thinking", "thinking": "", "signature": ""}
            self._open(event.index, event.choice, block, ev.ReasoningDelta, b'{"type":"thinking_delta","thinking":')

    def _reasoning_end(self, event: ev.ReasoningEnd) -> None:
        if event.broken:
            self._close(event)
            return
        own = self._own(event.extra)
        signature, redacted = own.get("signature"), own.get("redacted")
        if isinstance(redacted, str):
            self._whole({"type": "redacted_thinking", "data": redacted})
        elif event.extra and (not isinstance(signature, str) or event.extra.keys() != {NAME}):
            self.report_loss("opaque")
        if signature and isinstance(signature, str) and event.index == self._part:
            delta = {"type": "signature_delta", "signature": signature}
            self._send({"type": "content_block_delta", "index": self._block, "delta": delta})
        self._close(event)

    def _call_start(self, event: ev.CallStart) -> None:
        kind = lenient.get_text(self._own(event.extra), "type") or _CALL
        if event.by == "provider" and kind == _CALL:
            mapped = not event.choice and name_of(event.name)
            self.report_loss("provider-run" if mapped else "provider-call")
            if mapped:
                self._mapped[event.id] = event.name
            return
        self._waiting = event

    def _announce(self, event: ev.CallStart) -> None:
        """Not before there is input: a call without any would look complete, and may yet be cut."""
        self._waiting = None
        own = self._own(event.extra)
        kind = (lenient.get_text(own, "type") or _CALL) if event.by == "provider" else _CALL
        self._called = self._called or kind == _CALL
        block: dict[str, Any] = {**own, "type": kind, "id": event.id, "name": event.name, "input": {}}
        self._open(event.index, event.choice, block, ev.CallDelta, _INPUT)

    def _call_delta(self, event: ev.CallDelta) -> None:
        start = self._waiting
        if start is not None and start.form == "json" and event.json.strip():
            self._announce(start)
        if event.index == self._part:
            self.out.append(self.template.frame(event.json))

    def _call_end(self, event: ev.CallEnd) -> None:
        start = self._waiting
        if start is not None and event.broken:
            self._call_cut(event)
            return
        if event.id in self._mapped and event.by == "provider" and not event.broken:
            self._runs.append(event)
            return
        if start is not None:
            given = event.json
            if start.form == "text":
                self.report_loss("free-text")
                given = _encode({"input": given}).decode()
            self._announce(start)
            self._call_delta(ev.CallDelta(event.index, given))
        self._close(event)

    def _call_cut(self, event: ev.CallCut | ev.CallEnd) -> None:
        """Half an input shows that it is half, and the stop reason says why; a whole one cannot be taken back."""
        if self._waiting is not None or (event.index == self._part and not event.broken and is_json(event.json)):
            self.report_loss("cut-call")
        self._waiting, self._broken = None, self._broken or event.broken
        self._close(event)

    def _result(self, event: ev.Result) -> None:
        own = self._own(event.extra)
        if own:
            self._whole({**own, "content": msgspec.Raw(event.json.encode())})
        elif event.call in self._mapped:
            if not event.partial:
                self._runs.append(event)
        else:
            self.report_loss("provider-call")

    def _write_run(self, event: ev.CallEnd | ev.Result) -> None:
        """Another provider's run, in front of the block that follows it.

        None is written last: a client takes the last block for the answer, and Gemini tells of its searches at the end.
        """
        if isinstance(event, ev.Result):
            self._whole(result_block(event, self._mapped[event.call]))
            return
        self._open(-2, 0, call_block(event), ev.CallDelta, _INPUT)
        self.out.append(self.template.frame(_encode(call_input(event)).decode()))
        self._close(ev.TextEnd(-2))

    def _source(self, event: ev.Source) -> None:
        """Citations stand in a text block. One of no text in particular waits until a text opens."""
        if self._part < 0 or not self._citable or event.of not in (None, self._part):
            if event.of is None:
                self._sources.append(event)
            else:
                self.report_loss("source-outside-text")
            return
        if event.span is not None:
            self.report_loss("span")
        citation = self._own(event.extra) or {
            "type": "web_search_result_location", "url": event.url, "title": event.title, "cited_text": event.quote,
            "encrypted_index": "",
        }  # fmt: skip
        delta = {"type": "citations_delta", "citation": citation}
        self._send({"type": "content_block_delta", "index": self._block, "delta": delta})

    def _opaque(self, event: ev.Opaque) -> None:
        block = lenient.as_object(event.data) if event.protocol == NAME else {}
        if not lenient.get_text(block, "type"):
            self.report_loss("opaque")
        elif event.kind == "compaction":
            self._compaction(block)
        else:
            self._whole(block)

    def _compaction(self, block: dict[str, Any]) -> None:
        """Its content may only travel as a delta."""
        content = {key: value for key, value in block.items() if key != "type" and value is not None}
        self._open(-2, 0, {**block, **dict.fromkeys(content)})
        delta = {"type": "compaction_delta", **content}
        self._send({"type": "content_block_delta", "index": self._block, "delta": delta})
        self._close(ev.TextEnd(-2))

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _start, ev.Step: nothing,
        ev.TextStart: _text_start, ev.TextDelta: _text_delta, ev.TextEnd: _text_end,
        ev.RefusalStart: _refusal_start, ev.RefusalDelta: _words, ev.RefusalEnd: _text_end,
        ev.ReasoningStart: _reasoning_start, ev.ReasoningDelta: _words, ev.ReasoningEnd: _reasoning_end,
        ev.CallStart: _call_start, ev.CallDelta: _call_delta, ev.CallEnd: _call_end, ev.CallCut: _call_cut,
        ev.FileStart: lost("file"), ev.FileDelta: nothing, ev.FileEnd: nothing,
        ev.Result: _result, ev.Ask: lost("approval"), ev.Source: _source, ev.Opaque: _opaque,
        ev.Data: lost("data"), ev.Usage: _usage_event, ev.Finish: _finish, ev.Fault: _fault, ev.Unknown: verbatim,
    }  # fmt: skip


NAMES: dict[str, str] = {"search": "web_search", "program": "code_execution"}  # kind → the tool of this protocol


def name_of(tool: str) -> str:
    """The server tool that another provider's tool is written as; nothing where there is none."""
    return NAMES.get(provider_tools.KINDS.get(tool, ""), "")


def call_block(event: ev.CallStart | ev.CallEnd) -> dict[str, Any]:
    """The call, its input apart."""
    return {"type": "server_tool_use", "id": RAN + event.id, "name": name_of(event.name), "input": {}}


def call_input(event: ev.CallEnd) -> dict[str, Any]:
    """What was asked."""
    if name_of(event.name) == "code_execution":
        return {"code": provider_tools.program(event.json)}
    return {"query": ", ".join(provider_tools.queries(event.json))}


def result_block(event: ev.Result, tool: str) -> dict[str, Any]:
    """What was found, or what a program wrote."""
    name = name_of(tool)
    made = {"type": f"{name}_tool_result", "tool_use_id": RAN + event.call}
    if name == "code_execution":
        wrote = provider_tools.output(event.json)
        streams = {"stdout": "", "stderr": wrote} if event.failed else {"stdout": wrote, "stderr": ""}
        done: dict[str, Any] = {
            "type": "code_execution_result",
            **streams,
            "return_code": int(event.failed),
            "content": [],
        }
        return {**made, "content": done}
    if event.failed:
        return {**made, "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"}}
    return {**made, "content": [_page(*page) for page in provider_tools.pages(event.json)]}


def _page(address: str, title: str) -> dict[str, Any]:
    return {
        "type": "web_search_result", "url": address, "title": title or address, "encrypted_content": "",
        "page_age": None,
    }  # fmt: skip
