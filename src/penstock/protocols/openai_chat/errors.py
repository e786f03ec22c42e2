"""Error objects of Chat and its dialects → a fault, and a fault → the error object that OpenAI would send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import openai_errors
from penstock.faults import classify

if TYPE_CHECKING:
    from penstock.events import Fault
    from penstock.parts import Ledger

NAME = "openai-chat"
ERRORS = openai_errors.errors_with_prompt("messages")


def error_body(fault: Fault) -> dict[str, Any]:
    """The body of an HTTP error, which is also the payload of an error in a stream."""
    return {"error": openai_errors.error_object(fault, NAME, ERRORS)}


def report(ledger: Ledger, error: dict[str, Any] | str) -> None:
    """Break the turn off with what the provider said."""
    said: dict[str, Any] = {"message": error} if isinstance(error, str) else error
    code, kind = said.get("code"), said.get("type")
    places = (said.get("status_code"), said.get("raw_status_code"), code, said.get("status"))
    status = next((value for value in places if isinstance(value, int)), None)
    message = str(said.get("message") or "the provider reported an error")
    words = [str(one) for one in (code, kind) if one]
    ledger.fault(
        classify(words, message, status), message, status=status, code=str(code or kind or ""),
        extra={NAME: {"error": said}},
    )  # fmt: skip
