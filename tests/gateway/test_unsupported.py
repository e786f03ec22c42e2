"""Parts of the vendors' APIs that the gateway does not serve answer 501, in the vendor's form, and say what to do."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anthropic
import httpx
import openai
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.support.each_case import each
from tests.support.gateway import gateway, hash_key
from tests.support.openresponses import FAST, named
from tests.support.routes import find_unsupported, look_up, unsupported_features

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # an escape in a docstring of the SDK
    from google import genai
    from google.genai.errors import ServerError
    from google.genai.types import HttpOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FEATURES = unsupported_features()
GEMINI: dict[str, str] = {"x-goog-api-key": "any"}
HEADERS: dict[str, dict[str, str]] = {
    "openai-chat": {},
    "anthropic": {"anthropic-version": "2023-06-01"},
    "gemini": GEMINI,
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with gateway(named, serve=FAST) as (running, _):
        yield running.url


@pytest.fixture(scope="module")
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        yield client


def example_path(protocol: str, key: str) -> str:
    """A path of a row of the table."""
    version = "v1beta" if protocol == "gemini" else "v1"
    return f"/{version}/models/some-model{key}" if key.startswith(":") else f"/{version}/{key}/some-id/more"


@each("protocol, key", FEATURES)
def test_each_row_is_answered_in_the_form_of_its_vendor(http: httpx.Client, protocol: str, key: str) -> None:
    feature = FEATURES[protocol, key]
    reply = http.post(example_path(protocol, key), json={}, headers=HEADERS[protocol])
    assert reply.status_code == 501
    assert reply.headers["x-should-retry"] == "false"
    error = reply.json()["error"]
    assert error["message"] == f"penstock does not serve {feature.what}. {feature.instead}"
    if protocol == "anthropic":
        assert (reply.json()["type"], error["type"]) == ("error", "invalid_request_error")
    elif protocol == "gemini":
        assert (error["code"], error["status"]) == (501, "UNIMPLEMENTED")
    else:
        assert error["code"] == "not_served"


@each(
    "path",
    [
        *(
            "/v1/images/generations",
            "/images/generations",
            "/openai/v1/images/edits",
            "/v1beta/openai/images/generations",
        ),
        *(
            "/openai/deployments/dall-e/images/generations",
            "//v1//audio/speech",
            "/upload/v1beta/files",
            "/v1beta/files:register",
        ),
        *("/v1/batches", "/v1/batches/b_1/cancel", "/v1/messages/batches/b_1/results", "/v1/chat/completions/c_1"),
    ],
)
@each("method", ["GET", "POST", "DELETE"])
def test_every_method_and_spelling_is_answered(http: httpx.Client, method: str, path: str) -> None:
    assert http.request(method, path).status_code == 501


@each("path", ["/v1/nothing", "/v1/imagesque", "/images", "/v2/images/generations", "/v1beta/models/x:sing"])
def test_other_paths_are_not_found(http: httpx.Client, path: str) -> None:
    assert http.post(path, json={}).status_code == 404


def test_what_is_served_is_not_refused(http: httpx.Client) -> None:
    assert http.get("/v1/models").status_code == 200
    assert http.get("/v1/chat/completions").status_code == 405
    assert http.get("/v1/responses/resp_nobody").status_code == 404


def sdk_resources(package: Any, pattern: str) -> set[str]:
    """The first words of all paths in the source of an SDK."""
    folder = Path(package.__file__).parent / "resources"
    return {word for path in folder.rglob("*.py") for word in re.findall(pattern, path.read_text(encoding="utf-8"))}


def test_everything_that_the_sdks_can_ask_for_is_served_or_listed() -> None:
    served = {"chat", "completions", "embeddings", "messages", "models", "responses", "v1"}
    for package, protocol, pattern in (
        (openai, "openai-chat", r'"/([a-z_]+)[/"?]'),
        (anthropic, "anthropic", r'"/v1/([a-z_]+)[/"?]'),
    ):
        words = sdk_resources(package, pattern)
        assert len(words) > 10
        missing = {word for word in words - served if find_unsupported(f"/v1/{word}/x", HEADERS[protocol]) is None}
        assert missing == set()


def test_no_row_hides_a_route() -> None:
    for protocol, key in FEATURES:
        assert not look_up("POST", example_path(protocol, key)).known


# ── the SDKs ──────────────────────────────────────────────────────────────────────────────────────


OPENAI_CALLS: dict[str, Callable[[openai.OpenAI], Any]] = {
    "the image API": lambda client: client.images.generate(model="m", prompt="A gate"),
    "speech, transcription": lambda client: client.audio.speech.create(model="m", voice="alloy", input="Hi"),
    "the batch API": lambda client: client.batches.list(),
    "the file API": lambda client: client.files.create(file=("a.txt", b"x" * 300_000), purpose="user_data"),
    "moderation": lambda client: client.moderations.create(input="Hi"),
    "fine-tuning": lambda client: client.fine_tuning.jobs.list(),
    "vector stores": lambda client: client.vector_stores.list(),
}


@each("what", OPENAI_CALLS)
def test_the_openai_sdk_raises_the_message_and_does_not_retry(url: str, what: str) -> None:
    sent: list[httpx.Request] = []
    http = openai.DefaultHttpxClient(event_hooks={"request": [sent.append]})
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="any", http_client=http)
    with client, pytest.raises(openai.APIStatusError, match=f"penstock does not serve {what}") as raised:
        OPENAI_CALLS[what](client)
    assert raised.value.status_code == 501
    assert len(sent) == 1


def test_the_anthropic_sdk_raises_the_message(url: str) -> None:
    with anthropic.Anthropic(base_url=url, api_key="any") as client:
        with pytest.raises(anthropic.APIStatusError, match=r"the batch API\. Send the requests one by one") as raised:
            client.messages.batches.list()
        assert raised.value.status_code == 501
        with pytest.raises(anthropic.APIStatusError, match="Put the file into the request"):
            client.beta.files.list()


def test_the_google_sdk_raises_the_message(url: str) -> None:
    client = genai.Client(api_key="any", http_options=HttpOptions(base_url=url))
    with pytest.raises(ServerError, match="penstock does not serve the file API") as raised:
        client.files.list()
    assert raised.value.code == 501
    with pytest.raises(ServerError, match="penstock does not serve the batch API"):
        client.batches.list()


@each(
    "path, what",
    [
        ("/v1/realtime?model=gpt-realtime", "the realtime API"),
        ("/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent?key=any", "the Live API"),
    ],
)
def test_a_realtime_websocket_is_refused_with_the_reason(url: str, path: str, what: str) -> None:
    with pytest.raises(InvalidStatus) as refused, connect(f"{url.replace('http', 'ws', 1)}{path}"):
        pass
    assert refused.value.response.status_code == 501
    assert what in json.loads(refused.value.response.body)["error"]["message"]


def test_a_key_is_asked_for_first() -> None:
    with gateway(named, serve=FAST, keys={"ci": {"hash": hash_key("gw-secret-0123456789")}}) as (running, _):
        assert httpx.get(f"{running.url}/v1/batches", trust_env=False).status_code == 401
