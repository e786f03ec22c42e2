"""What requests of Cohere Chat cannot say, and what its versions differ in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from penstock.carrying import Holds
from penstock.protocols.cohere.reading import NAME

if TYPE_CHECKING:
    from penstock.writing import Losses

LOSSES: Losses = {
    "allowed": "which tools may or must be called is left out, but not that one must",
    "approval": "an approval is left out",
    "auto": "that tools may be called is not said: it is the default",
    "cache": "a cache point is left out",
    "choice": "version 1 has no choice of tools: it is left out",
    "encrypted": "what only the provider that ran a tool can read is left out of its result",
    "cut-call": "a call that never became whole is left out",
    "effort": "an effort is sent as a budget of reasoning tokens",
    "empty": "an empty text, and a message without content, is left out",
    "file": "a file of a kind or at a place that cannot be sent is told as a line of text: {}",
    "form": "that reasoning is a summary is not said",
    "format": "of an answer's schema only the schema is sent",
    "ids": "version 1 has no ids of calls: results answer them by name and order",
    "json-result": "a JSON value that is no object is sent as its text",
    "namespace": "which group a tool is of is left out",
    "name": "the name of who speaks is left out",
    "opaque": "state of another protocol is left out; what it says in words is sent as text",
    "order": "a text is told before the calls; version 1 joins texts",
    "reasoning": "version 1 has no place for reasoning: it is left out",
    "reasoning-state": "signed or encrypted reasoning of another protocol is sent as its words alone",
    "schema": "version 1 knows a parameter's type and description: the rest of its schema is left out",
    "setting": "a setting without a word here is left out: {}",
    "source": "a citation in an earlier answer is left out",
    "strict": "that a single tool's input must follow its schema is not said",
    "tool": "a tool that another provider runs is left out: {}",
}
HOLDS = Holds(NAME, failed=False, refusals=False, result_files=False, assistant_files=False)


class Quirks(msgspec.Struct, frozen=True):
    """What APIs of this protocol differ in."""

    version: Literal[0, 1, 2] = 0  # which version to write; 0: the one that was read, and 2 for all others
