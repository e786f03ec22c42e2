"""Secrets do not reach a cassette: not in headers, URLs, bodies or answers, whole or in the pieces of a stream."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock.testing import (
    Cassette,
    Dialect,
    Reply,
    Upstream,
    encode_events,
    iterate_splits,
    media_type,
    scripted,
    wire,
)
from tests.client.testing.anew import anew
from tests.support.client_parts import (
    ExchangeRedactor,
    RecordedResponse,
    credentials_of,
    decode_answer,
    request_fields,
    response_fields,
    split_messages,
    write_header,
    write_message,
)
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KNOWN = "Xq7-plain-secret/with:signs"  # known by value only
FORMED = "sk-proj-0123456789abcdefABCDEF"
ACCOUNT = "org-abcdefghij0123456789abcd"
PROTOCOLS = ("openai-chat", "responses", "anthropic", "gemini", "bedrock", "cohere", "ollama", "completions")
MODELS = (
    "openai/gpt-4o",
    "anthropic/claude-sonnet-4-5",
    "gemini/gemini-2.5-flash",
    "bedrock/m",
    "cohere/m",
    "ollama/m",
    "sagemaker/e",
)


def everything(text: str) -> str:
    """The text of a file with the content of all base64 in it."""
    inner = [base64.b64decode(found).decode("latin-1") for found in re.findall(r'"([A-Za-z0-9+/=]{16,})"', text)]
    return "\n".join([text, *inner])


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with scripted(keep_alive=False) as up:
        yield up


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "planted.json"


@each("model", MODELS)
@each("stream", [True, False])
@anew
def test_planted_secrets(
    upstream: Upstream, path: Path, monkeypatch: pytest.MonkeyPatch, model: str, stream: bool
) -> None:
    planted = {
        "key": "key-of-account-0123456789",
        "header": "header-secret-0123",
        "variable": "variable-secret-0123",
        "given": KNOWN,
        "formed": FORMED,
        "account": ACCOUNT,
        "cookie": "cookie-secret-0123",
        "request_id": "req_0123456789",
        "aws": "aws-secret-access-0123456789",
    }
    monkeypatch.setenv("MY_APP_TOKEN", planted["variable"])
    said = " and ".join(planted[name] for name in ("key", "variable", "given", "formed", "account"))
    reply = Reply.calls([("send", {"to": said})], text=f"Your keys are {said}!", reasoning=f"They gave me {said}!")
    upstream.script(
        reply.with_headers(
            set_cookie=f"id={planted['cookie']}", x_request_id=planted["request_id"], openai_organization=ACCOUNT
        )
    )
    name = model.partition("/")[0]
    account = {"base_url": f"{upstream.url}/v1", "key": planted["key"], "settings": {"region": "eu-north-1"}}
    with Cassette(path, "once", secrets=[KNOWN]) as cassette:
        options = {"headers": {"x-api-token": planted["header"]}}
        env = {"AWS_ACCESS_KEY_ID": "AKIAABCDEFGHIJKLMNOP", "AWS_SECRET_ACCESS_KEY": planted["aws"]}
        with cassette.sync_client({"providers": {name: account}}, options=options, env=env) as client:
            question = f"My keys: {said}, and the header is {planted['header']}"
            if stream:
                assert "".join(client.chat_stream(model, question).text()) == f"Your keys are {said}!"
            else:
                assert client.chat(model, question).text == f"Your keys are {said}!"
    text = everything(path.read_text(encoding="utf-8"))
    assert [name for name, secret in planted.items() if secret in text] == []
    assert text.count("[secret]") >= 10
    with Cassette(path) as cassette, cassette.sync_client({"providers": {name: account}}) as client:
        answer = client.chat_stream(model, question).turn() if stream else client.chat(model, question)
    assert answer.text == f"Your keys are {' and '.join(['[secret]'] * 5)}!"
    assert msgspec.json.decode(answer.calls[0].json) == {"to": " and ".join(["[secret]"] * 5)}


@each("protocol", PROTOCOLS)
def test_a_secret_in_the_pieces_of_a_stream(protocol: str) -> None:
    """A model writes a secret in several deltas, cut anywhere."""
    from penstock import events as ev

    redactor = ExchangeRedactor([KNOWN])
    for pieces in iterate_splits(f"It is {KNOWN}, or {FORMED}!".encode(), 6):
        deltas = [ev.TextDelta(0, piece.decode()) for piece in pieces]
        events: list[Any] = [
            ev.Start("i", "m"),
            ev.TextStart(0),
            *deltas,
            ev.TextEnd(0),
            ev.Usage(1, 1),
            ev.Finish("stop"),
        ]
        data = b"".join(encode_events(protocol, events))
        cleaned, hidden = redactor.redact_response(data, media_type(protocol))
        assert hidden >= 2
        turn = decode_answer(Dialect(protocol, stream=True), cleaned, media_type(protocol))
        assert turn.text == "It is [secret], or [secret]!"
        assert KNOWN not in everything(json.dumps(response_fields(cleaned)))


@each("protocol", PROTOCOLS)
@each("stream", [True, False])
def test_what_has_no_secret_keeps_its_bytes(protocol: str, stream: bool) -> None:
    redactor = ExchangeRedactor([KNOWN, FORMED])
    for name in ("text", "reasoning", "tools", "parallel-tools", "citations", "image", "error"):
        data = wire(name, protocol, stream=stream)
        assert redactor.redact_response(data, media_type(protocol, stream=stream)) == (data, 0)


@each("data", [b"", b"plain", b"\xff\xfe\x00", b'{"a": 1}', b'{"a":1}', b"[1,2.50]", b"data: {}\n\ndata: [DONE]\n\n", b"a\r\n\r\nb", "ü\n".encode(), b'"x"'])  # fmt: skip
def test_a_body_is_written_and_read_back(data: bytes) -> None:
    assert b"".join(RecordedResponse(status=200, **response_fields(data)).pieces()) == data


@each("protocol", PROTOCOLS)
def test_every_stream_is_written_and_read_back(protocol: str) -> None:
    for name in ("text", "tools", "image"):
        for stream in (True, False):
            data = wire(name, protocol, stream=stream)
            assert b"".join(RecordedResponse(status=200, **response_fields(data)).pieces()) == data


def test_messages_of_an_event_stream_are_divided() -> None:
    data = wire("text", "bedrock")
    assert len(split_messages(data)) > 5
    assert b"".join(split_messages(data)) == data
    assert split_messages(data[:-3])[-1] == data[len(b"".join(split_messages(data)[:-1])) : -3]


def test_a_secret_inside_base64_of_invoke_model() -> None:
    inner = msgspec.json.encode(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": FORMED}}
    )
    frame = msgspec.json.encode({"bytes": base64.b64encode(inner).decode(), "p": "abc"})
    from penstock.framing import WRITERS

    data = b"".join(WRITERS["eventstream"]().feed([(b"chunk", frame)]))
    cleaned, hidden = ExchangeRedactor().redact_response(data, "application/vnd.amazon.eventstream")
    assert hidden == 1
    payload = msgspec.json.decode(cleaned[cleaned.index(b"{") : -4])
    assert msgspec.json.decode(base64.b64decode(payload["bytes"]))["delta"]["text"] == "[secret]"
    assert payload["p"] == "abc"


@each(
    "url, shown",
    [
        ("https://api.openai.com/v1/responses", "https://api.openai.com/v1/responses"),
        ("https://user:pass@host.com/v1?key=abcdef&alt=sse", "https://host.com/v1?key=[secret]&alt=sse"),
        ("https://h/v1/projects/my-project-1/locations/eu/models/m:predict", "https://h/v1/projects/[secret]/locations/eu/models/m:predict"),
        ("https://api.cloudflare.com/client/v4/accounts/0a1b2c/ai/v1", "https://api.cloudflare.com/client/v4/accounts/[secret]/ai/v1"),
        ("https://acme.openai.azure.com/openai/v1?api-version=1", "https://[secret].openai.azure.com/openai/v1?api-version=1"),
        ("https://b.amazonaws.com/model/arn:aws:bedrock:eu-west-1:123456789012:p%2Fx/converse", "https://b.amazonaws.com/model/arn:aws:bedrock:eu-west-1:[secret]:p%2Fx/converse"),
        (f"https://h/v1/{FORMED}?x-amz-security-token=abcdef", "https://h/v1/[secret]?x-amz-security-token=[secret]"),
    ],
)  # fmt: skip
def test_urls(url: str, shown: str) -> None:
    assert ExchangeRedactor().redact_url(url) == shown


def test_headers_are_kept_by_name() -> None:
    sent = {
        "Authorization": f"Bearer {FORMED}",
        "Content-Type": "application/json",
        "Cookie": "a=b",
        "X-New-Thing": "secret",
        "anthropic-beta": "x",
    }
    assert ExchangeRedactor().redact_headers(sent) == {"anthropic-beta": "x", "content-type": "application/json"}
    assert set(credentials_of({"x-api-key": "abc", "authorization": "Bearer def"}, "https://h/?key=g%2Bi")) == {
        "abc",
        "Bearer def",
        "def",
        "g%2Bi",
        "g+i",
    }


def test_fields_that_name_an_account() -> None:
    body = msgspec.json.encode(
        {"organization": "Acme", "error": {"message": f"limit of {ACCOUNT}"}, "api_key": "x", "token": "word"}
    )
    cleaned, hidden = ExchangeRedactor().redact_response(body, "application/json")
    assert msgspec.json.decode(cleaned) == {
        "organization": "[secret]",
        "error": {"message": "limit of [secret]"},
        "api_key": "[secret]",
        "token": "word",
    }
    assert hidden == 3


def test_secrets_of_both_searches_are_counted() -> None:
    """Values are searched by their form first, then by the names before them."""
    body = msgspec.json.encode(
        {"error": f"the key {FORMED}", "db_password": "Tr0ub4dor-3x", "n": {"admin_password": KNOWN}}
    )
    cleaned, hidden = ExchangeRedactor().redact_response(body, "application/json")
    assert "Tr0ub4dor" not in cleaned.decode()
    assert (hidden, cleaned.count(b"[secret]")) == (3, 3)
    headers = write_header(b":event-type", b"chunk") + write_header(b"note", f"{FORMED} {FORMED[:-1]}".encode())
    message = write_message(headers, msgspec.json.encode({"text": FORMED}))
    cleaned, hidden = ExchangeRedactor().redact_response(message, "application/vnd.amazon.eventstream")
    assert (hidden, cleaned.count(b"[secret]")) == (3, 3)


def test_a_secret_in_the_tokens_of_log_probabilities() -> None:
    tokens = [
        {"token": text, "logprob": -0.1, "bytes": list(text.encode())}
        for text in ("It", " is", " sk", "-proj", f"-{'x1' * 8}", " !")
    ]
    body = msgspec.json.encode({"choices": [{"logprobs": {"content": tokens}}]})
    cleaned, hidden = ExchangeRedactor().redact_response(body, "application/json")
    content = msgspec.json.decode(cleaned)["choices"][0]["logprobs"]["content"]
    assert hidden == 1
    assert [(row["token"], row["bytes"] is None) for row in content] == [
        ("It", False), (" is", False), (" [secret]", True), ("", True), ("", True), (" !", False),
    ]  # fmt: skip


@each("data", [b'{"text":"my key is %b"}', b"my key is %b", b"\xff\x00 my key is %b"])
def test_bodies_of_requests(data: bytes) -> None:
    fields = ExchangeRedactor([KNOWN]).redact_request(request_fields(data % KNOWN.encode()))
    assert KNOWN not in everything(json.dumps(fields))
    assert "[secret]" in everything(json.dumps(fields))
