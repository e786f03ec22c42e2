"""Writes canonical parts as Converse content blocks. `LOSSES` lists what the blocks cannot express."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import request as rq
from penstock._diagnostics import read_losses
from penstock._jsontext import decode_or_keep_raw, is_object
from penstock._markers import NativeSupport, input_as_object
from penstock._media import sniff_media_type
from penstock._protocols.bedrock.wire import NAME, get_block_format, get_media_type
from penstock._request_writer import (
    RequestDraft,
    describe_file,
    omit_with_loss,
    split_extra,
    write_foreign_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._lenient_fields import Object

LOSSES = read_losses(__name__, "requests")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9()\[\]-]+")  # characters that a document name may not have, and separators


class Quirks(msgspec.Struct, frozen=True):
    """How the models behind this protocol differ."""

    # the additional field for reasoning settings; `auto`: the field of the model's family
    thinking: Literal["auto", "thinking", "reasoning_config", "reasoningConfig", "reasoning_effort", ""] = "auto"
    top_k: Literal["top_k", "inferenceConfig", ""] = "top_k"  # the additional field for top_k
    unsigned: Literal["drop", "text", "keep"] = (
        "drop"  # how to write reasoning without a signature, which Claude rejects
    )


class ConverseBlockWriter(RequestDraft):
    """Writes parts as content blocks. State: how often each document name was used."""

    protocol = NAME
    losses = LOSSES
    holds = NativeSupport(NAME, refusals=False, assistant_files=False)

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self.quirks = quirks
        self._names: dict[str, int] = {}

    def write_blocks(self, parts: Sequence[rq.AnyPart]) -> list[Object]:
        """Returns the blocks of a message, with cache points after the parts that ask for them."""
        citations: dict[int, list[Object]] = {}
        for part in parts:
            if type(part) is rq.Source and part.of is not None and NAME in (part.extra or ()):
                citations.setdefault(part.of, []).append((part.extra or {})[NAME])
        blocks: list[Object] = []
        for position, part in enumerate(parts):
            if position in citations and type(part) is rq.Text:
                blocks.append(self._build_cited_text(part, citations[position]))
            elif type(part) is not rq.Source or part.of not in citations:
                blocks += self.part_writers[type(part)](self, part)
            if part.cache and blocks:
                blocks.append(build_cache_point(part.cache, split_extra(getattr(part, "extra", None), NAME)[1]))
        return blocks

    # ── text and reasoning ────────────────────────────────────────────────────────────────────────

    def _write_text(self, part: rq.Text) -> list[Object]:
        if not part.text:
            self.report_loss("empty")  # Bedrock rejects empty blocks
            return []
        if part.extra is None:
            return [{"text": part.text}]
        own, marks = self.split_extra(part.extra)
        if "guardContent" in own:
            return [{"guardContent": {"text": {"text": part.text, **own["guardContent"]}}}]
        return [self._build_cited_text(part, [])] if marks.get("cited") else [{"text": part.text, **own}]

    def _build_cited_text(self, part: rq.Text, citations: list[Object]) -> Object:
        own, marks = self.split_extra(part.extra)
        ends = list(accumulate(marks.get("pieces") or [len(part.text)]))
        texts = [part.text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        if "".join(texts) != part.text:
            texts = [part.text]
        return {"citationsContent": {"content": [{"text": text} for text in texts], "citations": citations, **own}}

    def _write_reasoning(self, part: rq.Reasoning) -> list[Object]:
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

    def _write_call(self, call: rq.Call) -> list[Object]:
        own, marks = self.split_extra(call.extra)
        if call.cut:
            self.report_loss("cut-call")
            return []
        given, carried = input_as_object(call)
        if carried:
            self.report_carried(carried)
        fields: Object = {"toolUseId": call.id, "name": call.name, **own}
        if given or not marks.get("bare"):
            fields["input"] = given
        return [{"toolUse": fields}]

    def _write_result(self, result: rq.Result) -> list[Object]:
        own, marks = self.split_extra(result.extra)
        fields: Object = {"toolUseId": result.call}
        if result.by == "provider":
            fields["content"] = decode_or_keep_raw(result.json)
            return [{"toolResult": {**fields, **{key: value for key, value in own.items() if value}}}]
        if result.content or not marks.get("bare"):
            fields["content"] = [block for part in result.content for block in self._write_result_part(part)]
        status = "error" if result.failed else marks.get("status")
        if status:
            fields["status"] = status
        return [{"toolResult": {**fields, **own}}]

    def _write_result_part(self, part: rq.ResultPart) -> list[Object]:
        if part.cache:
            self.report_loss("cache")
        if type(part) is rq.Text:
            own, _ = self.split_extra(part.extra)
            return [{"text": part.text, **own}]
        return self.part_writers[type(part)](self, part)

    def _write_json(self, part: rq.Json) -> list[Object]:
        own, _ = self.split_extra(part.extra)
        try:
            value = decode_or_keep_raw(part.json)
        except (msgspec.DecodeError, UnicodeEncodeError):
            value = None
        if is_object(value):
            return [{"json": value, **own}]
        self.report_loss("json-result")
        return [{"text": part.json}]

    # ── files ─────────────────────────────────────────────────────────────────────────────────────

    def _write_file(self, part: rq.File) -> list[Object]:
        self.report_image_detail(part)
        own, marks = self.split_extra(part.extra)
        kind, file_format = self._choose_format(part, marks) if part.data or part.url.startswith("s3://") else ("", "")
        if not kind:
            self.report_loss("file", part.media)
            return [{"text": describe_file(part)}]
        fields: Object = {"format": file_format} if file_format else {}
        if kind == "document":
            fields["name"] = self._make_document_name(part.name, native=NAME in (part.extra or ()))
        elif part.name:
            self.report_loss("document-name")
        if part.url:
            source: Object = {"s3Location": {"uri": part.url, **marks.get("link", {})}}
        else:
            source = {"bytes": part.data}
        return [{kind: {**fields, "source": {**source, **marks.get("source", {})}, **own}}]

    def _choose_format(self, part: rq.File, marks: Object) -> tuple[str, str]:
        media = part.media
        if "form" in marks and get_media_type(*marks["form"]) == media:
            return marks["form"][0], marks["form"][1]
        if media.endswith("/*"):
            media = sniff_media_type(part.data) or media.replace("*", "png")
            self.report_loss("media", media)
        kind, file_format = get_block_format(media)
        if kind == "document" and get_media_type(kind, file_format) != media:
            self.report_loss("media", media)
        return kind, file_format

    def _make_document_name(self, name: str, *, native: bool) -> str:
        """Returns a name that is allowed and that no other document has."""
        if native and name:
            return name
        unique = " ".join(_NOT_IN_NAMES.sub(" ", name).split()) or "document"
        self._names[unique] = count = self._names.get(unique, 0) + 1
        unique = f"{unique} ({count})" if count > 1 else unique
        if unique != name:
            self.report_loss("document-name")
        return unique

    part_writers: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _write_text,
        rq.Json: _write_json,
        rq.Reasoning: _write_reasoning,
        rq.Call: _write_call,
        rq.Result: _write_result,
        rq.File: _write_file,
        rq.Opaque: write_foreign_state(),
        rq.Source: omit_with_loss("source"),
        rq.Ask: omit_with_loss("approval"),
    }


def build_cache_point(cache: str, marks: Object) -> Object:
    """Returns a cache point as it was spelled, or in the usual form."""
    if "point" in marks:
        return {"cachePoint": marks["point"]}
    return {"cachePoint": {"type": "default"} if cache == "5m" else {"type": "default", "ttl": cache}}
