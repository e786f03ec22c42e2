"""A fault → the error that OpenAI would send: in an HTTP body, and in the events of a stream, whose codes differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import openai_errors
from penstock.protocols.responses.speech import NAME
from penstock.vendor_errors import vendor_error

if TYPE_CHECKING:
    from penstock.events import Fault
    from penstock.vendor_errors import ErrorTable

ERRORS: ErrorTable = {
    **openai_errors.ERRORS,
    "too-large": replace(openai_errors.ERRORS["too-large"], param="input"),
}


def error_body(fault: Fault) -> dict[str, Any]:
    """The body of an HTTP error."""
    return {"error": openai_errors.error_object(fault, NAME, ERRORS)}


def error_event(fault: Fault) -> dict[str, Any]:
    """The error object of an event. Its code is a text, always: readers insist on one in a failed response."""
    error = openai_errors.error_object(fault, NAME, ERRORS, event=True)
    row = vendor_error(ERRORS, fault)
    return {**error, "code": str(error["code"] or row.event_code or row.code or "server_error")}
