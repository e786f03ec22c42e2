"""Frames of every protocol that is passed through, for generated streams; and an oracle that reads them without penstock.

The oracle follows the WHATWG rules for event streams and Python's `json`; it shares no code with the project.
"""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import strategies as st

# ── the oracle ────────────────────────────────────────────────────────────────────────────────────

_LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|$)")


def split(body: bytes) -> list[bytes]:
    """The frames of a stream with their blank lines; the last one may be unfinished."""
    frames: list[bytes] = []
    at = start = 0
    while at < len(body):
        found = _LINE.match(body, at)
        assert found is not None
        at = found.end()
        if not found[1]:
            frames.append(body[start:at])
            start = at
    return [*frames, body[start:]] if start < len(body) else frames


def data_of(frame: bytes) -> bytes:
    values = [
        line[5:].removeprefix(b" ") for line in re.split(rb"\r\n|\n|\r", frame)
        if line.startswith(b"data:")
    ]  # fmt: skip
    return b"\n".join(values) if any(values) else b""


def readable(frame: bytes) -> bool:
    """No data, JSON, or the sentinel."""
    data = data_of(frame)
    if not data or data.strip().upper() == b"[DONE]":
        return True
    try:
        json.loads(data.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True


def is_complete(rest: bytes) -> bool:
    """Whether the last frame, which no blank line ends, is more than a half: it has data that is readable, or no field."""
    if data_of(rest):
        return readable(rest)
    return not re.search(rb"(?:^|[\r\n])[^:\r\n]", rest)


def unended(frame: bytes) -> bool:
    """Whether no blank line ends the frame."""
    return frame.splitlines(keepends=True)[-1] not in {b"\n", b"\r", b"\r\n"}


def passed(frames: list[bytes]) -> list[bytes]:
    """What a client gets of an answer that ends well: no garbage, no half frame, no error behind the last frame."""
    kept: list[bytes] = []
    over = False
    for frame in frames:
        if (is_complete(frame) if unended(frame) else readable(frame)) and not (over and is_error(frame)):
            kept.append(frame)
        over = over or bool(_OVER.search(data_of(frame)))
    return kept


_OVER = re.compile(rb'^\[DONE\]|^\{"type":"(message_stop|response\.completed|response\.incomplete)"')


def is_error(frame: bytes) -> bool:
    data = data_of(frame)
    value = json.loads(data) if data.startswith(b"{") and readable(frame) else {}
    said = [value, *(one for one in value.get("choices") or () if isinstance(one, dict))]
    return bool(any(one.get("error") for one in said) or value.get("type") in {"error", "response.failed"})


def _no_constant(name: str) -> None:
    raise ValueError(name)


# ── frames ────────────────────────────────────────────────────────────────────────────────────────


def sse(value: Any, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value, separators=(',', ':'), ensure_ascii=False)}\n\n".encode()


ODD = [
    b": a comment\n\n", b": ping\n\n", b"data:\n\n", b"data: \n\n", b"\n", b"id: 7\n\n", b"event: ping\n\n",
    b"retry: 10\n\n",
]  # fmt: skip
GARBAGE = [
    b'data: {"id":"c","choi\xff\xfe<<<\n\n', b"data: <html>502 Bad Gateway</html>\n\n", b'data: {"half\n\n',
    b"data: hello\n\n", b'data: {"a":NaN}\n\n', b"data: {} {}\n\n", b'data: "\xff"\n\n', b"data: [DONE\n\n",
    b'event: x\ndata: {"a":\ndata: }\n\n', b"data: " + b"[" * 2000 + b"\n\n", b'data: {"a":"\x01"}\n\n',
]  # fmt: skip

TOO_DEEP = b"data: " + b"[" * 2000 + b"]" * 2000 + b"\n\n"  # JSON, so not skipped like garbage: it ends the turn


