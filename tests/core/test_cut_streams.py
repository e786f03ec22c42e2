"""Streams that are cut: no prefix of a stream is a success unless the protocol's own terminal event is in it.

What counts as terminal is written down here, per protocol and from the vendors' documentation; no decoder is asked.
"""

from __future__ import annotations

import base64
import json
import random
import re
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from tests.support import corpus
from tests.support import run_streams as running
from tests.support.case_loop import over
from tests.support.stream_cases import Case, cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ENDED = re.compile(rb"(?im)^data: ?\[DONE\]\s*$")
MOST = 30  # cuts of one recorded stream
BYTES = 6  # cuts anywhere


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)


def _any(value: Any, *keys: str) -> bool:
    return any(one.get(key) for one in _objects(value) for key in keys)


def _chat(value: Any) -> bool:
    """https://platform.openai.com/docs/api-reference/chat-streaming: `finish_reason` of a choice; then `[DONE]`."""
    return _any(value, "finish_reason")


def _anthropic(value: Any) -> bool:
    """https://docs.anthropic.com/en/api/messages-streaming: `stop_reason` in `message_delta`; then `message_stop`."""
    return _any(value, "stop_reason") or any(one.get("type") == "message_stop" for one in _objects(value))


def _responses(value: Any) -> bool:
    """https://platform.openai.com/docs/api-reference/responses-streaming: the response ends with one of its states."""
    kinds = {"response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.canceled"}
    return any(one.get("type") in kinds or one.get("object") == "response" for one in _objects(value))


def _gemini(value: Any) -> bool:
    """https://ai.google.dev/api/generate-content#FinishReason: "If empty, the model has not stopped generating tokens".

    A prompt that is blocked has no candidate but a `blockReason`. The Interactions API ends with a status.
    """
    reasons = [
        one.get(key)
        for one in _objects(value)
        for key in ("finishReason", "finish_reason", "blockReason", "block_reason")
    ]
    if any(reason and not str(reason).endswith("_UNSPECIFIED") for reason in reasons):
        return True
    return any(
        one.get("status") in {"completed", "failed", "cancelled", "requires_action", "incomplete"}
        for one in _objects(value)
    )


def _cohere(value: Any) -> bool:
    """https://docs.cohere.com/docs/streaming: `message-end`; in the first version `stream-end`."""
    return _any(value, "finish_reason", "is_finished") or any(
        word in {"message-end", "stream-end"}
        for one in _objects(value)
        for word in (one.get("type"), one.get("event_type"))
    )


def _ollama(value: Any) -> bool:
    """https://github.com/ollama/ollama/blob/main/docs/api.md: the last object has `done: true`."""
    return _any(value, "done")


def _bedrock(value: Any) -> bool:
    """https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html: `messageStop`."""
    return _any(value, "stopReason", "messageStop")


TERMINAL: dict[str, Callable[[Any], bool]] = {
    "openai-chat": _chat, "completions": _chat, "anthropic": _anthropic, "responses": _responses, "gemini": _gemini,
    "cohere": _cohere, "ollama": _ollama, "bedrock": _bedrock,
}  # fmt: skip


def payloads(prefix: bytes) -> Iterator[Any]:
    """Every JSON value in the data of server-sent events, or in lines; an unfinished one is none."""
    for frame in re.split(rb"\r?\n\r?\n|\r\r", prefix):
        lines = [line for line in re.split(rb"\r\n|\n|\r", frame) if line]
        datas = [line[5:].strip() for line in lines if line.startswith(b"data:")]
        for text in [b"\n".join(datas)] if datas else lines:
            try:
                yield json.loads(text.decode("utf-8", "replace"), strict=False)
            except (ValueError, RecursionError):
                continue


def told(protocol: str, prefix: bytes) -> bool:
    """Whether a terminal event is in the prefix."""
    return bool(ENDED.search(prefix)) or any(TERMINAL[protocol](value) for value in payloads(prefix))


def ends(source: str, framing: str, prefix: bytes, **options: Any) -> ev.AnyEvent:
    return running.decode(source, prefix, framing, options, strict=False)[-1]


def check(
    protocol: str, framing: str, body: bytes, places: Iterable[int], source: str = "", **options: Any
) -> list[int]:
    """The places at which a cut is a success without a terminal event."""
    found: list[int] = []
    for place in places:
        last = ends(source or protocol, framing, body[:place], **options)
        assert isinstance(last, ev.Finish | ev.Fault)
        if isinstance(last, ev.Finish) and not told(protocol, body[:place]):
            found.append(place)
    return found


def boundaries(body: bytes, framing: str) -> list[int]:
    end = rb"\r?\n\r?\n|\r\r" if framing == "sse" else rb"\n"
    return [found.end() for found in re.finditer(end, body)]


def anywhere(body: bytes, seed: str) -> list[int]:
    chosen = random.Random(seed)
    return [chosen.randrange(len(body)) for _ in range(BYTES if body else 0)]


CUT = [case for case in cases() if case.protocol in TERMINAL and case.framing in {"sse", "ndjson"}]


@over(CUT)
def test_a_golden_stream_that_is_cut_is_no_success(case: Case) -> None:
    places = [*boundaries(case.body, case.framing), *anywhere(case.body, case.id)]
    assert check(case.protocol, case.framing, case.body, places, case.source, **case.options) == []


@over([case for case in cases() if case.framing == "eventstream" and case.protocol == "bedrock"])
def test_a_golden_event_stream_that_is_cut_is_no_success(case: Case) -> None:
    """Cut between the messages, whose first four bytes are their length."""
    at = 0
    while at < len(case.body):
        at += int.from_bytes(case.body[at : at + 4])
        packed = re.findall(rb'"bytes":"([^"]+)"', case.body[:at])  # payloads of InvokeModel are base64
        plain = case.body[:at] + b"".join(base64.b64decode(one) for one in packed)
        if isinstance(ends(case.source, "eventstream", case.body[:at]), ev.Finish):
            assert b"messageStop" in plain or b"stopReason" in plain


NAMES = {
    "openai-chat": "openai-chat", "openai-completions": "completions", "anthropic-messages": "anthropic",
    "openai-responses": "responses", "gemini": "gemini", "cohere": "cohere", "ollama": "ollama",
    "gemini-interactions": "gemini", "mistral": "openai-chat",
}  # fmt: skip


@corpus.SHARES
def test_a_recorded_stream_that_is_cut_is_no_success(share: int) -> None:
    corpus.corpus_or_skip()
    wrong: list[str] = []
    for entry in corpus.take_share(corpus.streams(), share):
        if entry.wire not in {"sse", "ndjson"} or entry.protocol not in NAMES:
            continue
        places = boundaries(entry.body, entry.wire)
        if len(places) > MOST:
            places = sorted(random.Random(entry.name).sample(places, MOST))
        places += anywhere(entry.body, entry.name)
        wrong += [f"{entry.name} at {place}" for place in check(NAMES[entry.protocol], entry.wire, entry.body, places)]
    assert wrong == []


def test_gemini_cut_while_it_thinks_is_truncated() -> None:
    used = {"promptTokenCount": 9, "thoughtsTokenCount": 40, "totalTokenCount": 49}
    part = {"text": "Let me see", "thought": True}
    chunk = {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}], "usageMetadata": used}
    last = ends("gemini", "sse", b"data: " + json.dumps(chunk).encode() + b"\n\n")
    assert isinstance(last, ev.Fault)
    assert last.kind == "truncated"
