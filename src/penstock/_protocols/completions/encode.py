"""Events → legacy text completion chunks. Only text and refusals are written, both as text; the rest is a loss.

The stream ends with a finish, the usage, and exactly one `[DONE]`. A fault ends it with an error object and without it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from penstock import _vendor_errors as vendor_errors
from penstock import events as ev
from penstock._codec import lost, nothing, verbatim
from penstock._diagnostics import read_losses
from penstock._lenient_json import grow_text
from penstock._openai_chunk_encoding import GAP, CompletionChunkEncoder, build_chunk_usage, encode_json, fold_chunks
from penstock._protocols.completions.decode import NAME, read_logprobs, write_logprobs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._framing.base import Frame
    from penstock.events import Reason

_FINISH_REASONS: dict[Reason, str] = {
    **dict.fromkeys(("stop", "calls", "pause", "other"), "stop"),
    **dict.fromkeys(("filter", "refusal"), "content_filter"),
    "length": "length",
}
_REASON_LOSSES: dict[Reason, str] = {"calls": "call", "pause": "pause", "refusal": "reason", "other": "reason"}
ERRORS = vendor_errors.openai_errors("prompt")
build_error_body = partial(vendor_errors.build_openai_error_body, protocol=NAME, errors=ERRORS)


class CompletionsEncoder(CompletionChunkEncoder):
    """State: the choice of each open part, and the text offsets."""

    protocol = NAME
    losses = read_losses(__name__, "answers")
    object_name = "text_completion"
    errors = ERRORS

    def __init__(
        self, *, id: str = "cmpl", model: str = "unknown", created: int = 0, include_usage: bool = True
    ) -> None:
        super().__init__(id, model, created, include_usage=include_usage)
        self._reset()

    def _reset(self) -> None:
        self._choices: dict[int, int] = {}  # open part → choice
        self._offsets: dict[int, int] = {}
        self._other_choices: set[int] = set()  # with text; a stream may number them in any way
        self._needs_head = False  # no chunk has the turn's id and model yet
        self._has_refusal = False

    def _write_chunk(self, choice: int, text: bytes, finish: bytes = b"null", logprobs: bytes = b"null") -> None:
        format_ = b'%b"choices":[{"text":%b,"index":%d,"logprobs":%b,"finish_reason":%b}]}'
        self.out.append((b"", format_ % (self._chunk_start, text, choice, logprobs, finish)))

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _write_start(self, event: ev.Start) -> None:
        self._reset()
        self._needs_head = bool(event.id or event.model)
        self._start_chunks(event)

    def _set_usage(self, event: ev.Usage) -> None:
        if event.step:
            self.report_loss("steps")
            return
        self._usage = build_chunk_usage(event, NAME)
        if event.written is not None and not self._get_extras(event.extra):
            self.report_loss("written")

    def _write_finish(self, event: ev.Finish) -> None:
        for reason in (event.reason, *event.others):
            if reason in _REASON_LOSSES:
                self.report_loss(_REASON_LOSSES[reason])
        stopped = event.reason == "refusal" and self._has_refusal
        self._write_chunk(0, b'""', encode_json("stop" if stopped else _FINISH_REASONS[event.reason]))
        for choice in sorted(self._other_choices.union(range(1, len(event.others) + 1))):
            other = event.others[choice - 1] if 0 < choice <= len(event.others) else "other"
            self._write_chunk(choice, b'""', encode_json(_FINISH_REASONS[other]))
        self._end_chunks()

    def _write_fault(self, event: ev.Fault) -> None:
        if self._needs_head:
            self._write_chunk(0, b'""')
        self.write_fault(event)

    # ── text ──────────────────────────────────────────────────────────────────────────────────────

    def _start_text(self, event: ev.TextStart | ev.RefusalStart) -> None:
        if event.choice in self._choices.values():
            self.report_loss("overlap")
        if event.extra:
            self.report_loss("text-state")
        self._choices[event.index] = event.choice
        if event.choice:
            self._other_choices.add(event.choice)
        self._needs_head = False

    def _start_refusal(self, event: ev.RefusalStart) -> None:
        self._start_text(event)
        self._has_refusal = True
        self.report_loss("refusal")

    def _write_text(self, event: ev.TextDelta) -> None:
        choice = self._choices[event.index]
        if event.logprobs is not None:
            self._write_chunk(choice, encode_json(event.text), logprobs=self._write_logprobs(choice, event.logprobs))
            return
        self._write_chunk(choice, GAP)
        self._make_template(event)

    def _write_refusal(self, event: ev.RefusalDelta) -> None:
        self._write_chunk(self._choices[event.index], encode_json(event.text))

    def _write_logprobs(self, choice: int, logprobs: Any) -> bytes:
        lists, self._offsets[choice] = write_logprobs(logprobs, self._offsets.get(choice, 0))
        if read_logprobs(lists) != logprobs:
            self.report_loss("logprobs")
        return encode_json(lists)

    def _end_text(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        if event.extra:
            self.report_loss("text-state")
        self._choices.pop(event.index, None)

    def _report_call(self, event: ev.CallStart) -> None:
        self.report_loss("call" if event.by == "client" else "provider-call")
        if event.choice:
            self.report_loss("choice")

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _write_start, ev.Step: nothing,
        ev.TextStart: _start_text, ev.TextDelta: _write_text, ev.TextEnd: _end_text,
        ev.RefusalStart: _start_refusal, ev.RefusalDelta: _write_refusal, ev.RefusalEnd: _end_text,
        ev.ReasoningStart: lost("reasoning"), ev.ReasoningDelta: nothing, ev.ReasoningEnd: nothing,
        ev.CallStart: _report_call, ev.CallDelta: nothing, ev.CallEnd: nothing, ev.CallCut: nothing,
        ev.FileStart: lost("file"), ev.FileDelta: nothing, ev.FileEnd: nothing,
        ev.Result: lost("provider-call"), ev.Ask: lost("approval"), ev.Source: lost("source"),
        ev.Opaque: lost("opaque"), ev.Data: lost("data"), ev.Usage: _set_usage, ev.Finish: _write_finish,
        ev.Fault: _write_fault, ev.Unknown: verbatim,
    }  # fmt: skip


def fold_body(frames: Sequence[Frame]) -> bytes:
    """Merges the encoder's frames into one completion."""
    return fold_chunks(frames, _merge_choice, _move_usage)


def _merge_choice(choices: dict[int, dict[str, Any]], fragment: dict[str, Any]) -> None:
    choice = choices.setdefault(fragment["index"], {**fragment, "text": "", "logprobs": None})
    grow_text(choice, "text", fragment["text"])
    choice["finish_reason"] = fragment["finish_reason"] or choice["finish_reason"]
    if fragment["logprobs"]:
        lists: dict[str, list[Any]] = choice["logprobs"] or {}
        for key, values in fragment["logprobs"].items():
            lists.setdefault(key, []).extend(values)
        choice["logprobs"] = {key: lists[key] for key in fragment["logprobs"]}


def _move_usage(body: dict[str, Any]) -> None:
    """Moves the usage to the end of the body."""
    if "usage" in body:
        body["usage"] = body.pop("usage")
