"""Canonical parts → Converse content blocks; and the table of what has no place there."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import request as rq
from penstock.jsontext import is_object, plain_or_raw
from penstock.markers import Holds, input_of
from penstock.media import sniff
from penstock.protocols.bedrock.decode_blocks import NAME
from penstock.protocols.bedrock.wire import kind_of, media_of
from penstock.request_writer import (
    Losses,
    RequestDraft,
    describe_file,
    omit_with_loss,
    split_extra,
    write_foreign_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.lenient_fields import Object

LOSSES: Losses = {
    "allowed": "which tools may be called, beside one that must, is left out",
    "any-json": "an answer of any JSON cannot be asked for and is not",
    "approval": "an approval is left out",
    "budget": "a budget of reasoning tokens, or whether to show them, is sent as the model's family can say it",
    "cache": "a cache point inside of a tool result, or on what is left out, is left out too",
    "encrypted": "what only the provider that ran a tool can read is left out of its result",
    "cut-call": "a call that never became whole is left out",
    "detail": "how closely an image should be looked at is not said",
    "document-name": "a document gets a name that is allowed, any other file none",
    "effort": "an effort is sent as a budget of reasoning tokens, or as the nearest word",
    "empty": "an empty text, and a message without content, is left out",
    "file": "a file of a kind or at a place that cannot be sent is told as a line of text: {}",
    "form": "that reasoning is a summary is not said",
    "format": "that an answer must follow its schema strictly is not said",
    "json-result": "a JSON value that is no object is sent as its text",
    "media": "the type of a file is guessed, or it is sent as plain text: {}",
    "merge": "messages of one role in a row become one",
    "mid-system": "a system message inside the conversation is said by the user, between marks",
    "name": "the name of who speaks is left out",
    "namespace": "which group a tool is of is left out",
    "no-tools": "that no tool may be called cannot be said: tools are left out, unless there have been calls",
    "opaque": "state of another protocol is left out; what it says in words is sent as text",
    "order": "of a turn in which another provider ran tools, the calls of the client come last",
    "setting": "a setting without a word here is left out: {}",
    "source": "a citation in an earlier answer is left out",
    "system-join": "system messages at the beginning become one",
    "tool": "a tool that another provider runs is left out: {}",
    "top-k": "top_k is left out",
    "unsigned": "reasoning without this provider's signature is left out, or said as text",
}
_STRANGE = re.compile(r"[^A-Za-z0-9()\[\]-]+")  # what a document's name may not hold, and what separates its words


class Quirks(msgspec.Struct, frozen=True):
    """What models behind this protocol differ in."""

    # the additional field for reasoning settings; `auto`: the one of the model's maker
    thinking: Literal["auto", "thinking", "reasoning_config", "reasoningConfig", "reasoning_effort", ""] = "auto"
    top_k: Literal["top_k", "inferenceConfig", ""] = "top_k"  # in which additional field it is said
    unsigned: Literal["drop", "text", "keep"] = "drop"  # reasoning of others without a signature: Claude refuses it


class Blocks(RequestDraft):
    """Parts being written. State: the names that documents have so far."""

    protocol = NAME
    losses = LOSSES
    holds = Holds(NAME, refusals=False, assistant_files=False)

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self.quirks = quirks
        self._names: dict[str, int] = {}

    def blocks(self, parts: Sequence[rq.AnyPart]) -> list[Object]:
        """All of a message's parts; cache points behind those that are worth it."""
        cites: dict[int, list[Object]] = {}
        for part in parts:
            if type(part) is rq.Source and part.of is not None and NAME in (part.extra or ()):
                cites.setdefault(part.of, []).append((part.extra or {})[NAME])
        made: list[Object] = []
        for place, part in enumerate(parts):
            if place in cites and type(part) is rq.Text:
                made.append(self._cited(part, cites[place]))
            elif type(part) is not rq.Source or part.of not in cites:
                made += self.kinds[type(part)](self, part)
            if part.cache and made:
                made.append(point(part.cache, split_extra(getattr(part, "extra", None), NAME)[1]))
        return made

    # ── what is said ──────────────────────────────────────────────────────────────────────────────

    def _text(self, part: rq.Text) -> list[Object]:
        if not part.text:
            self.report_loss("empty")  # an empty block is refused
            return []
        if part.extra is None:
            return [{"text": part.text}]
        own, marks = self.split_extra(part.extra)
        if "guardContent" in own:
            return [{"guardContent": {"text": {"text": part.text, **own["guardContent"]}}}]
        return [self._cited(part, [])] if marks.get("cited") else [{"text": part.text, **own}]

    def _cited(self, part: rq.Text, citations: list[Object]) -> Object:
        own, marks = self.split_extra(part.extra)
        ends = list(accumulate(marks.get("pieces") or [len(part.text)]))
        pieces = [part.text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        if "".join(pieces) != part.text:
            pieces = [part.text]
        return {"citationsContent": {"content": [{"text": one} for one in pieces], "citations": citations, **own}}

    def _reasoning(self, part: rq.Reasoning) -> list[Object]:
        own, marks = self.split_extra(part.extra)
        if "redactedContent" in own:
            return [{"reasoningContent": own}]
        if part.form == "summary":
            self.report_loss("form")
        if own.get("signature") or marks.get("said") or self.quirks.unsigned == "keep":
            return [{"reasoningContent": {"reasoningText": {"text": part.text, **own}}}]
        self.report_loss("unsigned")
        return [{"text": part.text}] if self.quirks.unsigned == "text" and part.text else []

    # ── calls and results ─────────────────────────────────────────────────────────────────────────

    def _call(self, call: rq.Call) -> list[Object]:
        own, marks = self.split_extra(call.extra)
        if call.cut:
            self.report_loss("cut-call")
            return []
        given, carried = input_of(call)
        if carried:
            self.report_carried(carried)
        made: Object = {"toolUseId": call.id, "name": call.name, **own}
        if given or not marks.get("bare"):
            made["input"] = given
        return [{"toolUse": made}]

    def _result(self, result: rq.Result) -> list[Object]:
        own, marks = self.split_extra(result.extra)
        made: Object = {"toolUseId": result.call}
        if result.by == "provider":
            made["content"] = plain_or_raw(result.json)
            return [{"toolResult": {**made, **{key: value for key, value in own.items() if value}}}]
        if result.content or not marks.get("bare"):
            made["content"] = [block for part in result.content for block in self._inside(part)]
        status = "error" if result.failed else marks.get("status")
        if status:
            made["status"] = status
        return [{"toolResult": {**made, **own}}]

    def _inside(self, part: rq.ResultPart) -> list[Object]:
        if part.cache:
            self.report_loss("cache")
        if type(part) is rq.Text:
            own, _ = self.split_extra(part.extra)
            return [{"text": part.text, **own}]
        return self.kinds[type(part)](self, part)

    def _json(self, part: rq.Json) -> list[Object]:
        own, _ = self.split_extra(part.extra)
        try:
            value = plain_or_raw(part.json)
        except (msgspec.DecodeError, UnicodeEncodeError):
            value = None
        if is_object(value):
            return [{"json": value, **own}]
        self.report_loss("json-result")
        return [{"text": part.json}]

    # ── files ─────────────────────────────────────────────────────────────────────────────────────

    def _file(self, part: rq.File) -> list[Object]:
        self.report_image_detail(part)
        own, marks = self.split_extra(part.extra)
        kind, form = self._form(part, marks) if part.data or part.url.startswith("s3://") else ("", "")
        if not kind:
            self.report_loss("file", part.media)
            return [{"text": describe_file(part)}]
        made: Object = {"format": form} if form else {}
        if kind == "document":
            made["name"] = self._name(part.name, own=NAME in (part.extra or ()))
        elif part.name:
            self.report_loss("document-name")
        if part.url:
            source: Object = {"s3Location": {"uri": part.url, **marks.get("link", {})}}
        else:
            source = {"bytes": part.data}
        return [{kind: {**made, "source": {**source, **marks.get("source", {})}, **own}}]

    def _form(self, part: rq.File, marks: Object) -> tuple[str, str]:
        media = part.media
        if "form" in marks and media_of(*marks["form"]) == media:
            return marks["form"][0], marks["form"][1]
        if media.endswith("/*"):
            media = sniff(part.data) or media.replace("*", "png")
            self.report_loss("media", media)
        kind, form = kind_of(media)
        if kind == "document" and media_of(kind, form) != media:
            self.report_loss("media", media)
        return kind, form

    def _name(self, name: str, *, own: bool) -> str:
        """A name that is allowed, and that no other document has."""
        if own and name:
            return name
        fit = " ".join(_STRANGE.sub(" ", name).split()) or "document"
        self._names[fit] = count = self._names.get(fit, 0) + 1
        fit = f"{fit} ({count})" if count > 1 else fit
        if fit != name:
            self.report_loss("document-name")
        return fit

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _text, rq.Json: _json, rq.Reasoning: _reasoning, rq.Call: _call, rq.Result: _result, rq.File: _file,
        rq.Opaque: write_foreign_state(), rq.Source: omit_with_loss("source"), rq.Ask: omit_with_loss("approval"),
    }  # fmt: skip


def point(cache: str, marks: Object) -> Object:
    """A cache point, as it was said or as it is usual."""
    if "point" in marks:
        return {"cachePoint": marks["point"]}
    return {"cachePoint": {"type": "default"} if cache == "5m" else {"type": "default", "ttl": cache}}
