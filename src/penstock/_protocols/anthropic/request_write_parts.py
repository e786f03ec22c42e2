"""Writes canonical parts as Anthropic content blocks. `LOSSES` lists what the blocks cannot express."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import _request_writer as request_writer
from penstock import request as rq
from penstock._diagnostics import Losses, read_losses
from penstock._lenient_json import decode_unless_too_deep
from penstock._markers import NativeSupport
from penstock._media import sniff_media_type
from penstock._protocols.anthropic.wire import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._lenient_fields import Object

LOSSES = read_losses(__name__, "requests")
LACKS = read_losses(__name__, "some_requests")
_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/yaml", "image/svg")
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/*")
_write_foreign_state = request_writer.write_foreign_state(type="text")
_MEDIA_ALIASES = {"image/jpg": "image/jpeg"}


class Quirks(msgspec.Struct, frozen=True):
    """How providers of this protocol differ."""

    max_output: int = 4096  # max_tokens if the request has no limit: the API requires one
    mid_system: Literal["keep", "user"] = "keep"  # the role of system messages inside the conversation
    unsigned: Literal["drop", "text", "keep"] = "drop"  # how to write reasoning without a signature


class BlockWriter(request_writer.RequestDraft):
    """Writes parts as content blocks."""

    protocol = NAME
    losses: ClassVar[Losses] = {**LOSSES, **LACKS}
    holds = NativeSupport(NAME, json=False, refusals=False, assistant_files=False)

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self.quirks = quirks

    def write_content(self, parts: Sequence[rq.AnyPart | rq.ResultPart], *, listed: bool = False) -> str | list[Object]:
        """Returns a string if that is enough, else a list of blocks."""
        if len(parts) == 1 and not listed:
            only = parts[0]
            if type(only) is rq.Text and not only.cache and (only.extra is None or self.is_foreign(only.extra)):
                return only.text
        return self.write_blocks(parts)

    def write_blocks(self, parts: Sequence[rq.AnyPart | rq.ResultPart]) -> list[Object]:
        """Returns parts as blocks: mostly one for each part, sometimes none."""
        blocks: list[Object] = []
        writers = self.part_writers
        for part in parts:
            written = writers[type(part)](self, part)
            if part.cache and written and "cache_control" not in written[-1]:
                marks = request_writer.split_extra(getattr(part, "extra", None), NAME)[1]
                self.write_cache_control(part, written[-1], marks)
            blocks += written
        return blocks

    def write_cache_control(self, part: rq.Part | rq.Tool, target: Object, marks: Object) -> None:
        """Writes a cache point as it was spelled, or in the usual form."""
        if "hint" in marks and (marks["hint"].get("ttl") or "5m") == part.cache:
            target["cache_control"] = marks["hint"]
            return
        if part.cache not in ("5m", "1h"):
            self.report_loss("cache", part.cache)
        target["cache_control"] = {"type": "ephemeral", "ttl": "1h"} if part.cache == "1h" else {"type": "ephemeral"}

    # ── text and reasoning ────────────────────────────────────────────────────────────────────────

    def _write_text(self, part: rq.Text) -> list[Object]:
        if part.extra is None and part.text:
            return [{"type": "text", "text": part.text}]
        native, marks = self.split_extra(part.extra)
        if not part.text and "empty" not in marks:
            self.report_loss("empty")  # Anthropic rejects empty blocks
            return []
        block = {"type": "text", "text": part.text, **native}
        request_writer.add_missing(block, marks.get("also"))
        return [block]

    def _write_json(self, part: rq.Json) -> list[Object]:
        self.report_loss("json-result")
        return [{"type": "text", "text": part.json}]

    def _write_reasoning(self, part: rq.Reasoning) -> list[Object]:
        native, _ = request_writer.split_extra(part.extra, NAME)
        if "redacted" in native:
            more = {key: value for key, value in native.items() if key != "redacted"}
            return [{"type": "redacted_thinking", "data": native["redacted"], **more}]
        if "signature" in native or self.quirks.unsigned == "keep":
            return [{"type": "thinking", "thinking": part.text, "signature": "", **native}]
        self.report_loss("unsigned")
        return [{"type": "text", "text": part.text}] if self.quirks.unsigned == "text" and part.text else []

    # ── calls and results ─────────────────────────────────────────────────────────────────────────

    def _write_call(self, call: rq.Call) -> list[Object]:
        arguments = self.write_call_input(call)
        if arguments is None:
            return []
        block: Object = {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}
        if call.extra is not None:
            native, marks = self.split_extra(call.extra)
            block.update(native)
            request_writer.add_missing(block, marks.get("also"))
        return [block]

    def _write_result(self, result: rq.Result) -> list[Object]:
        block: Object = {"type": "tool_result", "tool_use_id": result.call}
        if result.extra is None:
            if result.content:
                block["content"] = self.write_content(result.content)
            if result.failed:
                block["is_error"] = True
            return [block]
        native, marks = self.split_extra(result.extra)
        if result.by == "provider" and native:
            return [{**native, "content": decode_unless_too_deep(result.json)}]
        block.update(native)
        if result.content or "listed" in marks:
            block["content"] = self.write_content(result.content, listed="listed" in marks)
        if result.failed or "said" in marks:
            block["is_error"] = result.failed
        request_writer.add_missing(block, marks.get("also"))
        return [block]

    # ── files ─────────────────────────────────────────────────────────────────────────────────────

    def _write_file(self, part: rq.File) -> list[Object]:
        self.report_image_detail(part)
        native, marks = self.split_extra(part.extra)
        media = _MEDIA_ALIASES.get(part.media, part.media)
        kind = marks.get("kind") or ("image" if media in _IMAGE_TYPES else "document")
        source = self._build_source(part, media, marks.get("own", ""))
        if source is None:
            self.report_loss("file", part.media)
            return [{"type": "text", "text": request_writer.describe_file(part)}]
        block: Object = {"type": kind, "source": {**source, **marks.get("source", {})}}
        if part.name and kind == "document":
            block["title"] = part.name
        elif part.name:
            self.report_loss("file-name")
        if part.id and NAME not in (part.extra or ()):
            self.report_loss("file-id")
        block.update(native)
        request_writer.add_missing(block, marks.get("also"))
        return [block]

    def _build_source(self, part: rq.File, media: str, native: str) -> Object | None:
        known = media in _IMAGE_TYPES or media == "application/pdf" or native == "base64"
        if part.id:
            return {"type": "file", "file_id": part.id}
        if part.url:
            return {"type": "url", "url": part.url} if known else None
        if media == "image/*":
            media = sniff_media_type(part.data) or "image/png"
        if known:
            return {"type": "base64", "media_type": media, "data": part.data}
        return self._build_plain_text(part)

    def _build_plain_text(self, part: rq.File) -> Object | None:
        """Returns a text file as a plain text source; None for other files."""
        if not part.media.startswith(_TEXT_TYPES):
            return None
        try:
            text = binascii.a2b_base64(part.data).decode("utf-8", "surrogatepass")
        except ValueError:
            return None
        if part.media != "text/plain":
            self.report_loss("media", part.media)
        return {"type": "text", "media_type": "text/plain", "data": text}

    # ── opaque blocks ─────────────────────────────────────────────────────────────────────────────

    def _write_opaque(self, part: rq.Opaque) -> list[Object]:
        if part.protocol == NAME and not part.cache:
            return [{key: part.data[key] for key in part.data if key != "cache_control"}]
        return _write_foreign_state(self, part)

    part_writers: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _write_text,
        rq.Json: _write_json,
        rq.Reasoning: _write_reasoning,
        rq.Call: _write_call,
        rq.Result: _write_result,
        rq.File: _write_file,
        rq.Opaque: _write_opaque,
        **request_writer.OMITTED_PARTS,
    }
