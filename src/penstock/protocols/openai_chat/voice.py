"""What one choice of a Chat answer is saying: its open part, its calls, its `<think>` reader.

There are no block marks, so a part ends when another kind begins. Leans on the ledger for the grammar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import pick
from penstock.jsontext import as_json
from penstock.parts import Ledger
from penstock.protocols.openai_chat import wire
from penstock.protocols.openai_chat.errors import NAME
from penstock.protocols.openai_chat.extras import Extras, has_state
from penstock.protocols.openai_chat.google_state import read_state
from penstock.protocols.openai_chat.reasons import FAILED, REASONS
from penstock.shaping.think import ThinkTags

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra
    from penstock.parts import Part
    from penstock.protocols.openai_chat.calls import Calls

_EMPTY = wire.Delta()
_THOUGHTS = {"thinking": "thinking", "reasoning": "summary"}  # a kind of content → where its texts are


class Voice:
    """State: the kind of the open part and the part itself, whether the choice has said anything, or a text by
    `content`.
    """

    __slots__ = (
        "_kind", "_part", "_repeated", "_spoken", "_think", "_written", "calls", "extras", "heard", "index", "ledger",
        "signed",
    )  # fmt: skip

    def __init__(self, ledger: Ledger, index: int, calls: Calls, *, think: bool) -> None:
        self.ledger, self.index, self.calls = ledger, index, calls
        self.extras = Extras(ledger, index)
        self.signed = False  # whether the text took the state of the last delta
        self.heard = False
        self._written = False
        self._spoken = ""  # a transcript that was given as text before any content,
        self._repeated = 0  # and how much of it the content has repeated
        self._kind = ""
        self._part: Part | None = None
        self._think: ThinkTags | None = ThinkTags() if think else None

    def is_steady(self, part: Part) -> bool:
        """Whether more of that part is delivered as it comes: no tag is looked for in it, and its call is open."""
        if part.is_call:
            return self._part is None
        if part is not self._part or self.extras.details or self._spoken:
            return False
        return self._think is None or (self._kind == "reasoning" and self._think.fresh)

    def hear(self, delta: wire.Delta, logprobs: Any) -> None:
        """All of a delta, in the order in which its fields make sense."""
        self.heard = self.heard or delta != _EMPTY
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            self._reason(delta)
        content = delta.content
        if content:
            self._written = True
            if isinstance(content, list):
                self._items(content)
            else:
                said = content if isinstance(content, str) else as_json(content)
                self._text(self._without_repeats(said), logprobs)
        self.signed = delta.extra_content is not None and self._sign(read_state(delta.extra_content))
        if delta.tool_calls:
            self._silence()
            for call in delta.tool_calls:
                self.calls.add(call)
        if delta.refusal:
            self._say("refusal", delta.refusal)
        self._rare(delta)

    def _rare(self, delta: wire.Delta) -> None:
        if delta.function_call is not None and (delta.function_call.name or delta.function_call.arguments):
            self._silence()
            self.calls.add(wire.ToolCall(index=0, function=delta.function_call))
        if delta.annotations:
            self.extras.annotate(delta.annotations)
        if delta.audio is not None and (delta.audio.id or delta.audio.data or delta.audio.transcript):
            if delta.audio.transcript and not self._written:
                self._say("text", delta.audio.transcript)  # beside content it would be the same text again
                self._spoken += delta.audio.transcript
            self.extras.hear(delta.audio)
        if delta.images:
            self.extras.show(delta.images)
        if delta.executed_tools:
            self._silence()
            self.extras.ran(delta.executed_tools)

    def _without_repeats(self, content: str) -> str:
        """Content without what a transcript before it has said. Content that is another text is given whole."""
        if not self._spoken:
            return content
        expected = self._spoken[self._repeated :]
        if expected.startswith(content):
            self._repeated += len(content)
            return ""
        begun, self._spoken = self._spoken[: self._repeated], ""
        return content[len(expected) :] if content.startswith(expected) else begun + content

    # ── text and reasoning ────────────────────────────────────────────────────────────────────────

    def _text(self, text: str, logprobs: Any) -> None:
        if self._think is None:
            self._say("text", text, logprobs)
            return
        for kind, piece in self._think.feed(text):
            self._say(kind, piece, logprobs)
        if self._think.done:
            self._think = None

    def _items(self, content: list[dict[str, Any]]) -> None:
        """Content as a list: text, thinking and references (Mistral), reasoning as summaries (Databricks)."""
        for item in content:
            kind = item.get("type")
            if kind in _THOUGHTS:
                for inner in pick.rows(item, _THOUGHTS[kind]):
                    self._say("reasoning", pick.text(inner, "text"))
            elif "text" in item:
                self._say("text", self._without_repeats(str(item.get("text") or "")))
            elif kind == "reference":
                self.extras.refer(item)
            else:
                self.ledger.diagnostics.add("unknown-content", f"content of type {kind!r} is left out")

    def _reason(self, delta: wire.Delta) -> None:
        details = delta.reasoning_details or ()
        plain = delta.reasoning_content or delta.reasoning
        text = plain or self.extras.told(details)
        if details and self._kind != "reasoning" and (text or has_state(details)):
            self._end_part()
        if details and (self._part is None or self._kind == "reasoning"):
            self.extras.remember(details)
        if text:
            self._say("reasoning", text, extra=self.extras.head())
        if plain:
            self.extras.plain = True
        if details and self._kind == "reasoning" and self._part is not None:
            self._part.extra = self.extras.remembered()

    def _say(self, kind: str, text: str, logprobs: Any = None, *, extra: Extra | None = None) -> None:
        """Speak on, or end the part of another kind and begin one of this."""
        if not text:
            return
        if self._kind != kind:
            if kind == "reasoning":
                self._end_part()  # details that came before its first words belong to it
            else:
                self._silence()
            self._kind = kind
            self._part = self.openings[kind](self.ledger, (self.index, kind), choice=self.index, extra=extra)
            if kind == "text" and self._part is not None:
                self.extras.texts.append(self._part.index)
        if self._part is not None:
            self.ledger.tell(self._part, text, logprobs if kind == "text" else None)

    def _sign(self, state: Extra) -> bool:
        """Give the open text state that must be sent back with it; False where none is open."""
        if not state or self._part is None or self._kind != "text":
            return False
        self._part.extra = {**(self._part.extra or {}), **state}
        return True

    def _silence(self) -> None:
        """Something else begins: end the open part. Details that no words followed are reasoning nobody can read; at a
        fault there may be half of them.
        """
        self._end_part()
        extra = None if self.ledger.breaking else self.extras.remembered()
        if extra is not None and has_state(self.extras.details):
            self.ledger.open_reasoning(key := (self.index, "reasoning"), choice=self.index, form="redacted")
            self.ledger.close(key, extra)
        self.extras.forget()

    def _end_part(self) -> None:
        if self._part is not None:
            self.ledger.close((self.index, self._kind))
            self._kind, self._part = "", None
            self.extras.forget()

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def finish(self, word: str, extra: Extra | None) -> None:
        """The choice ended, with this word of the provider's."""
        lower = word.lower()
        self.ledger.breaking = self.ledger.inside and lower in FAILED
        self.flush()
        if lower in FAILED:
            message = f"the provider ended the answer with {word!r}"
            self.ledger.fault("server", message, code=word, extra={NAME: {"error": {"message": message, "code": word}}})
            return
        reason = REASONS.get(lower)
        if reason is None:
            self.ledger.diagnostics.add("unknown-reason", f"finish reason {word!r} is read as a normal stop")
        self.ledger.finish(reason or "stop", word, choice=self.index, extra=extra)
        self._kind, self._part = "", None

    def flush(self) -> None:
        """Say what the tag reader held back, and open calls that waited for a name."""
        if self._think is not None and not self.ledger.ended:
            for kind, piece in self._think.finish():
                self._say(kind, piece)
            self._think = None
        if not self.ledger.ended:
            if self._part is None:
                self._silence()
            self.calls.close()

    openings: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "text": Ledger.open_text,
        "reasoning": Ledger.open_reasoning,
        "refusal": Ledger.open_refusal,
    }
