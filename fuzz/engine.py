"""Runs one target: makes inputs, checks them, keeps those that led to something new, collects and minimises crashes.

The same seed gives the same inputs. Without coverage the summary that a check returns tells what is new: the kinds of
events, the diagnostics, the place of an error.
"""

from __future__ import annotations

import random
import signal
import time
import traceback
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz.minimising import minimise
from fuzz.mutation import Inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuzz.target import Check, Target

CPU_LIMIT = 5.0  # seconds of processor time for one input; the slowest good ones take some milliseconds
MINIMISING = 10.0  # seconds for one crash
MOST_CRASHES = 25  # different ones of a target; then it stops
TELL_EVERY = 0.5
_SOURCE = f"{Path('src', 'penstock')}"


class TooSlow(BaseException):
    """An input took too much processor time. Not an `Exception`, so that no handler takes it for one of its own."""


@dataclass
class Crash:
    """An input that broke a promise. `signature` is the same for inputs that break the same one in the same place."""

    signature: str
    message: str
    data: bytes
    count: int = 1
    traceback: str = ""


@dataclass
class Result:
    """The figures of one target."""

    target: str
    past_means: str = ""
    inputs: int = 0
    past: int = 0
    kept: int = 0
    seconds: float = 0.0
    crashes: dict[str, Crash] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """When to stop: after so many inputs, so many past the first checks, or so many seconds; 0 is no limit."""

    inputs: int = 0
    past: int = 0
    seconds: float = 0.0

    def reached(self, result: Result, since: float) -> bool:
        if len(result.crashes) >= MOST_CRASHES:
            return True
        counted = bool(self.inputs or self.past) and result.inputs >= self.inputs and result.past >= self.past
        return counted or bool(self.seconds and time.monotonic() - since >= self.seconds)


def fuzz(target: Target, limits: Limits, seed: int, tell: Callable[[Result], object] = lambda _: None) -> Result:
    """Run a target until a limit is reached."""
    seeds, mutator, check = target.load()
    inputs = Inputs(mutator, seeds)
    rng = random.Random(f"{seed} {target.name}")
    result = Result(target.name, target.past)
    seen: set[Any] = set()
    since = told = time.monotonic()
    with cpu_clock():
        while not limits.reached(result, since):
            data = inputs.next(rng, result.inputs)
            result.inputs += 1
            found = attempt(check, data)
            if isinstance(found, Crash):
                _note(result, found)
            else:
                result.past += found[0]
                if found[1] not in seen:
                    seen.add(found[1])
                    inputs.keep(data)
                    result.kept += 1
            if time.monotonic() - told > TELL_EVERY:
                told, result.seconds = time.monotonic(), time.monotonic() - since
                tell(result)
        result.seconds = time.monotonic() - since
        for crash in result.crashes.values():
            crash.data = minimised(check, crash)
    return result


def _note(result: Result, crash: Crash) -> None:
    known = result.crashes.setdefault(crash.signature, crash)
    if known is not crash:
        known.count += 1
        if len(crash.data) < len(known.data):
            known.data = crash.data


def attempt(check: Check, data: bytes) -> Crash | tuple[bool, Any]:
    """What the check says of an input, or the crash. Within `cpu_clock` an input that takes too long is a crash."""
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_LIMIT)
    try:
        return check(data)
    except (Exception, TooSlow) as error:  # noqa: BLE001 — finding whatever is raised is the purpose
        return _crash(error, data)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _crash(error: BaseException, data: bytes) -> Crash:
    cause = error.__cause__ or error
    rows = traceback.extract_tb(cause.__traceback__) or traceback.extract_tb(error.__traceback__)
    ours = [row for row in rows if _SOURCE in row.filename] or list(rows)
    place = f"{ours[-1].filename.rpartition(_SOURCE)[2].lstrip('/')}:{ours[-1].name}"
    said = str(error) if isinstance(error, AssertionError) and cause is error else ""
    words = "".join(letter for letter in said.partition(":")[0] if not letter.isdigit())[:60]
    signature = " ".join(filter(None, (type(cause).__name__, place, words)))
    shown = "".join(traceback.format_exception(error, limit=-12))
    return Crash(signature, f"{type(error).__name__}: {error}"[:300], data, traceback=shown[-6000:])


@contextmanager
def cpu_clock() -> Iterator[None]:
    """Inside, an input that takes too much processor time raises `TooSlow`."""

    def too_slow(*_: object) -> None:
        raise TooSlow(f"more than {CPU_LIMIT:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, too_slow)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def minimised(check: Check, crash: Crash, seconds: float = MINIMISING) -> bytes:
    """A smaller input with the same signature."""

    def same(data: bytes) -> bool:
        found = attempt(check, data)
        return isinstance(found, Crash) and found.signature == crash.signature

    return minimise(crash.data, same, seconds)
