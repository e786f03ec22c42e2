"""AI SDK chunks of every version and spelling → events. Leans on `turns` for the frame, on `tools` for calls.

Parts with ids open and close by them; version 4 has none, so there a part ends when another kind begins.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.aisdk import OPAQUE, OURS, SDK, merge, read_metadata, wire
from penstock.aisdk import wire as tool
from penstock.aisdk.decode_turn import TurnDecoder
from penstock.jsontext import as_json, parse_lenient, replace_surrogates

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from penstock.events import ReasoningForm
    from penstock.ledger import Part
    from penstock.lenient_fields import Object

TEXT, REASONING = "", ("reasoning", "")  # the keys of parts that have no id
_read_data = msgspec.json.Decoder(wire.Data).decode
_FRAMING = "anthropic.message_start"  # a custom part that only repeats what the frame says


def _encode(chunk: dict[str, Any]) -> bytes:
    return msgspec.json.encode(replace_surrogates(chunk))


class ChunkDecoder(TurnDecoder):
    """Reads all chunks; a protocol only gives it its name."""

    # ── text and reasoning ────────────────────────────────────────────────────────────────────────

    def _text(self, p: wire.Say) -> None:
        text = p.text if p.text is not None else p.delta if p.delta is not None else p.text_delta
        if text is None:
            self.keep()
            return
        key: Hashable = p.id
        if key is None:
            key = self._speak(TEXT, text)
        elif self.ledger.find(key) is None:
            self._place(key, self.ledger.open_text(key))
        if p.provider_metadata is not None:
            self._note(key, p.provider_metadata)
        self.ledger.append_text(key, text)

    def _reasoning(self, p: wire.Say) -> None:
        text = p.text if p.text is not None else p.delta if p.delta is not None else p.text_delta
        if text is None:
            self.keep()
            return
        key: Hashable = ("reasoning", p.id)
        if p.id is None:
            key = self._speak(REASONING, text)
        elif self.ledger.find(key) is None:
            self.ledger.open_reasoning(key)
        if p.provider_metadata is not None:
            self._note(key, p.provider_metadata, reasoning=True)
        self.ledger.append_text(key, text)

    def _speak(self, key: Hashable, text: str) -> Hashable:
        """The part without an id of this kind; one of the other kind ends."""
        if self.ledger.find(key) is None and text:
            self._silence()
            (self.ledger.open_text if key == TEXT else self.ledger.open_reasoning)(key)
            self._loose = key
        return key

    def _silence(self) -> None:
        if self._loose is not None:
            self.ledger.close(self._loose)
            self._loose = None

    def _text_start(self, p: wire.TextStart) -> None:
        self._silence()
        key: Hashable = TEXT if p.id is None else p.id
        ours = lenient.get_object(lenient.as_object(p.provider_metadata), OURS)
        self._place(key, (self.ledger.open_refusal if ours.get("refusal") else self.ledger.open_text)(key))
        self._loose = key if p.id is None else None
        self._note(key, p.provider_metadata)

    def _place(self, key: Hashable, part: Part | None) -> None:
        """Remember which part a text is, for sources that come after it."""
        if part is not None:
            self._places[str(key)] = part.index

    def _text_end(self, p: wire.TextEnd) -> None:
        key: Hashable = TEXT if p.id is None else p.id
        self._note(key, p.provider_metadata)
        part = self.ledger.find(key)
        for citation in lenient.as_objects(p.citations):
            self._cite(citation, part.index if part else None)
        self.ledger.close(key)

    def _reasoning_start(self, p: wire.ReasoningStart) -> None:
        self._silence()
        key = ("reasoning", "" if p.id is None else p.id)
        extra = read_metadata(p.provider_metadata, reasoning=True)
        said = lenient.get_object(lenient.as_object(p.provider_metadata), OURS).get("form")
        redacted = said == "redacted" or any(key.startswith("redacted") for fields in extra.values() for key in fields)
        form: ReasoningForm = "redacted" if redacted else "summary" if said == "summary" else "full"
        part = self.ledger.open_reasoning(key, form=form)
        self._loose = key if p.id is None else None
        if part is not None:
            part.extra = merge(part.extra, extra)

    def _reasoning_end(self, p: wire.ReasoningEnd | wire.ReasoningPartFinish) -> None:
        key = ("reasoning", "" if p.id is None else p.id)
        self._note(key, p.provider_metadata, reasoning=True)
        self.ledger.close(key)

    def _signature(self, p: wire.ReasoningSignature) -> None:
        """Version 4: the last word of a block of Claude's."""
        if self.ledger.find(REASONING) is None:
            self._silence()
            self.ledger.open_reasoning(REASONING)
        self.ledger.close(REASONING, {"anthropic": {"signature": p.signature}})
        self._loose = None

    def _redacted(self, p: wire.RedactedReasoning) -> None:
        self._silence()
        self.ledger.open_reasoning(REASONING, form="redacted")
        self.ledger.close(REASONING, {"anthropic": {"redacted": p.data}})

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _or_keep(self, understood: bool) -> None:  # noqa: FBT001 (what a method of Tools gave back)
        if not understood:
            self.keep()

    def _begin_call(self) -> None:
        self._silence()
        if self._step_over:  # the start of the next step was left out
            self._next_step()

    def _call_start(self, p: tool.OpenCall) -> None:
        self._begin_call()
        self._or_keep(self._tools.open(p))

    def _call_delta(self, p: tool.CallPiece) -> None:
        self._or_keep(self._tools.add(p))

    def _call(self, p: tool.WholeCall) -> None:
        self._begin_call()
        self._or_keep(self._tools.whole(p))

    def _refused(self, p: tool.ToolInputError) -> None:
        self._begin_call()
        self._or_keep(self._tools.whole(p, refused=True))

    def _answer(self, p: tool.Answer) -> None:
        self._or_keep(self._tools.answer(p))

    def _failed(self, p: tool.Answer) -> None:
        self._or_keep(self._tools.answer(p, failed=True))

    def _denied(self, p: tool.ToolOutputDenied) -> None:
        if p.error_text is None:
            p.error_text = "denied"
        self._or_keep(self._tools.answer(p, failed=True, denied=True))

    def _ask(self, p: tool.ToolApprovalRequest) -> None:
        self._or_keep(self._tools.ask(p, self.protocol))

    def named(self, name: str, data: bytes) -> bool:
        if data.strip().upper() == b"[DONE]":
            if not self._break():
                self.ledger.end()
            return True
        return b'"data-' in data and self._data(data)

    def _fit(self, name: str, value: Any, raw: Callable[[], bytes]) -> None:
        """Also the chunks that are no tagged ones: `data-*`, and whole messages."""
        said = lenient.as_object(value)
        if "type" not in said and self._whole(said):
            return
        if not (lenient.get_text(said, "type").startswith("data-") and self._data(raw())):
            super()._fit(name, value, raw)

    def _whole(self, said: dict[str, Any]) -> bool:
        """A UI message, the result of `generateText`, or an error that is no stream."""
        for chunk in (found := chunks(said)):
            self._fit("", chunk, partial(_encode, chunk))
        return bool(found)

    # ── sources, files, state ─────────────────────────────────────────────────────────────────────

    def _source(self, p: wire.SourceChunk) -> None:
        said = lenient.as_object(p.source) or msgspec.to_builtins(p)
        if not lenient.get_text(said, "url", "title", "filename"):
            self.keep()
            return
        place = lenient.get_object(lenient.get_object(lenient.as_object(said.get("providerMetadata")), OURS), "cite")
        citation = {"source": said, "citedText": place.get("quote"), "span": place.get("span")}
        self._cite(citation, self._places.get(lenient.get_text(place, "of")))

    def _cite(self, citation: dict[str, Any], of: int | None) -> None:
        """A source as a whole, or a place in the text that one supports."""
        said = lenient.get_object(citation, "source")
        first, last = (
            lenient.get_integer(citation, "startIndex"),
            lenient.get_integer(citation, "endIndex"),
        )
        given = lenient.get_list(citation, "span") or (None if first is None or last is None else [first, last])
        span = (int(given[0]), int(given[1])) if given else None
        extra = read_metadata(said.get("providerMetadata"))
        self.ledger.cite(
            (of, citation),
            lenient.get_text(said, "url"),
            lenient.get_text(said, "title"),
            of,
            span,
            lenient.get_text(citation, "citedText"),
            str(said.get("id") or said.get("sourceId") or ""),
            lenient.get_text(said, "mediaType"),
            lenient.get_text(said, "filename"),
            extra or None,
        )

    def _file(self, p: wire.FileChunk) -> None:
        media, url, data = wire.read_file_chunk(msgspec.to_builtins(p))
        if not url and not data:
            self.keep()
            return
        extra = read_metadata(p.provider_metadata)
        if type(p) is wire.ReasoningFile:
            extra.setdefault(SDK, {})["reasoning"] = True
        self.ledger.open_file("file", media or "application/octet-stream", url)
        self.ledger.append_text("file", data)
        self.ledger.close("file", extra or None)

    def _data(self, data: bytes) -> bool:
        try:
            chunk = _read_data(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        json = bytes(chunk.data).decode("utf-8", "replace")
        if chunk.type == OPAQUE:
            said = lenient.as_object(parse_lenient(json.encode()))
            self.ledger.add_whole_part(
                ev.Opaque,
                lenient.get_text(said, "protocol"),
                lenient.get_text(said, "kind"),
                said.get("data"),
            )
        elif chunk.type.startswith("data-"):
            self.ledger.data(chunk.type[5:], json, chunk.id or "", transient=bool(chunk.transient))
        return chunk.type.startswith("data-")

    def _custom(self, p: wire.Custom) -> None:
        if p.kind == _FRAMING:
            said = lenient.get_object(lenient.as_object(p.provider_metadata), "anthropic")
            self._remember({"id": said.get("id"), "modelId": said.get("model")})
            return
        ours = lenient.get_object(lenient.as_object(p.provider_metadata), OURS)
        if "opaque" in ours:
            protocol, _, kind = p.kind.partition(".")
            self.ledger.add_whole_part(ev.Opaque, protocol, kind, ours["opaque"])
        else:
            self._state(p)

    def _state(self, _: Any) -> None:
        """A chunk that is no content but may be wanted back."""
        said = parse_lenient(self.frame[1])
        self.ledger.add_whole_part(ev.Opaque, self.protocol, lenient.get_text(said, "type"), said)

    def _reset_step(self, _: wire.ResetStep) -> None:
        """What was said cannot be taken back; no call of it that is still open may be run."""
        self.diagnostics.add("reset-step", "the step is begun again; what it said before stays said")
        self._tools.void()
        self._hush(whole=False)

    def _nothing(self, _: Any) -> None:
        """Framing: a sign of life, a raw chunk beside its reading, the end of fragments before the whole call."""

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        **TurnDecoder.table,
        wire.TextDelta: _text, wire.Text: _text, wire.TextStart: _text_start, wire.TextEnd: _text_end,
        wire.ReasoningDelta: _reasoning, wire.Reasoning: _reasoning, wire.ReasoningStart: _reasoning_start,
        wire.ReasoningEnd: _reasoning_end, wire.ReasoningPartFinish: _reasoning_end,
        wire.ReasoningSignature: _signature, wire.RedactedReasoning: _redacted,
        tool.ToolInputStart: _call_start, tool.ToolCallStreamingStart: _call_start,
        tool.ToolInputDelta: _call_delta, tool.ToolCallDelta: _call_delta, tool.ToolInputEnd: _nothing,
        tool.ToolCall: _call, tool.ToolInputAvailable: _call, tool.ToolInputError: _refused,
        tool.ToolResult: _answer, tool.ToolOutputAvailable: _answer, tool.ToolError: _failed,
        tool.ToolOutputError: _failed, tool.ToolOutputDenied: _denied,
        tool.ToolApprovalRequest: _ask, tool.ToolApprovalResponse: _state,
        wire.Source: _source, wire.SourceUrl: _source, wire.SourceDocument: _source,
        wire.File: _file, wire.ReasoningFile: _file, wire.Custom: _custom, wire.SteeringMessage: _state,
        wire.Raw: _nothing, wire.Ping: _nothing, wire.ResetStep: _reset_step,
    }  # fmt: skip


