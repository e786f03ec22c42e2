"""The body of a non-stream completion, and error bodies."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock import _openai_errors as openai_errors
from penstock._jsontext import grow_text
from penstock._openai_chunks import fold_chunks
from penstock._protocols.completions.wire import NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._framing.frame import Frame

ERRORS = openai_errors.errors_with_prompt("prompt")
error_body = partial(openai_errors.error_body, protocol=NAME, errors=ERRORS)


def fold_body(frames: Sequence[Frame]) -> bytes:
    """Merges the encoder's frames into one completion."""
    return fold_chunks(frames, _merge_choice, _move_usage)


def _merge_choice(choices: dict[int, dict[str, Any]], more: dict[str, Any]) -> None:
    choice = choices.setdefault(more["index"], {**more, "text": "", "logprobs": None})
    grow_text(choice, "text", more["text"])
    choice["finish_reason"] = more["finish_reason"] or choice["finish_reason"]
    if more["logprobs"]:
        lists: dict[str, list[Any]] = choice["logprobs"] or {}
        for key, values in more["logprobs"].items():
            lists.setdefault(key, []).extend(values)
        choice["logprobs"] = {key: lists[key] for key in more["logprobs"]}


def _move_usage(body: dict[str, Any]) -> None:
    """Moves the usage to the end of the body."""
    if "usage" in body:
        body["usage"] = body.pop("usage")
