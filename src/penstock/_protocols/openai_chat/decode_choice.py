"""The state of one choice of a Chat answer: its open part, its `<think>` reader, and what the dialects add.

Chat has no block marks, so a part ends when another kind begins. The ledger keeps the grammar of events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._ledger import Ledger, LedgerPart
from penstock._lenient_json import as_json
from penstock._protocols.openai_chat import wire
from penstock._protocols.openai_chat.decode_calls import CallAssembler
from penstock._protocols.openai_chat.wire import NAME
from penstock._transforms.think_tags import ThinkTags

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.events import Extra

_DETAIL_KEYS = ("type", "format", "index", "id")
_DETAIL_TEXTS = ("text", "summary")
_TEXT_DETAIL_KEYS = frozenset({*_DETAIL_KEYS, *_DETAIL_TEXTS})


class ChoiceExtras:
    """What the dialects add to a choice: citations, reasoning details, audio, images, tools run upstream."""

    def __init__(self, ledger: Ledger, choice: int) -> None:
        self._ledger = ledger
        self._choice = choice
        self._seen: set[str] = set()  # cited URLs, in any form; tools whose results were delivered
        self.text_parts: list[int] = []  # indexes of the texts so far; clients see them as one text
        self.details: list[dict[str, Any]] = []  # of the open reasoning part, or of one that has no text yet
        self.has_text_field = False  # a plain field has the text of the open part; details repeat it

    # ── citations ─────────────────────────────────────────────────────────────────────────────────

    def add_search_results(self, results: Sequence[dict[str, Any]], urls: Sequence[Any]) -> None:
        """Cites search results and bare links. Perplexity repeats them on every chunk: each counts once."""
        for result in results:
            url, title = lenient.get_text(result, "url"), lenient.get_text(result, "title")
            self._cite(url, title, {NAME: {"search_result": result}})
        for url in urls:
            self._cite(str(url), "", None)

    def _cite(self, url: str, title: str, extra: Extra | None) -> None:
        if url and url not in self._seen:
            self._seen.add(url)
            self._ledger.cite((self._choice, url), url, title, None, None, "", "", "", "", extra)

    def add_annotations(self, annotations: Sequence[dict[str, Any]]) -> None:
        """Cites annotations of the text. Some servers repeat them on every chunk, together with the bare links."""
        of = self.text_parts[-1] if self.text_parts else None
        for annotation in annotations:
            fields = lenient.get_object(annotation, lenient.get_text(annotation, "type")) or annotation
            first, last = (lenient.get_integer(fields, "start_index"), lenient.get_integer(fields, "end_index"))
            span = (first, last) if first is not None and last is not None and last > first else None
            if len(self.text_parts) > 1:
                span = None  # the position in this text depends on the length of earlier texts
            url, title = (lenient.get_text(fields, "url"), lenient.get_text(fields, "title", "filename", "name"))
            quote, file = lenient.get_text(fields, "content"), lenient.get_text(fields, "file_id", "hash")
            extra = {NAME: {"annotation": annotation}}
            self._seen.add(url)
            self._ledger.cite((self._choice, annotation), url, title, of, span, quote, file, "", "", extra)

    def add_references(self, item: dict[str, Any]) -> None:
        for reference in lenient.get_list(item, "reference_ids"):
            cited, extra = str(reference), {NAME: {"reference": item}}
            self._ledger.cite((self._choice, "reference", cited), "", "", None, None, "", cited, "", "", extra)

    # ── reasoning details (OpenRouter) ────────────────────────────────────────────────────────────

    def get_detail_text(self, details: Sequence[dict[str, Any]]) -> str:
        """Returns the text of the details, unless a plain field has it."""
        return "" if self.has_text_field else "".join(lenient.get_text(detail, "text", "summary") for detail in details)

    def get_first_detail(self) -> Extra | None:
        """Returns the type and index of the first detail, for encoders that stream details again."""
        if not self.details:
            return None
        start = {key: value for key, value in self.details[0].items() if key in _DETAIL_KEYS}
        return {NAME: {"reasoning_details": [start]}}

    def collect_details(self, details: Sequence[dict[str, Any]]) -> None:
        """Joins fragments of details, so that the next request can send them back unchanged."""
        for detail in details:
            if self.details and _is_continuation(self.details[-1], detail):
                _append_detail(self.details[-1], detail)
            else:
                self.details.append(dict(detail))

    def build_details_extra(self) -> Extra | None:
        """Returns the details, and the state in them by the protocol it belongs to."""
        if not self.details:
            return None
        extra: Extra = {NAME: {"reasoning_details": self.details}}
        for detail in self.details:
            extra |= wire.read_detail_state(detail)
        return extra

    def clear_details(self) -> None:
        """Drops the details of a part that has ended."""
        self.details = []
        self.has_text_field = False

    # ── files and tools ───────────────────────────────────────────────────────────────────────────

    def add_audio(self, audio: wire.ChatAudio) -> None:
        key = ("audio", self._choice)
        if self._ledger.find(key) is None:
            self._ledger.open_file(key, "audio", choice=self._choice, extra={NAME: {"id": audio.id}})
        self._ledger.append_text(key, audio.data or "")

    def add_images(self, images: Sequence[dict[str, Any]]) -> None:
        for number, image in enumerate(images):
            url = lenient.get_text(lenient.get_object(image, "image_url"), "url")
            media, data = _split_data_url(url)
            key = ("image", self._choice, number)
            self._ledger.open_file(key, media, "" if data else url, choice=self._choice)
            self._ledger.append_text(key, data)
            self._ledger.close(key)

    def add_executed_tools(self, tools: Sequence[dict[str, Any]]) -> None:
        """Adds tools that the provider ran. The list comes again, with more in it, as they finish."""
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


def has_hidden_state(details: Sequence[dict[str, Any]]) -> bool:
    """True if details hold more than text that must be sent back: a signature, encrypted data."""
    return any(
        value
        for detail in details
        for key, value in detail.items()
        if key not in _DETAIL_KEYS and key not in _DETAIL_TEXTS
    )


def _is_continuation(before: dict[str, Any], detail: dict[str, Any]) -> bool:
    """True if a fragment continues the previous detail: same index and type, and no other id."""
    ids = before.get("id"), detail.get("id")
    same = before.get("type") == detail.get("type") and before.get("index") == detail.get("index")
    return same and (None in ids or ids[0] == ids[1])


def _append_detail(detail: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if key in (*_DETAIL_TEXTS, "data") and isinstance(value, str):
            detail[key] = lenient.get_text(detail, key) + value
        elif value is not None:
            detail[key] = value


def _split_data_url(url: str) -> tuple[str, str]:
    """Returns the media type and base64 data of a data URL; no data for other URLs."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:"):
        return "image/*", ""
    return head[5:].split(";")[0] or "application/octet-stream", data