def chunks(said: Object) -> list[Object]:
    """The chunks of a whole answer; none if it is nothing of the kind."""
    if isinstance(said.get("parts"), list):
        return list(_message(said))
    if isinstance(said.get("content"), list):
        return list(_generated(said))
    if "error" in said or "errorText" in said:
        return [
            {
                "type": "error",
                "error": said.get("error"),
                "errorText": lenient.get_text(said, "errorText") or None,
            }
        ]
    return []


def _message(said: Object) -> Iterator[Object]:
    metadata = lenient.get_object(said, "metadata")
    known = {key: metadata[key] for key in ("model", "createdAt") if key in metadata}
    yield {"type": "start", "messageId": lenient.get_text(said, "id") or None, "messageMetadata": known or None}
    for place, part in enumerate(lenient.get_objects(said, "parts")):
        kind = lenient.get_text(part, "type")
        if kind in ("text", "reasoning"):
            yield from _spoken(kind, str(place), part)
        elif kind == "dynamic-tool" or kind.startswith("tool-"):
            yield from _tool(kind, part)
        elif kind == "step-start":
            yield {"type": "start-step"}
        else:
            yield part
    yield {"type": "finish", "finishReason": metadata.get("finishReason"), "messageMetadata": metadata or None}


def _spoken(kind: str, id: str, part: Object) -> Iterator[Object]:
    metadata = part.get("providerMetadata")
    yield {"type": f"{kind}-start", "id": id, "providerMetadata": metadata}
    yield {"type": f"{kind}-delta", "id": id, "text": lenient.get_text(part, "text")}
    yield {"type": f"{kind}-end", "id": id, "citations": part.get("citations")}