def chat(choice: dict[str, Any], **more: Any) -> bytes:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return sse({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": None, **choice}], **more})


def said(text: str) -> bytes:
    return chat({"delta": {"content": text}})


_CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
_USED = {"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16}
CHAT = [
    *[said(text) for text in (" a", " b", " word", " é", ' "q"', "<think>", "</think>", "\n", "", " a", " b")],
    chat({"delta": {"content": " x"}, "logprobs": {"content": []}}), chat({"delta": {"reasoning_content": " hm"}}),
    chat({"delta": {"refusal": "No."}}), chat({"delta": {"tool_calls": [_CALL]}}),
    chat({"delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"x":1}'}}]}}),
    *[chat({"finish_reason": reason}) for reason in ("stop", "length", "tool_calls", "content_filter", "odd")],
    chat({"delta": {"content": " end"}, "finish_reason": "stop"}), chat({"delta": {"role": "assistant", "content": ""}}),
    sse({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": _USED}),
    chat({"delta": {"content": " u"}}, usage=_USED), chat({"index": 1, "delta": {"content": " second"}}),
    chat({"index": 1, "finish_reason": "length"}), chat({"error": {"message": "in a choice", "code": 502}}),
    sse({"error": {"message": "upstream exploded", "type": "server_error", "code": 500}}),
    sse({"type": "ping"}, "ping"), sse({"odd": [1]}), b"data: [DONE]\n\n", b"event: error\ndata: overloaded\n\n",
    sse({"id": "c", "choices": "wrong"}),
]  # fmt: skip
CHAT_OPENING = chat({"delta": {"role": "assistant", "content": ""}}) + 3 * said(" w")


def _block(index: int, block: dict[str, Any]) -> bytes:
    return sse({"type": "content_block_start", "index": index, "content_block": block}, "content_block_start")


def _piece(index: int, delta: dict[str, Any]) -> bytes:
    return sse({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")


def stop(reason: str | None) -> bytes:
    value = {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": 9},
    }
    return sse(value, "message_delta")


ANTHROPIC = [
    *[_piece(0, {"type": "text_delta", "text": text}) for text in (" a", " b", " c", ' "', " a", " b")],
    _piece(1, {"type": "text_delta", "text": " other"}), _block(1, {"type": "text", "text": ""}),
    _block(2, {"type": "thinking", "thinking": "", "signature": ""}),
    _piece(2, {"type": "thinking_delta", "thinking": "hm"}), _piece(2, {"type": "signature_delta", "signature": "s"}),
    _block(3, {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}),
    _piece(3, {"type": "input_json_delta", "partial_json": '{"x":1}'}),
    *[sse({"type": "content_block_stop", "index": index}, "content_block_stop") for index in range(4)],
    *[stop(reason) for reason in ("end_turn", "max_tokens", "tool_use", "refusal", None)],
    sse({"type": "message_stop"}, "message_stop"), sse({"type": "ping"}, "ping"),
    sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "error"),
    sse({"type": "odd_event", "x": 1}, "odd_event"), b"event: error\ndata: plain words\n\n",
]  # fmt: skip
_MESSAGE: dict[str, Any] = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
    "usage": {"input_tokens": 7, "output_tokens": 1},
}  # fmt: skip
ANTHROPIC_OPENING = sse({"type": "message_start", "message": _MESSAGE}, "message_start") + _block(
    0, {"type": "text", "text": ""}
)


def _event(kind: str, **more: Any) -> bytes:
    return sse({"type": kind, "sequence_number": 1, **more}, kind)


def _response(status: str, **more: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m", "output": [], **more}


_AT = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
_FUNCTION = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": ""}
_COUNTED = {"input_tokens": 7, "output_tokens": 9, "total_tokens": 16}
RESPONSES = [
    *[_event("response.output_text.delta", delta=text, **_AT) for text in (" a", " b", ' "', " a", " b", " c")],
    _event("response.output_text.done", text=" a b", **_AT), _event("response.refusal.delta", delta="No.", **_AT),
    _event("response.output_item.added", output_index=1, item=_FUNCTION),
    _event("response.function_call_arguments.delta", item_id="fc_1", output_index=1, delta='{"x":1}'),
    _event("response.output_item.done", output_index=1, item={**_FUNCTION, "arguments": '{"x":1}'}),
    _event("response.output_item.added", output_index=2, item={"type": "reasoning", "id": "rs_1", "summary": []}),
    _event("response.reasoning_summary_text.delta", item_id="rs_1", output_index=2, summary_index=0, delta="hm"),
    _event("response.completed", response=_response("completed", usage=_COUNTED)),
    _event("response.incomplete", response=_response("incomplete", incomplete_details={"reason": "max_output_tokens"})),
    _event("response.failed", response=_response("failed", error={"code": "server_error", "message": "broke"})),
    _event("error", code="server_error", message="broke", param=None), _event("response.odd", x=1),
    _event("keepalive"), b"data: [DONE]\n\n",
]  # fmt: skip
RESPONSES_OPENING = (
    _event("response.created", response=_response("in_progress"))
    + _event("response.output_item.added", output_index=0, item={"type": "message", "id": "msg_1", "role": "assistant", "content": []})
    + _event("response.content_part.added", part={"type": "output_text", "text": "", "annotations": []}, **_AT)
)  # fmt: skip


def _candidate(parts: list[dict[str, Any]], index: int = 0, **more: Any) -> dict[str, Any]:
    return {"content": {"role": "model", "parts": parts}, "index": index, **more}


def _gemini(*candidates: dict[str, Any], **more: Any) -> bytes:
    return sse({"candidates": list(candidates), "modelVersion": "gemini-2.5-pro", "responseId": "r", **more})


_SPENT = {"promptTokenCount": 7, "candidatesTokenCount": 9, "totalTokenCount": 16}
_THOUGHT = {"promptTokenCount": 9, "thoughtsTokenCount": 40, "totalTokenCount": 49}
GEMINI = [
    *[_gemini(_candidate([{"text": text}])) for text in (" a", " b", ' "', " a", " b")],
    _gemini(_candidate([{"text": "hm", "thought": True}]), usageMetadata=_THOUGHT),
    _gemini(_candidate([{"functionCall": {"name": "f", "args": {"x": 1}}}])),
    *[_gemini(_candidate([], finishReason=word), usageMetadata=_SPENT) for word in ("STOP", "MAX_TOKENS", "SAFETY")],
    _gemini(_candidate([{"text": " end"}], finishReason="STOP")), _gemini(_candidate([{"text": " two"}], 1)),
    sse({"usageMetadata": _SPENT}), sse({"promptFeedback": {"blockReason": "SAFETY"}}),
    sse({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}), sse({"odd": 1}),
]  # fmt: skip
GEMINI_OPENING = 3 * _gemini(_candidate([{"text": " w"}]))


def _completion(choice: dict[str, Any], **more: Any) -> bytes:
    head = {"id": "cmpl", "object": "text_completion", "created": 1, "model": "m"}
    return sse(
        {**head, "choices": [{"index": 0, "text": "", "logprobs": None, "finish_reason": None, **choice}], **more}
    )


COMPLETIONS = [
    *[_completion({"text": text}) for text in (" a", " b", ' "', " a", " b")], _completion({"index": 1, "text": " two"}),
    *[_completion({"finish_reason": reason}) for reason in ("stop", "length", "content_filter")],
    _completion({"index": 1, "finish_reason": "stop"}),
    sse({"id": "cmpl", "object": "text_completion", "choices": [], "usage": _USED}),
    sse({"error": {"message": "broke", "type": "server_error"}}), b"data: [DONE]\n\n", sse({"odd": 1}),
]  # fmt: skip

# protocol: the provider and operation that speak it, how a stream opens, what may come then in any order
PROTOCOLS: dict[str, tuple[str, str, bytes, list[bytes]]] = {
    "openai-chat": ("openai", "chat", CHAT_OPENING, CHAT),
    "anthropic": ("anthropic", "chat", ANTHROPIC_OPENING, ANTHROPIC),
    "responses": ("openai", "responses", RESPONSES_OPENING, RESPONSES),
    "gemini": ("gemini", "chat", GEMINI_OPENING, GEMINI),
    "completions": ("openai", "completions", 3 * _completion({"text": " w"}), COMPLETIONS),
}


def streams(protocol: str) -> st.SearchStrategy[tuple[bytes, list[bytes]]]:
    """A stream and the reads it comes in: texts most often, anything else between them."""
    _, _, opening, kinds = PROTOCOLS[protocol]
    texts = kinds[:6]
    one = st.one_of(st.sampled_from(texts), st.sampled_from(kinds), st.sampled_from(ODD), st.sampled_from(GARBAGE))
    run = st.builds(_repeated, one, st.sampled_from([1, 1, 1, 3, 40]))
    ends = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\r"])

    def body(runs: list[bytes], end: bytes, unfinished: bytes) -> bytes:
        made = opening + b"".join(runs) + unfinished
        return made if end == b"\n" else made.replace(b"\n", end)

    rest = st.sampled_from([
        b"", b"", b"", b"data: {", b'data: {"x":1}', b"\n", b": c", b"data: ", b"data", b"event: message_stop\n",
        b"event: response.completed\ndata",
    ])  # fmt: skip
    bodies = st.builds(body, st.lists(run, max_size=14), ends, rest)
    return bodies.flatmap(lambda made: st.tuples(st.just(made), cut(made)))


def _repeated(frame: bytes, times: int) -> bytes:
    return frame * times


def cut(body: bytes) -> st.SearchStrategy[list[bytes]]:
    """The stream in reads: in one, frame by frame, or anywhere."""
    places = st.lists(st.integers(0, len(body)), max_size=8).map(sorted)
    anywhere = places.map(lambda at: [body[a:b] for a, b in zip([0, *at], [*at, len(body)], strict=True) if a < b])
    return st.one_of(st.just([body] if body else []), st.just(split(body)), anywhere, anywhere)
