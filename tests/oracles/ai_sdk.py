"""Recorded answers as `ai@7` reads them, by the provider packages that its users would take: a Node process reads what a
server on loopback plays. Finish reasons are the provider's own words where the AI SDK keeps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tests.oracles.node.oracle import Oracles
from tests.oracles.node.replay_server import Player
from tests.oracles.outcome import Outcome, arguments
from tests.oracles.replay import STREAM, WHOLE

if TYPE_CHECKING:
    from types import TracebackType

PROVIDERS = {
    "openai-chat": "openai-compatible",
    "mistral": "mistral",
    "anthropic-messages": "anthropic",
    "openai-responses": "openai-responses",
    "gemini": "google",
}
"""The corpus's word for a protocol to the AI SDK's package for it."""

UNIFIED = {
    "tool-calls": "tool_calls",
    "content-filter": "content_filter",
    "error": None,
    "other": None,
    "interrupted": None,
}
"""Its own words, where the provider gave none, as the provider's would be; `interrupted` is a stream without an end."""


class AiSdk:
    """The Node process and the server, for as long as they are needed."""

    def __init__(self) -> None:
        self._oracles, self._player = Oracles(), Player()

    def __enter__(self) -> Self:
        self._player.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._oracles.__exit__(kind, error, tb)
        self._player.__exit__(kind, error, tb)

    def read(self, protocol: str, body: bytes, *, stream: bool) -> Outcome:
        self._player.play(body, STREAM if stream else WHOLE)
        job = {"provider": PROVIDERS[protocol], "baseURL": f"{self._player.address}/v1", "stream": stream}
        ((answer,),) = self._oracles.run("answers", 7, [job])
        return _outcome(answer)


def _outcome(answer: dict[str, Any]) -> Outcome:
    outcome = Outcome(text=answer["text"], reasoning=answer["reasoning"])
    outcome.calls = [(call, name, _input(given)) for call, name, given in answer["calls"]]
    for url, title in answer["sources"]:
        outcome.link(url, None if title == url else title)  # a link without a title is given itself as one
    outcome.finish = answer["raw"] or UNIFIED.get(answer["finish"], answer["finish"])
    usage = answer["usage"] or {}
    outcome.input, outcome.output = usage.get("inputTokens"), usage.get("outputTokens")
    error = answer["error"]
    if error is not None and error["name"] == "AI_StreamProviderError":
        outcome.error = error["message"]
    elif error is not None:
        outcome.failed = f"{error['name']}: {error.get('message', '')[:160]}"
    return outcome


def _input(given: Any) -> Any:
    return arguments(given) if isinstance(given, str) else {} if given is None else given