_EMPTY_DELTA = wire.ChatDelta()
_REASONING_ITEMS = {"thinking": "thinking", "reasoning": "summary"}  # type of content → the field with its texts


class Choice:
    """One choice. At most one part of text, reasoning or refusal is open; calls may interleave."""

    __slots__ = (
        "_has_text _kind _part _think_tags _transcript _transcript_read calls extras has_content index ledger "
        "took_signature"
    ).split()

    def __init__(self, ledger: Ledger, index: int, *, think: bool) -> None:
        self.ledger, self.index, self.calls = ledger, index, CallAssembler(ledger, index)
        self.extras = ChoiceExtras(ledger, index)
        self.took_signature = False  # the open text took the signature of the last delta
        self.has_content = False
        self._has_text = False
        self._transcript = ""  # an audio transcript that was emitted as text before any content
        self._transcript_read = 0  # how many of its characters the content has repeated
        self._kind = ""
        self._part: LedgerPart | None = None
        self._think_tags: ThinkTags | None = ThinkTags() if think else None

    def delivers_text_unchanged(self, part: LedgerPart) -> bool:
        """True if more text of that part is emitted as it comes: no tag is searched in it, and its call is open."""
        if part.is_call:
            return self._part is None
        if part is not self._part or self.extras.details or self._transcript:
            return False
        return self._think_tags is None or (self._kind == "reasoning" and self._think_tags.fresh)

    def read_delta(self, delta: wire.ChatDelta, logprobs: Any) -> None:
        """Reads the fields of a delta in the order in which they make sense."""
        self.has_content = self.has_content or delta != _EMPTY_DELTA
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            self._read_reasoning(delta)
        content = delta.content
        if content:
            self._has_text = True
            if isinstance(content, list):
                self._read_content_list(content)
            else:
                text = content if isinstance(content, str) else as_json(content)
                self._read_text(self._skip_transcript(text), logprobs)
        self.took_signature = delta.extra_content is not None and self._sign_text(
            wire.read_signature(delta.extra_content)
        )
        if delta.tool_calls:
            self._close_part()
            for call in delta.tool_calls:
                self.calls.add_fragment(call)
        if delta.refusal:
            self._append_text("refusal", delta.refusal)
        self._read_rare_fields(delta)

    def _read_rare_fields(self, delta: wire.ChatDelta) -> None:
        if delta.function_call is not None and (delta.function_call.name or delta.function_call.arguments):
            self._close_part()
            self.calls.add_fragment(wire.ToolCall(index=0, function=delta.function_call))
        if delta.annotations:
            self.extras.add_annotations(delta.annotations)
        if delta.audio is not None and (delta.audio.id or delta.audio.data or delta.audio.transcript):
            if delta.audio.transcript and not self._has_text:
                self._append_text("text", delta.audio.transcript)  # with content it would be the same text again
                self._transcript += delta.audio.transcript
            self.extras.add_audio(delta.audio)
        if delta.images:
            self.extras.add_images(delta.images)
        if delta.executed_tools:
            self._close_part()
            self.extras.add_executed_tools(delta.executed_tools)

    def _skip_transcript(self, content: str) -> str:
        """Returns content without what the transcript has emitted already; all of it if it is another text."""
        if not self._transcript:
            return content
        expected = self._transcript[self._transcript_read :]
        if expected.startswith(content):
            self._transcript_read += len(content)
            return ""
        held, self._transcript = self._transcript[: self._transcript_read], ""
        return content[len(expected) :] if content.startswith(expected) else held + content

    # ── text and reasoning ────────────────────────────────────────────────────────────────────────

    def _read_text(self, text: str, logprobs: Any) -> None:
        if self._think_tags is None:
            self._append_text("text", text, logprobs)
            return
        for kind, part_text in self._think_tags.feed(text):
            self._append_text(kind, part_text, logprobs)
        if self._think_tags.done:
            self._think_tags = None

    def _read_content_list(self, content: list[dict[str, Any]]) -> None:
        """Reads content in a list: text, thinking and references (Mistral), reasoning summaries (Databricks)."""
        for item in content:
            kind = item.get("type")
            if kind in _REASONING_ITEMS:
                for inner in lenient.get_objects(item, _REASONING_ITEMS[kind]):
                    self._append_text("reasoning", lenient.get_text(inner, "text"))
            elif "text" in item:
                self._append_text("text", self._skip_transcript(str(item.get("text") or "")))
            elif kind == "reference":
                self.extras.add_references(item)
            else:
                self.ledger.diagnostics.add("unknown-content", f"content of type {kind!r} is left out")

    def _read_reasoning(self, delta: wire.ChatDelta) -> None:
        details = delta.reasoning_details or ()
        has_text_field = delta.reasoning_content or delta.reasoning
        text = has_text_field or self.extras.get_detail_text(details)
        if details and self._kind != "reasoning" and (text or has_hidden_state(details)):
            self._end_part()
        if details and (self._part is None or self._kind == "reasoning"):
            self.extras.collect_details(details)
        if text:
            self._append_text("reasoning", text, extra=self.extras.get_first_detail())
        if has_text_field:
            self.extras.has_text_field = True
        if details and self._kind == "reasoning" and self._part is not None:
            self._part.extra = self.extras.build_details_extra()

    def _append_text(self, kind: str, text: str, logprobs: Any = None, *, extra: Extra | None = None) -> None:
        """Appends to the open part, or ends it and opens one of this kind."""
        if not text:
            return
        if self._kind != kind:
            if kind == "reasoning":
                self._end_part()  # details that came before its text belong to it
            else:
                self._close_part()
            self._kind = kind
            self._part = self.open_methods[kind](self.ledger, (self.index, kind), choice=self.index, extra=extra)
            if kind == "text" and self._part is not None:
                self.extras.text_parts.append(self._part.index)
        if self._part is not None:
            self.ledger.append_to_part(self._part, text, logprobs if kind == "text" else None)

    def _sign_text(self, state: Extra) -> bool:
        """Gives the open text state that must be sent back with it. False if no text is open."""
        if not state or self._part is None or self._kind != "text":
            return False
        self._part.extra = {**(self._part.extra or {}), **state}
        return True

    def _close_part(self) -> None:
        """Ends the open part. Details without text become a redacted part, but not at a fault, which may cut them."""
        self._end_part()
        extra = None if self.ledger.breaking else self.extras.build_details_extra()
        if extra is not None and has_hidden_state(self.extras.details):
            self.ledger.open_reasoning(key := (self.index, "reasoning"), choice=self.index, form="redacted")
            self.ledger.close(key, extra)
        self.extras.clear_details()

    def _end_part(self) -> None:
        if self._part is not None:
            self.ledger.close((self.index, self._kind))
            self._kind, self._part = "", None
            self.extras.clear_details()

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def finish(self, reason: str, extra: Extra | None) -> None:
        """Ends the choice with a finish reason of the provider."""
        lower = reason.lower()
        self.ledger.breaking = self.ledger.is_open and lower in wire.FAILURE_REASONS
        self.flush()
        if lower in wire.FAILURE_REASONS:
            message = f"the provider ended the answer with {reason!r}"
            error = {"message": message, "code": reason}
            self.ledger.fault("server", message, code=reason, extra={NAME: {"error": error}})
            return
        known = wire.FINISH_REASONS.get(lower)
        if known is None:
            self.ledger.diagnostics.add("unknown-reason", f"finish reason {reason!r} is read as a normal stop")
        self.ledger.finish(known or "stop", reason, choice=self.index, extra=extra)
        self._kind, self._part = "", None

    def flush(self) -> None:
        """Emits what the tag reader held back, and opens calls that waited for a name."""
        if self._think_tags is not None and not self.ledger.ended:
            for kind, text in self._think_tags.finish():
                self._append_text(kind, text)
            self._think_tags = None
        if not self.ledger.ended:
            if self._part is None:
                self._close_part()
            self.calls.close()

    open_methods: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "text": Ledger.open_text,
        "reasoning": Ledger.open_reasoning,
        "refusal": Ledger.open_refusal,
    }
