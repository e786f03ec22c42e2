"""What the tests of Responses share: Open Responses' own schemas, a reader of its streams, and a client of its WebSocket.

The schemas lie where `PENSTOCK_SPECS` says, else in the folder beside the project; they are read there, not copied.
"""

from __future__ import annotations

import json
import os
import ssl
import time
import uuid
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
import jsonschema
import pytest
from msgspec.structs import replace
from websockets.sync.client import connect

from tests.support.corpus import PROJECT
from tests.support.gateway import answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from websockets.sync.client import ClientConnection

    from penstock.testing import ReceivedRequest, Reply

T = TypeVar("T")
LIMIT = 20.0
FAST = {"pace": 0.0}
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
RESOURCE = frozenset({
    "id", "object", "created_at", "completed_at", "status", "incomplete_details", "model", "previous_response_id",
    "instructions", "output", "error", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p",
    "presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning", "usage", "max_output_tokens",
    "max_tool_calls", "store", "background", "service_tier", "metadata", "safety_identifier", "prompt_cache_key",
})  # fmt: skip


def spec() -> Path:
    named = os.environ.get("PENSTOCK_SPECS")
    return (Path(named) if named else PROJECT.parent / "shared" / "specs") / "openresponses" / "openapi-current.json"


@cache
def _schemas() -> dict[str, Any]:
    if not spec().is_file():
        pytest.skip("corpus absent: the schema of Open Responses is not there")
    return dict(json.loads(spec().read_bytes())["components"]["schemas"])


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """What holds a value against one schema."""
    root = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": _schemas()}}
    return jsonschema.Draft202012Validator(root)


@cache
def _events() -> dict[str, str]:
    """Which schema an event of a stream has, by its type."""
    return {
        rule["properties"]["type"]["enum"][0]: name
        for name, rule in _schemas().items()
        if name.endswith("StreamingEvent")
    }


_seen: set[Any] = set()
WORDS = frozenset(
    {"type", "status", "role", "phase", "effort", "summary", "mode", "tool_choice", "truncation", "detail"}
)


def _shape(value: Any, key: str = "") -> Any:
    """What a schema can tell two values apart by."""
    if isinstance(value, dict):
        return tuple((name, _shape(item, name)) for name, item in value.items())
    if isinstance(value, list):
        return frozenset(_shape(item) for item in value)
    return value if key in WORDS else type(value)


def fits(name: str, value: Any) -> None:
    """Hold a value against a schema; values of the same shape are looked at once."""
    shape = (name, _shape(value))
    if shape in _seen:
        return
    if not validator(name).is_valid(value):
        error = jsonschema.exceptions.best_match(validator(name).iter_errors(value))
        raise AssertionError(f"{name} at {list(error.absolute_path)}: {error.message}")
    _seen.add(shape)


def named(seen: ReceivedRequest) -> Reply:
    """What the scripted upstream says, by a name of its own each time, as real ones do."""
    reply, name = answer(seen), uuid.uuid4().hex.encode()
    chunks = [chunk.replace(b'"one"', b'"resp_%b"' % name).replace(b"_one_", b"_%b_" % name) for chunk in reply.chunks]
    return replace(reply, chunks=tuple(chunks))


def asking(url: str) -> httpx.Client:
    """A client of a gateway. It needs no certificates, which take their time to load."""
    return httpx.Client(base_url=f"{url}/v1", timeout=LIMIT, verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def ask(http: httpx.Client, text: Any = "Hi.", model: str = "openai-chat/text", **more: Any) -> dict[str, Any]:
    reply = http.post("/responses", json={"model": model, "input": text, **more})
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


def until(true: Callable[[], T]) -> T:
    """Wait for something that happens in another thread."""
    ends = time.monotonic() + LIMIT
    while not (found := true()):
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.002)
    return found


def resource(value: Any) -> dict[str, Any]:
    """A whole response, all of it."""
    assert value.keys() >= RESOURCE, RESOURCE - value.keys()
    fits("ResponseResource", value)
    return dict(value)


