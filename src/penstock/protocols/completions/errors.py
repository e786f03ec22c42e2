"""A fault → the error object that OpenAI would send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import openai_errors

if TYPE_CHECKING:
    from penstock.events import Fault

NAME = "completions"
ERRORS = openai_errors.errors_with_prompt("prompt")


def error_body(fault: Fault) -> dict[str, Any]:
    """The body of an HTTP error, which is also the payload of an error in a stream."""
    return {"error": openai_errors.error_object(fault, NAME, ERRORS)}
