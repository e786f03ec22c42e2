"""Bad requests: the error names the place, what was found there and what was expected, in each protocol's own body."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from penstock import _protocols as protocols
from penstock import _strict_fields as strict
from penstock.errors import BadRequest
from penstock.events import Fault
from tests.support import request_protocols as requesting
from tests.support.paths import TESTS

TABLE: dict[str, list[dict[str, str]]] = tomllib.loads((TESTS / "data" / "bad_requests.toml").read_text())
ROWS = [
    pytest.param(name, row["body"], row["error"], id=f"{name}-{row['error']}") for name in TABLE for row in TABLE[name]
]
PATH = "messages[3].content[0].image_url"
SAID = f"{PATH}: expected an object, found a string"
BODIES: dict[str, Any] = {
    "openai-chat": {"error": {"message": SAID, "type": "invalid_request_error", "param": PATH, "code": None}},
    "completions": {"error": {"message": SAID, "type": "invalid_request_error", "param": PATH, "code": None}},
    "responses": {
        "error": {"message": SAID, "type": "invalid_request_error", "param": PATH, "code": None},
    },
    "anthropic": {"type": "error", "error": {"type": "invalid_request_error", "message": SAID}},
    "gemini": {"error": {"code": 400, "message": SAID, "status": "INVALID_ARGUMENT"}},
    "uistream": {"error": SAID},
    "aisdk": {"error": {"name": "AI_APICallError", "message": SAID, "type": "invalid", "statusCode": 400}},
    "vscode": {"kind": "error", "fault": "invalid", "message": SAID, "status": 400},
}


@pytest.mark.parametrize(("protocol", "body", "error"), ROWS)
def test_the_error_names_the_place(protocol: str, body: str, error: str) -> None:
    with pytest.raises(BadRequest) as caught:
        requesting.read(protocol, json.loads(body))
    assert str(caught.value) == error


@pytest.mark.parametrize("protocol", requesting.READERS)
@pytest.mark.parametrize("body", [None, [], "words", 7])
def test_a_body_that_is_no_object_is_refused_by_all(protocol: str, body: Any) -> None:
    with pytest.raises(BadRequest):
        requesting.read(protocol, body)


@pytest.mark.parametrize("protocol", sorted(BODIES))
def test_a_bad_request_is_told_in_the_protocols_own_words(protocol: str) -> None:
    error = BadRequest("an object", "x", PATH)
    assert json.loads(protocols.error_body(protocol, error)) == BODIES[protocol]


def test_every_protocol_that_answers_clients_has_an_error_body() -> None:
    answering = {name for name in protocols.MODULES if protocols.protocol(name).encoder} - {"events"}
    assert answering <= set(BODIES)


def test_any_fault_can_be_a_body() -> None:
    body = json.loads(protocols.error_body("anthropic", Fault("rate-limit", "later", status=429)))
    assert body == {"type": "error", "error": {"type": "rate_limit_error", "message": "later"}}


def test_paths_grow_from_the_inside_out() -> None:
    error = BadRequest("a string", 5, "url").at("image_url").at(0).at("content").at(3).at("messages")
    assert str(error) == "messages[3].content[0].image_url.url: expected a string, found a number"


def test_bodies_as_bytes_are_mended_or_refused() -> None:
    assert strict.parse_object(b'{"a": "\\ud83d"}') == {"a": "\ufffd"}
    assert strict.parse_object(b'{"a": "tab\there"}') == {"a": "tab\there"}
    for data in (b"", b"{", b"[1]", b"\xff"):
        with pytest.raises(BadRequest):
            strict.parse_object(data)
