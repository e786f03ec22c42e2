"""The marks, and which of them a protocol needs."""

from __future__ import annotations

from typing import Final

import msgspec

from penstock import request as rq

CARRIERS: Final = {
    "failed": "that a tool failed is said in its text",
    "result-file": "a file in a tool result is moved into a user message behind it",
    "assistant-file": "a file that the model made is moved into a user message behind it",
    "refusal": "that a text is a refusal is said in the text",
    "provider-call": "a tool that another provider ran is told as a call with its result, less what is encrypted",
    "free-text": "a tool of free text is offered as a function of one string",
    "empty": "a user who says nothing says that in a mark",
    "mid-system": "a system message inside the conversation is said by the user, between two sealed marks",
    "odd-input": "an input that is no JSON object is sent as a string inside of one",
}
OPEN: Final = "<ps:"  # how every mark in a text begins
FAILED: Final = "<ps:tool-failed/>"
REFUSED: Final = "<ps:refused/>"
SILENT: Final = "<ps:no-result/>"
EMPTY: Final = "<ps:empty/>"
FILE: Final = '<ps:tool-file n="{}"/>'
MADE: Final = '<ps:made-file at="{}"/>'
ALONE: Final = '<ps:made-turn n="{}"/>'  # the same, where the model said nothing that lasts (0), or nothing else (1)
SYSTEM: Final = ("<ps:system>", "</ps:system>")  # parts of their own, before and behind those of the message
RAN: Final = "ran_"  # begins the id of a call that a provider ran
ENDS: Final = "ran-"  # the same, where the turn ends with its result: what the model says next is another turn
RUN: Final = (RAN, ENDS)


def lasting(part: rq.AnyPart) -> bool:
    """Whether a part of a turn is of a kind that every protocol carries, and can be counted by."""
    return isinstance(part, rq.Call | rq.Result) or (type(part) is rq.Text and bool(part.text))


class Holds(msgspec.Struct, frozen=True):
    """What a protocol has a place for itself. What its own extra data describes, it can always say."""

    protocol: str
    failed: bool = True
    json: bool = True  # a result may be a JSON value
    refusals: bool = True
    result_files: bool = True
    assistant_files: bool = True
    file_urls: bool = True  # files other than images may be sent by their address
