"""Runs cells of the fault matrix: a gateway on a real port, an upstream of raw sockets, many clients at once.

A cell is asked by a small reader over a raw socket and by the official SDK, and the upstream sends its frames in one
write or one by one (`Way`). Afterwards no task, connection or descriptor may be left, and the journal has a row for each request.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.gateway import App, GatewayConfig
from tests.support.gateway import PROVIDERS, Running, read_config
from tests.wire.faults import readers
from tests.wire.faults.cells import ENGINES, UPSTREAMS, Cell
from tests.wire.faults.checks import wrong_outcome, wrong_row
from tests.wire.faults.readers import Outcome
from tests.wire.faults.sdks import Sdks
from tests.wire.faults.upstream import FaultyUpstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

AT_ONCE = 48
HANG = 40.0  # seconds after which a client is said to hang
SETTLE = 15.0  # seconds in which tasks and descriptors must be gone
# For stalls alone: on a busy machine a good answer may be slower than that.
QUICK = {"first_byte": 4.0, "between_bytes": 0.6}
GOOD = ("none", "none-quick")  # no fault, asked of a patient and of a quick account
_QUICK = frozenset({"stall", "none-quick"})
LEFT = "left behind"
PATIENT = {"first_byte": 60.0, "between_bytes": 60.0}


class Way(NamedTuple):
    """Who reads the answer, and whether the upstream sends each frame in a write of its own."""

    sdk: bool
    paced: bool

    def __str__(self) -> str:
        return f"{'SDK' if self.sdk else 'raw'}, {'paced' if self.paced else 'joined'}"


def ways(client: str) -> tuple[Way, ...]:
    """Every way in which a cell can be asked. The UI stream has no SDK in Python."""
    return tuple(Way(sdk, paced) for sdk in (False, True) for paced in (False, True) if not sdk or client != "uistream")


def _next_way(client: str, number: int) -> tuple[Way, ...]:
    """One of them, in turn, so that a sample has them all."""
    every = ways(client)
    return (every[number % len(every)],)


class Asked(NamedTuple):
    """A request and its answer."""

    cell: Cell
    way: Way
    model: str
    out: Outcome


@dataclass
class Found:
    """What a run has found. `wrong` has a sentence for each cell that fails."""

    cells: int = 0
    requests: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, list[int]] = field(default_factory=dict)  # a sentence → the positions that it is true of

    def note(self, sentence: str, position: int = 0) -> None:
        self.wrong.setdefault(sentence, []).append(position)

    @property
    def count(self) -> int:
        return sum(map(len, self.wrong.values()))

    def describe(self) -> str:
        """All that is wrong, a line for each kind of it."""
        lines = [f"{sentence} [at {', '.join(map(str, places))}]" for sentence, places in sorted(self.wrong.items())]
        return f"{self.count} wrong:\n" + "\n".join(lines)

    def table(self, title: str) -> str:
        ends = ", ".join(f"{count} {name}" for name, count in sorted(self.ends.items()))
        return f"{title}: {self.cells} cells, {self.requests} requests ({ends}), {self.count} wrong"


class Matrix:
    """A gateway, an upstream and clients that stay for several runs."""

    def __init__(self, running: Running, upstream: FaultyUpstream) -> None:
        self.running, self.upstream = running, upstream
        self.settle = SETTLE
        self.port = int(running.url.rpartition(":")[2])
        self._number = 0

    async def run(self, cells: Iterable[Cell], *, all_ways: bool = False, warm_up: bool = False) -> Found:
        """Ask in every cell, in all ways or in the next one; what is left behind afterwards counts as wrong too.

        A `warm_up` opens what stays (pools, SDK clients): nobody waits until it is gone.
        """
        chosen, found = list(cells), Found()
        before = await self._settled()
        sdks, limit = Sdks(self.port), asyncio.Semaphore(AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                asked = [
                    group.create_task(self._ask(cell, way, sdks, limit))
                    for number, cell in enumerate(chosen)
                    for way in (ways(cell.client) if all_ways else _next_way(cell.client, number))
                ]  # fmt: skip
        finally:
            await sdks.aclose()
        answers = [task.result() for task in asked]
        await self._noted(answers)
        self._judge(answers, found)
        found.cells = len(chosen)
        after = await self._settled(None if warm_up else before)
        if after > before and not warm_up:
            found.note(f"{LEFT}: (tasks, descriptors) were {before} and are {after}")
        return found

    async def _ask(self, cell: Cell, way: Way, sdks: Sdks, limit: asyncio.Semaphore) -> Asked:
        async with limit:
            self._number += 1
            name = f"c{self._number}-{'paced' if way.paced else 'joined'}"
            self.upstream.plan[name] = cell
            model = f"{account_of(cell)}/{name}"
            asking = sdks.ask if way.sdk else self._raw
            try:
                async with asyncio.timeout(HANG):
                    return Asked(cell, way, model, await asking(cell.client, model, stream=cell.stream))
            except TimeoutError:
                return Asked(cell, way, model, Outcome(broken=f"no end within {HANG:g} s"))

    async def _raw(self, client: str, model: str, *, stream: bool) -> Outcome:
        return await readers.ask(self.port, client, model, stream=stream)

    async def _noted(self, asked: Sequence[Asked]) -> None:
        """Wait for the journal's rows: a client may see the end of its answer before the row is written."""
        for _ in range(int(self.settle / 0.05)):
            rows = self._rows()
            if all(one.out.broken or one.model in rows for one in asked):
                return
            await asyncio.sleep(0.05)

    def _judge(self, asked: Sequence[Asked], found: Found) -> None:
        rows = self._rows()
        for cell, way, model, out in asked:
            found.requests += 1
            found.ends[out.ended] += 1
            wrong = [wrong_outcome(cell, out, raw=not way.sdk)]
            if not out.broken:
                wrong.append(wrong_row(cell, out, rows.get(model, [])))
            name = model.rpartition("/")[2]
            if self.upstream.asked.get(name) is not cell.stream:
                wrong.append(f"the upstream was asked for stream {self.upstream.asked.get(name)}")
            for sentence in filter(None, wrong):
                found.note(f"{cell.title} ({way}): {sentence}", cell.position)

    def _rows(self) -> dict[str, list[Any]]:
        made: dict[str, list[Any]] = {}
        for row in self.running.rows(limit=1_000_000):
            made.setdefault(row.asked, []).append(row)
        return made

    async def _settled(self, least: tuple[int, int] | None = None) -> tuple[int, int]:
        """(tasks, descriptors) once every turn is over; no more than `least`, if that is reached in time."""
        self.upstream.drop()
        seen = (0, 0)
        for _ in range(int(self.settle / 0.05)):
            last, seen = seen, self._left()
            if self.running.settled() and (seen <= least if least else seen == last):
                break
            await asyncio.sleep(0.05)
        return seen

    def _left(self) -> tuple[int, int]:
        gc.collect()
        loop: Any = self.running.loop
        return len(asyncio.all_tasks(loop)), sum(1 for _ in Path("/dev/fd").iterdir())


