"""A transport that answers every request with one recorded body, for whichever httpx an SDK is built on.
`media` says what the body is: a stream, unless it is set.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# OpenAI's SDK looks at it when a stream is garbage, which may be while Google's imports it.
import httpx  # noqa: F401

STREAM, WHOLE = "text/event-stream", "application/json"


class Replay:
    """`play` a body, then let the SDK make its request: nothing leaves the process."""

    def __init__(self, module: Any) -> None:
        self.body = b""
        self.media = STREAM
        self._module = module
        self.transport = module.MockTransport(self._answer)
        # No proxies and certificates of the machine: they would be read for nothing, once per client.
        self.client = module.Client(transport=self.transport, trust_env=False)

    def play(self, body: bytes, media: str = STREAM) -> None:
        """The body that the next requests are answered with."""
        self.body, self.media = body, media

    def _answer(self, _request: Any) -> Any:
        return self._module.Response(200, headers={"content-type": self.media}, content=self.body)


def replay_for(client_class: type) -> Replay:
    """A Replay in the dialect of the SDK's own default client class."""
    roots = [base.__module__.partition(".")[0] for base in client_class.__mro__]
    return Replay(import_module(next(root for root in roots if root.startswith("httpx"))))
