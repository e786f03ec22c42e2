"""Streams that a client leaves and takes up again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx

from tests.support.client_requests import ASKING, post
from tests.support.gateway import answer

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest, Reply

STAYS = {"x-penstock-resume": "background"}
_ID = re.compile(rb"\nid: ([0-9a-f]{32}-[0-9]+)\n\n")


def slow(seen: ReceivedRequest) -> Reply:
    """An answer that lasts long enough to leave it."""
    return answer(seen).slow(0.02)


def stalled(seen: ReceivedRequest) -> Reply:
    """An answer that never ends."""
    return answer(seen).stall(after=900)


def begin(url: str, client: str, model: str, headers: dict[str, str]) -> tuple[bytes, str]:
    """Read the first frames and leave. Returns the complete ones, and the id of the last."""
    path, body = ASKING[client](model, True)
    data = b""
    with (
        httpx.Client(base_url=url, timeout=20, verify=False, trust_env=False) as http,  # noqa: S501 — loopback, no TLS
        http.stream("POST", path, json=body, headers=headers) as reply,
    ):
        for chunk in reply.iter_raw():
            data += chunk
            if len(_ID.findall(data)) > 1:
                break
    last = list(_ID.finditer(data))[-1]
    return data[: last.end()], last[1].decode()


def resume(url: str, client: str, event: str, **headers: str) -> httpx.Response:
    """What a client sends that reconnects: the same request, and the last event that it has seen."""
    path, body = ASKING[client]("any", True)
    return post(url + path, json=body, headers={"last-event-id": event, **headers})


def first_event(event: str) -> str:
    return f"{event.partition('-')[0]}-0"