def account_of(cell: Cell) -> str:
    return f"{cell.upstream}-{cell.engine}-{'quick' if cell.fault in _QUICK else 'patient'}"


def _config(port: int) -> GatewayConfig:
    accounts = {
        f"{name}-{engine}-{word}": {
            "base_url": f"http://127.0.0.1:{port}/{name}", "key": "sk-up-000000", "engine": engine,
            "options": {"timeouts": limits}, **PROVIDERS[name],
        }
        for name in UPSTREAMS for engine in ENGINES for word, limits in (("quick", QUICK), ("patient", PATIENT))
    }  # fmt: skip
    # A breaker that opened would answer in place of the upstream.
    return read_config(
        providers=accounts, retries=0, breaker={"failures": 10**9}, journal={"path": "memory"}, state={"path": "memory"}
    )


@asynccontextmanager
async def started() -> AsyncIterator[Matrix]:
    """The gateway and its upstream; nothing was asked yet."""
    async with FaultyUpstream() as upstream:
        running = Running(App(_config(upstream.port), env={}))
        await asyncio.to_thread(running.__enter__)
        try:
            yield Matrix(running, upstream)
        finally:
            await asyncio.to_thread(running.__exit__)


@asynccontextmanager
async def matrix(engine: str, *clients: str) -> AsyncIterator[Matrix]:
    """Everything started, and warmed by one good answer from each upstream in each form."""
    async with started() as made:
        for fault in GOOD:
            cells = [cell for client in clients for cell in good_cells(client, engine, fault)]
            found = await made.run(cells, warm_up=True)
            assert not found.wrong, found.describe()
        yield made


def good_cells(client: str, engine: str, fault: str = "none") -> list[Cell]:
    """The answer without a fault, from every upstream in each form."""
    return [Cell(client, upstream, engine, stream, fault, 0) for upstream in UPSTREAMS for stream in (True, False)]
