"""The options of the encoder, and what they mean where the host lacks something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from penstock.option_checks import TEXT_OR_NONE, Option, check_options, one_of, some_of

if TYPE_CHECKING:
    from collections.abc import Collection

Reasoning: TypeAlias = Literal["thinking", "text", "drop"]
Citations: TypeAlias = Literal["data", "link", "both"]
CITATIONS: tuple[str, ...] = get_args(Citations)
RESERVED = "__vscode"  # the host appends it, and more, to call ids
HOST = frozenset({"text", "thinking", "tool-call", "data"})
"""The part kinds of VS Code since 1.108, with the thinking parts that it has at run time."""


OPTIONS: dict[str, Option] = {
    "host": some_of(HOST),
    "reasoning": one_of((*get_args(Reasoning), None)),
    "citations": one_of(CITATIONS),
    "call_id_prefix": TEXT_OR_NONE,
}


def check(owner: str, **given: object) -> None:
    """Refuse a value of the wrong kind."""
    check_options(owner, given, OPTIONS)


def reasoning_mode(wanted: Reasoning | None, host: Collection[str]) -> Reasoning:
    """Thinking parts where the host has them; nothing where it lacks them, for text must be asked for."""
    if wanted in ("text", "drop"):
        return wanted
    return "thinking" if "thinking" in host else "drop"
