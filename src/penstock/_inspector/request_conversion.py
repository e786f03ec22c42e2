"""Converts a client's request to another client protocol, and says where such a request is sent.

`POST /inspector/convert` and the copied commands use it. Slow for long requests: not for the event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import msgspec

from penstock._lenient_json import parse_lenient
from penstock._messages.convert import convert
from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock._lenient_fields import Object

JSON_TYPE = "application/json"
ANTHROPIC_VERSION = "2023-06-01"
# Where clients of a protocol send their requests. Gemini's path has the model in it.
PATHS = {
    "openai-chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "",
    "completions": "/v1/completions",
    "ollama": "/api/chat",
    "uistream": "/api/chat",
    "vscode": "/vscode/chat",
}
# Protocols whose body says whether the answer is streamed. The others stream always, or say it in the path.
_STREAM_FIELD = frozenset({"openai-chat", "responses", "anthropic", "completions", "ollama"})
_STREAMS_IF_ASKED = _STREAM_FIELD - {"ollama"}  # the others stream if the body does not say it


class ConversionNote(msgspec.Struct):
    """Something that the other protocol cannot express, or that was changed for it."""

    code: str
    message: str


class ConvertedRequest(msgspec.Struct):
    """A request as a client of `protocol` would send it."""

    protocol: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    notes: list[ConversionNote]


def parse_request_body(data: bytes) -> Object:
    """Returns the JSON object of a request body."""
    body = parse_lenient(data)
    if not isinstance(body, dict):
        raise InputError("the request is not a JSON object")
    return cast("Object", body)


def convert_body(
    body: Object, source: str, target: str, *, model: str = "", stream: bool | None = None
) -> ConvertedRequest:
    """Converts a body. `model` replaces its model; `stream`: whether the answer is streamed, as in the body if None."""
    for name in (source, target):
        if name not in PATHS:
            raise InputError(f"no client speaks {name[:40]!r}; clients speak {', '.join(PATHS)}")
    model = model or str(body.get("model") or "")
    streamed = stream if stream is not None else bool(body.get("stream", source not in _STREAMS_IF_ASKED))
    notes: list[ConversionNote] = []
    if source == target:
        result: Object = dict(body)
    else:
        converted = convert({**body, "model": model}, source, target)
        result, notes = converted.body, _conversion_notes(converted.diagnostics)
    if target == "gemini":
        result.pop("model", None)
    elif model:
        result["model"] = model
    if target in _STREAM_FIELD and (source != target or stream is not None):
        result["stream"] = streamed
    if target == "openai-chat" and source != target and streamed:
        result.setdefault("stream_options", {"include_usage": True})
    return ConvertedRequest(
        target, request_path(target, model, stream=streamed), request_headers(target), result, notes
    )


def _conversion_notes(diagnostics: list[Any]) -> list[ConversionNote]:
    return [ConversionNote(row.code, row.message) for row in diagnostics]


def request_path(protocol: str, model: str, *, stream: bool) -> str:
    """Returns the path of a protocol's requests."""
    if protocol != "gemini":
        return PATHS[protocol]
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/models/{quote(model, safe='/')}:{method}"


def request_headers(protocol: str) -> dict[str, str]:
    """Returns the headers that a protocol's requests need, without the key."""
    headers = {"content-type": JSON_TYPE}
    return {**headers, "anthropic-version": ANTHROPIC_VERSION} if protocol == "anthropic" else headers
