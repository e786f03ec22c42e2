"""Legacy text completions as sent: chunks, which have the same type as non-stream bodies, and log probabilities."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from penstock import _lenient_fields as lenient

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "completions"


class Logprobs(Struct, gc=False):
    """Parallel lists with one item per token."""

    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float] | None] | None = None


class Choice(Struct, gc=False):
    index: int | None = None
    text: str | None = None
    logprobs: dict[str, Any] | None = None
    finish_reason: str | None = None
    stop_reason: Any = None  # vLLM: the string or token id that stopped the text


class Chunk(Struct, gc=False):
    """A chunk, a complete completion, or an error object."""

    id: str | None = None
    model: str | None = None
    created: float | None = None
    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    system_fingerprint: str | None = None
    error: dict[str, Any] | str | None = None
    object: str | None = None  # vLLM: `error` if the fields below describe one
    type: str | None = None  # of an error, or of some gateways' keep-alives
    message: Any = None
    code: Any = None


class PromptDetails(Struct, gc=False):
    cached_tokens: int | None = None


class CompletionDetails(Struct, gc=False):
    reasoning_tokens: int | None = None


class Usage(Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None


def read_logprobs(raw: dict[str, Any]) -> dict[str, Any] | None:
    """Converts parallel lists to a list of objects, which some servers already send. None if it is neither."""
    if "content" in raw:
        return raw
    try:
        lists = msgspec.convert(raw, Logprobs, strict=False)
    except msgspec.ValidationError:
        return None
    rows = zip_longest(lists.tokens or (), lists.token_logprobs or (), lists.top_logprobs or ())
    return {"content": [_token_object(token or "", logprob, top) for token, logprob, top in rows]}


def _token_object(token: str, logprob: float | None, top: Mapping[str, float] | None) -> dict[str, Any]:
    others = [{"token": other, "logprob": value, "bytes": None} for other, value in (top or {}).items()]
    return {"token": token, "logprob": logprob, "bytes": None, "top_logprobs": others}


def write_logprobs(logprobs: Any, offset: int) -> tuple[dict[str, Any], int]:
    """Converts a list of objects to parallel lists. Returns them and the text offset of the next token."""
    lists: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for row in lenient.get_objects(lenient.as_object(logprobs), "content"):
        token, top = lenient.get_text(row, "token"), lenient.get_objects(row, "top_logprobs")
        lists["tokens"].append(token)
        lists["token_logprobs"].append(row.get("logprob"))
        lists["top_logprobs"].append({lenient.get_text(one, "token"): one.get("logprob") for one in top})
        lists["text_offset"].append(offset)
        offset += len(token)
    return dict(lists), offset
