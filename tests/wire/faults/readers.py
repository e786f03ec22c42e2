"""Small readers of the five client dialects, written apart from penstock: bytes of a response to what a user would see.

An answer has ended well (`finish`), with an error, or in silence. Silence is never right: a client would take it for a
success or wait for ever.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.oracles.wire import sse
from tests.support.client_requests import ASKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Outcome:
    """What a client has seen of an answer. `calls` are (name, arguments as text)."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish: str = ""
    error: str = ""
    status: int = 200  # 0: not known
    broken: str = ""  # what was not HTTP, not JSON, or no error of the SDK's own

    @property
    def ended(self) -> str:
        return "broken" if self.broken else "error" if self.error else "finish" if self.finish else "silence"


class Raw:
    """A response as it came."""

    def __init__(self, data: bytes) -> None:
        head, mark, rest = data.partition(b"\r\n\r\n")
        self.broken = "" if mark else f"no HTTP head in {data[:80]!r}"
        self.status = int(head.split()[1]) if mark else 0
        self.kind = _header(head, b"content-type")
        if _header(head, b"transfer-encoding") == "chunked":
            self.body, whole = _dechunked(rest)
        else:
            self.body, whole = rest, len(rest) == int(_header(head, b"content-length") or 0)
        if not whole and not self.broken:
            self.broken = "the body ends before HTTP says it does"


def _header(head: bytes, name: bytes) -> str:
    found = re.search(rb"(?i)\r\n" + name + rb": *([^\r\n]*)", head)
    return found[1].decode().lower() if found else ""


def _dechunked(data: bytes) -> tuple[bytes, bool]:
    pieces: list[bytes] = []
    while data:
        line, mark, data = data.partition(b"\r\n")
        if not mark:
            return b"".join(pieces), False
        size = int(line, 16)
        if not size:
            return b"".join(pieces), data == b"\r\n"
        if len(data) < size + 2:
            return b"".join(pieces), False
        pieces.append(data[:size])
        data = data[size + 2 :]
    return b"".join(pieces), False


async def ask(port: int, client: str, model: str, *, stream: bool) -> Outcome:
    """Ask over a connection of its own and read all of the answer."""
    path, body = ASKING[client](model, stream)
    data = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1", f"host: 127.0.0.1:{port}", "content-type: application/json",
        f"content-length: {len(data)}", "connection: close", "", "",
    ]  # fmt: skip
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write("\r\n".join(lines).encode() + data)
        raw = Raw(await reader.read(-1))
    finally:
        writer.close()
    return read(client, raw, stream=stream)


def read(client: str, raw: Raw, *, stream: bool) -> Outcome:
    """What a response means to a client."""
    out = Outcome(status=raw.status, broken=raw.broken)
    try:
        if raw.status != 200 or not (stream and raw.kind.startswith("text/event-stream")):
            value = json.loads(raw.body)
            _refused(out, value) if raw.status != 200 or "error" in _keys(value) else WHOLE[client](out, value)
        else:
            _read_frames(out, client, raw.body)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        out.broken = out.broken or f"{type(error).__name__}: {error}"
    return out


def _read_frames(out: Outcome, client: str, body: bytes) -> None:
    """Up to the frame that ends a stream: what stands behind it is not part of the answer."""
    for frame in sse(body):
        if frame.data == "[DONE]":
            break
        value = json.loads(frame.data)
        STREAMED[client](out, value)
        if client in _LAST and value.get("type") in _LAST[client]:
            break


_LAST = {"anthropic": ("message_stop",), "responses": ("response.completed", "response.incomplete", "response.failed")}


def _keys(value: Any) -> Any:
    return {key for key, inner in value.items() if inner} if isinstance(value, dict) else ()


def _refused(out: Outcome, value: Any) -> None:
    found = value.get("error", value) if isinstance(value, dict) else value
    out.error = str(found.get("message") or found) if isinstance(found, dict) else str(found)


def _append(out: Outcome, place: int, name: str, arguments: str) -> None:
    """More of a call."""
    while len(out.calls) <= place:
        out.calls.append(("", ""))
    had = out.calls[place]
    out.calls[place] = (had[0] + name, had[1] + arguments)


def _chat(out: Outcome, value: Any) -> None:
    if value.get("error"):
        _refused(out, value)
    for choice in value.get("choices", ()):
        delta = choice["delta"]
        out.text += delta.get("content") or ""
        out.reasoning += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls") or ():
            made = call.get("function") or {}
            _append(out, call["index"], made.get("name") or "", made.get("arguments") or "")
        out.finish = choice.get("finish_reason") or out.finish


