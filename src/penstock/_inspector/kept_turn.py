"""A turn as it is kept: plain data that can be written to a file, and from which its trace is made again.

What cannot be written (the encoder of the client's stream, the stages that changed the answer) is made anew from the
settings that are kept of it. `note` says so where that is not possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from penstock import events as ev
from penstock._diagnostics import Diagnostic
from penstock._gateway import client_stream
from penstock._gateway.client_form import ClientForm
from penstock._inspector import schemas
from penstock._inspector.captured_attempts import CapturedAttempt
from penstock._inspector.client_encoding import turn_request_of
from penstock._inspector.stream_traces import TraceSource, format_secret_count, format_title
from penstock._inspector.turn_endings import LastAttempt, explain_no_frames, find_fault_party
from penstock._messages.context_trimming import Cleared
from penstock._store.journal import JournalEntry
from penstock._transforms.stop_sequences import StopAtSequences
from penstock._transforms.tool_names import OriginalTool, RestoreToolNames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._gateway.endpoints import TurnRequest

LOST_REST = "only the beginning is here: an answer is kept up to {most} MB"
EVENTS_NOTE = "the engine {engine!r} hands out events, not bytes: the frames here are those events as lines"
_CHANGED_NOTE = "the answer was changed on its way by {stage}, which is not kept: what the client got may differ"
_SECRETS_NOTE = "{taken} before it was kept"


class KeptNames(msgspec.Struct, frozen=True):
    """The settings of the stage that restores the names of tools."""

    names: dict[str, OriginalTool] = {}
    ids: dict[str, str] = {}
    protocol: str = ""


class KeptStops(msgspec.Struct, frozen=True):
    """The settings of the stage that ends an answer at a stop sequence."""

    sequences: tuple[str, ...]
    fields: dict[str, str] = {}
    prompt_tokens: int | None = None  # if nobody tells them


class KeptTurn(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One turn with its content. `chunks` are the provider's bytes with their times, in seconds since the request."""

    id: str
    tenant: str = ""
    entry: JournalEntry
    client: ClientForm
    request: bytes = b""
    request_cut: bool = False
    source: str = ""  # the protocol of the request, if it differs from the answer's
    client_headers: dict[str, str] = {}
    method: str = "POST"
    path: str = ""
    attempts: list[CapturedAttempt] = []
    losses: list[Diagnostic] = []
    chunks: list[tuple[float | None, bytes]] = []
    cut: bool = False
    most: int = 0  # MB: the bound at which it was cut
    engine: str = ""
    protocol: str = ""
    framing: str = "auto"
    raw: bool = True
    passthrough: bool = False
    cleared: Cleared | None = None
    notices: tuple[bytes, ...] = ()
    fault: ev.Fault | None = None
    names: KeptNames | None = None
    stops: KeptStops | None = None
    note: str = ""
    hidden: int = 0  # secrets that were removed
    pieces: int = 0  # of the request, in the file

    dropped = False
    finished = True

    def known_secrets(self) -> tuple[str, ...]:
        """None are left in it."""
        return ()

    @property
    def client_left(self) -> bool:
        """True if the client disconnected before the end."""
        return self.fault is not None and self.fault.kind == "cancelled"

    @property
    def answer_protocol(self) -> str:
        """The protocol of the chunks; the client's, if no provider has answered."""
        return self.protocol or self.client.protocol

    @property
    def error_bodies(self) -> list[str]:
        """What providers answered to attempts that failed."""
        return [attempt.error_body for attempt in self.attempts if attempt.error_body]

    @property
    def request_protocol(self) -> str:
        """The protocol of the client's request."""
        return self.source or self.client.protocol

    def to_row(self) -> schemas.TurnRow:
        """Returns the row of the list."""
        return schemas.row_from_journal(self.entry, held=True)

    def to_source(self) -> TraceSource:
        """Returns the source of the turn's trace."""
        events = "" if self.raw else EVENTS_NOTE.format(engine=self.engine)
        secrets = _SECRETS_NOTE.format(taken=format_secret_count(self.hidden)) if self.hidden else ""
        return TraceSource(
            protocol=self.answer_protocol,
            chunks=self.chunks,
            framing=self.framing,
            title=format_title(self.client.model, self.client.protocol),
            consumer=self.client.protocol,
            request=self.request.decode("utf-8", "replace"),
            request_protocol=self.client.protocol,
            request_cut=self.request_cut,
            tenant=self.tenant,
            row=self.to_row(),
            lost=self._explain_missing(),
            fault_by=find_fault_party(self.fault, self._last_attempt()),
            note="; ".join(filter(None, (events, self.note, secrets))),
            make_transforms=self._make_transforms,
            client_stages=lambda: make_client_stages(self, turn_request_of(self.client), passthrough=self.passthrough),
            end=self.fault,
            client_left=self.client_left,
            notices=self.notices,
        )

    def _last_attempt(self) -> LastAttempt | None:
        if not self.attempts:
            return None
        last = self.attempts[-1]
        return LastAttempt(last.provider, last.status, last.error, last.engine, last.sent)

    def _explain_missing(self) -> str:
        if self.cut:
            return LOST_REST.format(most=self.most)
        return "" if self.engine else explain_no_frames(self.fault, self._last_attempt(), finished=True)

    def _make_transforms(self) -> tuple[Any, ...]:
        made: list[Any] = []
        if self.names is not None:
            made.append(RestoreToolNames(self.names.names, protocol=self.names.protocol, ids=self.names.ids))
        if self.stops is not None:
            tokens = self.stops.prompt_tokens
            asked = None if tokens is None else lambda: tokens
            made.append(StopAtSequences(self.stops.sequences, asked, self.stops.fields))
        return tuple(made)


class AnsweredTurn(Protocol):
    """What the stages that wrote a client's response depend on. `engine` is empty if no provider answered."""

    @property
    def engine(self) -> str: ...

    @property
    def cleared(self) -> Any: ...


def make_client_stages(turn: AnsweredTurn, request: TurnRequest, *, passthrough: bool) -> Any:
    """Returns the stages that write the client's response again."""
    if not turn.engine:  # the client got an error response
        return client_stream.refusal_stages(request)
    return client_stream.replay_stages(request, passthrough=passthrough, cleared=turn.cleared)


def keep_transforms(stages: Sequence[Any]) -> tuple[KeptNames | None, KeptStops | None, str]:
    """Returns the settings of the stages that changed an answer, and a note if one cannot be kept."""
    names, stops, note = None, None, ""
    for stage in stages:
        if isinstance(stage, RestoreToolNames):
            names = KeptNames(dict(stage.names), dict(stage.ids), stage.protocol)
        elif isinstance(stage, StopAtSequences):
            stops = KeptStops(stage.sequences, dict(stage.fields), stage.asked() if stage.asked is not None else None)
        else:
            note = _CHANGED_NOTE.format(stage=type(stage).__name__)
    return names, stops, note
