"""Events → legacy text completion chunks. Text is all there is: the rest is a loss, but for a refusal, which is text.

The stream ends with a finish, the usage, and exactly one `[DONE]`; a fault ends it with an error object and none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock.codec import Encoder, Losses, lost, nothing, verbatim
from penstock.frame_templates import NO_TEMPLATE, FrameTemplate
from penstock.protocols.completions import wire
from penstock.protocols.completions.body import error_body

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra, Reason

NAME = "completions"
REASONS: dict[Reason, str] = {
    "stop": "stop", "length": "length", "calls": "stop", "filter": "content_filter", "refusal": "content_filter",
    "pause": "stop", "other": "stop",
}  # fmt: skip
_UNSAID: dict[Reason, str] = {"calls": "call", "pause": "pause", "refusal": "reason", "other": "reason"}
LOSSES: Losses = {
    "call": "a tool call has no field; the answer ends as if it had stopped",
    "provider-call": "a tool run by the provider has no field; its words are in the text that follows",
    "reasoning": "reasoning has no field",
    "refusal": "a refusal is written as text",
    "source": "a citation has no field",
    "file": "a file has no field",
    "approval": "a request for approval has no field",
    "opaque": "opaque state of another protocol has no field",
    "data": "an application's own data has no field",
    "choice": "a tool call of a further choice has no field either",
    "pause": "a paused turn is written as stopped",
    "reason": "a finish reason without a word here is written as the nearest",
    "logprobs": "of log probabilities, tokens and their chances are written, and no bytes",
    "overlap": "the words of texts that are open at once come in the order they were said",
    "steps": "the usage of single steps is not written, only that of the turn",
    "text-state": "what another protocol keeps with a text is not written",
    "written": "tokens written to a cache are not told apart",
    "unknown": "another protocol's unknown payload is not written",
}
_encode = msgspec.json.Encoder().encode
_DONE = (b"", b"[DONE]")
_HERE = b"\x00"  # stands in no frame


class CompletionsEncoder(Encoder):
    """State: the head of every chunk, the choice of each open part, the places of tokens, the usage so far."""

    protocol = NAME
    losses = LOSSES

    def __init__(
        self, *, id: str = "cmpl", model: str = "unknown", created: int = 0, include_usage: bool = True
    ) -> None:
        super().__init__()
        self._id, self._model, self._created = id, model, created
        self._include_usage = include_usage
        self._head = b""
        self._choices: dict[int, int] = {}
        self._offsets: dict[int, int] = {}
        self._spoke: set[int] = set()  # choices beside the first; a stream may number them as it likes
        self._nameless = False  # whether the turn's name is in no chunk yet
        self._refused = False
        self._usage: dict[str, Any] | None = None

    def _own(self, extra: Extra | None) -> dict[str, Any]:
        return (extra or {}).get(NAME, {})

    def _send(self, choice: int, text: bytes, finish: bytes = b"null", chances: bytes = b"null") -> None:
        self.out.append((
            b"",
            b'%b"choices":[{"text":%b,"index":%d,"logprobs":%b,"finish_reason":%b}]}'
            % (self._head, text, choice, chances, finish),
        ))  # fmt: skip

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _start(self, event: ev.Start) -> None:
        self._choices, self._offsets, self._usage, self._refused, self._spoke = {}, {}, None, False, set()
        self._nameless = bool(event.id or event.model)
        self.template = NO_TEMPLATE
        head = {
            "id": event.id or self._id, "object": "text_completion",
            "created": event.created or self._created, "model": event.model or self._model,
            **self._own(event.extra),
        }  # fmt: skip
        self._head = _encode(head)[:-1] + b","

    def _usage_event(self, event: ev.Usage) -> None:
        if event.step:
            self.report_loss("steps")
            return
        own = self._own(event.extra)
        if own:
            self._usage = {"prompt_tokens": event.input, "completion_tokens": event.output, **own}
            return
        read, made = event.input or 0, event.output or 0
        self._usage = {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}
        if event.written is not None:
            self.report_loss("written")
        if event.cached is not None:
            self._usage["prompt_tokens_details"] = {"cached_tokens": event.cached}
        if event.reasoning is not None:
            self._usage["completion_tokens_details"] = {"reasoning_tokens": event.reasoning}

    def _finish(self, event: ev.Finish) -> None:
        for said in (event.reason, *event.others):
            if said in _UNSAID:
                self.report_loss(_UNSAID[said])
        reason = "stop" if event.reason == "refusal" and self._refused else REASONS[event.reason]
        self._send(0, b'""', _encode(reason))
        for choice in sorted(self._spoke.union(range(1, len(event.others) + 1))):
            other = event.others[choice - 1] if 0 < choice <= len(event.others) else "other"
            self._send(choice, b'""', _encode(REASONS[other]))
        self._count()
        self.out.append(_DONE)

    def _count(self) -> None:
        if self._include_usage and self._usage is not None:
            self.out.append((b"", b'%b"choices":[],"usage":%b}' % (self._head, _encode(self._usage))))

    def _fault(self, event: ev.Fault) -> None:
        """The error, with the usage beside it: a usage chunk would say that the answer is complete."""
        if self._nameless:
            self._send(0, b'""')
        body = error_body(event)
        if self._include_usage and self._usage is not None:
            body["usage"] = self._usage
        self.out.append((b"", _encode(body)))

    # ── text ──────────────────────────────────────────────────────────────────────────────────────

    def _open(self, event: ev.TextStart | ev.RefusalStart) -> None:
        if event.choice in self._choices.values():
            self.report_loss("overlap")
        if event.extra:
            self.report_loss("text-state")
        self._choices[event.index] = event.choice
        if event.choice:
            self._spoke.add(event.choice)
        self._nameless = False

    def _open_refusal(self, event: ev.RefusalStart) -> None:
        self._open(event)
        self._refused = True
        self.report_loss("refusal")

    def _text(self, event: ev.TextDelta) -> None:
        choice = self._choices[event.index]
        if event.logprobs is not None:
            self._send(choice, _encode(event.text), chances=self._chances(choice, event.logprobs))
            return
        self._send(choice, _HERE)
        before, after = self.out.pop()[1].split(_HERE)
        self.template = FrameTemplate(ev.TextDelta, event.index, b"", before, after)
        self.write(event)

    def _refusal(self, event: ev.RefusalDelta) -> None:
        self._send(self._choices[event.index], _encode(event.text))

    def _chances(self, choice: int, said: Any) -> bytes:
        lists, self._offsets[choice] = wire.write(said, self._offsets.get(choice, 0))
        if wire.read(lists) != said:
            self.report_loss("logprobs")
        return _encode(lists)

    def _close(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        if event.extra:
            self.report_loss("text-state")
        self._choices.pop(event.index, None)

    # ── what has no place ─────────────────────────────────────────────────────────────────────────

    def _call(self, event: ev.CallStart) -> None:
        self.report_loss("call" if event.by == "client" else "provider-call")
        if event.choice:
            self.report_loss("choice")

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _start, ev.Step: nothing,
        ev.TextStart: _open, ev.TextDelta: _text, ev.TextEnd: _close,
        ev.RefusalStart: _open_refusal, ev.RefusalDelta: _refusal, ev.RefusalEnd: _close,
        ev.ReasoningStart: lost("reasoning"), ev.ReasoningDelta: nothing, ev.ReasoningEnd: nothing,
        ev.CallStart: _call, ev.CallDelta: nothing, ev.CallEnd: nothing, ev.CallCut: nothing,
        ev.FileStart: lost("file"), ev.FileDelta: nothing, ev.FileEnd: nothing,
        ev.Result: lost("provider-call"), ev.Ask: lost("approval"), ev.Source: lost("source"),
        ev.Opaque: lost("opaque"), ev.Data: lost("data"), ev.Usage: _usage_event, ev.Finish: _finish, ev.Fault: _fault,
        ev.Unknown: verbatim,
    }  # fmt: skip
