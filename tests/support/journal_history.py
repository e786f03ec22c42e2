"""Writes turns to a journal file, for the pages with charts. The same seed gives the same rows."""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock._store.journal import JournalEntry, JournalStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

DAY = 86_400.0
BATCH = 10_000  # turns that wait to be written, at most
CLIENTS = {"claude-code": "anthropic", "openai-python": "openai-chat", "vscode": "vscode", "ai-sdk": "uistream"}
KEYS = ("anna", "ben", "ci")
METHODS = ("actual", "hybrid", "hybrid", "hybrid", "estimated", "estimated")


class Kind(NamedTuple):
    """A model: how often it is asked, what it costs a million tokens, how soon it speaks, how its provider counts."""

    provider: str
    model: str
    share: float
    price: tuple[float, float] | None
    first: float
    counts: float


MODELS = (
    Kind("anthropic", "claude-sonnet-4-5", 0.42, (3.0, 15.0), 0.9, 1.06),
    Kind("openai", "gpt-5-mini", 0.28, (0.25, 2.0), 0.6, 0.98),
    Kind("gemini", "gemini-2.5-flash", 0.18, (0.3, 2.5), 0.45, 1.0),
    Kind("groq", "qwen3-32b", 0.12, None, 0.18, 1.11),
)


def seed(path: Path, turns: int = 2400, *, until: float | None = None, days: float = 29.0, number: int = 7) -> None:
    """Write them, busier by day than by night and busier lately than long ago."""
    random, now = Random(number), until or time.time()
    rows = JournalStore(path, time.time, age=365 * DAY, size=2**30)
    factors = dict.fromkeys(MODELS, 1.0)
    for place, when in enumerate(sorted(_time(random, now, days) for _ in range(turns)), 1):
        kind = random.choices(MODELS, [model.share for model in MODELS])[0]
        factors[kind] += 0.04 * (kind.counts - factors[kind])
        rows.add(_turn(random, when, kind, factors[kind]))
        if place % BATCH == 0:  # a flush of all of them at once does not wait as long as a busy machine needs
            rows.flush()
    rows.close()
    assert rows.lost == 0


def _time(random: Random, now: float, days: float) -> float:
    while True:
        when = now - days * DAY * float(random.random() ** 1.5)
        hour = time.localtime(when).tm_hour
        if random.random() < (1.0 if 8 <= hour < 19 else 0.15):
            return when


def _turn(random: Random, when: float, kind: Kind, factor: float) -> JournalEntry:
    client = random.choice([*CLIENTS])
    size = int(random.lognormvariate(8.2, 1.1)) + 20
    method = Random(when).choice(METHODS)
    error = {"actual": 0.0, "hybrid": 0.01, "estimated": 0.06}[method]
    share = error / 0.06  # of the error of a whole estimate
    estimate = max(1, int(size * (1 + share * (factor / kind.counts * random.gauss(1.0, 0.06) - 1))))
    low, high = (0.88, 1.16) if method == "estimated" else (1 - 2 * error, 1 + 2 * error)
    out = int(random.lognormvariate(5.6, 0.8)) + 5
    broken = random.random() < (0.06 if kind.provider == "groq" else 0.015)
    first = kind.first * random.lognormvariate(0.0, 0.45)
    cost = None if kind.price is None else (size * kind.price[0] + out * kind.price[1]) / 1e6
    return JournalEntry(
        time=when, duration=first + out / random.uniform(40, 110), ttft=first, key=random.choice(KEYS), client=client,
        protocol=CLIENTS[client], asked=kind.model, provider=kind.provider, model=kind.model, upstream="anthropic",
        engine="native", stream=True, status="fault" if broken else "finish", finish="" if broken else "stop",
        fault="overloaded" if broken else "", http=200, input=size, output=out, cost=cost,
        estimate=None if broken else estimate, low=int(estimate * low), high=int(estimate * high) + 1,
        factor=round(factor, 4), method=method, request_id=f"{random.getrandbits(64):016x}",
    )  # fmt: skip


def write_turns(path: Path, turns: Iterable[Mapping[str, Any]]) -> None:
    """Write turns of which only these fields are known. They are a minute old, if they do not say it."""
    rows = JournalStore(path, time.time, age=365 * DAY, size=2**30)
    for turn in turns:
        rows.add(JournalEntry(**{"time": time.time() - 60, **turn}))
    rows.close()
    assert rows.lost == 0


class Estimated(NamedTuple):
    """Turns of one model with the same error: what was estimated for each 1,000 tokens, and how."""

    turns: int
    estimate: int
    method: str = "estimated"
    uncertain: str = ""
    teaches: bool = True


def seed_estimates(path: Path, groups: Mapping[str, Sequence[Estimated]]) -> None:
    """Write turns with known errors, by `provider/model`; each is ten minutes after the one before."""
    rows = JournalStore(path, time.time, age=365 * DAY, size=2**30)
    for name, groups_of_model in groups.items():
        turns = [group for group in groups_of_model for _ in range(group.turns)]
        for number, group in enumerate(turns):
            rows.add(_estimated_turn(name, number, time.time() - 600.0 * (len(turns) - number), group))
    rows.flush()
    rows.close()


def _estimated_turn(name: str, number: int, when: float, group: Estimated) -> JournalEntry:
    provider, model = name.split("/")
    return JournalEntry(
        time=when,
        client="vscode",
        protocol="vscode",
        provider=provider,
        model=model,
        asked=model,
        input=1000,
        output=20,
        estimate=group.estimate,
        low=int(group.estimate * 0.9),
        high=int(group.estimate * 1.1),
        factor=1.0 if group.teaches else None,
        method=group.method,
        uncertain=group.uncertain,
        request_id=f"{model}-{number}",
    )
