"""The body of a non-stream completion, and error bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import _openai_errors as openai_errors
from penstock._jsontext import decode_trusted, encode, grow_text
from penstock._lenient_fields import as_object
from penstock._protocols.completions.wire import NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._framing.frame import Frame
    from penstock.events import Fault

ERRORS = openai_errors.errors_with_prompt("prompt")


def fold_body(frames: Sequence[Frame]) -> bytes:
    """Merges the encoder's frames into one completion, so that stream and body cannot differ."""
    body: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for _, data in frames:
        if data == b"[DONE]":
            continue
        chunk = as_object(decode_trusted(data))
        if "error" in chunk:
            return data
        if "choices" not in chunk:
            continue  # an unknown payload, which a body cannot contain
        for choice in chunk.pop("choices"):
            _merge_choice(choices, choice)
        body.update(chunk)
    usage = body.pop("usage", None)
    body["choices"] = [choices[index] for index in sorted(choices)]
    return encode(body if usage is None else {**body, "usage": usage})


def _merge_choice(choices: dict[int, dict[str, Any]], more: dict[str, Any]) -> None:
    choice = choices.setdefault(more["index"], {**more, "text": "", "logprobs": None})
    grow_text(choice, "text", more["text"])
    choice["finish_reason"] = more["finish_reason"] or choice["finish_reason"]
    if more["logprobs"]:
        lists: dict[str, list[Any]] = choice["logprobs"] or {}
        for key, values in more["logprobs"].items():
            lists.setdefault(key, []).extend(values)
        choice["logprobs"] = {key: lists[key] for key in more["logprobs"]}


def error_body(fault: Fault) -> dict[str, Any]:
    """Builds the body of an HTTP error, which is also the payload of an error in a stream."""
    return {"error": openai_errors.error_object(fault, NAME, ERRORS)}
