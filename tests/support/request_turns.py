"""A gateway whose upstream fails in every way: by the model's name. For tests of both halves of a request."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock.gateway import App
from penstock.testing import Reply, scripted
from tests.support.client_requests import post
from tests.support.event_feed import ended, watching
from tests.support.gateway import answer, config
from tests.support.inspector import Inspected, OwnInspector

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.gateway import Inspector
    from penstock.testing import ReceivedRequest

UPSTREAM_KEY = "sk-up-000000"  # of all providers of `config`
PLANTED = "sk-proj-PLANTED0123456789abcdefPLANTED0123456789"
COLD = {"error": {"message": "the boiler is cold", "type": "server_error", "details": {"boiler": 7, "trace": "b-7f"}}}
LOCKED = {"error": {"message": f"Incorrect API key provided: {UPSTREAM_KEY}", "code": "invalid_api_key"}}
THINKING: dict[str, Any] = {
    "top_k": 5, "thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 4000,
}  # fmt: skip
PATIENT = {"timeouts": {"first_byte": 2.0}}  # a busy machine answers within it, and `stuck` does not
ALIASES: dict[str, Any] = {
    "either": ["openai-chat/broken", "anthropic/text"],
    "nobody": ["openai-chat/broken", "anthropic/locked"],
}


def failing(seen: ReceivedRequest) -> Reply:
    """What the upstream answers: `broken`, `locked` and `stuck` fail, anything else is a packaged script."""
    model = str(seen.json.get("model", "")) if seen.body else ""
    if model == "broken":
        return Reply.body(COLD, status=500, headers={"x-request-id": "up-1", "x-boiler": "7"})
    if model == "locked":
        return Reply.body(LOCKED, status=401)
    if model == "stuck":
        return Reply.body({}).delayed(20.0)
    if model == "faulty":  # an error inside a stream, before any content
        data = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"too hot"}}\n\n'
        return Reply((data,), headers={"content-type": "text/event-stream"})
    return answer(seen)


@contextmanager
def failing_gateway(*, retries: int = 0, at: str = "", **more: Any) -> Generator[Inspected]:
    """A gateway before such an upstream, or before another (`at`)."""
    with scripted(failing) as up:
        made = config(at or up.url, serve={"pace": 0.0}, **{"options": PATIENT, **more})
        made = replace(made, engine=replace(made.engine, aliases={**made.engine.aliases, **ALIASES}, retries=retries))
        app: Any = OwnInspector(App(made, env={}))
        with Inspected(app) as running:
            running.up = up
            try:
                yield running
            finally:
                running.call(_stopped(running.inspector))


async def _stopped(inspector: Inspector) -> None:
    inspector.stopping()


def ask_messages(gateway: Inspected, model: str, headers: dict[str, str] | None = None, **fields: Any) -> str:
    """Sends a Messages request, and returns the turn's id when the gateway is through with it."""
    body = {"model": model, "max_tokens": 200, "messages": [{"role": "user", "content": "How high?"}], **fields}
    response = post(f"{gateway.url}/v1/messages", json=body, headers=headers)
    name = str(response.headers["x-request-id"])
    ended(gateway, name)
    return name


@contextmanager
def watched_gateway(**more: Any) -> Generator[Inspected]:
    """The same while somebody watches, so that turns are captured."""
    with failing_gateway(**more) as running, watching(running.url) as reader:
        reader.until(lambda: reader.named("turns"))
        yield running
