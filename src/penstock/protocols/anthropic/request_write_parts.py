"""Canonical parts → Anthropic content blocks; and the table of what has no place there."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import request as rq
from penstock.jsontext import plain_or_raw
from penstock.markers import Holds, input_of
from penstock.media import sniff
from penstock.protocols.anthropic.request_read_parts import NAME
from penstock.request_writer import (
    Losses,
    RequestDraft,
    add_missing,
    collect_text,
    describe_file,
    omit_with_loss,
    split_extra,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.lenient_fields import Object

LOSSES: Losses = {
    "allowed": "which tools may be called, beside one that must, is left out",
    "any-json": "an answer of any JSON cannot be asked for and is not",
    "approval": "an approval is left out",
    "budget": "a budget of less than 1024 reasoning tokens is sent as 1024",
    "cache": "a cache point lasts for another time than was asked for: {}",
    "choice": "which tool to call is left out where there are no tools",
    "encrypted": "what only the provider that ran a tool can read is left out of its result",
    "cut-call": "a call that never became whole is left out",
    "detail": "how closely an image should be looked at is not said",
    "effort": "an effort without a word here is sent as the nearest: {}",
    "empty": "an empty text, and a message without content, is left out",
    "file": "a file of a kind that cannot be sent is told as a line of text: {}",
    "file-id": "a file by another provider's id is sent by that id, which nobody else knows",
    "file-name": "the name of an image is left out",
    "format": "of an answer's schema only the schema is sent",
    "json-result": "a JSON value in a tool result is sent as its text",
    "max-output": "nobody said how long the answer may be, but it must be said: {}",
    "media": "a text file of another type is sent as plain text: {}",
    "name": "the name of who speaks is left out",
    "namespace": "the namespace of a tool is left out: {}",
    "opaque": "state of another protocol is left out; what it says in words is sent as text",
    "order": "of a turn in which another provider ran tools, the calls of the client come last",
    "setting": "a setting without a word here is left out: {}",
    "source": "a citation in an earlier answer is left out",
    "temperature": "a temperature over 1 is sent as 1",
    "tool": "a tool that another provider runs is left out: {}",
    "unsigned": "reasoning without this provider's signature is left out, or said as text",
}
LACKS: Losses = {  # what only some providers cannot, as their `Quirks` say
    "mid-system": "a system message inside the conversation is said by the user",
}
_TEXTS = ("text/", "application/json", "application/xml", "application/yaml", "image/svg")
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/*")
_ALIASES = {"image/jpg": "image/jpeg"}
_TIMES = ("5m", "1h")


class Quirks(msgspec.Struct, frozen=True):
    """What providers of this protocol differ in."""

    max_output: int = 4096  # it must be said: what to say when nobody did
    mid_system: Literal["keep", "user"] = "keep"
    unsigned: Literal["drop", "text", "keep"] = "drop"  # reasoning that carries no signature


class Blocks(RequestDraft):
    """Parts being written."""

    protocol = NAME
    losses: ClassVar[Losses] = {**LOSSES, **LACKS}
    holds = Holds(NAME, json=False, refusals=False, assistant_files=False)

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self.quirks = quirks

    def content(self, parts: Sequence[rq.AnyPart | rq.ResultPart], *, listed: bool = False) -> str | list[Object]:
        """Content: a string where that says it all."""
        if len(parts) == 1 and not listed:
            only = parts[0]
            if type(only) is rq.Text and not only.cache and (only.extra is None or self.is_foreign(only.extra)):
                return only.text
        return self.blocks(parts)

    def blocks(self, parts: Sequence[rq.AnyPart | rq.ResultPart]) -> list[Object]:
        made: list[Object] = []
        kinds = self.kinds
        for part in parts:
            made += self.block(part) if part.cache else kinds[type(part)](self, part)
        return made

    def block(self, part: rq.AnyPart | rq.ResultPart) -> list[Object]:
        """A part as what it is here: mostly one block, sometimes none."""
        made = self.kinds[type(part)](self, part)
        if not part.cache:
            return made
        if made and "cache_control" not in made[-1]:
            self.hint(part, made[-1], split_extra(getattr(part, "extra", None), NAME)[1])
        return made

    def hint(self, part: Any, made: Object, marks: Object) -> None:
        """A cache point, as it was said or as it is usual."""
        if "hint" in marks and (marks["hint"].get("ttl") or "5m") == part.cache:
            made["cache_control"] = marks["hint"]
            return
        if part.cache not in _TIMES:
            self.report_loss("cache", part.cache)
        made["cache_control"] = {"type": "ephemeral", "ttl": "1h"} if part.cache == "1h" else {"type": "ephemeral"}

    # ── what is said ──────────────────────────────────────────────────────────────────────────────

    def _text(self, part: rq.Text) -> list[Object]:
        if part.extra is None and part.text:
            return [{"type": "text", "text": part.text}]
        own, marks = self.split_extra(part.extra)
        if not part.text and "empty" not in marks:
            self.report_loss("empty")  # an empty block is refused
            return []
        made = {"type": "text", "text": part.text, **own}
        add_missing(made, marks.get("also"))
        return [made]

    def _json(self, part: rq.Json) -> list[Object]:
        self.report_loss("json-result")
        return [{"type": "text", "text": part.json}]

    def _reasoning(self, part: rq.Reasoning) -> list[Object]:
        own, _ = split_extra(part.extra, NAME)
        if "redacted" in own:
            more = {key: value for key, value in own.items() if key != "redacted"}
            return [{"type": "redacted_thinking", "data": own["redacted"], **more}]
        if own.get("signature") or "signature" in own or self.quirks.unsigned == "keep":
            return [{"type": "thinking", "thinking": part.text, "signature": "", **own}]
        self.report_loss("unsigned")
        return [{"type": "text", "text": part.text}] if self.quirks.unsigned == "text" and part.text else []

    # ── calls and results ─────────────────────────────────────────────────────────────────────────

    def _call(self, call: rq.Call) -> list[Object]:
        if call.cut:
            self.report_loss("cut-call")
            return []
        given, carried = input_of(call)
        if carried:
            self.report_carried(carried)
        made: Object = {"type": "tool_use", "id": call.id, "name": call.name, "input": given}
        if call.extra is not None:
            own, marks = self.split_extra(call.extra)
            made.update(own)
            add_missing(made, marks.get("also"))
        return [made]

    def _result(self, result: rq.Result) -> list[Object]:
        content = result.content
        if result.extra is None:
            made: Object = {"type": "tool_result", "tool_use_id": result.call}
            if content:
                made["content"] = self.content(content)
            if result.failed:
                made["is_error"] = True
            return [made]
        own, marks = self.split_extra(result.extra)
        if result.by == "provider" and own:
            return [{**own, "content": plain_or_raw(result.json)}]
        made = {"type": "tool_result", "tool_use_id": result.call, **own}
        if content or "listed" in marks:
            made["content"] = self.content(content, listed="listed" in marks)
        if result.failed or "said" in marks:
            made["is_error"] = result.failed
        add_missing(made, marks.get("also"))
        return [made]

    # ── files ─────────────────────────────────────────────────────────────────────────────────────

    def _file(self, part: rq.File) -> list[Object]:
        self.report_image_detail(part)
        own, marks = self.split_extra(part.extra)
        media = _ALIASES.get(part.media, part.media)
        kind = marks.get("kind") or ("image" if media in _IMAGES else "document")
        source = self._source_of(part, media, marks.get("own", ""))
        if source is None:
            self.report_loss("file", part.media)
            return [{"type": "text", "text": describe_file(part)}]
        made: Object = {"type": kind, "source": {**source, **marks.get("source", {})}}
        if part.name and kind == "document":
            made["title"] = part.name
        elif part.name:
            self.report_loss("file-name")
        if part.id and NAME not in (part.extra or ()):
            self.report_loss("file-id")
        made.update(own)
        add_missing(made, marks.get("also"))
        return [made]

    def _source_of(self, part: rq.File, media: str, own: str) -> Object | None:
        known = media in _IMAGES or media == "application/pdf" or own == "base64"
        if part.id:
            return {"type": "file", "file_id": part.id}
        if part.url:
            return {"type": "url", "url": part.url} if known else None
        if media == "image/*":
            media = sniff(part.data) or "image/png"
        if known:
            return {"type": "base64", "media_type": media, "data": part.data}
        return self._plain(part)

    def _plain(self, part: rq.File) -> Object | None:
        """A text, which is sent as what it says."""
        if not part.media.startswith(_TEXTS):
            return None
        try:
            words = binascii.a2b_base64(part.data).decode("utf-8", "surrogatepass")
        except ValueError:
            return None
        if part.media != "text/plain":
            self.report_loss("media", part.media)
        return {"type": "text", "media_type": "text/plain", "data": words}

    # ── what has no place ─────────────────────────────────────────────────────────────────────────

    def _opaque(self, part: rq.Opaque) -> list[Object]:
        if part.protocol == NAME:
            return [part.data if part.cache else {key: part.data[key] for key in part.data if key != "cache_control"}]
        self.report_loss("opaque")
        words = collect_text(part.data)
        return [{"type": "text", "text": words}] if words else []

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _text, rq.Json: _json, rq.Reasoning: _reasoning, rq.Call: _call, rq.Result: _result, rq.File: _file,
        rq.Opaque: _opaque, rq.Source: omit_with_loss("source"), rq.Ask: omit_with_loss("approval"),
    }  # fmt: skip
