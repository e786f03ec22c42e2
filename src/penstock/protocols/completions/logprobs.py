"""Log probabilities: lists side by side here, a list of objects in the events. Both ways, token by token."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import pick
from penstock.protocols.completions import wire

if TYPE_CHECKING:
    from collections.abc import Mapping


def read(raw: dict[str, Any]) -> dict[str, Any] | None:
    """The lists of a choice as one of objects; some servers send that already. None if it is neither."""
    if "content" in raw:
        return raw
    try:
        said = msgspec.convert(raw, wire.Logprobs, strict=False)
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
    for row in pick.rows(pick.as_object(said), "content"):
        token = pick.text(row, "token")
        lists["tokens"].append(token)
        lists["token_logprobs"].append(row.get("logprob"))
        lists["top_logprobs"].append(
            {pick.text(one, "token"): one.get("logprob") for one in pick.rows(row, "top_logprobs")}
        )
        lists["text_offset"].append(offset)
        offset += len(token)
    return dict(lists), offset
