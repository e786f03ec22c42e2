"""The options of the encoder, and what they mean where the host lacks something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection

Reasoning: TypeAlias = Literal["thinking", "text", "drop"]
Citations: TypeAlias = Literal["data", "link", "both"]
CITATIONS: tuple[str, ...] = get_args(Citations)
RESERVED = "__vscode"  # the host appends it, and more, to call ids
HOST = frozenset({"text", "thinking", "tool-call", "data"})
"""The part kinds of VS Code since 1.108, with the thinking parts that it has at run time."""


def check(option: str, value: object, known: Collection[str]) -> None:
    """Refuse a value that is none of those known."""
    if value not in known:
        raise InputError(f"{option} is one of {', '.join(known)}; not {value!r}")


def reasoning_mode(wanted: Reasoning | None, host: Collection[str]) -> Reasoning:
    """Thinking parts where the host has them; nothing where it lacks them, for text must be asked for."""
    if wanted is not None:
        check("reasoning", wanted, get_args(Reasoning))
    if wanted in ("text", "drop"):
        return wanted
    return "thinking" if "thinking" in host else "drop"
