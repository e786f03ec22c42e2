"""What Chat Completions cannot say, and what happens instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.codec import Losses

LOSSES: Losses = {
    "free-text": "free text is written as a function's argument `input`, unless the client offered custom tools",
    "cut-file": "a picture that a fault broke off is not written",
    "data": "an application's own data has no field",
    "provider-call": "a tool run by the provider has no field; its words are in the text that follows",
    "approval": "a request for approval has no field",
    "opaque": "opaque state of another protocol has no field",
    "file": "a file that is neither image nor audio has no field",
    "cut-call": "a call that was cut is left out; where its input was sent whole, it cannot be taken back",
    "media": "a sound has no type here: it is just audio",
    "order": "calls come in the order in which their input began",
    "overlap": "the words of parts that are open at once come in the order they were said",
    "span": "a citation is placed in all of the text: texts with something between them are one",
    "steps": "the usage of single steps is not written, only that of the turn",
    "text-state": "what another protocol keeps with a text is not written",
    "pause": "a paused turn is written as stopped",
    "reason": "a finish reason without a word here is written as the nearest",
    "unknown": "another protocol's unknown payload is not written",
}
