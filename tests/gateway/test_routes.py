"""Addresses mean what they meant when regular expressions read them, and as other clients write them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.support.each_case import each
from tests.support.routes import error_protocol, look_up, parse_gemini_path

# As the addresses were read before. Both need time in proportion to the square of the path's length.
MODELLED = re.compile(r"/v1(?:beta|alpha|beta1)?/(?:(?:.*/)?models/)?(?P<model>.+):(?P<method>[A-Za-z]+)")
DEPLOYED = re.compile(r"/openai/deployments/(?P<model>.+?)(?P<rest>/(?:chat/)?completions|/embeddings)")
PIECES = st.sampled_from([
    "/v1", "/v1beta", "/v1alpha/", "/v1beta1", "/", "//", "models/", "/models", "models", ":", "generateContent", "a",
    ":a", ".", "/openai", "/deployments/", "/chat/completions", "/completions", "/embeddings", "chat", "é", "1",
])  # fmt: skip
PATHS = st.lists(PIECES, max_size=10).map("".join)


@given(path=PATHS)
def test_a_model_in_a_path_is_found_as_before(path: str) -> None:
    found = MODELLED.fullmatch(path)
    assert parse_gemini_path(path) == (found.groupdict() if found else {})


@given(rest=PATHS)
def test_a_deployment_is_found_as_before(rest: str) -> None:
    path = f"/openai/deployments/{rest}"
    found = DEPLOYED.fullmatch(path)
    if found is not None and "//" not in path:
        route = look_up("POST", path)
        assert route.params["model"] == found["model"]
        assert route.endpoint in (f"/v1{found['rest']}", "")


KNOWN = {
    "/v1/v1/v1/chat/completions": "/v1/chat/completions",
    "/chat/completions": "/v1/chat/completions",
    "//v1//messages": "/v1/messages",
    "/openai/v1/responses": "/v1/responses",
    "/inference/v1/v1/completions": "/v1/completions",
    "/v1beta/openai/chat/completions": "/v1/chat/completions",
}


@each("path", KNOWN)
def test_addresses_of_others(path: str) -> None:
    assert look_up("POST", path).endpoint == KNOWN[path]
    assert look_up("GET", path) == ("", {}, True)


CHATS = {"c1/stream": "c1", "a/stream/stream": "a/stream", "stream": None, "/stream": None, "c1/streams": None}


@each("rest", CHATS)
def test_the_id_of_a_chat_is_what_stands_before_the_last_suffix(rest: str) -> None:
    assert look_up("GET", f"/api/chat/{rest}").params.get("chat") == CHATS[rest]


def test_the_dialect_of_an_address_that_is_not_looked_up() -> None:
    assert [error_protocol(path) for path in ("/v1/messages/x", "/v1beta/x", "/api/x", "/")] == [
        "anthropic", "gemini", "ollama", "openai-chat",
    ]  # fmt: skip