def _tool(kind: str, part: Object) -> Iterator[Object]:
    """A tool part has been through states; its last one tells which chunks it took."""
    state = lenient.get_text(part, "state")
    keys = ("toolCallId", "providerExecuted", "title", "toolMetadata")
    head: Object = {key: part[key] for key in keys if part.get(key) is not None}
    head["toolName"] = lenient.get_text(part, "toolName") or kind.removeprefix("tool-")
    head["dynamic"] = kind == "dynamic-tool"
    if state == "input-streaming":
        yield {**head, "type": "tool-input-start"}
        yield {**head, "type": "tool-input-delta", "inputTextDelta": lenient.get_text(part, "rawInput")}
        return
    refused = state == "output-error" and part.get("input") is None
    call = {**head, "input": _given(part), "providerMetadata": part.get("callProviderMetadata")}
    if refused:
        said: Any = part.get("rawInput")
        yield {
            **call,
            "type": "tool-input-error",
            "input": said,
            "errorText": lenient.get_text(part, "errorText"),
        }
        return
    yield {**call, "type": "tool-input-available"}
    approval = lenient.get_object(part, "approval")
    if "id" in approval:
        yield {"type": "tool-approval-request", "toolCallId": head.get("toolCallId"), "approvalId": approval["id"]}
    answer = {**head, "providerMetadata": part.get("resultProviderMetadata")}
    if state == "output-available":
        preliminary = part.get("preliminary")
        yield {**answer, "type": "tool-output-available", "output": part.get("output"), "preliminary": preliminary}
    elif state == "output-error":
        yield {**answer, "type": "tool-output-error", "errorText": lenient.get_text(part, "errorText")}


def _given(part: Object) -> Any:
    """A call's input. Here it is a value, so that a string is free text, not JSON."""
    given = part.get("input")
    return as_json(given) if isinstance(given, str) else given


def _generated(said: Object) -> Iterator[Object]:
    response = lenient.get_object(said, "response")
    yield {"type": "response-metadata", "id": response.get("id"), "modelId": response.get("modelId"),
           "timestamp": response.get("timestamp")}  # fmt: skip
    for place, part in enumerate(lenient.get_objects(said, "content")):
        kind = lenient.get_text(part, "type")
        if kind in ("text", "reasoning"):
            yield from _spoken(kind, str(place), part)
        else:
            yield {**part, "input": _given(part)} if kind == "tool-call" and "input" in part else part
    keys = ("finishReason", "rawFinishReason", "usage", "totalUsage", "providerMetadata")
    yield {"type": "finish", **{key: said[key] for key in keys if said.get(key) is not None}}
