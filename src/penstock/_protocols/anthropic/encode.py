"""Encodes events as Anthropic Messages frames. Needs one open part at a time (`transforms.serialize`).

A thinking block opens with an empty signature, which clients require, and gets a signature delta only if there is one.
A block that a fault broke off gets no `content_block_stop`: Claude Code treats a stopped call as complete.

Searches and programs that another provider ran become server tools: `server_tool_use` and its result. Their ids start
with a marker, so that a request that brings them back is read as it was, and never sent to Anthropic as its own: the
results have no ciphertext of Anthropic. https://docs.claude.com/en/docs/agents-and-tools/tool-use/web-search-tool
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _provider_tool_fields as provider_tools
from penstock import events as ev
from penstock._codec import Encoder, lost, nothing, verbatim
from penstock._diagnostics import read_losses
from penstock._lenient_json import is_json
from penstock._markers import PROVIDER_CALL_PREFIX
from penstock._protocols.anthropic.wire import ENUMS, NAME, build_error_body, build_result_block
from penstock._text_runs import NO_TEMPLATE, FrameTemplate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STOP_REASONS: dict[ev.Reason, str] = ENUMS["stop_reasons"]
_TOOL_USE = "tool_use"  # the only block that asks the client to run a tool
_DELTA = b"content_block_delta"
_THINKING_DELTA = b'{"type":"thinking_delta","thinking":'
_INPUT_DELTA = b'{"type":"input_json_delta","partial_json":'
_SINGLE = -2  # the part index of a block that one event writes completely
_SERVER_TOOLS = {"search": "web_search", "program": "code_execution"}
_NO_STOP = {"stop_reason": None, "stop_sequence": None}
_encode_json = msgspec.json.Encoder().encode


class AnthropicEncoder(Encoder):
    """State: the part whose block is open, the number of blocks, the usage so far, and what waits for a block."""

    protocol = NAME
    losses = read_losses(__name__, "answers")

    def __init__(self, *, id: str = "msg", model: str = "unknown") -> None:
        super().__init__()
        self._id, self._model = id, model
        self._usage: dict[str, Any] = {}
        self._start_usage: dict[str, Any] = {}  # as `message_start` had it
        self._reset()

    def _reset(self) -> None:
        self._block = self._part = -1
        self.template = NO_TEMPLATE
        self._waiting_call: ev.CallStart | None = None  # a call without input so far
        self._refused = self._called = False
        self._broken = False  # a fault broke a block off: only the error follows
        self._is_text = False  # the open block is text
        self._waiting_sources: list[ev.Source] = []  # citations that wait for a text block
        self._provider_tools: dict[str, str] = {}  # call id → tool, for another provider's runs that get blocks
        self._waiting_runs: list[ev.CallEnd | ev.Result] = []  # events of those runs that wait for the next block

    def _send_payload(self, payload: dict[str, Any]) -> None:
        self.out.append((payload["type"].encode(), _encode_json(payload)))

    def _send_delta(self, delta: dict[str, Any]) -> None:
        self._send_payload({"type": "content_block_delta", "index": self._block, "delta": delta})

    def _get_own(self, extra: ev.Extra | None) -> dict[str, Any]:
        return (extra or {}).get(NAME, {})

    # ── the message ───────────────────────────────────────────────────────────────────────────────

    def _start_message(self, event: ev.Start) -> None:
        self._reset()
        native = lenient.get_object(self._get_own(event.extra), "usage")
        self._usage = {"input_tokens": 0, "output_tokens": 0, **native}
        self._start_usage = dict(self._usage)
        names = {
            "id": event.id or self._id,
            "type": "message",
            "role": "assistant",
            "model": event.model or self._model,
        }
        message: dict[str, Any] = {**names, "content": [], **_NO_STOP, "usage": self._usage}
        self._send_payload({"type": "message_start", "message": message})

    def _update_usage(self, event: ev.Usage) -> None:
        if event.step:
            self.report_loss("steps")
            return
        native = self._get_own(event.extra)
        if native:
            self._usage = {**self._usage, **native}
            return
        written = event.written or 0
        cached = min(event.cached or 0, max((event.input or 0) - written, 0))  # never more than the prompt
        self._usage["input_tokens"] = max((event.input or 0) - cached - written, 0)
        self._usage["output_tokens"] = event.output or 0
        if event.cached is not None:
            self._usage["cache_read_input_tokens"] = cached
        if event.written is not None:
            self._usage["cache_creation_input_tokens"] = written
        if event.reasoning is not None:
            self._usage["output_tokens_details"] = {"thinking_tokens": event.reasoning}

    def _finish_message(self, event: ev.Finish) -> None:
        self._report_waiting()
        native = self._get_own(event.extra)
        raw = event.raw if STOP_REASONS.get(event.reason) and native else ""
        reason = STOP_REASONS["refusal" if self._refused and event.reason == "stop" else event.reason]
        stop: dict[str, Any] = {"stop_reason": raw or reason, "stop_sequence": native.get("stop_sequence")}
        stop.update({key: native[key] for key in ("stop_details", "container") if native.get(key)})
        payload = {"type": "message_delta", "delta": stop, "usage": self._usage}
        if native.get("context_management"):
            payload["context_management"] = native["context_management"]
        self._send_payload(payload)
        self._send_payload({"type": "message_stop"})
        if event.others:
            self.report_loss("choice")
        if event.reason in {"filter", "other"} or (event.reason == "stop" and self._called):
            self.report_loss("reason")

    def _report_waiting(self) -> None:
        """Reports what still waits for a block at the end of the turn."""
        if self._waiting_sources:
            self.report_loss("source-outside-text")
        if self._waiting_runs:
            self.report_loss("provider-call")

    def _write_fault(self, event: ev.Fault) -> None:
        self._report_waiting()
        if self._usage != self._start_usage:
            self._send_payload({"type": "message_delta", "delta": _NO_STOP, "usage": self._usage})
        self._send_payload(build_error_body(event))

    # ── blocks ────────────────────────────────────────────────────────────────────────────────────

    def _open_block(
        self, index: int, choice: int, block: dict[str, Any], kind: type[ev.Event] = ev.TextDelta, delta: bytes = b""
    ) -> None:
        """Opens a block. `kind` is the event type of its deltas; `delta` is their JSON up to the string."""
        if choice:
            self.report_loss("choice")
            return
        if self._broken:
            self.report_loss("after-break")
            return
        runs, self._waiting_runs = self._waiting_runs, []
        for run in runs:
            self._write_provider_run(run)
        self._block += 1
        self._part = index
        self._is_text = block.get("type") == "text"
        before = b'{"type":"%b","index":%d,"delta":%b' % (_DELTA, self._block, delta)
        self.template = FrameTemplate(kind, index, _DELTA, before, b"}}")
        self._send_payload({"type": "content_block_start", "index": self._block, "content_block": block})

    def _close_block(self, event: Any) -> None:
        if event.index == self._part:
            self._part = -1
            self.template = NO_TEMPLATE
            self._broken = self._broken or event.broken
            if not event.broken:
                self.out.append((b"content_block_stop", b'{"type":"content_block_stop","index":%d}' % self._block))

    def _write_block(self, block: dict[str, Any]) -> None:
        """Writes a complete block."""
        self._open_block(_SINGLE, 0, block)
        self._close_block(ev.TextEnd(_SINGLE))

    def _start_text(self, event: ev.TextStart | ev.RefusalStart) -> None:
        if event.extra:
            self.report_loss("text-state")
        kind = ev.TextDelta if type(event) is ev.TextStart else ev.RefusalDelta
        self._open_block(event.index, event.choice, {"type": "text", "text": ""}, kind, b'{"type":"text_delta","text":')
        if event.index == self._part:
            sources, self._waiting_sources = self._waiting_sources, []
            for source in sources:
                self._add_source(source)

    def _end_text(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        if event.extra:
            self.report_loss("text-state")
        self._close_block(event)

    def _start_refusal(self, event: ev.RefusalStart) -> None:
        """Writes a refusal as text. The stop reason marks it as a refusal."""
        if not event.choice:
            self._refused = True
            self.report_loss("refusal")
        self._start_text(event)

    def _append_text(self, event: ev.TextDelta | ev.RefusalDelta | ev.ReasoningDelta) -> None:
        """Writes text with log probabilities. `feed` writes other text of an open block."""
        if event.index == self._part:
            self.out.append(self.template.frame(event.text))
            if getattr(event, "logprobs", None) is not None:
                self.report_loss("logprobs")

    def _start_reasoning(self, event: ev.ReasoningStart) -> None:
        if event.form != "redacted":
            block = {"type": "thinking", "thinking": "", "signature": ""}
            self._open_block(event.index, event.choice, block, ev.ReasoningDelta, _THINKING_DELTA)

    def _end_reasoning(self, event: ev.ReasoningEnd) -> None:
        if event.broken:
            self._close_block(event)
            return
        native = self._get_own(event.extra)
        signature, redacted = native.get("signature"), native.get("redacted")
        if isinstance(redacted, str):
            self._write_block({"type": "redacted_thinking", "data": redacted})
        elif event.extra and (not isinstance(signature, str) or event.extra.keys() != {NAME}):
            self.report_loss("opaque")
        if signature and isinstance(signature, str) and event.index == self._part:
            self._send_delta({"type": "signature_delta", "signature": signature})
        self._close_block(event)

    # ── calls and results ─────────────────────────────────────────────────────────────────────────

    def _start_call(self, event: ev.CallStart) -> None:
        kind = lenient.get_text(self._get_own(event.extra), "type") or _TOOL_USE
        if event.by == "provider" and kind == _TOOL_USE:
            mapped = not event.choice and _get_server_tool(event.name)
            self.report_loss("provider-run" if mapped else "provider-call")
            if mapped:
                self._provider_tools[event.id] = event.name
            return
        self._waiting_call = event

    def _open_call(self, event: ev.CallStart) -> None:
        """Opens the block of a call with its first input: a call without input looks complete, but may yet be cut."""
        self._waiting_call = None
        native = self._get_own(event.extra)
        kind = (lenient.get_text(native, "type") or _TOOL_USE) if event.by == "provider" else _TOOL_USE
        self._called = self._called or kind == _TOOL_USE
        block: dict[str, Any] = {**native, "type": kind, "id": event.id, "name": event.name, "input": {}}
        self._open_block(event.index, event.choice, block, ev.CallDelta, _INPUT_DELTA)

    def _append_input(self, event: ev.CallDelta) -> None:
        start = self._waiting_call
        if start is not None and start.form == "json" and event.json.strip():
            self._open_call(start)
        if event.index == self._part:
            self.out.append(self.template.frame(event.json))

    def _end_call(self, event: ev.CallEnd) -> None:
        start = self._waiting_call
        if start is not None and event.broken:
            self._cut_call(event)
            return
        if event.id in self._provider_tools and event.by == "provider" and not event.broken:
            self._waiting_runs.append(event)
            return
        if start is not None:
            json = event.json
            if start.form == "text":
                self.report_loss("free-text")
                json = _encode_json({"input": json}).decode()
            self._open_call(start)
            self._append_input(ev.CallDelta(event.index, json))
        self._close_block(event)

    def _cut_call(self, event: ev.CallCut | ev.CallEnd) -> None:
        """Ends a cut call. Truncated JSON shows that it is incomplete; complete JSON cannot be taken back."""
        if self._waiting_call is not None or (event.index == self._part and not event.broken and is_json(event.json)):
            self.report_loss("cut-call")
        self._waiting_call, self._broken = None, self._broken or event.broken
        self._close_block(event)

    def _add_result(self, event: ev.Result) -> None:
        native = self._get_own(event.extra)
        if native:
            self._write_block({**native, "content": msgspec.Raw(event.json.encode())})
        elif event.call in self._provider_tools:
            if not event.partial:
                self._waiting_runs.append(event)
        else:
            self.report_loss("provider-call")

    def _write_provider_run(self, event: ev.CallEnd | ev.Result) -> None:
        """Writes another provider's run before the next block.

        It is never last: clients take the last block for the answer, and Gemini reports its searches at the end.
        """
        if isinstance(event, ev.Result):
            self._write_block(build_result_block(event, _get_server_tool(self._provider_tools[event.call])))
            return
        name = _get_server_tool(event.name)
        call_id = PROVIDER_CALL_PREFIX + event.id
        block: dict[str, Any] = {"type": "server_tool_use", "id": call_id, "name": name, "input": {}}
        self._open_block(_SINGLE, 0, block, ev.CallDelta, _INPUT_DELTA)
        if name == "code_execution":
            arguments = {"code": provider_tools.program_code(event.json)}
        else:
            arguments = {"query": ", ".join(provider_tools.search_queries(event.json))}
        self.out.append(self.template.frame(_encode_json(arguments).decode()))
        self._close_block(ev.TextEnd(_SINGLE))

    # ── citations and opaque blocks ───────────────────────────────────────────────────────────────

    def _add_source(self, event: ev.Source) -> None:
        """Writes a citation into the open text block. A citation that belongs to no text waits for one."""
        if self._part < 0 or not self._is_text or event.of not in (None, self._part):
            if event.of is None:
                self._waiting_sources.append(event)
            else:
                self.report_loss("source-outside-text")
            return
        if event.span is not None:
            self.report_loss("span")
        citation = {"type": "web_search_result_location", "url": event.url, "title": event.title}
        citation |= {"cited_text": event.quote, "encrypted_index": ""}
        self._send_delta({"type": "citations_delta", "citation": self._get_own(event.extra) or citation})

    def _add_opaque(self, event: ev.Opaque) -> None:
        block = lenient.as_object(event.data) if event.protocol == NAME else {}
        if not lenient.get_text(block, "type"):
            self.report_loss("opaque")
        elif event.kind == "compaction":
            self._write_compaction(block)
        else:
            self._write_block(block)

    def _write_compaction(self, block: dict[str, Any]) -> None:
        """Writes the content of a compaction as a delta, the only way that is allowed."""
        content = {key: value for key, value in block.items() if key != "type" and value is not None}
        self._open_block(_SINGLE, 0, {**block, **dict.fromkeys(content)})
        self._send_delta({"type": "compaction_delta", **content})
        self._close_block(ev.TextEnd(_SINGLE))

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        **dict.fromkeys((ev.Step, ev.FileDelta, ev.FileEnd), nothing),
        **dict.fromkeys((ev.TextDelta, ev.RefusalDelta, ev.ReasoningDelta), _append_text),
        **dict.fromkeys((ev.TextEnd, ev.RefusalEnd), _end_text),
        ev.Start: _start_message,
        ev.TextStart: _start_text,
        ev.RefusalStart: _start_refusal,
        ev.ReasoningStart: _start_reasoning,
        ev.ReasoningEnd: _end_reasoning,
        ev.CallStart: _start_call,
        ev.CallDelta: _append_input,
        ev.CallEnd: _end_call,
        ev.CallCut: _cut_call,
        ev.FileStart: lost("file"),
        ev.Result: _add_result,
        ev.Ask: lost("approval"),
        ev.Source: _add_source,
        ev.Opaque: _add_opaque,
        ev.Data: lost("data"),
        ev.Usage: _update_usage,
        ev.Finish: _finish_message,
        ev.Fault: _write_fault,
        ev.Unknown: verbatim,
    }


def _get_server_tool(tool: str) -> str:
    """Returns the server tool that another provider's tool is written as; empty if there is none."""
    return _SERVER_TOOLS.get(provider_tools.KINDS.get(tool, ""), "")
