"""Text completions (and filling in the middle, which has the same shape) → canonical. `write.py` is the way back.

A prompt is one message of the user's. What only a completion has (`suffix`, `echo`, `best_of` …) stays in `extra`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import request as rq
from penstock import strict_fields as strict
from penstock.diagnostics import Diagnostic
from penstock.errors import BadRequest
from penstock.strict_fields import build_extra, empty_fields, unknown_fields

if TYPE_CHECKING:
    from penstock.lenient_fields import Object

NAME = "completions"
TOKENS = "tokens"  # the kind of a prompt that is no text
_REQUEST = frozenset({
    "model", "prompt", "stream", "stream_options", "max_tokens", "temperature", "top_p", "top_k", "stop", "seed",
    "random_seed", "frequency_penalty", "presence_penalty", "n", "logprobs", "user",
})  # fmt: skip


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    strict.as_object(body)
    prompt = body.get("prompt")
    parts = _prompt(prompt)
    options = strict.get_object(body, "stream_options")
    also = empty_fields(body, _REQUEST)
    if body.get("stream") is False:
        also["stream"] = False
    fields = unknown_fields(body, _REQUEST)
    if more := unknown_fields(options, {"include_usage"}):
        fields["stream_options"] = more
    return rq.Request(
        strict.get_text(body, "model"),
        [rq.Message("user", parts, extra=build_extra(NAME, {}, listed=isinstance(prompt, list)))],
        settings=_settings(body),
        stream=strict.get_flag(body, "stream") or False,
        usage=strict.get_flag(options, "include_usage"),
        extra=build_extra(
            NAME, fields, read=True, also=also, stop=isinstance(body.get("stop"), str),
            seed="random_seed" if body.get("random_seed") is not None else "", top_k=body.get("top_k") is not None,
            bare="prompt" not in body,
        ),
        diagnostics=_found(parts),
    )  # fmt: skip


def _prompt(prompt: Any) -> list[rq.AnyPart]:
    """Text, several texts, or tokens that only the model's own tokenizer can read."""
    if prompt is None or isinstance(prompt, str):
        return [rq.Text(prompt)] if prompt else []
    if not isinstance(prompt, list):
        raise BadRequest("a string, a list of strings or tokens", prompt, "prompt")
    rows: list[Any] = prompt  # pyright: ignore[reportUnknownVariableType]
    if not any(isinstance(row, str) for row in rows):
        return [rq.Opaque(NAME, TOKENS, rows)] if rows else []
    for place, row in enumerate(rows):
        if not isinstance(row, str):
            raise BadRequest("a string", row).at(place).at("prompt")
    return [rq.Text(row) for row in rows]


def _found(parts: list[rq.AnyPart]) -> list[Diagnostic]:
    if len(parts) < 2:  # noqa: PLR2004 — one prompt, or none
        return []
    what = "several prompts, each for an answer of its own, are one message elsewhere"
    return [Diagnostic("several-prompts", what, f"{NAME} request")]


def _settings(body: Object) -> rq.Settings:
    likely = strict.get_integer(body, "logprobs")
    seed = strict.get_integer(body, "seed")
    return rq.Settings(
        max_output=strict.get_integer(body, "max_tokens"),
        temperature=strict.get_number(body, "temperature"),
        top_p=strict.get_number(body, "top_p"),
        top_k=strict.get_integer(body, "top_k"),
        stop=strict.get_strings(body, "stop"),
        seed=strict.get_integer(body, "random_seed") if seed is None else seed,
        frequency_penalty=strict.get_number(body, "frequency_penalty"),
        presence_penalty=strict.get_number(body, "presence_penalty"),
        choices=strict.get_integer(body, "n"),
        logprobs=None if likely is None else True,
        top_logprobs=likely or None,
        user=strict.get_text(body, "user"),
    )
