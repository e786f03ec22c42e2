"""The same small request in every client protocol, and our decoders' reading of each response."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import msgspec

from penstock import events as ev
from penstock._bridge import parser
from penstock._protocols import decoder

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = "Read the gauge."


def _chat(model: str, stream: bool) -> tuple[str, Any]:
    usage = {"stream_options": {"include_usage": True}} if stream else {}
    body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": WORDS}], **usage}
    return "/v1/chat/completions", body


def _messages(model: str, stream: bool) -> tuple[str, Any]:
    said = [{"role": "user", "content": WORDS}]
    return "/v1/messages?beta=true", {"model": model, "stream": stream, "max_tokens": 99, "messages": said}


def _responses(model: str, stream: bool) -> tuple[str, Any]:
    return "/v1/responses", {"model": model, "stream": stream, "input": WORDS, "store": False}


def _gemini(model: str, stream: bool) -> tuple[str, Any]:
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/models/{model}:{method}", {"contents": [{"role": "user", "parts": [{"text": WORDS}]}]}


def _ui(model: str, stream: bool) -> tuple[str, Any]:
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": WORDS}]}
    return "/api/chat", {"id": "c1", "model": model, "stream": stream, "messages": [message]}


def _vscode(model: str, stream: bool) -> tuple[str, Any]:
    said = [{"role": 1, "content": [{"value": WORDS}]}]
    return "/vscode/chat", {"version": 1, "model": model, "stream": stream, "messages": said}


def _completions(model: str, stream: bool) -> tuple[str, Any]:
    return "/v1/completions", {"model": model, "stream": stream, "prompt": WORDS}


def _ollama(model: str, stream: bool) -> tuple[str, Any]:
    return "/api/chat", {"model": model, "stream": stream, "messages": [{"role": "user", "content": WORDS}]}


ASKING: dict[str, Callable[[str, bool], tuple[str, Any]]] = {
    "openai-chat": _chat, "anthropic": _messages, "responses": _responses, "gemini": _gemini, "uistream": _ui,
    "vscode": _vscode, "completions": _completions, "ollama": _ollama,
}  # fmt: skip
CALLING = tuple(name for name in ASKING if name != "completions")  # those that know tools


def ask(
    base: str, protocol: str, model: str, *, stream: bool = True, headers: dict[str, str] | None = None
) -> httpx.Response:
    """Ask, and wait for all of the answer."""
    path, body = ASKING[protocol](model, stream)
    return post(base + path, json=body, headers=headers)


def post(url: str, **more: Any) -> httpx.Response:
    """A POST that loads no certificates, which would take longer than all the rest."""
    return httpx.post(url, timeout=20, verify=False, trust_env=False, **more)  # noqa: S501 — loopback, no TLS


def get(url: str, **more: Any) -> httpx.Response:
    """The same for a GET."""
    return httpx.get(url, timeout=20, verify=False, trust_env=False, **more)  # noqa: S501


def metric(url: str, name: str, /, *, headers: dict[str, str] | None = None, **labels: str) -> float:
    """The sum of a metric of a gateway over the series with these labels."""
    lines = get(f"{url}/metrics", headers=headers).raise_for_status().text.splitlines()
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    named = [line for line in lines if line.startswith((f"penstock_{name} ", f"penstock_{name}{{"))]
    return sum(float(line.split()[-1]) for line in named if all(one in line for one in wanted))


def knock(base: str, client: str, model: str, *, stream: bool, receive_buffer: int = 0) -> socket.socket:
    """Send a request over a bare socket."""
    path, body = ASKING[client](model, stream)
    where, data = urlsplit(base), json.dumps(body).encode()
    made = socket.socket()
    if receive_buffer:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    made.settimeout(20)
    made.connect((where.hostname, where.port))
    made.sendall(f"POST {path} HTTP/1.1\r\nhost: {where.netloc}\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
    return made


def read(protocol: str, data: bytes, *, stream: bool = True) -> list[Any]:
    """The events that a client of this protocol sees."""
    if protocol == "vscode" and not stream:
        data = b"\n".join(msgspec.json.encode(line) for line in msgspec.json.decode(data)["lines"])
        stream = True
    made = decoder(protocol)
    if not stream:
        return made.body(data)
    frames = parser("auto")
    return [*made.feed([*frames.feed([data]), *frames.finish()]), *made.finish()]


def told(events: list[Any]) -> tuple[str, list[tuple[str, Any]], str]:
    """What was said, what was called, and how it ended."""
    text = "".join(event.text for event in events if isinstance(event, ev.TextDelta))
    calls = [(event.name, msgspec.json.decode(event.json)) for event in events if isinstance(event, ev.CallEnd)]
    end = events[-1]
    return text, calls, end.reason if isinstance(end, ev.Finish) else end.kind
