"""The part of the ledger that opens a turn, numbers its parts and appends their text.

`Ledger` extends it with calls and with the end of parts and turns.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import events as ev
from penstock._grammar import PARTS
from penstock._input_limits import MAX_COUNT, MAX_PARTS
from penstock._lenient_json import join_surrogates, replace_surrogates
from penstock.events import By, CallForm, Extra

if TYPE_CHECKING:
    from collections.abc import Hashable

    from penstock._diagnostics import Diagnostics
    from penstock.events import AnyEvent, FaultKind, Reason, ReasoningForm

_COUNTS = ("input", "output", "cached", "written", "reasoning")  # the token counts of a usage
_read_counts = attrgetter(*_COUNTS)


class LedgerPart(msgspec.Struct, eq=False):
    """An open part. `pieces` are the texts of calls, and of parts opened with `keep=True`."""

    index: int
    delta: Any
    end: Any
    choice: int
    id: str = ""
    name: str = ""
    by: By = "client"
    form: CallForm = "json"
    extra: Extra | None = None
    pieces: list[str] | None = None
    given: str = ""  # a call's input at its start: it counts if no fragment follows
    pending_surrogate: str = ""  # a high surrogate that waits for its other half
    checks: int = 0  # how often the input was found to be incomplete
    muted: bool = False
    open: bool = True
    void: bool = False  # a call that must not be run, even if its input is complete

    @property
    def is_call(self) -> bool:
        return self.delta is ev.CallDelta

    @property
    def streamed_text(self) -> str:
        """The text so far of a part that keeps its pieces."""
        return "".join(self.pieces or ())


class PartLedger:
    """The turn of one stream as it grows. Methods may be called in any order; invalid calls add a diagnostic."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.out: list[AnyEvent] = []
        self.fix_surrogates = False  # set by the first payload with a lone surrogate
        self.ended: bool = False
        self.turns: int = 0
        self.id: str = ""  # of the turn
        self.seed = ""  # set by the caller: distinguishes answers without an id
        self.is_open: bool = False
        self.last: LedgerPart | None = None  # the part that the last delta belongs to
        self._early: list[AnyEvent] = []
        self._reset()

    def _reset(self) -> None:
        self._parts: dict[Hashable, LedgerPart] = {}
        self._next = 0
        self._ids: set[tuple[int, str]] = set()
        self._inputs: dict[tuple[int, str], str] = {}  # of calls that were delivered
        self.calls: int = 0  # client calls delivered, of the first choice, whose finish reason they decide
        self.truncated_calls: int = 0
        self.unusable: int = 0  # items without a type and calls without a name, which are left out
        self._usage: dict[int, ev.Usage] = {}
        self._finish: tuple[Reason, str, Extra | None] | None = None
        self._others: dict[int, Reason] = {}
        self.breaking = False  # a fault follows: parts that close now were not ended by the provider
        self._cited: set[bytes] = set()

    @property
    def id_prefix(self) -> str:
        """The prefix of ids that the provider does not send. Answers without an id differ by their seed."""
        return self.id or self.seed or "turn"

    def drain(self) -> list[AnyEvent]:
        """Returns the events since the last drain."""
        out, self.out = self.out, []
        return [_encodable(event) for event in out] if self.fix_surrogates else out

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def start(self, id: str = "", model: str = "", created: int | None = None, extra: Extra | None = None) -> bool:
        """Opens a turn. Ignored inside an unfinished turn."""
        if self.is_open:
            return False
        if self.turns:
            self._reset()
        if created is not None and not 0 <= created <= MAX_COUNT:
            self.diagnostics.add("out-of-range", "a time of creation that is no time is left out")
            created = None
        self.is_open, self.ended, self.id = True, False, id
        self.turns += 1
        self.out.append(ev.Start(id, model, created, extra))
        self.out += self._early
        self._early.clear()
        return True

    def _enter(self, what: str) -> bool:
        """True if events may be written. Opens the first turn if none is open."""
        if self.is_open:
            return True
        if self.ended:
            self.diagnostics.add("after-end", f"{what} after the end of the turn is ignored")
            return False
        return self.start()

    def step(self, number: int, extra: Extra | None = None) -> None:
        if self._enter("a step"):
            self.out.append(ev.Step(number, extra))

    def usage(self, usage: ev.Usage) -> None:
        """Merges new counts: the last value of each field counts, None never replaces a value."""
        if not self._enter("usage"):
            return
        usage = drop_implausible_counts(usage, self.diagnostics)
        known = self._usage.get(usage.step)
        if known is not None and known.output and not usage.input and not usage.output:
            self.diagnostics.add("usage-reset", "a later usage of zero is ignored")
            return
        merged = usage if known is None else _merge(known, usage)
        if merged != known:
            self._usage[usage.step] = merged
            self.out.append(merged)

    def known_usage(self, step: int = 0) -> ev.Usage | None:
        return self._usage.get(step)

    def data(self, name: str, json: str, id: str = "", *, transient: bool = False) -> None:
        if self._enter("data"):
            self.out.append(ev.Data(name, json, id, transient))

    def unknown(self, protocol: str, data: str, name: str = "") -> None:
        """Writes a payload as `Unknown`. Before the first turn it waits, because it must not open a turn."""
        self.diagnostics.add("unknown", f"no canonical word for {name or 'a payload'}")
        if not self.is_open and not self.ended:
            self._early.append(ev.Unknown(protocol, data, name))
        elif self._enter("an unknown payload"):
            self.out.append(ev.Unknown(protocol, data, name))

    # ── text, refusal, reasoning ──────────────────────────────────────────────────────────────────

    def open_text(
        self, key: Hashable, *, item: str = "", choice: int = 0, extra: Extra | None = None, keep: bool = False
    ) -> LedgerPart | None:
        return self._open(key, ev.TextStart, item, choice, extra, keep=keep)

    def open_refusal(
        self, key: Hashable, *, item: str = "", choice: int = 0, extra: Extra | None = None, keep: bool = False
    ) -> LedgerPart | None:
        return self._open(key, ev.RefusalStart, item, choice, extra, keep=keep)

    def open_reasoning(
        self,
        key: Hashable,
        *,
        item: str = "",
        choice: int = 0,
        form: ReasoningForm = "full",
        extra: Extra | None = None,
        keep: bool = False,
    ) -> LedgerPart | None:
        return self._open(key, ev.ReasoningStart, item, choice, form, extra, keep=keep)

    def open_file(
        self, key: Hashable, media: str, url: str = "", *, item: str = "", choice: int = 0, extra: Extra | None = None
    ) -> LedgerPart | None:
        return self._open(key, ev.FileStart, media, url, item, choice, extra)

    def _open(self, key: Hashable, kind: Any, *fields: Any, keep: bool = False) -> LedgerPart | None:
        if key in self._parts:
            self.diagnostics.add("opened-twice", f"a second {kind.__name__} for a part that is open is ignored")
            return self._parts[key]
        if not self._enter(f"a {kind.__name__}") or self._is_full():
            return None
        delta, ends = PARTS[kind]
        start = kind(self._next, *fields)
        return self._add_part(
            key, start, LedgerPart(self._next, delta, ends[0], start.choice, pieces=[] if keep else None)
        )

    def _add_part(self, key: Hashable, start: AnyEvent, part: LedgerPart) -> LedgerPart:
        self.out.append(start)
        self._parts[key] = part
        self._next += 1
        return part

    @property
    def has_open_part(self) -> bool:
        return bool(self._parts)

    def find(self, key: Hashable) -> LedgerPart | None:
        """Returns the open part with this key."""
        return self._parts.get(key)

    def append_text(self, key: Hashable, text: str, logprobs: Any = None) -> None:
        """Appends text to an open part of text, refusal or reasoning. An empty text writes nothing."""
        part = self._parts.get(key)
        if part is not None and text and not part.muted:
            self.append_to_part(part, text, logprobs)

    def append_to_part(self, part: LedgerPart, text: str, logprobs: Any = None) -> None:
        """Does what `append_text` does, for callers that hold the part. The text is not empty."""
        if self.fix_surrogates:
            text, part.pending_surrogate = join_surrogates(part.pending_surrogate + text)
            if not text:
                return
        if part.pieces is not None:
            part.pieces.append(text)
        self.last = part
        delta = part.delta  # a local name: CPython would look up a method otherwise
        self.out.append(delta(part.index, text) if logprobs is None else delta(part.index, text, logprobs))

    def reconcile(self, key: Hashable, whole: str) -> None:
        """Compares a part's complete text with what was streamed, and appends what is missing."""
        part = self._parts.get(key)
        if part is None or part.pieces is None:
            return
        streamed = part.streamed_text
        if whole.startswith(streamed):
            self.append_text(key, whole[len(streamed) :])
        elif whole:
            self.diagnostics.add("conflict", "the closing text of a part differs from what was streamed; streamed wins")

    # ── parts of a single event ───────────────────────────────────────────────────────────────────

    def add_whole_part(self, make: Any, *fields: Any) -> int:
        """Writes a part of one event (`Result`, `Ask`, `Source`, `Opaque`) and returns its index."""
        if not self._enter(f"a {make.__name__}") or self._is_full():
            return -1
        self.out.append(make(self._next, *fields))
        self._next += 1
        return self._next - 1

    def cite(self, citation: Any, *fields: Any) -> None:
        """Writes a `Source`, unless the same `citation` was written in this turn.

        Streams repeat citations: in later chunks, in a `done` event, in the final snapshot. `citation` is what tells
        two of them apart: the object as it was sent, and the place that it belongs to.
        """
        try:
            value = msgspec.json.encode(citation, order="deterministic")  # an SDK may give the fields in another order
        except UnicodeEncodeError:  # a lone surrogate
            value = repr(citation).encode("utf-8", "surrogatepass")
        if value not in self._cited:
            self._cited.add(value)
            self.add_whole_part(ev.Source, *fields)

    def _is_full(self) -> bool:
        """True if the turn has the most parts that are allowed. The turn then ends with a fault."""
        if self._next < MAX_PARTS:
            return False
        self.fault("malformed", f"the answer has more than {MAX_PARTS:,} parts")
        return True

    def fault(self, kind: FaultKind, message: str) -> None:
        """Ends the turn with a fault. `Ledger` implements it."""
        raise NotImplementedError


def drop_implausible_counts(usage: ev.Usage, diagnostics: Diagnostics) -> ev.Usage:
    """Returns the usage without negative or implausible counts: they would be billed, and break databases."""
    counts = [*filter(None, _read_counts(usage))]
    if not counts or (min(counts) >= 0 and max(counts) <= MAX_COUNT):  # almost all
        return usage
    wrong = [name for name in _COUNTS if not 0 <= (getattr(usage, name) or 0) <= MAX_COUNT]
    diagnostics.add("out-of-range", "a count of tokens that is negative or too large is left out")
    return replace(usage, **dict.fromkeys(wrong))


def _encodable(event: AnyEvent) -> AnyEvent:
    """Returns the event without lone surrogates in its names and extras. Deltas have none."""
    try:
        msgspec.json.encode(event)
    except (UnicodeEncodeError, RecursionError):
        # Field by field, because an unexpected `extra` does not fit its type.
        return replace(event, **{name: replace_surrogates(getattr(event, name)) for name in event.__struct_fields__})
    return event


def _merge(known: ev.Usage, new: ev.Usage) -> ev.Usage:
    return replace(new, **{name: getattr(known, name) for name in (*_COUNTS, "extra") if getattr(new, name) is None})
