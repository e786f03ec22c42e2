"""What VS Code's parts cannot say, and what is said instead; why a reply can be empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.codec import Losses
    from penstock.events import Reason

LOSSES: Losses = {
    "cut-file": "a file that a fault broke off is not written",
    "approval": "a request for approval has no part",
    "bounds": "where one text part ends and the next begins is not written",
    "call": "this host runs no tools, so a call is left out",
    "choice": "only the first of several choices is written",
    "data": "this host has no data parts, so files and data are left out",
    "data-id": "the id of an application's data, and that it is transient, has no field",
    "file": "a file that is neither base64 nor at an address on the web is left out",
    "file-link": "a file known only by its address is written as a link in the text",
    "free-text": "free text for a tool is sent as the `input` of an object",
    "links": "links to what is cited are put into the text",
    "logprobs": "log probabilities have no field",
    "no-object": "input for a tool that is no object is sent as the `input` of one, and null as an empty one",
    "opaque": "opaque state has no part",
    "order": "calls come in the order in which they became whole",
    "provider-call": "a tool run by the provider has no part; its words are in the text that follows",
    "reasoning": "reasoning is left out, by option or because this host has no thinking parts",
    "reasoning-state": "signatures and encrypted reasoning need thinking parts",
    "source": "this host has no data parts, so a citation is at most a link",
    "span": "which text part a citation belongs to is not written",
    "steps": "of the usage of several steps only the last and the sum are written",
    "text-state": "state that belongs to text has no field",
    "unknown": "another protocol's unknown payload is not written",
}
EMPTY: dict[Reason, str] = {
    "stop": "The model ended its turn without an answer.",
    "length": "The model reached its output limit before it had written an answer.",
    "calls": "The model called tools, and none of the calls can be run here.",
    "filter": "A content filter withheld the answer.",
    "refusal": "The model declined to answer.",
    "pause": "The model paused before it had written an answer; ask it to go on.",
    "other": "The model gave no answer, and no known reason for it.",
}
