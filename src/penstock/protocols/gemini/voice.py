"""One candidate: its parts in order, its calls and sources, and why it ended.

There are no block marks: a part ends when another kind begins. A thought signature stays with the part it came on, or
with the open one if it came without words; with none open it is a thought that cannot be shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import events as ev
from penstock.protocols.gemini import wire
from penstock.protocols.gemini.calls import Calls
from penstock.protocols.gemini.grounding import Grounding
from penstock.protocols.gemini.own import NAME, own
from penstock.protocols.gemini.reasons import named_ratings, reason_of, word_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Reason
    from penstock.parts import Ledger, Part

_PLAIN = wire.Candidate()  # what is left of a candidate that only had content
_SEALED = ", signed"  # marks the kind of a part that is open, though more words begin another
TEXT = ("text", "text" + _SEALED)
_BYTES = "application/octet-stream"


class Voice:
    """State: the kind of the open part, the text so far, the calls, the sources, and the last word on the end."""

    def __init__(
        self,
        index: int,
        ledger: Ledger,
        turn: str,
        again: Callable[[int, int], tuple[dict[str, Any], wire.Part | None]],
    ) -> None:
        self.index = index
        self._ledger = ledger
        self._again = again  # reads a part once more, by the candidate's place and its own
        self._kind = ""
        self._key = (index, "")
        self.texts: list[Part] = []
        self.calls = Calls(ledger, index, lambda kind, number: f"{kind}_{turn}_{index}_{number}")
        self.grounding = Grounding(ledger, index)
        self.notes: dict[str, Any] = {}  # what is kept for the finish
        self.reason: Reason | None = None
        self.word = ""
        self.resumed = False  # more parts came after a finish reason

    def take(self, place: int, candidate: wire.Candidate) -> None:
        """The parts, between what is said of them and what is said at the end."""
        content = candidate.content
        candidate.content = candidate.index = None
        rest = candidate != _PLAIN
        if rest:
            self.grounding.note(candidate)
        if content is not None and content.parts:
            if self.reason is not None:
                self.resumed = True
            say = self._ledger.say
            for number, part in enumerate(content.parts):
                text = part.text
                kind = "reasoning" if part.thought else "text"
                if text is None or part.thought_signature or part.function_call is not None:
                    self._part(kind, part, (place, number))
                elif kind == self._kind:
                    say(self._key, text)
                elif text:
                    self._begin(kind, text)
        if rest:
            self._note(candidate)

    def _note(self, said: wire.Candidate) -> None:
        for key, value in (
            ("safetyRatings", named_ratings(said.safety_ratings) if said.safety_ratings else said.safety_ratings),
            ("finishMessage", said.finish_message),
            ("avgLogprobs", said.avg_logprobs), ("tokenCount", said.token_count),
        ):  # fmt: skip
            if value is not None:
                self.notes[key] = value
        if said.logprobs_result:
            self.notes["logprobsResult"] = _joined(self.notes.get("logprobsResult") or {}, said.logprobs_result)
        word = word_of(said.finish_reason)
        if word:
            self.word, self.reason = word, reason_of(word)

    def close(self) -> None:
        """The stream ended: end what is open, and tell what was held back."""
        if self._kind in TEXT:
            self.grounding.cite(self.texts, last=True)
        self._silence()
        self.calls.finish(normally=self.reason == "stop")
        self.grounding.cite(self.texts, last=True)
        self.grounding.tools(self.calls)

    # ── text and thoughts ─────────────────────────────────────────────────────────────────────────

    def _begin(self, kind: str, text: str) -> None:
        """End the part of another kind and begin one of this."""
        self._silence()
        self._kind, self._key = kind, (self.index, kind)
        if kind == "text":
            part = self._ledger.open_text(self._key, choice=self.index, keep=True)
            if part is not None:
                self.texts.append(part)
        else:
            self._ledger.open_reasoning(self._key, choice=self.index)
        self._ledger.say(self._key, text)

    def _silence(self) -> None:
        """End the open part; the sources of a text are told while it is open."""
        if self._kind:
            if self._kind in TEXT:
                self.grounding.cite(self.texts)
            self._ledger.close(self._key)
            self._kind = ""

    def _signed(self, kind: str, text: str, signature: str | None) -> None:
        """Text that may have a signature. A second one needs a part of its own; one without words ends its part."""
        extra = own(thoughtSignature=signature or None)
        part = self._open
        if extra and part is not None and part.extra not in (None, extra):
            self._silence()
        if text and kind == self._kind:
            self._ledger.say(self._key, text)
        elif text:
            self._begin(kind, text)
        part = self._open
        if extra and part is not None:
            part.extra = extra
            self._kind = self._kind if text else self._kind.removesuffix(_SEALED) + _SEALED
        elif extra:
            key = (self.index, "signature")
            self._ledger.open_reasoning(key, choice=self.index, form="redacted")
            self._ledger.close(key, own(thoughtSignature=signature, thought=kind == "reasoning"))

    @property
    def _open(self) -> Part | None:
        return self._ledger.find(self._key) if self._kind else None

    # ── other parts ───────────────────────────────────────────────────────────────────────────────

    def _part(self, kind: str, part: wire.Part, place: tuple[int, int]) -> None:
        """Anything but unsigned text."""
        read = next((name for name in self.parts if getattr(part, name) is not None), None)
        if part.text is not None:
            self._signed(kind, part.text, None if read else part.thought_signature)
        if read is not None:
            self._silence()
            self.parts[read](self, getattr(part, read), part)
        elif part.text is None:
            self._odd(kind, part, place)

    def _odd(self, kind: str, part: wire.Part, place: tuple[int, int]) -> None:
        """No known kind: spelled in another way, a signature by itself, or something to keep as it is."""
        raw, again = self._again(*place)
        if again is not None:
            self._part("reasoning" if again.thought else "text", again, place)
        elif raw:
            self._silence()
            self._ledger.diagnostics.add("unknown-part", f"no canonical word for a part with {', '.join(raw)}")
            self._ledger.atom(ev.Opaque, NAME, "part", raw)
        elif part.thought_signature:
            self._signed(kind, "", part.thought_signature)

    def _call(self, said: wire.FunctionCall, part: wire.Part) -> None:
        self.calls.add(said, part.thought_signature)

    def _code(self, said: wire.ExecutableCode, part: wire.Part) -> None:
        self.calls.ran_code(said, part.thought_signature)

    def _code_result(self, said: wire.CodeExecutionResult, part: wire.Part) -> None:
        self.calls.code_result(said, part.thought_signature)

    def _tool(self, said: wire.ToolCall, part: wire.Part) -> None:
        self.calls.ran_tool(said, part.thought_signature)

    def _tool_result(self, said: wire.ToolResponse, part: wire.Part) -> None:
        self.calls.tool_result(said, part.thought_signature)

    def _inline(self, said: wire.Blob, part: wire.Part) -> None:
        self._file(said.mime_type, "", said.data or "", part)

    def _linked(self, said: wire.FileData, part: wire.Part) -> None:
        self._file(said.mime_type, said.file_uri or "", "", part)

    def _file(self, media: str | None, url: str, data: str, part: wire.Part) -> None:
        key = (self.index, "file")
        self._ledger.open_file(key, media or _BYTES, url, choice=self.index)
        self._ledger.say(key, data)
        self._ledger.close(key, own(thoughtSignature=part.thought_signature, thought=part.thought))

    parts: ClassVar[Mapping[str, Callable[[Any, Any, wire.Part], None]]] = {
        "function_call": _call,
        "inline_data": _inline,
        "file_data": _linked,
        "executable_code": _code,
        "code_execution_result": _code_result,
        "tool_call": _tool,
        "tool_response": _tool_result,
    }


def _joined(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Log probabilities come chunk by chunk: lists grow, sums are replaced."""
    grown: dict[str, list[Any]] = {
        key: [*before[key], *value]
        for key, value in more.items() if isinstance(value, list) and isinstance(before.get(key), list)
    }  # fmt: skip
    return {**before, **more, **grown}
