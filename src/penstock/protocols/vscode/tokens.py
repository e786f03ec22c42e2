"""Tokens as VS Code reads them, out of canonical usage and back. It counts what was cached as part of the prompt."""

from __future__ import annotations

import msgspec

from penstock import events as ev
from penstock.fold import total
from penstock.protocols.vscode import wire
from penstock.protocols.vscode.parts import DataPart

MIME = "usage"


def tokens(usage: ev.Usage) -> wire.Tokens:
    """The whole prompt and the whole output, their sum, and what is known of their insides."""
    known = usage.input is not None and usage.output is not None
    inside = None
    if usage.cached is not None or usage.written is not None:
        inside = wire.InputDetails(usage.cached, usage.written)
    thought = None if usage.reasoning is None else wire.OutputDetails(usage.reasoning)
    total = (usage.input or 0) + (usage.output or 0) if known else None
    return wire.Tokens(usage.input, usage.output, total, inside, thought)


def spent(usages: dict[int, ev.Usage]) -> ev.Usage | None:
    """The usage of a turn: as given, or the sum of its steps."""
    return usages.get(0) or (total(usages.values()) if usages else None)


def usage_line(usages: dict[int, ev.Usage]) -> wire.Usage | None:
    """A turn of several model calls fills the context with the last of them, not with their sum."""
    turn = spent(usages)
    if turn is None:
        return None
    step = max(usages)
    last = usages[step] if step else turn
    same = last.input == turn.input and last.output == turn.output
    return wire.Usage(tokens(last), None if same else tokens(turn), step, not turn.exact)


def usage_part(usage: ev.Usage) -> DataPart | None:
    """The data part that fills the host's context ring; None while a number is missing that it insists on."""
    said = tokens(usage)
    return None if said.total_tokens is None else DataPart(msgspec.json.encode(said), MIME)


def usage_of(said: wire.Tokens, *, step: int = 0, estimated: bool = False) -> ev.Usage:
    """The canonical usage of what was written by `tokens`."""
    inside, thought = said.prompt_tokens_details, said.completion_tokens_details
    return ev.Usage(
        said.prompt_tokens,
        said.completion_tokens,
        inside.cached_tokens if inside else None,
        inside.cache_creation_tokens if inside else None,
        thought.reasoning_tokens if thought else None,
        exact=not estimated,
        step=step,
    )
