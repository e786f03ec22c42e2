"""A fault → the error that OpenAI would send: in an HTTP body, and in the events of a stream, whose codes differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import openai_errors
from penstock.protocols.responses.speech import NAME
from penstock.vendor_errors import vendor_error

if TYPE_CHECKING:
    from penstock.events import Fault

# Its first two sentences are OpenAI's whole message: https://github.com/dyad-sh/dyad/issues/1672. Copilot CLI compacts
# a conversation after these words, and not after those of Chat.
_TOO_LONG = (
    "Your input exceeds the context window of this model. Please adjust your input and try again. Input tokens exceed "
    "the configured limit of {limit} tokens. Your messages resulted in {tokens} tokens."
)
# Codex recovers from an overflow only if a response fails with it, not after a status 400:
# https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/api_bridge.rs
ERRORS = openai_errors.errors_with_prompt("input", overflow=_TOO_LONG, in_stream=True)


def error_body(fault: Fault) -> dict[str, Any]:
    """The body of an HTTP error."""
    return {"error": openai_errors.error_object(fault, NAME, ERRORS)}


def error_event(fault: Fault) -> dict[str, Any]:
    """The error object of an event. Its code is a text, always: readers insist on one in a failed response."""
    error = openai_errors.error_object(fault, NAME, ERRORS, event=True)
    row = vendor_error(ERRORS, fault)
    return {**error, "code": str(error["code"] or row.event_code or row.code or "server_error")}
