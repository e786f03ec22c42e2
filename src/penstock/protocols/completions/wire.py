"""Legacy text completions as sent: chunks, and whole completions, which have the same shape."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from penstock import lenient_fields as lenient

if TYPE_CHECKING:
    from collections.abc import Mapping


class Logprobs(Struct, gc=False):
    """Lists side by side, a place for each token."""

    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float] | None] | None = None


class Choice(Struct, gc=False):
    index: int | None = None
    text: str | None = None
    logprobs: dict[str, Any] | None = None
    finish_reason: str | None = None
    stop_reason: Any = None  # what stopped it (vLLM): a string or a token id


class Chunk(Struct, gc=False):
    """One payload, or a whole completion, or an error object in either's place."""

    id: str | None = None
    model: str | None = None
    created: float | None = None
    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    system_fingerprint: str | None = None
    error: dict[str, Any] | str | None = None
    object: str | None = None  # `error` where the fields below are one (vLLM)
    type: str | None = None  # of an error; also the keep-alives of some gateways
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


def read(raw: dict[str, Any]) -> dict[str, Any] | None:
    """The lists of a choice as one of objects; some servers send that already. None if it is neither."""
    if "content" in raw:
        return raw
    try:
        said = msgspec.convert(raw, Logprobs, strict=False)
    except msgspec.ValidationError:
        return None
    rows = zip_longest(said.tokens or (), said.token_logprobs or (), said.top_logprobs or ())
    return {"content": [_token(token or "", value, top) for token, value, top in rows]}


def _token(token: str, value: float | None, top: Mapping[str, float] | None) -> dict[str, Any]:
    best = [{"token": other, "logprob": chance, "bytes": None} for other, chance in (top or {}).items()]
    return {"token": token, "logprob": value, "bytes": None, "top_logprobs": best}


def write(said: Any, offset: int) -> tuple[dict[str, Any], int]:
    """The objects as lists, counting places from an offset; and where the next one begins."""
    lists: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for row in lenient.get_objects(lenient.as_object(said), "content"):
        token = lenient.get_text(row, "token")
        lists["tokens"].append(token)
        lists["token_logprobs"].append(row.get("logprob"))
        lists["top_logprobs"].append(
            {lenient.get_text(one, "token"): one.get("logprob") for one in lenient.get_objects(row, "top_logprobs")}
        )
        lists["text_offset"].append(offset)
        offset += len(token)
    return dict(lists), offset