def events(text: str) -> list[dict[str, Any]]:
    """The events of a stream: each a frame of its own, with LF, its name beside it, and the mark at the end."""
    assert "\r" not in text
    frames = [frame for frame in text.split("\n\n") if frame and not frame.startswith(":")]
    assert frames.pop() == "data: [DONE]"
    made = []
    for frame in frames:
        name, data = frame.split("\n")
        payload = json.loads(data.removeprefix("data: "))
        assert name == f"event: {payload['type']}"
        made.append(payload)
    return made


def check_life_of_call(stream: list[dict[str, Any]]) -> None:
    """The first call of a stream is announced, told in pieces, and ended, in that order."""
    added = next(event for event in stream if event.get("item", {}).get("type") == "function_call")
    kinds = [event["type"] for event in stream if event.get("output_index") == added["output_index"]]
    assert list(dict.fromkeys(kinds)) == [
        "response.output_item.added", "response.function_call_arguments.delta",
        "response.function_call_arguments.done", "response.output_item.done",
    ]  # fmt: skip


def lawful(stream: list[dict[str, Any]]) -> dict[str, Any]:
    """A stream in which all is as it should be; gives the response at its end."""
    for event in stream:
        fits(_events()[event["type"]], event)
    assert [event["sequence_number"] for event in stream] == list(range(len(stream)))
    assert [event["type"] for event in stream[:2]] == ["response.created", "response.in_progress"]
    assert [event["type"] for event in stream if event["type"] in ENDS] == [stream[-1]["type"]]
    last = resource(stream[-1]["response"])
    assert {event["response"]["id"] for event in stream if "response" in event} == {last["id"]}
    _balanced(stream)
    return last


def _balanced(stream: list[dict[str, Any]]) -> None:
    """Items and their parts are added before they are spoken of, done once, and in the end as the response has them."""
    items: dict[int, str] = {}
    parts: set[tuple[Any, ...]] = set()
    done: dict[int, Any] = {}
    for event in stream:
        kind, place = event["type"], event.get("output_index")
        where = (place, event.get("content_index"), event.get("summary_index"))
        if kind == "response.output_item.added":
            assert place == len(items)
            items[len(items)] = event["item"]["id"]
        elif kind == "response.output_item.done":
            assert items[event["output_index"]] == event["item"]["id"]
            assert place not in done
            assert not [one for one in parts if one[0] == place]
            done[event["output_index"]] = event["item"]
        elif "item_id" in event:
            assert items[event["output_index"]] == event["item_id"]
            assert place not in done
            if kind.endswith("_part.added"):
                parts.add(where)
            elif kind.endswith("_part.done"):
                parts.remove(where)
            elif "function_call" not in kind:
                assert where in parts
    assert not parts
    if stream[-1]["type"] == "response.completed":
        assert [done[place] for place in sorted(items)] == stream[-1]["response"]["output"]


class Socket:
    """A connection. `turn` asks for a response and gives its events."""

    def __init__(self, made: ClientConnection) -> None:
        self.raw = made

    def send(self, **body: Any) -> None:
        self.raw.send(json.dumps({"type": "response.create", **body}))

    def read(self) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        while not made or made[-1]["type"] not in ENDS | {"error"}:
            made.append(json.loads(self.raw.recv(timeout=LIMIT)))
        return made

    def turn(self, **body: Any) -> list[dict[str, Any]]:
        self.send(**body)
        return self.read()

    def get_response(self, **body: Any) -> dict[str, Any]:
        """A turn that must go well: its response."""
        made = self.turn(**body)
        assert made[-1]["type"] == "response.completed", made[-1]
        return lawful(made)

    def error(self, **body: Any) -> dict[str, Any]:
        """A turn that must be refused: why."""
        (event,) = self.turn(**body)
        fits("WebSocketErrorEvent", event)
        fits("ErrorStreamingEvent", event)
        return {"status": event["status"], **event["error"]}


@contextmanager
def socket(url: str, path: str = "/v1/responses", **headers: str) -> Iterator[Socket]:
    """A WebSocket of a gateway. The client sends no pings: a server that applies back pressure does not read them."""
    address = url.replace("http", "ws", 1) + path
    with connect(address, additional_headers=headers, open_timeout=LIMIT, ping_interval=None) as made:
        yield Socket(made)
