"""Write src/penstock/_providers/models.json anew from a table of models: python tools/models.py FILE.

FILE is JSON in the form of models.dev: provider → {models: {id: {name, context, output, cost, in, out, …}}}. Kept are
the providers that providers.toml names, a line for each model, so that a difference can be read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from penstock._providers.model_identity import kind
from penstock._providers.models import LETTERS
from penstock._providers.registry import providers

OUT = Path(__file__).resolve().parents[1] / "src/penstock/_providers/models.json"
_KINDS = {"chat": "chat", "embeddings": "embeddings", "rerank": "rerank"}
_INPUTS = {"image": "images", "pdf": "documents", "audio": "audio", "video": "video"}
_PRICES = ("input", "output", "cache_read", "cache_write")
_OUTPUTS = {"image": "image-output", "audio": "audio-output"}
# Anthropic has one price for the whole window of 1M tokens: https://platform.claude.com/docs/en/about-claude/pricing
# For other providers models.dev has older tiers, some of them guessed: https://github.com/anomalyco/models.dev/pull/1459
_ONE_PRICE = "claude"
# Prices that models.dev lacks: provider and model → fields of its `cost`.
_MISSING_PRICES: dict[tuple[str, str], dict[str, Any]] = {
    # Above 272,000 tokens 2x input and 1.5x output, for the whole request:
    # https://developers.openai.com/api/docs/models/gpt-5.5, as quoted in https://github.com/dust-tt/dust/pull/30944
    ("openai", "gpt-5.5"): {"tiers": [{"tier": {"size": 272_000}, "input": 10.0, "output": 45.0, "cache_read": 1.0}]},
    ("openai", "gpt-5.5-pro"): {"tiers": [{"tier": {"size": 272_000}, "input": 60.0, "output": 270.0}]},
    ("google-vertex", "gemini-2.5-flash"): {"input_audio": 1.0},  # as in the Gemini API
}


def main() -> int:
    """Read, choose, write."""
    if len(sys.argv) != 2:  # noqa: PLR2004
        print(__doc__, file=sys.stderr)
        return 2
    given: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for (name, model), prices in _MISSING_PRICES.items():
        row = given[name]["models"].get(model, {})
        row["cost"] = {**prices, **(row.get("cost") or {})}
    wanted = sorted({row.facts or name for name, row in providers().items()} & set(given))
    tables = [f"{json.dumps(name)}:[\n" + ",\n".join(_lines(given[name]["models"])) + "\n]" for name in wanted]
    OUT.write_text("{" + ",\n".join(tables) + "}\n", encoding="utf-8")
    print(f"{len(wanted)} providers, {sum(table.count(chr(10)) - 1 for table in tables)} models", file=sys.stderr)
    return 0


def _lines(models: dict[str, Any]) -> list[str]:
    return [
        json.dumps(_line(name, row), separators=(",", ":"), ensure_ascii=False) for name, row in sorted(models.items())
    ]


def _line(id: str, row: dict[str, Any]) -> dict[str, Any]:
    cost: dict[str, Any] = row.get("cost") or {}
    price = _trim([cost.get(key) for key in _PRICES])
    made: dict[str, Any] = {
        "id": id, "name": row["name"] if row["name"] != id else "", "ctx": row.get("context"),
        "inp": row.get("input_limit"), "out": row.get("output"), "price": price,
        "audio": _trim([cost.get("input_audio"), cost.get("output_audio")]), "think": cost.get("reasoning"),
        "tiers": [] if _ONE_PRICE in id else _tiers(cost), "can": _can(id, row),
    }  # fmt: skip
    return {key: value for key, value in made.items() if value}


def _tiers(cost: dict[str, Any]) -> list[list[float | None]]:
    """Return the prices of long prompts: models.dev names the threshold, or has it in the key."""
    rows = [(row["tier"]["size"], row) for row in cost.get("tiers", []) if "size" in row.get("tier", {})]
    rows += [(row["context"]["min"], row) for row in cost.get("tiers", []) if "min" in row.get("context", {})]
    if not rows and cost.get("context_over_200k"):
        rows = [(200_000, cost["context_over_200k"])]
    return [_trim([above, *(row.get(key) for key in _PRICES)]) for above, row in sorted(rows, key=lambda one: one[0])]


def _trim(values: list[float | None]) -> list[float | None]:
    """Drop unknown values at the end."""
    while values and values[-1] is None:
        values.pop()
    return values


def _can(id: str, row: dict[str, Any]) -> str:
    words = {_INPUTS.get(word) for word in row["in"]} | {_OUTPUTS.get(word) for word in row["out"]}
    words.add(_KINDS.get(kind(id)) if "text" in row["out"] else None)
    words.update(word for word in ("reasoning", "tools", "temperature") if row.get(word))
    return "".join(letter for letter, word in LETTERS.items() if word in words)


if __name__ == "__main__":
    sys.exit(main())
