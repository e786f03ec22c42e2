"""The parts of the AI SDK's `fullStream`, versions 4 to 7, and of a provider's `doStream`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from penstock import lenient_fields as lenient
from penstock.aisdk import OURS
from penstock.aisdk.decode import ChunkDecoder
from penstock.codec import Encoder, Protocol
from penstock.jsontext import decode_trusted
from penstock.protocols.aisdk.encode import Aisdk5Encoder, Aisdk6Encoder, AisdkEncoder
from penstock.protocols.aisdk.encode_v4 import Aisdk4Encoder
from penstock.request_profile import USER_FILES, Profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.framing import Frame

ENCODERS: dict[str, type[AisdkEncoder | Aisdk4Encoder]] = {
    "4": Aisdk4Encoder, "5": Aisdk5Encoder, "6": Aisdk6Encoder, "7": AisdkEncoder
}  # fmt: skip
KINDS = frozenset({
    "stream-start", "response-metadata", "step-start", "step-finish", "tool-call", "tool-call-delta", "tool-result",
    "tool-call-streaming-start", "tool-error", "reasoning", "reasoning-signature", "redacted-reasoning", "source",
    "raw",
})  # fmt: skip


def encoder(*, version: str = "7", id: str = "response", model: str = "unknown", created: int = 0) -> Encoder:
    """The encoder of a version."""
    return ENCODERS[version](id=id, model=model, created=created)


def looks(_: str, payload: dict[str, Any]) -> bool:
    """What only a full stream says, or only in its own spelling."""
    kind = payload.get("type")
    if kind in KINDS:
        return "index" not in payload  # a canonical event is numbered
    spelled = {"text-delta": "textDelta", "reasoning-delta": "text", "start-step": "request", "finish": "totalUsage",
               "finish-step": "usage", "tool-input-end": "id"}  # fmt: skip
    return spelled.get(str(kind)) in payload or (kind == "text-delta" and {"id", "text"} <= set(payload))


class AisdkDecoder(ChunkDecoder):
    """Also reads UI message chunks: programs in the wild mix the spellings."""

    protocol = "aisdk"


Object: TypeAlias = dict[str, Any]
_CALLS = ("tool-call", "tool-error")
_KEPT = ("tool-result", "tool-approval-request", "tool-approval-response", "tool-output-denied", "source", "file",
         "reasoning-file", "custom", "steering-message")  # fmt: skip
_ENDS = ("finish-step", "step-finish", "finish")


def body(frames: Sequence[Frame]) -> bytes:
    """Fold the encoder's own frames, so that stream and body cannot disagree."""
    book = _Book()
    for _, data in frames:
        part = lenient.as_object(decode_trusted(data))  # a part that nobody knew is let through as it came
        if not book.add(lenient.get_text(part, "type"), part):
            return msgspec.json.encode({"error": part.get("error", part.get("reason", "aborted"))})
    return msgspec.json.encode({**book.whole, "content": book.finish()})


class _Book:
    """The content so far: text and reasoning by their ids, calls in the order they began."""

    def __init__(self) -> None:
        self.content: list[Object] = []
        self.whole: Object = {"warnings": []}
        self._said: dict[str, Object] = {}
        self._places: dict[int, int] = {}  # of those, by identity
        self._texts: dict[int, list[str]] = {}  # and what they have said
        self._calls: dict[str, Object] = {}

    def add(self, kind: str, part: Object) -> bool:
        """Take a part in; False if it ends all in an error."""
        refused = lenient.get_object(part, "error")
        if kind == "error" and "toolName" in refused:
            self._call({"type": "tool-error", **_refused(refused)})
        elif kind in ("error", "abort"):
            return False
        elif kind.startswith(("text-", "reasoning", "redacted-")) and kind != "reasoning-file":
            self._speak(kind, part)
        elif kind in ("tool-input-start", "tool-call-streaming-start"):
            self._call({"type": "tool-call"}, lenient.get_text(part, "id", "toolCallId"))
        elif kind in _CALLS:
            self._call(part)
        elif kind in _KEPT:
            self.content.append(self._placed(part))
        elif kind in _ENDS:
            self.whole.update({key: value for key, value in part.items() if key not in ("type", "performance")})
        return True

    def finish(self) -> list[Object]:
        """All of the content that says anything."""
        for part in self.content:
            if id(part) in self._texts:
                part["text"] = "".join(self._texts[id(part)])
        return [part for part in self.content if len(part) > 1]

    def _call(self, part: Object, call: str = "") -> None:
        call = call or lenient.get_text(part, "toolCallId")
        known = self._calls.get(call)
        if known is None or len(known) > 1:
            self.content.append(part)
            self._calls.setdefault(call, part)
        else:
            known.update(part)

    def _speak(self, kind: str, part: Object) -> None:
        """Version 4 has no ids and goes on with the last of its kind."""
        noun = "text" if kind.startswith("text") else "reasoning"
        block = self._said.get(f"{noun} {part.get('id')}")
        last = self.content[-1] if self.content else {}
        if block is None and "id" not in part and last.get("type") == noun and "providerMetadata" not in last:
            block = last
        if block is None:
            fresh: Object = {"type": noun, "text": ""}
            self._said[f"{noun} {part['id']}" if "id" in part else f"{noun} at {len(self.content)}"] = fresh
            self._places[id(fresh)], self._texts[id(fresh)] = len(self.content), []
            self.content.append(fresh)
            block = fresh
        self._texts[id(block)].append(lenient.get_text(part, "text", "textDelta"))
        for key, value in _metadata(part).items():
            block.setdefault("providerMetadata", {}).setdefault(key, {}).update(value)

    def _placed(self, part: Object) -> Object:
        """A source names the text it is for; here that is its place."""
        cite = lenient.get_object(lenient.get_object(lenient.get_object(part, "providerMetadata"), OURS), "cite")
        text = self._said.get(f"text {cite.get('of')}")
        if text is not None:
            cite["of"] = str(self._places[id(text)])
        return part


def _refused(error: Object) -> Object:
    ours = {OURS: {"cut": "client"}}
    return {"toolCallId": error.get("toolCallId"), "toolName": error["toolName"], "input": error.get("toolArgs"),
            "invalid": True, "error": error.get("message"), "providerMetadata": ours}  # fmt: skip


def _metadata(part: Object) -> dict[str, Object]:
    if "signature" in part:
        return {"anthropic": {"signature": part["signature"]}}
    if part["type"] == "redacted-reasoning":
        return {"anthropic": {"redactedData": part["data"]}}
    return lenient.get_object(part, "providerMetadata")


PROTOCOL = Protocol(
    "aisdk",
    looks,
    AisdkDecoder,
    encoder,
    reads="ndjson",
    writes="ndjson",
    versions=tuple(ENCODERS),
    body=body,
    carries_options=True,
    profile=Profile(protocol="aisdk", holding=USER_FILES),
)
