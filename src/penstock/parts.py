"""The ledger: every decoder writes its parts through it, and so keeps the event grammar for any input.

It numbers, accumulates and closes parts; a call is open → whole | cut, delivered at most once per id. It holds the
terminal until the protocol's own end, because usage often follows the finish reason.
A part is found by a `key` of the protocol's own choosing (a block index, an item id …).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import events as ev
from penstock.jsontext import clean, is_json, usable
from penstock.surrogates import mend

if TYPE_CHECKING:
    from collections.abc import Hashable

    from penstock.diagnostics import Diagnostics
    from penstock.events import AnyEvent, By, CallForm, Extra, FaultKind, Reason, ReasoningForm

MOST_CHOICES = 255  # the finish tells the reason of each
CUT_OFF = ("length", "filter")
TRUNCATED = "the stream ended before the answer was finished"


class Part:
    """An open part. `pieces` is kept for calls, and for parts opened with `keep=True`."""

    __slots__ = ("by", "choice", "delta", "end", "extra", "form", "given", "half", "id", "index", "muted", "name",
                 "open", "pieces", "void")  # fmt: skip

    def __init__(self, index: int, delta: Any, end: Any, choice: int) -> None:
        self.index = index
        self.delta = delta
        self.end = end
        self.choice = choice
        self.extra: Extra | None = None
        self.pieces: list[str] | None = None
        self.half = ""  # a high surrogate waiting for its other half
        self.id = ""
        self.name = ""
        self.by: By = "client"
        self.form: CallForm = "json"
        self.given = ""  # a call's input as its start had it: counts if no fragment follows
        self.muted = False
        self.open = True
        self.void = False  # a call that must not be run, however complete its input is

    @property
    def is_call(self) -> bool:
        return self.delta is ev.CallDelta

    @property
    def so_far(self) -> str:
        """What was streamed of a part that keeps its pieces."""
        return "".join(self.pieces or ())


class Ledger:
    """The book of one stream. Methods may be called in any order; what makes no sense is a diagnostic."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.out: list[AnyEvent] = []
        self.mending = False  # switched on by the first payload that holds a lone surrogate
        self.ended = False
        self.turns = 0
        self.inside = False
        self._early: list[AnyEvent] = []
        self._reset()

    def _reset(self) -> None:
        self._parts: dict[Hashable, Part] = {}
        self._next = 0
        self._ids: set[tuple[int, str]] = set()
        self.calls = 0  # client calls delivered, of the first choice, whose finish reason they decide
        self.cuts = 0
        self._usage: dict[int, ev.Usage] = {}
        self._finish: tuple[Reason, str, Extra | None] | None = None
        self._others: dict[int, Reason] = {}

    def drain(self) -> list[AnyEvent]:
        """Hand over the events since the last drain."""
        out, self.out = self.out, []
        return [_encodable(event) for event in out] if self.mending else out

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def start(self, id: str = "", model: str = "", created: int | None = None, extra: Extra | None = None) -> bool:
        """Open a turn. Inside an unfinished one it is ignored; after a finished one it opens the next."""
        if self.inside:
            return False
        if self.turns:
            self._reset()
        self.inside, self.ended = True, False
        self.turns += 1
        self.out.append(ev.Start(id, model, created, extra))
        self.out += self._early
        self._early.clear()
        return True

    def _enter(self, what: str) -> bool:
        """True when events may be written; opens the first turn by itself."""
        if self.inside:
            return True
        if self.ended:
            self.diagnostics.add("after-end", f"{what} after the end of the turn is ignored")
            return False
        return self.start()

    def step(self, number: int, extra: Extra | None = None) -> None:
        if self._enter("a step"):
            self.out.append(ev.Step(number, extra))

    def usage(self, usage: ev.Usage) -> None:
        """Merge what is newly known; the last value of each field wins, None never overwrites."""
        if not self._enter("usage"):
            return
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
        """Keep a payload as it is. Before the first turn it waits: it must not open one that has no name."""
        self.diagnostics.add("unknown", f"no canonical word for {name or 'a payload'}")
        if not self.inside and not self.ended:
            self._early.append(ev.Unknown(protocol, data, name))
        elif self._enter("an unknown payload"):
            self.out.append(ev.Unknown(protocol, data, name))

    def finish(self, reason: Reason, raw: str = "", *, choice: int = 0, extra: Extra | None = None) -> None:
        """Note why the choice ended and close its parts. The first word wins; `end` or `eof` lets it out.

        An answer that was cut off leaves no call behind whose input had not even begun.
        """
        if not self._enter("a finish"):
            return
        self.close_all(choice, whole=reason not in CUT_OFF)
        if choice > MOST_CHOICES:
            self.diagnostics.add("many-choices", f"choices after {MOST_CHOICES} are not told apart at the end")
        elif choice:
            self._others.setdefault(choice, reason)
        elif self._finish is None:
            self._finish = (reason, raw, extra)

    @property
    def finishing(self) -> bool:
        """A finish reason is known, its terminal not yet written."""
        return self._finish is not None and self.inside

    def end(self) -> None:
        """The protocol's own end mark: write the terminal."""
        if not self.inside:
            return
        if self._finish is None:
            self.diagnostics.add("no-reason", "the stream ended properly but gave no finish reason")
        self._finish_now(self._finish or ("other", "", None))

    def eof(self) -> None:
        """The input ended. Without a finish reason that is a fault, never a success."""
        if self.inside and self._finish is not None:
            self._finish_now(self._finish)
        elif self.inside or not self.turns:
            self.fault("truncated", TRUNCATED)

    def fault(
        self, kind: FaultKind, message: str, *, status: int | None = None, code: str = "", request_id: str = "",
        retry_after: float | None = None, extra: Extra | None = None,
    ) -> None:  # fmt: skip
        """Break the turn off, in band. Later events of it are ignored."""
        if self._enter("a fault"):
            self.close_all(whole=False)
            self._leave(ev.Fault(kind, message, status, code, request_id, retry_after, extra))

    def _finish_now(self, finish: tuple[Reason, str, Extra | None]) -> None:
        self.close_all()
        reason, raw, extra = finish
        if self.calls and (reason == "stop" or (reason == "other" and not raw)):
            reason = "calls"
        elif reason == "calls" and not self.calls:
            reason = "length" if self.cuts else "stop"
        unsaid: Reason = "other"
        places = range(1, max(self._others, default=0) + 1)
        others: tuple[Reason, ...] = tuple([self._others.get(place, unsaid) for place in places])
        self._leave(ev.Finish(reason, raw, others, extra))

    def _leave(self, terminal: ev.Finish | ev.Fault) -> None:
        self.out.append(terminal)
        self.inside, self.ended = False, True

    # ── text, refusal, reasoning ──────────────────────────────────────────────────────────────────

    def open_text(
        self, key: Hashable, *, item: str = "", choice: int = 0, extra: Extra | None = None, keep: bool = False
    ) -> Part | None:
        return self._open(key, ev.TextStart, (item, choice, extra), ev.TextDelta, ev.TextEnd, choice, keep=keep)

    def open_refusal(
        self, key: Hashable, *, item: str = "", choice: int = 0, extra: Extra | None = None, keep: bool = False
    ) -> Part | None:
        return self._open(
            key, ev.RefusalStart, (item, choice, extra), ev.RefusalDelta, ev.RefusalEnd, choice, keep=keep
        )

    def open_reasoning(
        self, key: Hashable, *, item: str = "", choice: int = 0, form: ReasoningForm = "full",
        extra: Extra | None = None, keep: bool = False,
    ) -> Part | None:  # fmt: skip
        fields = (item, choice, form, extra)
        return self._open(key, ev.ReasoningStart, fields, ev.ReasoningDelta, ev.ReasoningEnd, choice, keep=keep)

    def open_file(
        self, key: Hashable, media: str, url: str = "", *, item: str = "", choice: int = 0, extra: Extra | None = None
    ) -> Part | None:
        return self._open(key, ev.FileStart, (media, url, item, choice, extra), ev.FileDelta, ev.FileEnd, choice)

    def _open(
        self, key: Hashable, start: Any, fields: tuple[Any, ...], delta: Any, end: Any, choice: int, *,
        keep: bool = False,
    ) -> Part | None:  # fmt: skip
        if key in self._parts:
            self.diagnostics.add("opened-twice", f"a second {start.__name__} for a part that is open is ignored")
            return self._parts[key]
        if not self._enter(f"a {start.__name__}"):
            return None
        part = self._parts[key] = Part(self._take(), delta, end, choice)
        if keep:
            part.pieces = []
        self.out.append(start(part.index, *fields))
        return part

    def find(self, key: Hashable) -> Part | None:
        """The open part of that key."""
        return self._parts.get(key)

    def say(self, key: Hashable, text: str, logprobs: Any = None) -> None:
        """A delta of an open part of text, refusal or reasoning. Nothing is written for an empty one."""
        part = self._parts.get(key)
        if part is not None and text and not part.muted:
            self.tell(part, text, logprobs)

    def tell(self, part: Part, text: str, logprobs: Any = None) -> None:
        """`say` for whoever holds the open part itself and has something to say."""
        if self.mending:
            text, part.half = mend(part.half + text)
            if not text:
                return
        if part.pieces is not None:
            part.pieces.append(text)
        delta = part.delta  # apart from its call, which CPython would take for that of a method
        self.out.append(delta(part.index, text) if logprobs is None else delta(part.index, text, logprobs))

    def settle(self, key: Hashable, whole: str) -> None:
        """A later word on all of a kept part's text: what was not streamed yet is said now, once."""
        part = self._parts.get(key)
        if part is None or part.pieces is None:
            return
        streamed = part.so_far
        if whole.startswith(streamed):
            self.say(key, whole[len(streamed) :])
        elif whole:
            self.diagnostics.add("conflict", "the closing text of a part differs from what was streamed; streamed wins")

    def close(self, key: Hashable, extra: Extra | None = None) -> None:
        """Close the part of that key, if it is open. A call closed so is judged by its JSON."""
        part = self._parts.get(key)
        if part is None:
            return
        if part.is_call:
            self.end_call(key, extra=extra)
            return
        del self._parts[key]
        part.open = False
        if part.half:
            self.out.append(part.delta(part.index, "\ufffd"))
        self.out.append(part.end(part.index, extra or part.extra))

    def close_all(self, choice: int | None = None, *, whole: bool = True) -> None:
        """Close every open part (of one choice), in the order they were opened."""
        for key, part in list(self._parts.items()):
            if choice is not None and part.choice != choice:
                continue
            if part.is_call:
                self.end_call(key, whole=whole)
            else:
                self.close(key)

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def open_call(
        self, key: Hashable, id: str, name: str, *, by: By = "client", form: CallForm = "json", item: str = "",
        choice: int = 0, given: str = "", extra: Extra | None = None,
    ) -> Part | None:  # fmt: skip
        """Begin a call. One whose id was seen in this turn is muted: it will never be delivered again."""
        if key in self._parts:
            return self._parts[key]
        if not self._enter("a call"):
            return None
        if (choice, id) in self._ids:
            self.diagnostics.add("call-twice", f"call {id!r} came again and is ignored")
            part = self._parts[key] = Part(-1, ev.CallDelta, None, choice)
            part.muted = True
            return part
        self._ids.add((choice, id))
        part = self._parts[key] = Part(self._take(), ev.CallDelta, None, choice)
        part.id, part.name, part.by, part.form, part.extra, part.pieces = id, name, by, form, extra, []
        part.given = given
        self.out.append(ev.CallStart(part.index, id, name, by, form, item, choice, extra))
        return part

    def seen(self, id: str, choice: int = 0) -> bool:
        """A call of that id was begun in this turn."""
        return (choice, id) in self._ids

    def add(self, key: Hashable, json: str) -> None:
        """A fragment of an open call's input."""
        part = self._parts.get(key)
        if part is None or not json or part.muted or part.pieces is None:
            return
        if self.mending:
            json, part.half = mend(part.half + json)
            if not json:
                return
        if part.pieces and json.lstrip().startswith("{") and self._again(part):
            return
        part.pieces.append(json)
        self.out.append(ev.CallDelta(part.index, json))

    def _again(self, part: Part) -> bool:
        """Another object after a whole one is the input sent again: nothing more can belong to it."""
        last = (part.pieces or [""])[-1].rstrip()
        if part.form == "text" or not last.endswith("}") or not is_json(part.so_far):
            return False
        self.diagnostics.add("input-twice", f"call {part.id!r}: more input after it was complete is ignored")
        return True

    def end_call(
        self, key: Hashable, json: str | None = None, *, whole: bool = True, extra: Extra | None = None
    ) -> None:
        """End a call. `json` is a last word on all of its input; `whole=False` when it was broken off.

        Empty input is `{}`, but only at a proper end. Input that is not JSON cuts the call.
        """
        part = self._parts.pop(key, None)
        if part is None or part.muted:
            return
        part.open = False
        streamed = part.so_far
        final = self._final(part, streamed, json) or part.given
        if not final.strip() and part.form == "json" and whole:
            final = streamed + "{}"
        if final.startswith(streamed) and len(final) > len(streamed):
            self.out.append(ev.CallDelta(part.index, final[len(streamed) :]))
        good = _callable(part, final, whole=whole)
        extra = extra or part.extra
        if good is not None:
            self.calls += part.by == "client" and not part.choice
            self.out.append(ev.CallEnd(part.index, part.id, part.name, good, part.by, part.form, extra))
        else:
            self.cuts += part.by == "client" and not part.choice
            self.diagnostics.add("call-cut", f"call {part.id!r} of {part.name!r} has no complete input, or one refused")
            self.out.append(ev.CallCut(part.index, part.id, part.name, final, part.by, part.form, extra))

    def _final(self, part: Part, streamed: str, json: str | None) -> str:
        """The last word wins over the fragments if it is usable; the fragments otherwise."""
        if json is None or not json.strip():
            return streamed
        if streamed and json != streamed:
            self.diagnostics.add("conflict", f"call {part.id!r}: the closing input differs from its fragments")
            if part.form == "json" and usable(json) is None:
                return streamed
        return json

    # ── parts of a single event ───────────────────────────────────────────────────────────────────

    def atom(self, make: Any, *fields: Any) -> int:
        """Write a part of one event (`Result`, `Ask`, `Source`, `Opaque`); the ledger numbers it."""
        if not self._enter(f"a {make.__name__}"):
            return -1
        index = self._take()
        self.out.append(make(index, *fields))
        return index

    def _take(self) -> int:
        self._next += 1
        return self._next - 1


def _encodable(event: AnyEvent) -> AnyEvent:
    """The event, without lone surrogates in its names and extras: deltas are mended where they are said."""
    try:
        msgspec.json.encode(event)
    except UnicodeEncodeError:
        return msgspec.convert(clean(msgspec.to_builtins(event)), type(event))
    return event


def _callable(part: Part, final: str, *, whole: bool) -> str | None:
    """The input if the call may be run with it: one without a name never may."""
    if part.void or not part.name:
        return None
    return usable(final) if part.form == "json" else final if whole else None


def _merge(known: ev.Usage, new: ev.Usage) -> ev.Usage:
    def last(a: Any, b: Any) -> Any:
        return a if b is None else b

    return ev.Usage(
        last(known.input, new.input), last(known.output, new.output), last(known.cached, new.cached),
        last(known.written, new.written), last(known.reasoning, new.reasoning), new.exact, new.step,
        last(known.extra, new.extra),
    )  # fmt: skip
