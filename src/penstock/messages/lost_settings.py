"""Settings that a target could not carry, by the diagnostics of a conversion, and whose loss changes the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock import request as rq
    from penstock.diagnostics import Diagnostic

LOSS, CHANGED, REFUSED = "loss-", "changed-", "refused-field"  # how codes begin, and one
SETTING = "loss-setting"
LIMIT = "output-limit"
ALTERED = {LIMIT: "max-output", "reasoning-budget": "budget"}  # settings that a limit has changed, by code
# Fields of bodies that are refused, by the names of the settings they say.
FIELDS = {
    "n": "choices", "parallel_tool_calls": "parallel_calls", "service_tier": "tier", "stop_sequences": "stop",
    "stopSequences": "stop",
}  # fmt: skip
# What a setting says that might as well not be said: leaving it out loses nothing.
PLAIN: dict[str, tuple[object, ...]] = {
    "choices": (1,), "logprobs": (False,), "top_logprobs": (0,), "frequency_penalty": (0,), "presence_penalty": (0,),
    "parallel_calls": (True,), "tier": ("auto", "default"),
}  # fmt: skip


def lost(rows: Iterable[Diagnostic], asked: rq.Settings) -> tuple[str, ...]:
    """Names of what was asked for and not carried, or carried with another value, each once."""
    found: dict[str, None] = {}
    for row in rows:
        altered = row.code in ALTERED and (row.code != LIMIT or asked.max_output is not None)  # not one that was added
        if altered or row.code.startswith((LOSS, CHANGED)) or row.code == REFUSED:
            name = ALTERED.get(row.code) or FIELDS.get(row.name, row.name)
            name = name or row.code.removeprefix(LOSS).removeprefix(CHANGED)
            if getattr(asked, name, None) not in PLAIN.get(name, ()):
                found[name] = None
    return tuple(found)


# What `strict` refuses to lose: without it the answer is another one, or says less than was asked for.
STRICT = frozenset({
    "allowed", "any-json", "budget", "choice", "choices", "effort", "frequency_penalty", "logprobs", "parallel_calls",
    "prefill", "presence_penalty", "schema", "seed", "stop", "temperature", "top_k", "top-k", "top_logprobs", "top_p",
})  # fmt: skip


def changed_meaning(rows: Iterable[Diagnostic], asked: rq.Settings) -> tuple[str, ...]:
    """Names of what was lost and changes the result. A value in another form, or the nearest one, is not among them."""
    gone = [row for row in rows if not row.code.startswith(CHANGED) and row.code not in ALTERED]
    names = tuple(name for name in lost(gone, asked) if name in STRICT)
    formless = any(row.code == SETTING and row.name == "format" for row in gone)  # not only the name of its schema
    return (*names, "format") if formless else names
