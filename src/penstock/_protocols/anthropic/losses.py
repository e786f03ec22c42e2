"""What Anthropic Messages cannot express in a stream, and what the encoder writes instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock._codec import Losses

LOSSES: Losses = {
    "provider-run": "of another provider's search or program only query, URLs, code and output are written",
    "after-break": "parts that waited behind an interrupted part are not written",
    "choice": "only the first of several choices is written",
    "data": "application data has no block and is left out",
    "file": "a file that the model generated has no block",
    "provider-call": "another provider's tool run has no block",
    "approval": "an approval request has no block",
    "opaque": "another protocol's opaque state is not written",
    "source-outside-text": "a citation needs an open text block",
    "unknown": "another protocol's unknown payload is not written",
    "logprobs": "log probabilities have no field",
    "span": "a citation belongs to a complete text block, not to a span in it",
    "refusal": "a refusal is written as text; the stop reason marks it as a refusal",
    "reason": "a finish reason that does not exist here is written as the nearest one",
    "steps": "only the usage of the turn is written, not that of single steps",
    "text-state": "another protocol's state of a text is not written",
    "cut-call": "an incomplete call is left out, unless its input was already written",
    "free-text": "the free text of a custom tool is written as JSON with one field, `input`",
}
