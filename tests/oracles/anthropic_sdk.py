"""Messages streams as the official `anthropic` client reads and accumulates them.
The beta reader is used where the body holds blocks that only it knows, or where the caller asks for it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from tests.oracles import wire
from tests.oracles.outcome import Link, Outcome, outcome_of, sheltered
from tests.oracles.replay import WHOLE, Replay, replay_for

if TYPE_CHECKING:
    import anthropic

BETA = ("compaction", "mcp_tool_use", "mcp_tool_result", "advisor_tool_result", "fallback", "container_upload")


@cache
def _sdk() -> tuple[anthropic.Anthropic, Replay]:
    import anthropic

    replay = replay_for(anthropic.DefaultHttpxClient)
    client = anthropic.Anthropic(
        api_key="none", base_url="http://upstream.test", http_client=replay.client, max_retries=0
    )
    return client, replay


def outcomes(body: bytes, *, beta: bool | None = None) -> list[Outcome]:
    return [_outcome(part, beta) for part in wire.split(body, "message_start", frozenset({"message_stop"}))]


def body_outcome(body: bytes) -> Outcome:
    """An answer that was not streamed."""
    return outcome_of(_read_body, body)


def _read_body(body: bytes, outcome: Outcome) -> None:
    client, replay = _sdk()
    replay.play(body, WHOLE)
    messages: Any = client.beta.messages
    _snapshot(messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "?"}]), outcome)


def _outcome(body: bytes, beta: bool | None) -> Outcome:
    outcome = Outcome()
    with sheltered(outcome):
        _read(body, outcome, beta=_needs_beta(body) if beta is None else beta)
    return outcome


def _needs_beta(body: bytes) -> bool:
    payloads = (wire.parsed(frame.data) for frame in wire.sse(body))
    blocks = (p.get("content_block") for p in payloads if isinstance(p, dict))
    return any(block["type"] in BETA for block in blocks if block)


def _read(body: bytes, outcome: Outcome, *, beta: bool) -> None:
    import anthropic

    client, replay = _sdk()
    replay.play(body)
    messages: Any = client.beta.messages if beta else client.messages
    with messages.stream(model="m", max_tokens=1, messages=[{"role": "user", "content": "?"}]) as stream:
        try:
            stream.until_done()
        except anthropic.APIError as error:
            outcome.error = _message(error)
            return
        _snapshot(stream.current_message_snapshot, outcome)


def _message(error: anthropic.APIError) -> str:
    body = error.body
    inner = body.get("error") if isinstance(body, dict) else None
    return inner["message"] if inner else error.message


def _snapshot(message: Any, outcome: Outcome) -> None:
    outcome.finish = message.stop_reason
    outcome.counted(message.usage.to_dict(), "input_tokens", "output_tokens")
    for block in message.content:
        # What message_start already held stays a dict in the SDK's snapshot.
        _block(block if isinstance(block, dict) else block.to_dict(), outcome)


def _block(block: dict[str, Any], outcome: Outcome) -> None:
    match block["type"]:
        case "text":
            outcome.text += block["text"]
            for citation in block.get("citations") or ():
                outcome.link(*_link(citation))
        case "thinking":
            outcome.reasoning += block["thinking"]
        case "tool_use":
            outcome.calls.append((block["id"], block["name"], block["input"]))
        case "web_search_tool_result" if isinstance(block["content"], list):
            outcome.found += [(hit["url"], hit["title"]) for hit in block["content"]]
        case _:
            pass  # provider-run calls, their results, opaque state: not what an Outcome speaks of


def _link(citation: dict[str, Any]) -> Link:
    source = citation.get("source") or ""  # of a search result: an address, or any other name
    url = citation.get("url") or (source if "://" in source else None)
    return url, citation.get("title") or citation.get("document_title")
