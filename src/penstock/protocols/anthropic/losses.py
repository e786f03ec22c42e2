"""What Anthropic Messages cannot express in a stream, and what the encoder writes instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.codec import Losses

LOSSES: Losses = {
    "provider-run": "of another provider's search or program, query, addresses, code and output are written",
    "after-break": "what waited for a part that a fault broke off is not written",
    "choice": "only the first of several choices is written",
    "data": "an application's own data has no block",
    "file": "a file made by the model has no block",
    "provider-call": "another provider's own tool run has no block here",
    "approval": "a request for approval has no block",
    "opaque": "another protocol's opaque state is not written",
    "source-outside-text": "a citation needs an open text block",
    "unknown": "another protocol's unknown payload is not written",
    "logprobs": "log probabilities have no field",
    "span": "a citation is of a whole text block, not of a span in it",
    "refusal": "a refusal is written as text; the stop reason says that it is one",
    "reason": "a finish reason without a word here is written as the nearest",
    "steps": "the usage of single steps is not written, only that of the turn",
    "text-state": "what another protocol keeps with a text is not written",
    "cut-call": "a call that was cut is left out; where its input was sent whole, it cannot be taken back",
    "free-text": "the free text of a custom tool is written as JSON with one field, `input`",
}
