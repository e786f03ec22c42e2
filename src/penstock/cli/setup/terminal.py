"""Questions and messages of `penstock setup`, on standard error: standard output is for what a program may read."""

from __future__ import annotations

import sys

from penstock.errors import InputError


def print_line(text: str) -> None:
    """A line for the person."""
    print(f"penstock: {text}", file=sys.stderr)


def ask(question: str, otherwise: str) -> str:
    """A line from the person. Without a terminal that is an error: it says which option answers the question."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise InputError(f"{question.rstrip(': ?')}: there is no terminal to ask; {otherwise}")
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def agreed(question: str, *, yes: bool) -> bool:
    """Whether to go on."""
    return yes or ask(f"{question} [y/N] ", "give --yes to agree, or --print to see it only").lower() in {"y", "yes"}
