"""AI SDK chunks of every version and spelling → events, and non-stream bodies as the chunks of a stream.

Parts with ids start and end by id. Version 4 has no ids: there a part ends when a part of another kind starts.
`decode_turn` reads turns, steps and errors; `decode_calls` reads tool calls.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._aisdk import OPAQUE_TYPE, SDK, TABLES, merge_extra, our_fields, read_metadata, wire
from penstock._aisdk.decode_calls import SdkCallReader, body_call_input, tool_part_chunks
from penstock._aisdk.decode_turn import TurnDecoder
from penstock._lenient_json import parse_lenient, replace_surrogates

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from penstock._ledger import LedgerPart
    from penstock._lenient_fields import Object
    from penstock.events import ReasoningForm

_TEXT, _REASONING = "", ("reasoning", "")  # the keys of parts without an id
_REPEATED_KIND = "anthropic.message_start"  # a custom part that only repeats the response's metadata
_decode_data_chunk = msgspec.json.Decoder(wire.DataChunk).decode


def _call_method(read: Callable[[SdkCallReader, Any], bool], *, begins: bool = False) -> Callable[[Any, Any], None]:
    """Returns a method that lets the `SdkCallReader` read a chunk. The method keeps a chunk with too few fields."""

    def read_chunk(self: Any, chunk: wire.CallChunk) -> None:
        if begins:
            self._begin_call()
        if not read(self._calls, chunk):
            self.report_unknown()

    return read_chunk


class ChunkDecoder(TurnDecoder):
    """Reads all chunks. A protocol's decoder only adds its name."""

    # ── text and reasoning ────────────────────────────────────────────────────────────────────────

    def _read_text_delta(self, chunk: wire.TextPiece) -> None:
        self._read_delta(chunk, chunk.id)

    def _read_reasoning_delta(self, chunk: wire.TextPiece) -> None:
        self._read_delta(chunk, ("reasoning", chunk.id), reasoning=True)

    def _read_delta(self, chunk: wire.TextPiece, key: Hashable, *, reasoning: bool = False) -> None:
        text = chunk.text if chunk.text is not None else chunk.delta if chunk.delta is not None else chunk.text_delta
        if text is None:
            self.report_unknown()
            return
        if chunk.id is None:
            key = self._open_unnamed_part(_REASONING if reasoning else _TEXT, text)
        elif self.ledger.find(key) is None:
            part = (self.ledger.open_reasoning if reasoning else self.ledger.open_text)(key)
            self._remember_text_index(key, None if reasoning else part)
        if chunk.provider_metadata is not None:
            self._add_part_metadata(key, chunk.provider_metadata, reasoning=reasoning)
        self.ledger.append_text(key, text)

    def _open_unnamed_part(self, key: Hashable, text: str) -> Hashable:
        """Opens the part without an id of this kind; closes one of the other kind."""
        if self.ledger.find(key) is None and text:
            self._close_unnamed_part()
            (self.ledger.open_text if key == _TEXT else self.ledger.open_reasoning)(key)
            self._unnamed_key = key
        return key

    def _close_unnamed_part(self) -> None:
        if self._unnamed_key is not None:
            self.ledger.close(self._unnamed_key)
            self._unnamed_key = None

    def _read_text_start(self, chunk: wire.PartBoundary) -> None:
        self._close_unnamed_part()
        key: Hashable = _TEXT if chunk.id is None else chunk.id
        is_refusal = our_fields(chunk.provider_metadata).get("refusal")
        self._remember_text_index(key, (self.ledger.open_refusal if is_refusal else self.ledger.open_text)(key))
        self._unnamed_key = key if chunk.id is None else None
        self._add_part_metadata(key, chunk.provider_metadata)

    def _remember_text_index(self, key: Hashable, part: LedgerPart | None) -> None:
        """Remembers the index of a text part, for sources that come after it."""
        if part is not None:
            self._text_indexes[str(key)] = part.index

    def _read_text_end(self, chunk: wire.PartBoundary) -> None:
        key: Hashable = _TEXT if chunk.id is None else chunk.id
        self._add_part_metadata(key, chunk.provider_metadata)
        part = self.ledger.find(key)
        for citation in lenient.as_objects(chunk.citations):
            self._add_citation(citation, part.index if part else None)
        self.ledger.close(key)

    def _read_reasoning_start(self, chunk: wire.PartBoundary) -> None:
        self._close_unnamed_part()
        key = ("reasoning", "" if chunk.id is None else chunk.id)
        extra = read_metadata(chunk.provider_metadata, reasoning=True)
        our_form = our_fields(chunk.provider_metadata).get("form")
        has_redacted = any(name.startswith("redacted") for fields in extra.values() for name in fields)
        form: ReasoningForm = "summary" if our_form == "summary" else "full"
        if our_form == "redacted" or has_redacted:
            form = "redacted"
        part = self.ledger.open_reasoning(key, form=form)
        self._unnamed_key = key if chunk.id is None else None
        if part is not None:
            part.extra = merge_extra(part.extra, extra)

    def _read_reasoning_end(self, chunk: wire.PartBoundary) -> None:
        key = ("reasoning", "" if chunk.id is None else chunk.id)
        self._add_part_metadata(key, chunk.provider_metadata, reasoning=True)
        self.ledger.close(key)

    def _read_signature(self, chunk: wire.SignatureChunk) -> None:
        """Version 4: ends a reasoning block of Claude."""
        if self.ledger.find(_REASONING) is None:
            self._close_unnamed_part()
            self.ledger.open_reasoning(_REASONING)
        self.ledger.close(_REASONING, {"anthropic": {"signature": chunk.signature}})
        self._unnamed_key = None

    def _read_redacted(self, chunk: wire.RedactedChunk) -> None:
        self._close_unnamed_part()
        self.ledger.open_reasoning(_REASONING, form="redacted")
        self.ledger.close(_REASONING, {"anthropic": {"redacted": chunk.data}})

    def _add_part_metadata(self, key: Hashable, metadata: Any, *, reasoning: bool = False) -> None:
        part = self.ledger.find(key)
        if part is not None and metadata is not None:
            part.extra = merge_extra(part.extra, read_metadata(metadata, reasoning=reasoning))

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _begin_call(self) -> None:
        self._close_unnamed_part()
        if self._step_ended:  # the start of the next step was left out
            self._next_step()

    _read_call_start = _call_method(SdkCallReader.start, begins=True)
    _read_call_delta = _call_method(SdkCallReader.add_delta)
    _read_call = _call_method(SdkCallReader.complete, begins=True)
    _read_refused_call = _call_method(SdkCallReader.refuse, begins=True)
    _read_result = _call_method(SdkCallReader.add_result)
    _read_failed_result = _call_method(SdkCallReader.add_failure)
    _read_denied_result = _call_method(SdkCallReader.add_denial)
    _read_approval_request = _call_method(SdkCallReader.request_approval)

    # ── sources, files, state ─────────────────────────────────────────────────────────────────────

    def _read_source(self, chunk: wire.SourceChunk) -> None:
        source = lenient.as_object(chunk.source) or msgspec.to_builtins(chunk)
        if not lenient.get_text(source, "url", "title", "filename"):
            self.report_unknown()
            return
        cite = lenient.get_object(our_fields(source.get("providerMetadata")), "cite")
        citation = {"source": source, "citedText": cite.get("quote"), "span": cite.get("span")}
        self._add_citation(citation, self._text_indexes.get(lenient.get_text(cite, "of")))

    def _add_citation(self, citation: Object, of: int | None) -> None:
        """Adds a source, or the range of text that it supports."""
        source = lenient.get_object(citation, "source")
        first, last = (lenient.get_integer(citation, "startIndex"), lenient.get_integer(citation, "endIndex"))
        span = lenient.get_list(citation, "span") or (None if first is None or last is None else [first, last])
        self.ledger.cite(
            (of, citation),
            lenient.get_text(source, "url"),
            lenient.get_text(source, "title"),
            of,
            (int(span[0]), int(span[1])) if span else None,
            lenient.get_text(citation, "citedText"),
            str(source.get("id") or source.get("sourceId") or ""),
            lenient.get_text(source, "mediaType"),
            lenient.get_text(source, "filename"),
            read_metadata(source.get("providerMetadata")) or None,
        )

    def _read_file(self, chunk: wire.FileChunk, *, reasoning: bool = False) -> None:
        media, url, data = wire.read_file_chunk(msgspec.to_builtins(chunk))
        if not url and not data:
            self.report_unknown()
            return
        extra = read_metadata(chunk.provider_metadata)
        if reasoning:
            extra.setdefault(SDK, {})["reasoning"] = True
        self.ledger.open_file("file", media or "application/octet-stream", url)
        self.ledger.append_text("file", data)
        self.ledger.close("file", extra or None)

    def _read_reasoning_file(self, chunk: wire.FileChunk) -> None:
        self._read_file(chunk, reasoning=True)

    def _read_data(self, data: bytes) -> bool:
        """Reads a `data-*` chunk."""
        try:
            chunk = _decode_data_chunk(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        json = bytes(chunk.data).decode("utf-8", "replace")
        if chunk.type == OPAQUE_TYPE:
            state = lenient.as_object(parse_lenient(json.encode()))
            self.ledger.add_whole_part(
                ev.Opaque, lenient.get_text(state, "protocol"), lenient.get_text(state, "kind"), state.get("data")
            )
        elif chunk.type.startswith("data-"):
            self.ledger.data(chunk.type[5:], json, chunk.id or "", transient=bool(chunk.transient))
        return chunk.type.startswith("data-")

    def _read_custom(self, chunk: wire.ProviderPartChunk) -> None:
        if chunk.kind == _REPEATED_KIND:
            start = lenient.get_object(lenient.as_object(chunk.provider_metadata), "anthropic")
            self._remember_response({"id": start.get("id"), "modelId": start.get("model")})
        elif "opaque" in (ours := our_fields(chunk.provider_metadata)):
            protocol, _, kind = chunk.kind.partition(".")
            self.ledger.add_whole_part(ev.Opaque, protocol, kind, ours["opaque"])
        else:
            self._read_state(chunk)

    def _read_state(self, _: wire.Chunk) -> None:
        """Keeps a chunk that is not content but that a reader may want back."""
        chunk = parse_lenient(self.frame[1])
        self.ledger.add_whole_part(ev.Opaque, self.protocol, lenient.get_text(chunk, "type"), chunk)

    def _reset_step(self, _: wire.Chunk) -> None:
        """Text that was sent cannot be taken back. Calls that are still open must not run."""
        self.diagnostics.add("reset-step", "the step starts again; what it sent before is not taken back")
        self._calls.void_all()
        self._close_parts(complete=False)

    def _ignore(self, _: wire.Chunk) -> None:
        """Ignores a keep-alive, a raw provider chunk, and the end of input deltas (the complete call follows)."""

    # ── frames that are not tagged chunks ─────────────────────────────────────────────────────────

    def read_special_frame(self, name: str, data: bytes) -> bool:
        if data.strip().upper() == b"[DONE]":
            if not self._release_fault():
                self.ledger.end()
            return True
        return b'"data-' in data and self._read_data(data)

    def _convert_payload(self, name: str, value: Any, raw: Callable[[], bytes]) -> None:
        """Also reads `data-*` chunks and non-stream bodies."""
        fields = lenient.as_object(value)
        if "type" not in fields and (chunks := list(_body_chunks(fields))):
            for chunk in chunks:
                self._convert_payload("", chunk, partial(_encode_clean, chunk))
        elif not (lenient.get_text(fields, "type").startswith("data-") and self._read_data(raw())):
            super()._convert_payload(name, value, raw)


ChunkDecoder.table = {
    wire.CHUNK_TYPES[tag]: getattr(ChunkDecoder, method)
    for methods in TABLES["chunks"].values()
    for tag, method in methods.items()
}


def _encode_clean(chunk: Object) -> bytes:
    return msgspec.json.encode(replace_surrogates(chunk))


# ── non-stream bodies: read as the chunks of a stream, so that both give the same events ──────────────


def _body_chunks(body: Object) -> Iterator[Object]:
    """Yields the chunks of a UI message, a result of `generateText` or an error; nothing for anything else."""
    if isinstance(body.get("parts"), list):
        yield from _message_chunks(body)
    elif isinstance(body.get("content"), list):
        yield from _result_chunks(body)
    elif "error" in body or "errorText" in body:
        yield {"type": "error", "error": body.get("error"), "errorText": lenient.get_text(body, "errorText") or None}


def _message_chunks(message: Object) -> Iterator[Object]:
    metadata = lenient.get_object(message, "metadata")
    known = {key: metadata[key] for key in ("model", "createdAt") if key in metadata}
    yield {"type": "start", "messageId": lenient.get_text(message, "id") or None, "messageMetadata": known or None}
    for position, part in enumerate(lenient.get_objects(message, "parts")):
        kind = lenient.get_text(part, "type")
        if kind in ("text", "reasoning"):
            yield from _text_chunks(kind, str(position), part)
        elif kind == "dynamic-tool" or kind.startswith("tool-"):
            yield from tool_part_chunks(kind, part)
        else:
            yield {"type": "start-step"} if kind == "step-start" else part
    yield {"type": "finish", "finishReason": metadata.get("finishReason"), "messageMetadata": metadata or None}


def _text_chunks(kind: str, id: str, part: Object) -> Iterator[Object]:
    yield {"type": f"{kind}-start", "id": id, "providerMetadata": part.get("providerMetadata")}
    yield {"type": f"{kind}-delta", "id": id, "text": lenient.get_text(part, "text")}
    yield {"type": f"{kind}-end", "id": id, "citations": part.get("citations")}


def _result_chunks(result: Object) -> Iterator[Object]:
    response = lenient.get_object(result, "response")
    yield {"type": "response-metadata", **{key: response.get(key) for key in ("id", "modelId", "timestamp")}}
    for position, part in enumerate(lenient.get_objects(result, "content")):
        kind = lenient.get_text(part, "type")
        if kind in ("text", "reasoning"):
            yield from _text_chunks(kind, str(position), part)
        else:
            yield {**part, "input": body_call_input(part)} if kind == "tool-call" and "input" in part else part
    keys = ("finishReason", "rawFinishReason", "usage", "totalUsage", "providerMetadata")
    yield {"type": "finish", **{key: result[key] for key in keys if result.get(key) is not None}}
