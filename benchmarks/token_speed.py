"""What counting tokens costs: a megabyte cold, a long conversation warm, many small texts."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Any

from benchmarks.requests import conversation
from benchmarks.timing import Section, interleaved, table
from penstock._protocols.openai_chat.request_read import read_request
from penstock._tokens.bpe import MAX_CHARACTERS, counters
from penstock.tokens import HybridTokenEstimator

MEGABYTE, WARM, SMALL, ROUNDS = 60.0, 2.0, 50.0, 9  # ms
MESSAGES, TOOLS, TEXTS = 200, 20, 5_000
LENGTHS = (1, 4, 16)
BPE = 1.2  # times the package's own time
PROSE = "The build fails because `path_of(header)` is wrong: 3 of 17 tests. I've changed it, and ran them again.\n"
MIXED = 'Größe: 42 Zeilen: 東京の天気は晴れです。 Привет, мир! 🎉 {"ok": true, "n": 1024}\n'


def text(size: int, piece: str = PROSE) -> str:
    return (piece * (size // len(piece) + 1))[:size]


def small(estimator: HybridTokenEstimator, texts: list[str]) -> int:
    return sum(estimator.estimate_text(one, "gpt-4o").tokens for one in texts)


def exact(size: int) -> tuple[str, list[str]]:
    """A megabyte by the real vocabulary, beside the package alone, which takes no more than a piece at a time."""
    if not find_spec("bpe_openai"):
        return "bpe-openai is not installed here.", []
    vocabulary, given = counters()["o200k"], text(size)
    vocabulary("load")
    alone: Any = vocabulary._encode  # type: ignore[attr-defined]  # noqa: SLF001 — its own way in, loaded
    pieces = [given[at : at + MAX_CHARACTERS] for at in range(0, size, MAX_CHARACTERS)]
    runs: dict[str, Any] = {
        "ours": lambda: HybridTokenEstimator(counters=counters() | {"o200k": vocabulary}).estimate_text(
            given, "gpt-4o"
        ),
        "alone": lambda: sum(len(alone(piece)) for piece in pieces),
    }
    ratio = interleaved(runs, ROUNDS).ratio("ours", "alone")
    broken = [f"with the BPE a megabyte takes {ratio:.2f} times its own time"] if ratio > BPE else []
    return f"With bpe-openai, 1 MB cold takes {ratio:.2f} times the package's own time (at most {BPE}).", broken


def report() -> Section:
    """The section for the results."""
    estimator, size = HybridTokenEstimator(), 2**20
    mixed = text(size * len(MIXED) // len(MIXED.encode()), MIXED)
    asked = read_request(conversation(MESSAGES, TOOLS))
    texts = [f"{PROSE[: 20 + place % 60]} {place}" for place in range(TEXTS)]
    whole: Any = partial(estimator.estimate_conversation, asked, "gpt-4o")
    runs: dict[str, Any] = {
        "1 MB of prose and code, cold": partial(estimator.estimate_text, text(size), "gpt-4o"),
        "1 MB in five scripts, cold": partial(estimator.estimate_text, mixed, "claude-sonnet-4-5"),
        f"{MESSAGES} messages, {TOOLS} tools, warm": whole,
        f"{TEXTS:,} small texts": partial(small, estimator, texts),
    }
    runs |= {f"{times} MB": partial(estimator.estimate_text, text(times * size), "gpt-4o") for times in LENGTHS}
    assert whole().tokens > MESSAGES * 10
    times = interleaved(runs, ROUNDS)
    spent = {name: times.micros(name, 1000) for name in runs}
    limits = dict(zip(runs, (MEGABYTE, MEGABYTE, WARM, SMALL), strict=False))
    rows = [[name, f"{spent[name]:.2f}", f"{most:.0f}"] for name, most in limits.items()]
    growth = spent[f"{LENGTHS[-1]} MB"] / LENGTHS[-1] / spent[f"{LENGTHS[0]} MB"]
    told, slow = exact(size)
    broken = slow + [f"{name} takes {spent[name]:.1f} ms" for name, most in limits.items() if spent[name] > most]
    return Section(
        f"""## Tokens

ms of CPU; how far off the counts are is another matter: [tokens](../docs/tokens.md).

{table(["what", "ms", "at most"], rows)}

A megabyte of {LENGTHS[-1]} costs {growth:.2f} times the only one. {told}""",
        broken,
    )


if __name__ == "__main__":
    print(report().text)
