"""Responses of Starlette, FastAPI and Django that stream an answer or a run, and the request of `useChat`.

    async def chat(request: Request) -> Response:
        messages = read_ui_messages(await request.body())
        return starlette_response(client.run("anthropic/claude-sonnet-4-5", messages, tools=[read_gauge]))

The framework is imported when a response is made, never before. An error before the first byte becomes an HTTP error;
a later one is the protocol's own error. When the client leaves, the connection to the provider is closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _protocols as protocols
from penstock._client.response_stream import (
    KEEP_ALIVE_SECONDS,
    UI_STREAM,
    AnswerStream,
    ResponseStream,
    SyncAnswerStream,
    SyncResponseStream,
    build_error,
)
from penstock._http.header_fields import check_headers
from penstock._input_limits import NestingError, decode_bounded
from penstock.errors import BadRequest, InputError, PenstockError, TooDeep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from penstock.request import Message


# ── the request ───────────────────────────────────────────────────────────────────────────────────


def read_ui_messages(
    body: bytes | str | Mapping[str, Any] | Sequence[Mapping[str, Any]], *, system: bool = False
) -> list[Message]:
    """Returns the messages of a request of `useChat`, for `client.run` or `client.chat_stream`.

    `body` is the request's body, its JSON, or only the list of UI messages. A page is not trusted with the system
    prompt: a system message is an error, unless `system` allows it. Raises `InputError` for what cannot be used.

    Examples:
        >>> body = b'{"messages":[{"id":"1","role":"user","parts":[{"type":"text","text":"Hi"}]}]}'
        >>> [(message.role, message.parts[0].text) for message in read_ui_messages(body)]
        [('user', 'Hi')]
    """
    value: Any = _decode_body(body) if isinstance(body, bytes | str) else body
    if isinstance(value, Mapping):
        value = value.get("messages")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    messages = protocols.reader(UI_STREAM)({"messages": value}).messages
    if not system and any(message.role == "system" for message in messages):
        raise InputError("messages: a page may not send system messages; `system=True` allows them")
    return messages


def _decode_body(body: bytes | str) -> Any:
    try:
        return decode_bounded(body)
    except NestingError:
        raise TooDeep from None
    except (msgspec.DecodeError, UnicodeError):
        raise BadRequest("JSON", body) from None


# ── frameworks ────────────────────────────────────────────────────────────────────────────────────


def starlette_response(
    source: AnswerStream | PenstockError,
    protocol: str = UI_STREAM,
    *,
    headers: Mapping[str, str] | None = None,
    keep_alive: float = KEEP_ALIVE_SECONDS,
    **options: Any,
) -> Response:
    """Returns the response of Starlette or FastAPI that streams an answer; for an error, its HTTP error.

    The request is sent when the response is: its status is known then. `headers` are further headers, checked first;
    `keep_alive`: seconds of silence before a comment is sent; `options` go to the protocol's encoder.
    """
    from penstock._client.starlette_responses import AnswerResponse, ErrorResponse  # noqa: PLC0415 — needs Starlette

    check_headers(headers or {}, "headers=")
    if isinstance(source, PenstockError):
        return ErrorResponse(build_error(source, protocol), headers)
    return AnswerResponse(ResponseStream(source, protocol, keep_alive, options), headers)


async def django_response(
    source: AnswerStream | PenstockError,
    protocol: str = UI_STREAM,
    *,
    headers: Mapping[str, str] | None = None,
    keep_alive: float = KEEP_ALIVE_SECONDS,
    **options: Any,
) -> Any:
    """Returns Django's response that streams an answer, for an async view; for an error, its HTTP error.

    Waits for the first chunk, because that decides on the status. The arguments are those of `starlette_response`.
    """
    check_headers(headers or {}, "headers=")
    if isinstance(source, PenstockError):
        return _django_error(source, protocol, headers)
    stream = ResponseStream(source, protocol, keep_alive, options)
    await stream.open()
    return _django_stream(stream, headers)


def sync_django_response(
    source: SyncAnswerStream | PenstockError,
    protocol: str = UI_STREAM,
    *,
    headers: Mapping[str, str] | None = None,
    **options: Any,
) -> Any:
    """Returns Django's response for a view without `async`, under WSGI: of a `SyncStream`, a `SyncRun`, or an error."""
    check_headers(headers or {}, "headers=")
    if isinstance(source, PenstockError):
        return _django_error(source, protocol, headers)
    stream = SyncResponseStream(source, protocol, options)
    stream.open()
    return _django_stream(stream, headers)


def _django_error(error: PenstockError, protocol: str, headers: Mapping[str, str] | None) -> Any:
    http: Any = import_module("django.http")
    status, fields, body = build_error(error, protocol)
    return http.HttpResponse(body, status=status, headers={**fields, **(headers or {})})


def _django_stream(stream: ResponseStream | SyncResponseStream, headers: Mapping[str, str] | None) -> Any:
    http: Any = import_module("django.http")
    return http.StreamingHttpResponse(stream, status=stream.status, headers={**stream.headers, **(headers or {})})
