"""Events → generateContent chunks, as the official SDKs read them; array framing is the writer's affair.

Text leaves as it comes, a call when it is whole, a signature behind its part on an empty one, as Gemini itself does.
The last chunk brings finish reason, usage and grounding; a fault ends the stream with an error object.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock import provider_tools
from penstock.codec import Encoder, Losses, lost, nothing, verbatim
from penstock.fold import total
from penstock.frame_templates import NO_TEMPLATE, FrameTemplate
from penstock.framing import ERROR
from penstock.lenient_fields import as_object
from penstock.protocols.gemini import body
from penstock.protocols.gemini.body import Candidate, Slot, error_body
from penstock.protocols.gemini.decode_metadata import REASONS
from penstock.protocols.gemini.wire import NAME, owned, said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra

LOSSES: Losses = {
    "data": "an application's own data has no part",
    "provider-call": "another provider's own tool run has no part here",
    "provider-run": "of another provider's search or program, queries, code and output are written",
    "cut-call": "a call that never became whole is not written, nor one that waits for it when a fault comes",
    "cut-file": "a file that a fault broke off is not written",
    "text-call": "free text for a tool, or input that is no object, is written as its argument `input`",
    "approval": "a request for approval has no part",
    "opaque": "another protocol's opaque state is not written",
    "text-state": "what another protocol keeps with a text is not written",
    "refusal": "a refusal is written as text, its finish as SAFETY",
    "span": "a citation is placed in all of the text, where texts that touch are one, and nowhere else",
    "nameless": "a turn that fails before its first word has neither id nor model",
    "reason": "a stop after calls reads as a wish to have them run",
    "steps": "the usage of single steps is not written, only that of the turn",
    "pause": "a paused turn is written as stopped",
    "written": "tokens written to a cache have no field",
    "unknown": "another protocol's unknown payload is not written",
    "logprobs": "log probabilities of another protocol are not written",
}
_encode = msgspec.json.Encoder().encode


class GeminiEncoder(Encoder):
    """State: the tail of every chunk, the slots of open parts, text and sources per choice, the usage so far."""

    protocol = NAME
    losses = LOSSES

    def __init__(self, *, id: str = "response", model: str = "unknown") -> None:
        super().__init__()
        self._id, self._model = id, model
        self._tail = b"}"
        self._slots: dict[int, Slot] = {}
        self._choices: dict[int, Candidate] = {}
        self._choice_of: dict[int, int] = {}
        # Open texts and thoughts by choice. Only the first one is written: nothing would mark where another begins.
        self._open_slots: dict[int, list[Slot]] = {}
        self._waiting: OrderedDict[int, bytes] = OrderedDict()  # a dict is slow to give its first row after many
        self._usage: dict[str, Any] | None = None
        self._steps: dict[int, ev.Usage] = {}
        self._silent = True
        self._called = False
        self._mapped: dict[str, str] = {}  # another provider's runs that are written: call → kind
        self._turns = 0

    def _send(self, choice: int, part: bytes) -> None:
        self._silent = False
        self.out.append((
            b"",
            b'{"candidates":[{"content":{"parts":[%b],"role":"model"},"index":%d}]%b' % (part, choice, self._tail),
        ))  # fmt: skip

    def _part(self, choice: int, **part: Any) -> None:
        """A whole part, without the fields that say nothing."""
        self._send(choice, _encode(said(**part)))

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _start(self, event: ev.Start) -> None:
        self._slots, self._choices, self._choice_of, self._open_slots = {}, {}, {}, {}
        self._waiting.clear()
        self._usage, self._steps, self._silent, self._called = None, {}, True, False
        self._mapped = {}
        self.template = NO_TEMPLATE
        self._turns += 1
        again = f"-{self._turns}" if self._turns > 1 else ""  # another id is what tells a reader of another answer
        name = {"modelVersion": event.model or self._model, "responseId": event.id or self._id + again}
        head = {**said(createTime=body.time(event.created)), **owned(event.extra), **name}
        self._tail = b"," + _encode(head)[1:]

    def _usage_event(self, event: ev.Usage) -> None:
        if event.step:
            self.report_loss("steps")
            self._steps[event.step] = event
            return
        if event.written is not None:
            self.report_loss("written")
        self._usage = body.usage(event)

    def _spent(self) -> dict[str, Any] | None:
        return body.usage(total(self._steps.values())) if self._usage is None and self._steps else self._usage

    def _finish(self, event: ev.Finish) -> None:
        if event.reason == "pause" and event.raw not in REASONS:
            self.report_loss("pause")
        if event.reason == "refusal":
            self.report_loss("refusal")
        if event.reason == "stop" and self._called:
            self.report_loss("reason")
        own = owned(event.extra)
        payload: dict[str, Any] = {}
        blocked = "blockReason" in own.get("promptFeedback", {}) and self._silent
        if "groundingMetadata" not in own and any(one.moved for one in self._choices.values()):
            self.report_loss("span")
        if not blocked:
            payload["candidates"] = body.candidates(event, self._choices)
        if "promptFeedback" in own:
            payload["promptFeedback"] = own["promptFeedback"]
        if self._spent() is not None:
            payload["usageMetadata"] = self._spent()
        self.out.append((b"", _encode(payload)[:-1] + self._tail))

    def _fault(self, event: ev.Fault) -> None:
        """What was found and spent so far is said before, because readers stop at the error."""
        if any(self._waiting.values()):
            self.report_loss("cut-call")
        payload = body.so_far(self._choices, self._spent())
        if payload:
            self.out.append((b"", _encode(payload)[:-1] + self._tail))
        elif self._silent:
            self.report_loss("nameless")
        self.out.append((ERROR, _encode(error_body(event))))

    # ── text and thoughts ─────────────────────────────────────────────────────────────────────────

    def _open(self, event: ev.TextStart | ev.RefusalStart | ev.ReasoningStart) -> None:
        candidate = self._choices.get(event.choice)
        if candidate is None:
            candidate = self._choices[event.choice] = Candidate()
        slot = self._slots[event.index] = Slot(event.choice, candidate)
        self._choice_of[event.index] = event.choice
        open_slots = self._open_slots.setdefault(event.choice, [])
        slot.held = [] if open_slots else None
        open_slots.append(slot)

    def _speak(self, slot: Slot, part: bytes) -> None:
        if slot.held is None:
            self._send(slot.choice, part)
        else:
            slot.held.append(part)

    def _hush(self, slot: Slot) -> None:
        """The part has ended: whoever waited for it may speak."""
        slot.done = True
        open_slots = self._open_slots[slot.choice]
        while open_slots and open_slots[0].done:
            del open_slots[0]
            if open_slots:
                held, open_slots[0].held = open_slots[0].held or (), None
                for part in held:
                    self._send(slot.choice, part)

    def _text_start(self, event: ev.TextStart | ev.RefusalStart) -> None:
        self._open(event)
        self._slots[event.index].candidate.parts.add(event.index)
        self._foreign(event.extra, "text-state")

    def _refusal_start(self, event: ev.RefusalStart) -> None:
        self.report_loss("refusal")
        self._text_start(event)
        self._slots[event.index].candidate.refused = True

    def _foreign(self, extra: Extra | None, what: str) -> None:
        if extra and not owned(extra):
            self.report_loss(what)

    def _text(self, event: ev.TextDelta) -> None:
        if event.logprobs is not None:
            self.report_loss("logprobs")
        self._words(event)

    def _words(self, event: ev.TextDelta | ev.RefusalDelta) -> None:
        slot = self._slots[event.index]
        slot.candidate.add_text(event.index, event.text)
        self._speak(slot, b'{"text":%b}' % _encode(event.text))
        self._set_template(event, b'{"text":%b}', partial(slot.candidate.add_text, event.index))

    def _reasoning(self, event: ev.ReasoningDelta) -> None:
        self._speak(self._slots[event.index], b'{"text":%b,"thought":true}' % _encode(event.text))
        self._set_template(event, b'{"text":%b,"thought":true}')

    def _set_template(self, event: Any, part: bytes, keep: Callable[[str], None] | None = None) -> None:
        """More of that part is written in the same way, unless it waits for another."""
        slot = self._slots[event.index]
        if slot.held is None:
            before, after = part.split(b"%b")
            head = b'{"candidates":[{"content":{"parts":[%b' % before
            tail = b'%b],"role":"model"},"index":%d}]%b' % (after, slot.choice, self._tail)
            self.template = FrameTemplate(type(event), event.index, b"", head, tail, keep)

    def _text_end(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        self._foreign(event.extra, "text-state")
        self._sign(event, thought=None)

    def _reasoning_end(self, event: ev.ReasoningEnd) -> None:
        own = owned(event.extra)
        slot = self._slots[event.index]
        self._foreign(event.extra, "opaque")
        redacted = slot.media == "redacted"
        self._sign(event, thought=own.get("thought") if redacted else True)

    def _sign(self, event: Any, *, thought: bool | None) -> None:
        slot = self._slots.pop(event.index)
        signature = owned(event.extra).get("thoughtSignature")
        if signature and not event.broken:
            self._speak(slot, _encode(said(text="", thought=thought, thoughtSignature=signature)))
        self._hush(slot)

    def _reasoning_start(self, event: ev.ReasoningStart) -> None:
        self._open(event)
        self._slots[event.index].media = event.form
        self._foreign(event.extra, "opaque")

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _call_start(self, event: ev.CallStart) -> None:
        self._choice_of[event.index] = event.choice
        if event.by == "client":
            self._waiting[event.index] = b""

    def _call_end(self, event: ev.CallEnd) -> None:
        """A call is one part, which says by itself that the call is whole: one that was broken off has none."""
        if event.broken:
            self._cut(event)
            return
        if event.by == "provider":
            self._run(event)
            return
        if event.form == "text" or not event.json.lstrip().startswith("{"):
            self.report_loss("text-call")
        self._waiting[event.index] = _encode(body.function_call(event))
        self._release()

    def _release(self) -> None:
        """Calls leave in the order they were begun, because those without an id are answered in order."""
        while self._waiting:
            index, part = next(iter(self._waiting.items()))
            if not part:
                break
            self._send(self._choice_of[index], part)
            self._called = self._called or not self._choice_of[index]
            self._waiting.popitem(last=False)

    def _run(self, event: ev.CallEnd) -> None:
        choice, part, kind = self._choice_of[event.index], body.run(event), provider_tools.KINDS.get(event.name)
        if part is None and kind in ("search", "program"):
            self.report_loss("provider-run")
            self._mapped[event.id] = kind
            if kind == "search":
                self._choices.setdefault(choice, Candidate()).queries += provider_tools.queries(event.json)
            part = body.program(event) if kind == "program" else {}
        self._ran(choice, part)

    def _result(self, event: ev.Result) -> None:
        part, kind = body.result(event), self._mapped.get(event.call)
        if part is None and kind is not None:
            part = body.program_output(event) if kind == "program" else {}
        self._ran(owned(event.extra).get("choice", 0), part)

    def _ran(self, choice: int, part: dict[str, Any] | None) -> None:
        if part is None:
            self.report_loss("provider-call")
        elif part:
            self._send(choice, _encode(part))

    def _cut(self, event: ev.CallCut | ev.CallEnd) -> None:
        self.report_loss("cut-call" if event.by == "client" else "provider-call")
        self._waiting.pop(event.index, None)
        if not event.broken:
            self._release()

    # ── everything else ───────────────────────────────────────────────────────────────────────────

    def _file_start(self, event: ev.FileStart) -> None:
        self._slots[event.index] = Slot(event.choice, Candidate(), event.media, event.url)

    def _file_delta(self, event: ev.FileDelta) -> None:
        self._slots[event.index].data.append(event.data)

    def _file_end(self, event: ev.FileEnd) -> None:
        slot, own = self._slots.pop(event.index), owned(event.extra)
        if event.broken:
            self.report_loss("cut-file")
            return
        more = {"thought": own.get("thought"), "thoughtSignature": own.get("thoughtSignature")}
        if slot.url:
            self._part(slot.choice, fileData={"mimeType": slot.media, "fileUri": slot.url}, **more)
        else:
            self._part(slot.choice, inlineData={"mimeType": slot.media, "data": "".join(slot.data)}, **more)

    def _source(self, event: ev.Source) -> None:
        choice = self._choice_of.get(event.of, 0) if event.of is not None else 0
        self._choices.setdefault(choice, Candidate()).add(event)

    def _opaque(self, event: ev.Opaque) -> None:
        part = as_object(event.data) if event.protocol == NAME else {}
        if part:
            self._send(0, _encode(part))
        else:
            self.report_loss("opaque")

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _start, ev.Step: nothing,
        ev.TextStart: _text_start, ev.TextDelta: _text, ev.TextEnd: _text_end,
        ev.RefusalStart: _refusal_start, ev.RefusalDelta: _words, ev.RefusalEnd: _text_end,
        ev.ReasoningStart: _reasoning_start, ev.ReasoningDelta: _reasoning, ev.ReasoningEnd: _reasoning_end,
        ev.CallStart: _call_start, ev.CallDelta: nothing, ev.CallEnd: _call_end, ev.CallCut: _cut,
        ev.FileStart: _file_start, ev.FileDelta: _file_delta, ev.FileEnd: _file_end,
        ev.Result: _result, ev.Ask: lost("approval"), ev.Source: _source, ev.Opaque: _opaque,
        ev.Data: lost("data"), ev.Usage: _usage_event, ev.Finish: _finish, ev.Fault: _fault, ev.Unknown: verbatim,
    }  # fmt: skip
