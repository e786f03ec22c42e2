"""Messages of transport errors say what happened in words: no class of Python's or of a library's is named in them."""

from __future__ import annotations

import inspect
import re
import socket
import ssl
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from penstock._http.transport_errors import connection_error, exception_messages
from penstock.testing import Reply, play
from tests.support.client_requests import ask
from tests.support.gateway import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator


MODULES = (
    "aiohttp", "aiohttp.http_exceptions", "httpx", "httpx2", "httpcore", "openai", "anthropic", "google.genai.errors",
    "ssl", "socket", "builtins",
)  # fmt: skip
# Words such as ClientPayloadError, gaierror, ReadTimeout.
CLASS = re.compile(r"\b(?:[A-Z][a-z]+[A-Z]\w*|\w*(?:Error|Exception|Timeout|error))\b")


def classes() -> Iterator[type[Exception]]:
    for name in MODULES:
        for _, found in sorted(inspect.getmembers(import_module(name), inspect.isclass)):
            if issubclass(found, Exception) and not issubclass(found, BaseExceptionGroup):
                yield found


def test_no_class_of_any_library_is_named() -> None:
    for kind in dict.fromkeys(classes()):
        error = kind.__new__(kind)  # each has its own arguments, and none of them is read
        error.args = ()
        told = str(connection_error(error))
        assert told, kind
        assert CLASS.search(told) is None, (kind, told)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "nothing listens there (Connection refused)"),
        (ConnectionResetError(104, "Connection reset by peer"), "the connection was reset (Connection reset by peer)"),
        (socket.gaierror(-2, "Name or service not known"), "the host's name is not known (Name or service not known)"),
        (ssl.SSLError(1, "wrong version number"), "TLS failed (wrong version number)"),
        (OSError(101, "Network is unreachable"), "the connection failed (Network is unreachable)"),
        (RuntimeError("odd"), "the connection failed"),
    ],
)
def test_what_the_system_says_is_kept(error: Exception, words: str) -> None:
    assert connection_error(error).message == words


def test_the_words_themselves_name_no_class() -> None:
    assert [words for _, _, words in exception_messages() if CLASS.search(words)] == []


def test_a_cut_stream_and_its_headers() -> None:
    reply = Reply.of("openai-chat", play("text"))
    with gateway(reply.disconnect(after=len(reply.data) // 2)) as (running, _):
        answer = ask(running.url, "openai-chat", "openai-chat/text")
    assert "the connection to the provider broke in the middle of the answer" in answer.text
    assert CLASS.search(answer.text.split('"message":')[1].split('"type"')[0]) is None
    assert answer.headers["cache-control"] == "no-cache, no-transform"
