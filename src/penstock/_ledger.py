"""The ledger: every decoder writes its parts through it, and so keeps the event grammar for any input.

It numbers, accumulates and closes parts; a call is open → whole | cut, delivered at most once per id. It holds the
terminal until the protocol's own end, because usage often follows the finish reason.
A part is found by a `key` of the protocol's own choosing (a block index, an item id …).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock import events as ev
from penstock._input_limits import MAX_CHOICES
from penstock._ledger_base import LedgerPart, PartLedger
from penstock._lenient_json import complete_json, decode_unless_too_deep, is_json, join_surrogates

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from penstock.events import By, CallForm, Extra, FaultKind, Reason

__all__ = ["CUT_OFF", "TRUNCATED", "Ledger", "LedgerPart"]

MOST_CHOICES = MAX_CHOICES - 1  # a finish has the reason of each choice
_CHECKS = 32  # checks of whether the input of a call is complete
CUT_OFF = ("length", "filter")
TRUNCATED = "the stream ended before the answer was finished"
UNUSABLE = "nothing in the answer can be used: its content has no type, or is a tool call without a name"


class Ledger(PartLedger):
    """The record of one stream: opens, fills and closes parts, calls and turns."""

    # Set by both classes: type checkers need their types here too.
    is_open: bool
    ended: bool
    calls: int
    truncated_calls: int
    unusable: int
    last: LedgerPart | None

    # ── the turn's end ────────────────────────────────────────────────────────────────────────────

    def finish(self, reason: Reason, raw: str = "", *, choice: int = 0, extra: Extra | None = None) -> None:
        """Closes the parts of a choice and keeps its finish reason. The first reason counts; `end` or `eof` writes it.

        If the answer was cut off, a call whose input had not begun is cut, too.
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
        """True if a finish reason is known, but not yet written."""
        return self._finish is not None and self.is_open

    def end(self) -> None:
        """Writes the terminal event, at the protocol's end mark."""
        if not self.is_open:
            return
        if self._finish is None:
            self.diagnostics.add("no-reason", "the stream ended properly but gave no finish reason")
        self._write_finish(self._finish or ("other", "", None))

    def eof(self) -> None:
        """Ends the turn at the end of input. Without a finish reason that is a fault."""
        if self.is_open and self._finish is not None:
            self._write_finish(self._finish)
        elif self.is_open or not self.turns:
            self.fault("truncated", TRUNCATED)

    def fault(
        self,
        kind: FaultKind,
        message: str,
        *,
        status: int | None = None,
        code: str = "",
        request_id: str = "",
        retry_after: float | None = None,
        extra: Extra | None = None,
    ) -> None:
        """Ends the turn with a fault. Later events of the turn are ignored."""
        if self._enter("a fault"):
            self.breaking = True
            self.close_all(whole=False)
            self._write_terminal(ev.Fault(kind, message, status, code, request_id, retry_after, extra))

    def _write_finish(self, finish: tuple[Reason, str, Extra | None]) -> None:
        self.close_all()
        reason, raw, extra = finish
        if self.unusable and not self._next and reason not in CUT_OFF:
            self._write_terminal(ev.Fault("malformed", UNUSABLE))
            return
        if self.calls and (reason == "stop" or (reason == "other" and not raw)):
            reason = "calls"
        elif reason == "calls" and not self.calls:
            reason = "length" if self.truncated_calls else "stop"
        choices = range(1, max(self._others, default=0) + 1)
        others: list[Reason] = [self._others.get(choice, "other") for choice in choices]
        self._write_terminal(ev.Finish(reason, raw, tuple(others), extra))

    def _write_terminal(self, terminal: ev.Finish | ev.Fault) -> None:
        self.out.append(terminal)
        self.is_open, self.ended = False, True

    # ── the end of a part ─────────────────────────────────────────────────────────────────────────

    def close(self, key: Hashable, extra: Extra | None = None) -> None:
        """Closes the part with this key, if it is open. A call is complete if its input is JSON."""
        part = self._parts.get(key)
        if part is None:
            return
        if part.is_call:
            self.end_call(key, extra=extra)
            return
        del self._parts[key]
        part.open = False
        if part.pending_surrogate:
            self.out.append(part.delta(part.index, "\ufffd"))
        # Only complete parts keep what must be echoed in the next turn.
        self.out.append(part.end(part.index, None if self.breaking else extra or part.extra, self.breaking))

    def close_all(self, choice: int | None = None, *, whole: bool = True) -> None:
        """Closes every open part (of one choice), in the order in which they were opened."""
        for key, part in list(self._parts.items()):
            if choice is not None and part.choice != choice:
                continue
            if part.is_call:
                self.end_call(key, whole=whole)
            else:
                self.close(key)

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def open_call(
        self,
        key: Hashable,
        id: str,
        name: str,
        *,
        by: By = "client",
        form: CallForm = "json",
        item: str = "",
        choice: int = 0,
        given: str = "",
        extra: Extra | None = None,
    ) -> LedgerPart | None:
        """Opens a call. A call without a name, or with an id of this turn, is muted: it is never delivered.

        A call without an id gets one, because clients send it back with the result.
        """
        if key in self._parts:
            return self._parts[key]
        if not self._enter("a call"):
            return None
        if not name:
            self.diagnostics.add("call-unnamed", f"call {id!r} has no name: nobody can run it, and it is left out")
            self.truncated_calls += by == "client" and not choice
            self.unusable += 1
            return self._mute(key, choice)
        if not id:
            id = f"call_{self.id_prefix}_{choice}_{self._next}"  # noqa: A001 — as the event calls it
            self.diagnostics.add("call-id", f"a call of {name!r} came without an id and was given one")
        if (choice, id) in self._ids:
            self.diagnostics.add("call-twice", f"call {id!r} came again and is ignored")
            return self._mute(key, choice)
        if self._is_full():
            return None
        self._ids.add((choice, id))
        start = ev.CallStart(self._next, id, name, by, form, item, choice, extra)
        return self._add_part(
            key, start, LedgerPart(self._next, ev.CallDelta, None, choice, id, name, by, form, extra, [], given)
        )

    def _mute(self, key: Hashable, choice: int) -> LedgerPart:
        """Adds a call that is read to its end, but writes no events."""
        part = self._parts[key] = LedgerPart(-1, ev.CallDelta, None, choice, muted=True)
        return part

    def has_call(self, id: str, choice: int = 0) -> bool:
        """True if a call with this id has begun in this turn."""
        return (choice, id) in self._ids

    def forget_calls(self, kept: Collection[str]) -> None:
        """Forgets ids after a step: they may be used again, except for `kept`, which the client has yet to answer."""
        self._ids = {key for key in self._ids if key[1] in kept}

    def note_later_input(self, id: str, json: str, choice: int = 0) -> None:
        """Adds a diagnostic if a later input of a delivered call differs from the first."""
        known = self._inputs.get((choice, id))
        if known is None or not json.strip() or json == known:
            return
        try:
            same = decode_unless_too_deep(json) == decode_unless_too_deep(known)
        except (msgspec.DecodeError, UnicodeEncodeError):  # free text, or half a character
            same = False
        if not same:
            self.diagnostics.add("conflict", f"call {id!r}: a later input differs; the one that was delivered stays")

    def append_call_input(self, key: Hashable, json: str) -> None:
        """Appends a fragment to the input of an open call."""
        part = self._parts.get(key)
        if part is None or not json or part.muted or part.pieces is None:
            return
        if self.fix_surrogates:
            json, part.pending_surrogate = join_surrogates(part.pending_surrogate + json)
            if not json:
                return
        if part.pieces and json.lstrip().startswith("{") and self._is_repeated_input(part):
            return
        part.pieces.append(json)
        self.last = part
        self.out.append(ev.CallDelta(part.index, json))

    def _is_repeated_input(self, part: LedgerPart) -> bool:
        """True if the input is complete, so that another object is the same input sent again."""
        last = (part.pieces or [""])[-1].rstrip()
        if part.form == "text" or not last.endswith("}") or part.checks >= _CHECKS:
            return False
        if not is_json(part.streamed_text):
            part.checks += 1  # each check reads all of the input, so their number is limited
            return False
        self.diagnostics.add("input-twice", f"call {part.id!r}: more input after it was complete is ignored")
        return True

    def end_call(
        self, key: Hashable, json: str | None = None, *, whole: bool = True, extra: Extra | None = None
    ) -> None:
        """Ends a call. `json` is its complete input, if the protocol repeats it; `whole=False` if the call was cut off.

        Empty input is `{}`, but only at a proper end. Input that is not JSON cuts the call.
        """
        part = self._parts.get(key)
        if part is None or part.muted:
            self._parts.pop(key, None)
            return
        streamed = part.streamed_text
        final = self._choose_input(part, streamed, json) or part.given
        if not final.strip() and part.form == "json" and whole:
            final = streamed + "{}"
        good = _runnable_input(part, final, whole=whole and not self.breaking)
        extra = extra or part.extra
        broken = self.breaking and not part.void  # a refused call is never complete
        # Nothing below raises: the part is removed together with its last event.
        del self._parts[key]
        part.open = False
        if final.startswith(streamed) and len(final) > len(streamed):
            self.out.append(ev.CallDelta(part.index, final[len(streamed) :]))
        is_client_call = part.by == "client" and not part.choice
        fields = part.index, part.id, part.name, final if good is None else good, part.by, part.form, extra, broken
        if good is not None:
            self.calls += is_client_call
            self._inputs[part.choice, part.id] = good
            self.out.append(ev.CallEnd(*fields))
        else:
            self.truncated_calls += is_client_call
            self.diagnostics.add("call-cut", f"call {part.id!r} of {part.name!r} has no complete input, or one refused")
            self.out.append(ev.CallCut(*fields))

    def _choose_input(self, part: LedgerPart, streamed: str, json: str | None) -> str:
        """Returns the closing input if it is usable; otherwise the joined fragments."""
        if json is None or not json.strip():
            return streamed
        if streamed and json != streamed:
            self.diagnostics.add("conflict", f"call {part.id!r}: the closing input differs from its fragments")
            if part.form == "json" and complete_json(json) is None:
                return streamed
        return json


def _runnable_input(part: LedgerPart, final: str, *, whole: bool) -> str | None:
    """Returns the input if the call may be run with it."""
    if part.void:
        return None
    if part.form != "json":
        return final if whole else None
    good = complete_json(final)
    # Only a number is valid JSON and could still continue.
    return None if good is not None and not whole and good.rstrip()[-1:].isdigit() else good
