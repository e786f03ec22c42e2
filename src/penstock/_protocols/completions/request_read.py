"""Text completion requests (and fill-in-the-middle, which has the same fields) → canonical requests.

A prompt is one user message. Fields that only completions have (`suffix`, `echo`, `best_of` …) stay in `extra`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import _openai_requests as openai
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._diagnostics import Diagnostic
from penstock._protocols.completions.decode import NAME
from penstock._strict_fields import build_extra, empty_fields, unknown_fields
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from penstock._lenient_fields import Object

TOKENS = "tokens"  # the kind of an opaque part: a prompt of token ids
_SETTING_READERS = openai.index_readers(
    {
        strict.get_integer: "max_tokens=max_output top_k n=choices",
        strict.get_number: "temperature top_p frequency_penalty presence_penalty",
        strict.get_strings: "stop",
        strict.get_text: "user",
    }
)
_OTHER_FIELDS = {"model", "prompt", "stream", "stream_options", "seed", "random_seed", "logprobs"}
_REQUEST_FIELDS = _OTHER_FIELDS.union(_SETTING_READERS)


def read_request(body: Object) -> rq.Request:
    """Reads a parsed body."""
    strict.as_object(body)
    prompt = body.get("prompt")
    parts = _read_prompt(prompt)
    options = strict.get_object(body, "stream_options")
    empty = empty_fields(body, _REQUEST_FIELDS)
    if body.get("stream") is False:
        empty["stream"] = False
    unknown = unknown_fields(body, _REQUEST_FIELDS)
    if other_options := unknown_fields(options, {"include_usage"}):
        unknown["stream_options"] = other_options
    marks = {
        "read": True,
        "also": empty,
        "stop": isinstance(body.get("stop"), str),
        "seed": "random_seed" if body.get("random_seed") is not None else "",
        "top_k": body.get("top_k") is not None,
        "bare": "prompt" not in body,
    }
    return rq.Request(
        strict.get_text(body, "model"),
        [rq.Message("user", parts, extra=build_extra(NAME, {}, listed=isinstance(prompt, list)))],
        settings=_read_settings(body),
        stream=strict.get_flag(body, "stream") or False,
        usage=strict.get_flag(options, "include_usage"),
        extra=build_extra(NAME, unknown, **marks),
        diagnostics=_report_several_prompts(parts),
    )


def _read_prompt(prompt: Any) -> list[rq.AnyPart]:
    """Reads a text, several texts, or token ids, which only the model's tokenizer can read."""
    if prompt is None or isinstance(prompt, str):
        return [rq.Text(prompt)] if prompt else []
    if not isinstance(prompt, list):
        raise BadRequest("a string, a list of strings or tokens", prompt, "prompt")
    rows: list[Any] = prompt  # pyright: ignore[reportUnknownVariableType]
    if not any(isinstance(row, str) for row in rows):
        return [rq.Opaque(NAME, TOKENS, rows)] if rows else []
    for position, row in enumerate(rows):
        if not isinstance(row, str):
            raise BadRequest("a string", row).at(position).at("prompt")
    return [rq.Text(row) for row in rows]


def _report_several_prompts(parts: list[rq.AnyPart]) -> list[Diagnostic]:
    if len(parts) < 2:  # noqa: PLR2004 — one prompt, or none
        return []
    text = "several prompts, each for an answer of its own, are one message elsewhere"
    return [Diagnostic("several-prompts", text, f"{NAME} request")]


def _read_settings(body: Object) -> rq.Settings:
    logprobs, seed = strict.get_integer(body, "logprobs"), strict.get_integer(body, "seed")
    return rq.Settings(
        **openai.read_fields(body, _SETTING_READERS),
        seed=strict.get_integer(body, "random_seed") if seed is None else seed,
        logprobs=None if logprobs is None else True,
        top_logprobs=logprobs or None,
    )
