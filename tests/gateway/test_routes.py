"""Addresses are looked up in linear time, and mean what they meant when regular expressions read them."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._gateway.routes import ENDPOINTS, error_protocol, find_route, parse_gemini_path

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
        route = find_route("POST", path)
        assert route.params["model"] == found["model"]
        assert route.endpoint is ENDPOINTS.get(f"/v1{found['rest']}")


KNOWN = {
    "/v1/v1/v1/chat/completions": "/v1/chat/completions",
    "/chat/completions": "/v1/chat/completions",
    "//v1//messages": "/v1/messages",
    "/openai/v1/responses": "/v1/responses",
    "/inference/v1/v1/completions": "/v1/completions",
    "/v1beta/openai/chat/completions": "/v1/chat/completions",
}


@pytest.mark.parametrize("path", KNOWN)
def test_addresses_of_others(path: str) -> None:
    assert find_route("POST", path).endpoint is ENDPOINTS[KNOWN[path]]
    assert find_route("GET", path).known


CHATS = {"c1/stream": "c1", "a/stream/stream": "a/stream", "stream": None, "/stream": None, "c1/streams": None}


@pytest.mark.parametrize("rest", CHATS)
def test_the_id_of_a_chat_is_what_stands_before_the_last_suffix(rest: str) -> None:
    route = find_route("GET", f"/api/chat/{rest}")
    assert route.params.get("chat") == CHATS[rest]


SHAPES = {
    "gemini": ("/v1/", "models/", ":a", ":0"),
    "colons": ("/v1/models/", ":a", "", ":0"),
    "versions": ("", "/v1", "", ""),
    "versions and more": ("", "/v1/v1", "", "/nothing"),
    "slashes": ("/x", "//", "", ""),
    "deployments": ("/openai/deployments/", "/chat/completions", "", "x"),
    "prefixes": ("", "/openai/v1", "", "/x"),
    "gemini prefixes": ("", "/gemini/v1beta", "", "/x"),
    "bare": ("/chat", "/chat/", "", ""),
    "models": ("/v1/models", "/models/models/", "", ":"),
}


COUNT = 4000  # pieces of a path: some ten times what is let in


def cpu(path: str, times: int) -> float:
    """Seconds for so many lookups, the shortest of several runs."""
    spent = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(times):
            find_route("POST", path)
        spent.append(time.process_time() - began)
    return min(spent)


def made(shape: str, count: int) -> str:
    before, one, two, after = SHAPES[shape]
    return before + one * count + two * count + after


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_path_takes_twice_as_long(shape: str) -> None:
    times = 1
    while cpu(made(shape, COUNT), times) < 0.02:
        times *= 2
    # A machine with other work disturbs a measurement; quadratic time shows in every one.
    grown = (cpu(made(shape, 2 * COUNT), times) / cpu(made(shape, COUNT), times) for _ in range(5))
    assert any(ratio <= 2.5 for ratio in grown)


def test_the_dialect_of_an_address_that_is_not_looked_up() -> None:
    assert [error_protocol(path) for path in ("/v1/messages/x", "/v1beta/x", "/api/x", "/")] == [
        "anthropic", "gemini", "ollama", "openai-chat",
    ]  # fmt: skip
