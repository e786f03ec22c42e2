"""What the dialects add beside text and calls: citations, reasoning details, audio, images, tools run upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock import pick
from penstock.jsontext import as_json
from penstock.protocols.openai_chat.request_thoughts import state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.events import Extra
    from penstock.parts import Ledger
    from penstock.protocols.openai_chat import wire

NAME = "openai-chat"
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
            self._cite(pick.text(result, "url"), pick.text(result, "title"), {NAME: {"search_result": result}})
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
            said = pick.table(annotation, pick.text(annotation, "type")) or annotation
            first, last = pick.number(said, "start_index"), pick.number(said, "end_index")
            span = (first, last) if first is not None and last is not None and last > first else None
            if len(self.texts) > 1:
                span = None  # where in this text it is depends on the length of the ones before
            url, title = pick.text(said, "url"), pick.text(said, "title", "filename", "name")
            quote, file = pick.text(said, "content"), pick.text(said, "file_id", "hash")
            extra = {NAME: {"annotation": annotation}}
            self._seen.add(url)
            self._ledger.cite((self._choice, annotation), url, title, of, span, quote, file, "", "", extra)

    def refer(self, item: dict[str, Any]) -> None:
        for reference in pick.listed(item, "reference_ids"):
            cited, extra = str(reference), {NAME: {"reference": item}}
            self._ledger.cite((self._choice, "reference", cited), "", "", None, None, "", cited, "", "", extra)

    # ── reasoning details (OpenRouter) ────────────────────────────────────────────────────────────

    def told(self, details: Sequence[dict[str, Any]]) -> str:
        """The words of the details, where no plain field repeats them."""
        return "" if self.plain else "".join(pick.text(one, "text", "summary") for one in details)

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
        self._ledger.say(key, audio.data or "")

    def show(self, images: Sequence[dict[str, Any]]) -> None:
        for number, image in enumerate(images):
            url = pick.text(pick.table(image, "image_url"), "url")
            media, data = _data_url(url)
            key = ("image", self._choice, number)
            self._ledger.open_file(key, media, "" if data else url, choice=self._choice)
            self._ledger.say(key, data)
            self._ledger.close(key)

    def ran(self, tools: Sequence[dict[str, Any]]) -> None:
        """Tools that the provider ran; the list comes again, with more in it, as they finish."""
        for tool in tools:
            call = f"executed_{pick.number(tool, 'index') or 0}"
            name = pick.text(tool, "name", "type") or "tool"
            key = ("executed", self._choice, call)
            if not self._ledger.seen(call, self._choice):
                extra = {NAME: {"executed_tool": tool}}
                self._ledger.open_call(key, call, name, by="provider", choice=self._choice, extra=extra)
                self._ledger.end_call(key, pick.text(tool, "arguments"))
            if tool.get("output") is not None and call not in self._seen:
                self._seen.add(call)
                output = as_json(tool["output"])
                self._ledger.atom(ev.Result, call, name, output, False, False, {NAME: {"executed_tool": tool}})  # noqa: FBT003


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
            detail[key] = pick.text(detail, key) + value
        elif value is not None:
            detail[key] = value


def _data_url(url: str) -> tuple[str, str]:
    """(media type, base64) of a data URL; other URLs are of no known type."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:"):
        return "image/*", ""
    return head[5:].split(";")[0] or "application/octet-stream", data
