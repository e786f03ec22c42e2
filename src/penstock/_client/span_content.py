"""The content of messages in spans, in the JSON of the conventions for generative AI. Only on request.

https://github.com/open-telemetry/semantic-conventions/blob/main/docs/gen-ai/gen-ai-input-messages.json
Secrets are redacted. Files are named by their type, not copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import request as rq
from penstock._redaction import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_FINISH_REASONS = {"calls": "tool_call", "filter": "content_filter"}


def finish_reason(reason: str) -> str:
    """Returns the name of a finish reason in the conventions."""
    return _FINISH_REASONS.get(reason, reason)


def write_input(request: rq.Request) -> dict[str, str]:
    """Returns the attributes of what is asked."""
    messages = [
        {"role": message.role, "parts": _write_parts(message.parts)}
        for message in request.messages
        if message.role != "system"
    ]
    system = [part for message in request.messages if message.role == "system" for part in _write_parts(message.parts)]
    fields = {"gen_ai.input.messages": messages, "gen_ai.system_instructions": system}
    return {name: _encode(value) for name, value in fields.items() if value}


def write_output(turn: rq.Turn) -> dict[str, str]:
    """Returns the attributes of the answer: a message for each choice."""
    choices: dict[int, list[Any]] = {}
    for part in turn.parts:
        choices.setdefault(getattr(part, "choice", 0), []).append(part)
    reasons = (turn.finish.reason, *turn.finish.others) if turn.finish is not None else ("error",)
    messages = [
        {
            "role": "assistant",
            "parts": _write_parts(choices.get(number, ())),
            "finish_reason": finish_reason(reasons[min(number, len(reasons) - 1)]),
        }
        for number in range(max(choices, default=0) + 1)
    ]
    return {"gen_ai.output.messages": _encode(messages)}


def write_tool_content(**values: Any) -> Mapping[str, Any]:
    """Returns the attributes of a tool's `arguments` or `result`."""
    return {
        f"gen_ai.tool.call.{name}": redact(value) if isinstance(value, str) else _encode(value)
        for name, value in values.items()
    }


def _write_parts(parts: Iterable[Any]) -> list[dict[str, Any]]:
    return [written for part in parts if (written := _write_part(part))]


def _write_part(part: Any) -> dict[str, Any]:
    if isinstance(part, rq.Text):
        return {"type": "text", "content": part.text}
    if isinstance(part, rq.Reasoning):
        return {"type": "reasoning", "content": part.text}
    if isinstance(part, rq.Call):
        return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": _read_json(part.json)}
    if isinstance(part, rq.Result):
        return {"type": "tool_call_response", "id": part.call, "response": _read_json(part.json)}
    if isinstance(part, rq.File):
        return {"type": "file", "mime_type": part.media}
    return {}


def _read_json(text: str) -> Any:
    """Returns the value of a JSON text, as it stands; a text that is not JSON stays a text."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
        return msgspec.Raw(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text


def _encode(value: Sequence[Any] | Any) -> str:
    return redact(msgspec.json.encode(value, enc_hook=repr).decode())
