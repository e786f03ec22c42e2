"""Text completions (and filling in the middle, which has the same shape) → canonical. `write.py` is the way back.

A prompt is one message of the user's. What only a completion has (`suffix`, `echo`, `best_of` …) stays in `extra`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import reading
from penstock import request as rq
from penstock.diagnostics import Diagnostic
from penstock.errors import BadRequest
from penstock.reading import keep, rest, unsaid

if TYPE_CHECKING:
    from penstock.pick import Object

NAME = "completions"
TOKENS = "tokens"  # the kind of a prompt that is no text
_REQUEST = frozenset({
    "model", "prompt", "stream", "stream_options", "max_tokens", "temperature", "top_p", "top_k", "stop", "seed",
    "random_seed", "frequency_penalty", "presence_penalty", "n", "logprobs", "user",
})  # fmt: skip


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    reading.as_object(body)
    prompt = body.get("prompt")
    parts = _prompt(prompt)
    options = reading.table(body, "stream_options")
    also = unsaid(body, _REQUEST)
    if body.get("stream") is False:
        also["stream"] = False
    fields = rest(body, _REQUEST)
    if more := rest(options, {"include_usage"}):
        fields["stream_options"] = more
    return rq.Request(
        reading.text(body, "model"),
        [rq.Message("user", parts, extra=keep(NAME, {}, listed=isinstance(prompt, list)))],
        settings=_settings(body),
        stream=reading.flag(body, "stream") or False,
        usage=reading.flag(options, "include_usage"),
        extra=keep(
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
    likely = reading.whole(body, "logprobs")
    seed = reading.whole(body, "seed")
    return rq.Settings(
        max_output=reading.whole(body, "max_tokens"),
        temperature=reading.number(body, "temperature"),
        top_p=reading.number(body, "top_p"),
        top_k=reading.whole(body, "top_k"),
        stop=reading.strings(body, "stop"),
        seed=reading.whole(body, "random_seed") if seed is None else seed,
        frequency_penalty=reading.number(body, "frequency_penalty"),
        presence_penalty=reading.number(body, "presence_penalty"),
        choices=reading.whole(body, "n"),
        logprobs=None if likely is None else True,
        top_logprobs=likely or None,
        user=reading.text(body, "user"),
    )