def _whole_chat(out: Outcome, value: Any) -> None:
    [choice] = value["choices"]
    message = choice["message"]
    out.text, out.reasoning = message.get("content") or "", message.get("reasoning_content") or ""
    out.calls = [
        (call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()
    ]  # fmt: skip
    out.finish = choice["finish_reason"] or ""


def _responses(out: Outcome, value: Any) -> None:
    kind = value["type"]
    if kind == "response.output_text.delta":
        out.text += value["delta"]
    elif kind in {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}:
        out.reasoning += value["delta"]
    elif kind == "response.output_item.done" and value["item"]["type"] == "function_call":
        out.calls.append((value["item"]["name"], value["item"]["arguments"]))
    elif kind in {"response.completed", "response.incomplete"}:
        out.finish = value["response"]["status"]
    elif kind == "response.failed":
        _refused(out, value["response"])
    elif kind == "error":
        _refused(out, value)


def _whole_responses(out: Outcome, value: Any) -> None:
    for item in value["output"]:
        if item["type"] == "message":
            out.text += "".join(part["text"] for part in item["content"])
        elif item["type"] == "reasoning":
            out.reasoning += "".join(part["text"] for part in item["summary"])
        elif item["type"] == "function_call":
            out.calls.append((item["name"], item["arguments"]))
    out.finish = value["status"] if value["status"] in {"completed", "incomplete"} else ""


def _anthropic(out: Outcome, value: Any) -> None:
    kind = value["type"]
    if kind == "error":
        _refused(out, value)
    elif kind == "content_block_start" and value["content_block"]["type"] == "tool_use":
        out.calls.append((value["content_block"]["name"], ""))
    elif kind == "content_block_delta":
        delta = value["delta"]
        out.text += delta.get("text", "")
        out.reasoning += delta.get("thinking", "")
        if "partial_json" in delta:
            _append(out, len(out.calls) - 1, "", delta["partial_json"])
    elif kind == "message_delta":
        out.finish = value["delta"].get("stop_reason") or ""


def _whole_anthropic(out: Outcome, value: Any) -> None:
    for block in value["content"]:
        out.text += block.get("text", "")
        out.reasoning += block.get("thinking", "")
        if block["type"] == "tool_use":
            out.calls.append((block["name"], json.dumps(block["input"])))
    out.finish = value["stop_reason"] or ""


def _gemini(out: Outcome, value: Any) -> None:
    if value.get("error"):
        _refused(out, value)
    for candidate in value.get("candidates", ()):
        for part in candidate.get("content", {}).get("parts", ()):
            if part.get("thought"):
                out.reasoning += part.get("text", "")
            elif "functionCall" in part:
                out.calls.append((part["functionCall"]["name"], json.dumps(part["functionCall"].get("args", {}))))
            else:
                out.text += part.get("text", "")
        out.finish = candidate.get("finishReason") or out.finish


def _ui(out: Outcome, value: Any) -> None:
    kind = value["type"]
    if kind == "text-delta":
        out.text += value["delta"]
    elif kind == "reasoning-delta":
        out.reasoning += value["delta"]
    elif kind == "tool-input-available":
        out.calls.append((value["toolName"], json.dumps(value["input"])))
    elif kind == "error":
        out.error = value["errorText"]
    elif kind == "finish":
        out.finish = value.get("finishReason") or "finish"


def _whole_ui(out: Outcome, value: Any) -> None:
    for part in value["parts"]:
        if part["type"] == "text":
            out.text += part["text"]
        elif part["type"] == "reasoning":
            out.reasoning += part["text"]
        elif part["type"].startswith("tool-"):
            out.calls.append((part["type"].removeprefix("tool-"), json.dumps(part["input"])))
    out.finish = value.get("metadata", {}).get("finishReason") or "finish"


STREAMED: dict[str, Callable[[Outcome, Any], None]] = {
    "openai-chat": _chat, "responses": _responses, "anthropic": _anthropic, "gemini": _gemini, "uistream": _ui,
}  # fmt: skip
WHOLE: dict[str, Callable[[Outcome, Any], None]] = {
    "openai-chat": _whole_chat, "responses": _whole_responses, "anthropic": _whole_anthropic, "gemini": _gemini,
    "uistream": _whole_ui,
}  # fmt: skip
