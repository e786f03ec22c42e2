"""A fault → the error object that OpenAI would send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import openai_errors

if TYPE_CHECKING:
    from penstock.events import Fault
    from penstock.vendor_errors import ErrorTable

NAME = "completions"
ERRORS: ErrorTable = {
    **openai_errors.ERRORS,
    "too-large": replace(openai_errors.ERRORS["too-large"], param="prompt"),
}


def error_body(fault: Fault) -> dict[str, Any]:
    """The body of an HTTP error, which is also the payload of an error in a stream."""
    return {"error": openai_errors.error_object(fault, NAME, ERRORS)}
