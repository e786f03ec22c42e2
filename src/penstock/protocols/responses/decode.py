"""OpenAI Responses and Open Responses → events: the life of a response, and the table of all event types.

What happens inside an item is read in `pieces`; here the final snapshot is reconciled with what was streamed. An
`error` is merged with the `response.failed` that usually follows. That one is optional: `pending` tells the reader of
the connection to wait for it only a moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import pick
from penstock.delta_templates import number_remover, string_remover
from penstock.jsontext import loose_bounded, usable
from penstock.protocols.responses import wire
from penstock.protocols.responses.echo import Echo
from penstock.protocols.responses.ending import fault_of, finish_of, read_usage
from penstock.protocols.responses.pieces import Pieces
from penstock.protocols.responses.speech import NAME, own

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import AnyEvent
# Numbers of frames, which nobody reads here, and padding of OpenAI's.
_IGNORED = (number_remover(b'"sequence_number'), string_remover(b"obfuscation"))


class ResponsesDecoder(Pieces):
    """State beside that of the pieces: an error that waits, and what the response said beside its output."""

    protocol = NAME
    ignored = _IGNORED
    shape = wire.Payload
    read = staticmethod(msgspec.json.Decoder(wire.Payload).decode)

    def __init__(self) -> None:
        super().__init__()
        self._alarm: wire.Error | None = None
        self._echo = Echo()

    @property
    def pending(self) -> str:
        return "error" if self._alarm is not None else super().pending

    # ── the response ──────────────────────────────────────────────────────────────────────────────

    def _created(self, payload: wire.Lifecycle) -> None:
        """A response begins. Inside an unfinished one only its items begin anew; sent twice, it is one."""
        response = payload.response
        if self._alarm is not None:
            self._fail()
        if not self.ledger.inside:
            self._start(response)
        elif (response.id or "") != self._id:
            self._close_items(whole=True)
            self.ledger.close_all()
            self._items.clear()
        self._count(response.usage)

    def _start(self, response: wire.Response) -> None:
        self._items.clear()
        self._id = response.id or ""
        self._calls.tools(response.tools or [])
        created = pick.as_whole(response.created_at)
        self.ledger.start(self._id, response.model or "", created, self._echo.first(self.frame[1]))

    def _running(self, payload: wire.Lifecycle) -> None:
        """Queued or in progress: the beginning, where that is missing."""
        if not self.ledger.inside and (not self.ledger.turns or (payload.response.id or "") != self._id):
            self._start(payload.response)

    def _completed(self, payload: wire.Lifecycle) -> None:
        """Some say `completed` and mean the status inside."""
        if payload.response.status not in ("incomplete", "failed"):
            payload.response.status = "completed"
        self._ended(payload)

    def _incomplete(self, payload: wire.Lifecycle) -> None:
        payload.response.status = "incomplete"
        self._ended(payload)

    def _failed(self, payload: wire.Lifecycle) -> None:
        payload.response.status = "failed"
        self._ended(payload)

    def _cancelled(self, payload: wire.Lifecycle) -> None:
        payload.response.status = "cancelled"
        self._ended(payload)

    def _ended(self, payload: wire.Lifecycle) -> None:
        response = payload.response
        if not self.ledger.inside:
            if self.ledger.turns and (response.id or "") == self._id:
                self.diagnostics.add("after-end", "the end of a response sent twice is one end")
                return
            self._start(response)
        self._count(response.usage)
        reason, raw = finish_of(response, self.diagnostics)
        failed = self.ledger.breaking = reason is None or self._alarm is not None
        self._reconcile(response.output or [])
        if failed or reason is None:
            self._fail(response)
            return
        self._close_items(whole=reason == "stop")
        said = {
            "incomplete_details": response.incomplete_details, "completed_at": response.completed_at,
            "copilot_usage": payload.copilot_usage,
        }  # fmt: skip
        known = {key: value for key, value in said.items() if value is not None}
        extra = own(**{**self._echo.more(self.frame[1]), **known})
        self.ledger.finish(reason, raw, extra=extra)
        self.ledger.end()

    def _reconcile(self, output: list[dict[str, Any]]) -> None:
        """What the snapshot has and the stream had not is delivered now."""
        for slot in self._items.matched(output):
            reader = self._reader(slot)
            if slot.done:
                reader.last(slot)
            else:
                reader.done(slot)
                slot.done = True

    def _count(self, usage: dict[str, Any] | None) -> None:
        counted = read_usage(usage) if usage else None
        if counted is not None:
            self.ledger.usage(counted)

    # ── faults and ends ───────────────────────────────────────────────────────────────────────────

    def _error(self, payload: wire.Error) -> None:
        """Kept until `response.failed` follows, which may say more, or until the input ends."""
        if self.ledger.ended:
            self.diagnostics.add("after-end", "an error after the end of the response is ignored")
        elif self._alarm is None:
            self._alarm = payload

    def _fail(self, response: wire.Response | None = None) -> None:
        alarm, self._alarm = self._alarm, None
        self.ledger.breaking = self.ledger.inside
        self._close_items(whole=False)
        self.ledger.fault(**fault_of(alarm, response))

    def named(self, name: str, data: bytes) -> bool:
        if data.strip().upper() != b"[DONE]":
            return False
        if self._alarm is not None:
            self._fail()
        elif self.ledger.inside:
            self._close_items(whole=True)
            self.ledger.end()
        return True

    def finish(self) -> list[AnyEvent]:
        if self._alarm is not None:
            self._fail()
        elif self.ledger.inside:
            self.ledger.breaking = not self.ledger.finishing
            self._close_items(whole=False)
        return super().finish()

    def _fit(self, name: str, value: Any, raw: Callable[[], bytes]) -> None:
        """Frames that leave their type to the event's name, whole bodies and error bodies have no type of ours."""
        payload = pick.as_object(value)
        if self.ledger.mending and "delta" not in payload:
            text = usable(raw().decode("utf-8", "replace")) or "null"  # lone surrogates are mended in deltas alone
            value, raw = loose_bounded(text.encode()), text.encode
            payload = pick.as_object(value)
        typed = pick.text(payload, "type") in wire.SHAPES or not payload
        super()._fit(name, value if typed else _typed(name, payload), raw)

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = wire.dispatch({
        "response": _ended,
        "response.created": _created,
        "response.queued": _running,
        "response.in_progress": _running,
        "response.completed": _completed,
        "response.incomplete": _incomplete,
        "response.failed": _failed,
        "response.cancelled": _cancelled,
        "response.canceled": _cancelled,
        "error": _error,
        **Pieces.pieces,
    })  # fmt: skip


def _typed(name: str, payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with the type it should have had."""
    if name in wire.SHAPES:
        return {**payload, "type": name}
    if payload.get("object") == "response":
        return {"type": "response", "response": payload}
    if payload.get("error") and "choices" not in payload:
        return {**payload, "type": "error"}
    if name == "error" or ("detail" in payload and "type" not in payload):
        return {"type": "error", "message": pick.text(payload, "message", "detail")}
    return payload
