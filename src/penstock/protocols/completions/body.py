"""The chunks of an encoded stream as one completion: what a client gets that did not ask for a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import openai_errors
from penstock.jsontext import decode_own, encode, grow
from penstock.lenient_fields import as_object

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.events import Fault
    from penstock.framing import Frame


def fold_body(frames: Sequence[Frame]) -> bytes:
    """Fold the encoder's own frames, so that stream and body cannot disagree."""
    whole: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for _, data in frames:
        if data == b"[DONE]":
            continue
        chunk = as_object(decode_own(data))
        if "error" in chunk:
            return data
        if "choices" not in chunk:
            continue  # an unknown payload, which a body has no place for
        for choice in chunk.pop("choices"):
            _grow(choices, choice)
        whole.update(chunk)
    usage = whole.pop("usage", None)
    whole["choices"] = [choices[index] for index in sorted(choices)]
    return encode(whole if usage is None else {**whole, "usage": usage})


def _grow(choices: dict[int, dict[str, Any]], more: dict[str, Any]) -> None:
    choice = choices.setdefault(more["index"], {**more, "text": "", "logprobs": None})
    grow(choice, "text", more["text"])
    choice["finish_reason"] = more["finish_reason"] or choice["finish_reason"]
    if more["logprobs"]:
        said: dict[str, list[Any]] = choice["logprobs"] or {}
        for key, values in more["logprobs"].items():
            said.setdefault(key, []).extend(values)
        choice["logprobs"] = {key: said[key] for key in more["logprobs"]}


NAME = "completions"
ERRORS = openai_errors.errors_with_prompt("prompt")


def error_body(fault: Fault) -> dict[str, Any]:
    """The body of an HTTP error, which is also the payload of an error in a stream."""
    return {"error": openai_errors.error_object(fault, NAME, ERRORS)}
