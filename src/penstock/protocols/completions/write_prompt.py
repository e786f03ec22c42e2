"""A conversation as one prompt: what a model that only continues text can be asked.

The system's words first, then each turn below a line with its role, and the assistant's line last. One message of the
user's alone is the prompt as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import request as rq
from penstock.carrying.ciphertext import without_ciphertext
from penstock.protocols.completions.request import NAME
from penstock.writing import Draft, Losses, salvage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

LOSSES: Losses = {
    "approval": "an approval is left out",
    "cache": "a cache point is left out",
    "choice": "which tool may or must be called is left out",
    "file": "a file is only mentioned in the prompt",
    "format": "the form of the answer is left out",
    "opaque": "state of another protocol is left out; what it says in words is sent as text",
    "reasoning": "reasoning is left out",
    "setting": "a setting without a word here is left out: {}",
    "source": "a citation in an earlier answer is left out",
    "tool": "a tool is left out, because nothing here can call it: {}",
    "transcript": "a conversation is sent as one prompt that tells who said what, and stops where the user would speak",
}
STOP = "\nuser:"


class Prompt(Draft):
    """A prompt being written."""

    protocol = NAME
    losses = LOSSES

    def transcript(self, messages: Iterable[rq.Message]) -> str:
        """All that was said, and the assistant's line to go on from."""
        blocks: list[str] = []
        role = ""
        for message in messages:
            self.own(message.extra)
            words = "\n".join(text for part in message.parts for text in self.words(part) if text)
            speaks = f"{message.role} ({message.name})" if message.name else message.role
            blocks.append(words if message.role == "system" and not role else f"{speaks}:\n{words}")
            role = message.role
        if role == "assistant":
            return "\n\n".join(blocks)  # the answer goes on from what was said
        return "\n\n".join([*blocks, "assistant:\n"])

    def words(self, part: Any) -> list[str]:
        """What a part says."""
        if part.cache:
            self.lose("cache")
        if type(part) is not rq.Opaque:
            self.own(part.extra)
        return self.kinds[type(part)](self, part)

    def _text(self, part: rq.Text) -> list[str]:
        return [part.text]

    def _json(self, part: rq.Json) -> list[str]:
        return [without_ciphertext(part.json)]

    def _call(self, call: rq.Call) -> list[str]:
        return [f"[calls {call.name}: {call.json or '{}'}]"]

    def _result(self, result: rq.Result) -> list[str]:
        failed = ["[failed]"] if result.failed else []
        return [*failed, *(text for part in result.content for text in self.words(part))]

    def _file(self, file: rq.File) -> list[str]:
        self.lose("file")
        return [f"[{file.name or file.url or file.media}]"]

    def _thought(self, _: rq.Reasoning) -> list[str]:
        self.lose("reasoning")
        return []

    def _source(self, _: rq.Source) -> list[str]:
        self.lose("source")
        return []

    def _ask(self, _: rq.Ask) -> list[str]:
        self.lose("approval")
        return []

    def _opaque(self, part: rq.Opaque) -> list[str]:
        self.lose("opaque")
        return [salvage(part.data)]

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[str]]]] = {
        rq.Text: _text, rq.Json: _json, rq.Call: _call, rq.Result: _result, rq.File: _file, rq.Reasoning: _thought,
        rq.Source: _source, rq.Ask: _ask, rq.Opaque: _opaque,
    }  # fmt: skip
