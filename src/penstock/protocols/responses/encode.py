"""Events → Responses frames: the full life of a response, and a final snapshot that equals what was streamed.

A call that was cut is never done, because Codex runs what is: the snapshot has it as incomplete, with input that
cannot be parsed, or not at all. A fault is an `error` and a `response.failed`, as the provider sends them, and `[DONE]`
is last, as Open Responses has it. No item that is open at a fault is done, because Codex keeps what is: only the
snapshot has it, as incomplete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.protocols.responses.body import DEFAULTS, INCOMPLETE, error_event, usage_object
from penstock.protocols.responses.encode_calls import Calling
from penstock.protocols.responses.encode_text import FORMS
from penstock.protocols.responses.wire import NAME, SHAPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.codec import Losses

LOSSES: Losses = {
    "choice": "only the first of several choices is written",
    "data": "an application's own data has no item",
    "cut-call": "a call that a fault broke off is shown with input that cannot be parsed, even if all of it came",
    "cut-file": "a picture that a fault broke off is announced, and not shown in the snapshot",
    "file": "a file that is no inline image has no item",
    "provider-call": "another protocol's own tool run has no item; its words are in the text that follows",
    "provider-run": "of another provider's search or program, queries, addresses, code and output are written",
    "approval": "another protocol's request for approval has no item",
    "opaque": "another protocol's opaque state has no item",
    "pause": "a paused turn is written as completed",
    "picture": "an inline picture is written as the answer of an image tool",
    "logprobs": "log probabilities are written as a list of tokens, and nothing beside it",
    "reason": "a refusal is written as completed, or as filtered if it has no words; an unknown reason as completed",
    "same-id": "an item whose id was used before gets another",
    "source": "a citation without an address has no annotation that all readers know",
    "source-outside-text": "a citation that comes after its message is finished, or has none, is left out",
    "span": "a citation of a whole text is written as one of all the text there is so far",
    "steps": "only the usage of the whole turn is written",
    "text-state": "another protocol's state of a text has no field",
    "unknown": "an unknown payload is written only if it is of this protocol, strict JSON and of a type of its own",
}
_encode = msgspec.json.Encoder().encode


class ResponsesEncoder(Calling):
    """State beside that of calling and speaking: the response object so far.

    `renames`: whose ids give way to the one given here. `clock` tells when a response was completed, if it is there.
    """

    protocol = NAME
    losses = LOSSES

    def __init__(
        self, *, id: str = "resp", model: str = "unknown", created: int = 0, settings: Mapping[str, Any] | None = None,
        reasoning: Literal["summary", "reasoning_text", "reasoning"] = "summary", done: bool = True,
        renames: Literal["none", "foreign", "all"] = "none", clock: Callable[[], int] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(reasoning)
        self._id, self._model, self._created = id, model, created
        self._renames, self._clock = renames, clock
        self._settings = dict(settings or {})
        self._done = done
        self._response: dict[str, Any] = {}

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        self.out = self._output.out = []
        for event in events:
            self.write(event)
        return self.out

    # ── the response ──────────────────────────────────────────────────────────────────────────────

    def _start(self, event: ev.Start) -> None:
        foreign = self._renames == "foreign" and NAME not in (event.extra or ())
        name = self._id if foreign or self._renames == "all" or not event.id else event.id
        self._response = {
            "id": name, "object": "response", "created_at": event.created or self._created,
            "status": "in_progress", "model": event.model or self._model, "output": [], "usage": None,
            **DEFAULTS, **self._own(event.extra), **self._settings,
        }  # fmt: skip
        self._reset(name)
        self._output.send("response.created", response=self._response)
        self._output.send("response.in_progress", response=self._response)

    def _usage(self, event: ev.Usage) -> None:
        if event.step:
            self.report_loss("steps")
            return
        self._response["usage"] = usage_object(event, self._own(event.extra))

    def _finish(self, event: ev.Finish) -> None:
        own, refused = self._own(event.extra), any(voice.form is FORMS["refusal"] for voice in self._voices.values())
        why = lenient.get_object(own, "incomplete_details") or None
        if why is None and event.reason in INCOMPLETE and not (event.reason == "refusal" and refused):
            why = {"reason": INCOMPLETE[event.reason]}
        if why is None and event.reason in ("pause", "other"):
            self.report_loss("pause" if event.reason == "pause" else "reason")
        elif event.reason == "refusal":
            self.report_loss("reason")
        if event.others:
            self.report_loss("choice")
        self._end("incomplete" if why else "completed", {**own, "incomplete_details": why})

    def _end(self, status: str, changes: dict[str, Any]) -> None:
        if self._sources:
            self.report_loss("source-outside-text")
        if status != "failed":
            self._end_runs()
            self._output.rest("incomplete" if changes.get("incomplete_details") else "completed")
        shown = [entry.item for entry in self._output.entries if not entry.cut]
        if self._clock is not None and status == "completed":
            changes = {"completed_at": self._clock(), **changes}
        self._output.send(
            f"response.{status}", response={**self._response, **changes, "status": status, "output": shown}
        )
        if self._done:
            self.out.append((b"", b"[DONE]"))

    def _fault(self, event: ev.Fault) -> None:
        """Flat and nested in one, for the readers of either; then the end that all of them know."""
        self._abandon()
        error = error_event(event)
        flat = {key: error[key] for key in ("code", "message", "param")}
        self._output.send("error", **flat, error=error)
        self._end("failed", {"error": {"code": error["code"], "message": error["message"]}})

    def _step(self, _: ev.Step) -> None:
        self._output.rest()

    # ── the rest ──────────────────────────────────────────────────────────────────────────────────

    def _unknown(self, event: ev.Unknown) -> None:
        """Verbatim, but for its number: there is one sequence."""
        try:
            payload = msgspec.json.decode(event.data, type=dict[str, msgspec.Raw]) if event.protocol == NAME else {}
        except (msgspec.DecodeError, UnicodeEncodeError):
            payload = {}
        kind = bytes(payload.get("type", b""))
        if not payload or kind.decode().strip('"') in SHAPES:
            self.report_loss("unknown")
            return
        payload["sequence_number"] = msgspec.Raw(b"%d" % self._output.number)
        self._output.number += 1
        self.out.append((event.name.encode(), _encode(payload)))

    def _data(self, _: ev.Data) -> None:
        self.report_loss("data")

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _start, ev.Step: _step, ev.Usage: _usage, ev.Finish: _finish, ev.Fault: _fault,
        ev.Data: _data, ev.Unknown: _unknown, **Calling.speaking, **Calling.calling,
    }  # fmt: skip
