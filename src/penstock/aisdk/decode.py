"""AI SDK chunks of every version and spelling → events. Leans on `turns` for the frame, on `tools` for calls.

Parts with ids open and close by them; version 4 has none, so there a part ends when another kind begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock import pick
from penstock.aisdk import files, wire
from penstock.aisdk import wire_tools as tool
from penstock.aisdk.turns import TurnDecoder
from penstock.aisdk.words import OPAQUE, OURS, SDK, merge, read_metadata
from penstock.jsontext import loose

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from penstock.events import ReasoningForm
    from penstock.parts import Part

TEXT, REASONING = "", ("reasoning", "")  # the keys of parts that have no id
_read_data = msgspec.json.Decoder(wire.Data).decode
_FRAMING = "anthropic.message_start"  # a custom part that only repeats what the frame says


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
        self.ledger.say(key, text)

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
        self.ledger.say(key, text)

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
        ours = pick.table(pick.as_object(p.provider_metadata), OURS)
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
        for citation in pick.objects(p.citations):
            self._cite(citation, part.index if part else None)
        self.ledger.close(key)

    def _reasoning_start(self, p: wire.ReasoningStart) -> None:
        self._silence()
        key = ("reasoning", "" if p.id is None else p.id)
        extra = read_metadata(p.provider_metadata, reasoning=True)
        said = pick.table(pick.as_object(p.provider_metadata), OURS).get("form")
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

    # ── sources, files, state ─────────────────────────────────────────────────────────────────────

    def _source(self, p: wire.SourceChunk) -> None:
        said = pick.as_object(p.source) or msgspec.to_builtins(p)
        if not pick.text(said, "url", "title", "filename"):
            self.keep()
            return
        place = pick.table(pick.table(pick.as_object(said.get("providerMetadata")), OURS), "cite")
        citation = {"source": said, "citedText": place.get("quote"), "span": place.get("span")}
        self._cite(citation, self._places.get(pick.text(place, "of")))

    def _cite(self, citation: dict[str, Any], of: int | None) -> None:
        """A source as a whole, or a place in the text that one supports."""
        said = pick.table(citation, "source")
        first, last = pick.number(citation, "startIndex"), pick.number(citation, "endIndex")
        given = pick.listed(citation, "span") or (None if first is None or last is None else [first, last])
        span = (int(given[0]), int(given[1])) if given else None
        extra = read_metadata(said.get("providerMetadata"))
        self.ledger.cite(
            (of, citation),
            pick.text(said, "url"), pick.text(said, "title"), of, span, pick.text(citation, "citedText"),
            str(said.get("id") or said.get("sourceId") or ""),
            pick.text(said, "mediaType"), pick.text(said, "filename"), extra or None,
        )  # fmt: skip

    def _file(self, p: wire.FileChunk) -> None:
        media, url, data = files.read_file(msgspec.to_builtins(p))
        if not url and not data:
            self.keep()
            return
        extra = read_metadata(p.provider_metadata)
        if type(p) is wire.ReasoningFile:
            extra.setdefault(SDK, {})["reasoning"] = True
        self.ledger.open_file("file", media or "application/octet-stream", url)
        self.ledger.say("file", data)
        self.ledger.close("file", extra or None)

    def _data(self, data: bytes) -> bool:
        try:
            chunk = _read_data(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        json = bytes(chunk.data).decode("utf-8", "replace")
        if chunk.type == OPAQUE:
            said = pick.as_object(loose(json.encode()))
            self.ledger.atom(ev.Opaque, pick.text(said, "protocol"), pick.text(said, "kind"), said.get("data"))
        elif chunk.type.startswith("data-"):
            self.ledger.data(chunk.type[5:], json, chunk.id or "", transient=bool(chunk.transient))
        return chunk.type.startswith("data-")

    def _custom(self, p: wire.Custom) -> None:
        if p.kind == _FRAMING:
            said = pick.table(pick.as_object(p.provider_metadata), "anthropic")
            self._remember({"id": said.get("id"), "modelId": said.get("model")})
            return
        ours = pick.table(pick.as_object(p.provider_metadata), OURS)
        if "opaque" in ours:
            protocol, _, kind = p.kind.partition(".")
            self.ledger.atom(ev.Opaque, protocol, kind, ours["opaque"])
        else:
            self._state(p)

    def _state(self, _: Any) -> None:
        """A chunk that is no content but may be wanted back."""
        said = loose(self.frame[1])
        self.ledger.atom(ev.Opaque, self.protocol, pick.text(said, "type"), said)

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
