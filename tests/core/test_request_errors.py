"""Bad requests: the error names the place, what was found there and what was expected, in each protocol's own body."""

from __future__ import annotations

import copy
import json
import random
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import BadRequest
from penstock.events import Fault
from penstock.messages import convert
from tests.support import request_protocols as requesting
from tests.support.each_case import each
from tests.support.paths import TESTS
from tests.support.request_cases import cases

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE: dict[str, list[dict[str, str]]] = tomllib.loads((TESTS / "data" / "bad_requests.toml").read_text())
ROWS = [(name, row["body"], row["error"]) for name in TABLE for row in TABLE[name]]
PATH = "messages[3].content[0].image_url"
SAID = f"{PATH}: expected an object, found a string"
BODIES: dict[str, Any] = {
    "openai-chat": {"error": {"message": SAID, "type": "invalid_request_error", "param": PATH, "code": None}},
    "completions": {"error": {"message": SAID, "type": "invalid_request_error", "param": PATH, "code": None}},
    "responses": {"error": {"message": SAID, "type": "invalid_request_error", "param": PATH, "code": None}},
    "anthropic": {"type": "error", "error": {"type": "invalid_request_error", "message": SAID}},
    "gemini": {"error": {"code": 400, "message": SAID, "status": "INVALID_ARGUMENT"}},
    "uistream": {"error": SAID},
    "aisdk": {"error": {"name": "AI_APICallError", "message": SAID, "type": "invalid", "statusCode": 400}},
    "vscode": {"kind": "error", "fault": "invalid", "message": SAID, "status": 400},
}


@each("protocol, body, error", ROWS)
def test_the_error_names_the_place(protocol: str, body: str, error: str) -> None:
    with pytest.raises(BadRequest) as caught:
        requesting.read(protocol, json.loads(body))
    assert str(caught.value) == error


@each("protocol", requesting.READERS)
@each("body", [None, [], "words", 7])
def test_a_body_that_is_no_object_is_refused_by_all(protocol: str, body: Any) -> None:
    with pytest.raises(BadRequest):
        requesting.read(protocol, body)


@each("protocol", sorted(BODIES))
def test_a_bad_request_is_told_in_the_protocols_own_words(protocol: str) -> None:
    error = BadRequest("an object", "x", PATH)
    assert requesting.error_body(protocol, error) == BODIES[protocol]


def test_any_fault_can_be_a_body() -> None:
    body = requesting.error_body("anthropic", Fault("rate-limit", "later", status=429))
    assert body == {"type": "error", "error": {"type": "rate_limit_error", "message": "later"}}


def test_paths_grow_from_the_inside_out() -> None:
    error = BadRequest("a string", 5, "url").at("image_url").at(0).at("content").at(3).at("messages")
    assert str(error) == "messages[3].content[0].image_url.url: expected a string, found a number"


def test_bodies_as_bytes_are_mended_or_refused() -> None:
    for data, said in ((b'"\\ud83d"', "\ufffd"), (b'"tab\there"', "tab\there")):
        body = b'{"model": "m", "messages": [{"role": "user", "content": %b}]}' % data
        assert convert(body, "openai-chat", "anthropic").body["messages"][0]["content"] == said
    for data in (b"", b"{", b"[1]", b"\xff"):
        with pytest.raises(BadRequest):
            convert(data, "openai-chat", "anthropic")


# ── hostile input ─────────────────────────────────────────────────────────────────────────────────

ODD: tuple[Any, ...] = (
    None, True, 0, -1, -1.5, 10**25, float("nan"), "", "word", "data:,", "é", "\ud83d", [], ["word"], [1], [[]], [None], [{}], {},
    {"type": []}, {"type": "text"}, {"type": "content"}, {"0": 300}, {"_": 1},
    {"penstock": {"extra": {"anthropic": 5, "openai-chat": {"_": 3}}}},
)  # fmt: skip


def spots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a body: what holds it, and its key there."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from spots(value[key])


@each("protocol", requesting.READERS)
def test_whatever_is_sent_is_refused_by_name_or_can_be_written_to_anybody(protocol: str) -> None:
    dice = random.Random(protocol)
    read = refused = 0
    words = set[str]()
    for case in cases():
        if protocol not in case.targets:
            continue
        original = case.body(protocol)
        for number in range(60 if protocol in ("vscode", "aisdk", "uistream") else 40):
            body = copy.deepcopy(original)
            for _ in range(dice.choice((1, 1, 1, 1, 2, 4))):
                holder, key = dice.choice(list(spots(body)))
                holder[key] = copy.deepcopy(dice.choice(ODD))
            try:
                request = requesting.read(protocol, body)
            except BadRequest as refusal:
                refused += 1
                words.add(str(refusal))
                continue
            read += 1
            for target in (protocol, *dice.sample(requesting.WRITERS, 2 + number % 3)):
                requesting.write(target, request).encode()
    assert min(read, refused) > 20
    assert max(map(len, words)) < 300
