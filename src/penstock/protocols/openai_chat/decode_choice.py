"""What the dialects add beside text and calls: citations, reasoning details, audio, images, tools run upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.jsontext import as_json
from penstock.ledger import Ledger
from penstock.protocols.openai_chat import wire
from penstock.protocols.openai_chat.wire import FAILED, NAME, REASONS, read_state, state_of
from penstock.transforms.think import ThinkTags

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.events import Extra
    from penstock.ledger import Part
    from penstock.protocols.openai_chat.decode_calls import Calls

_HEAD = ("type", "format", "index", "id")
_WORDS = ("text", "summary")


class Extras:
    """The extras of one choice."""

    def __init__(self, ledger: Ledger, choice: int) -> None:
        self._ledger = ledger
        self._choice = choice
        self._seen: set[str] = set()  # addresses that were cited, in any form; results of tools that were delivered
        self.texts: list[int] = []  # the texts so far: readers see them as one, and count through
        self.details: list[dict[str, Any]] = []  # of the open part of reasoning, or of one that no words began yet
        self.plain = False  # the open part is told in a plain field: its details only repeat it

    # ── citations ─────────────────────────────────────────────────────────────────────────────────

    def found(self, results: Sequence[dict[str, Any]], urls: Sequence[Any]) -> None:
        """Search results and bare links are repeated on every chunk (Perplexity): each counts once."""
        for result in results:
            self._cite(
                lenient.get_text(result, "url"),
                lenient.get_text(result, "title"),
                {NAME: {"search_result": result}},
            )
        for url in urls:
            self._cite(str(url), "", None)

    def _cite(self, url: str, title: str, extra: Extra | None) -> None:
        if url and url not in self._seen:
            self._seen.add(url)
            self._ledger.cite((self._choice, url), url, title, None, None, "", "", "", "", extra)

    def annotate(self, annotations: Sequence[dict[str, Any]]) -> None:
        """Annotations of the text. Some servers repeat them on every chunk, and beside them the bare links."""
        of = self.texts[-1] if self.texts else None
        for annotation in annotations:
            said = lenient.get_object(annotation, lenient.get_text(annotation, "type")) or annotation
            first, last = lenient.get_integer(said, "start_index"), lenient.get_integer(said, "end_index")
            span = (first, last) if first is not None and last is not None and last > first else None
            if len(self.texts) > 1:
                span = None  # where in this text it is depends on the length of the ones before
            url, title = (
                lenient.get_text(said, "url"),
                lenient.get_text(said, "title", "filename", "name"),
            )
            quote, file = lenient.get_text(said, "content"), lenient.get_text(said, "file_id", "hash")
            extra = {NAME: {"annotation": annotation}}
            self._seen.add(url)
            self._ledger.cite((self._choice, annotation), url, title, of, span, quote, file, "", "", extra)

    def refer(self, item: dict[str, Any]) -> None:
        for reference in lenient.get_list(item, "reference_ids"):
            cited, extra = str(reference), {NAME: {"reference": item}}
            self._ledger.cite((self._choice, "reference", cited), "", "", None, None, "", cited, "", "", extra)

    # ── reasoning details (OpenRouter) ────────────────────────────────────────────────────────────

    def told(self, details: Sequence[dict[str, Any]]) -> str:
        """The words of the details, where no plain field repeats them."""
        return "" if self.plain else "".join(lenient.get_text(one, "text", "summary") for one in details)

    def head(self) -> Extra | None:
        """How the first detail begins: who writes the words on must name their kind beside them."""
        if not self.details:
            return None
        first = {key: value for key, value in self.details[0].items() if key in _HEAD}
        return {NAME: {"reasoning_details": [first]}}

    def remember(self, details: Sequence[dict[str, Any]]) -> None:
        """Put fragments together, so that the next request can send the details back as they were."""
        for one in details:
            same = self.details[-1] if self.details and _continues(self.details[-1], one) else None
            if same is None:
                self.details.append(dict(one))
            else:
                _grow(same, one)

    def remembered(self) -> Extra | None:
        """The details, and the state in them under the name of the protocol that it belongs to."""
        if not self.details:
            return None
        extra: Extra = {NAME: {"reasoning_details": self.details}}
        for detail in self.details:
            extra |= state_of(detail)
        return extra

    def forget(self) -> None:
        """The part that the details belonged to has ended."""
        self.details = []
        self.plain = False

    # ── files and tools ───────────────────────────────────────────────────────────────────────────

    def hear(self, audio: wire.Audio) -> None:
        key = ("audio", self._choice)
        if self._ledger.find(key) is None:
            self._ledger.open_file(key, "audio", choice=self._choice, extra={NAME: {"id": audio.id}})
        self._ledger.append_text(key, audio.data or "")

    def show(self, images: Sequence[dict[str, Any]]) -> None:
        for number, image in enumerate(images):
            url = lenient.get_text(lenient.get_object(image, "image_url"), "url")
            media, data = _data_url(url)
            key = ("image", self._choice, number)
            self._ledger.open_file(key, media, "" if data else url, choice=self._choice)
            self._ledger.append_text(key, data)
            self._ledger.close(key)

    def ran(self, tools: Sequence[dict[str, Any]]) -> None:
        """Tools that the provider ran; the list comes again, with more in it, as they finish."""
        for tool in tools:
            call = f"executed_{lenient.get_integer(tool, 'index') or 0}"
            name = lenient.get_text(tool, "name", "type") or "tool"
            key = ("executed", self._choice, call)
            if not self._ledger.has_call(call, self._choice):
                extra = {NAME: {"executed_tool": tool}}
                self._ledger.open_call(key, call, name, by="provider", choice=self._choice, extra=extra)
                self._ledger.end_call(key, lenient.get_text(tool, "arguments"))
            if tool.get("output") is not None and call not in self._seen:
                self._seen.add(call)
                output = as_json(tool["output"])
                result = (call, name, output, False, False, {NAME: {"executed_tool": tool}})
                self._ledger.add_whole_part(ev.Result, *result)


def has_state(details: Sequence[dict[str, Any]]) -> bool:
    """Whether details hold what must be sent back though it is no text: a signature, encrypted data."""
    return any(value for one in details for key, value in one.items() if key not in _HEAD and key not in _WORDS)


def _continues(before: dict[str, Any], one: dict[str, Any]) -> bool:
    """A fragment continues the detail before it: same index and type, and no other id."""
    ids = before.get("id"), one.get("id")
    return before.get("type") == one.get("type") and before.get("index") == one.get("index") and (
        None in ids or ids[0] == ids[1]
    )  # fmt: skip


def _grow(detail: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if key in (*_WORDS, "data") and isinstance(value, str):
            detail[key] = lenient.get_text(detail, key) + value
        elif value is not None:
            detail[key] = value


def _data_url(url: str) -> tuple[str, str]:
    """(media type, base64) of a data URL; other URLs are of no known type."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:"):
        return "image/*", ""
    return head[5:].split(";")[0] or "application/octet-stream", data


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
                for inner in lenient.get_objects(item, _THOUGHTS[kind]):
                    self._say("reasoning", lenient.get_text(inner, "text"))
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
            self.ledger.append_to_part(self._part, text, logprobs if kind == "text" else None)

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
        self.ledger.breaking = self.ledger.is_open and lower in FAILED
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
