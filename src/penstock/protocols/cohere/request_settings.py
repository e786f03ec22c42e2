"""Settings of a Cohere Chat request, which are the same in both versions → canonical."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import reading
from penstock import request as rq
from penstock.pick import number, text

if TYPE_CHECKING:
    from penstock.pick import Object

SETTINGS = frozenset({
    "max_tokens", "temperature", "p", "k", "stop_sequences", "seed", "frequency_penalty", "presence_penalty",
    "logprobs", "response_format", "thinking",
})  # fmt: skip


def read_thinking(thinking: Object) -> tuple[int | None, bool | None]:
    """(budget, whether it is wanted at all)."""
    if text(thinking, "type") == "disabled":
        return 0, None
    budget = number(thinking, "token_budget")
    return budget, True if thinking and budget is None else None


def read_format(given: Object) -> rq.Format | None:
    """The form of the answer."""
    kind = given.get("type")
    if kind is None or kind == "text":
        return None if kind is None else rq.Format()
    key = "json_schema" if "json_schema" in given else "schema"
    return rq.Format("json") if given.get(key) is None else rq.Format("schema", schema=reading.table(given, key))


def read_settings(body: Object) -> tuple[rq.Settings, Object]:
    """The settings, and how they were said."""
    thinking, form = reading.table(body, "thinking"), reading.table(body, "response_format")
    budget, thoughts = read_thinking(thinking)
    settings = rq.Settings(
        max_output=reading.whole(body, "max_tokens"),
        temperature=reading.number(body, "temperature"),
        top_p=reading.number(body, "p"),
        top_k=reading.whole(body, "k"),
        stop=reading.strings(body, "stop_sequences"),
        seed=reading.whole(body, "seed"),
        frequency_penalty=reading.number(body, "frequency_penalty"),
        presence_penalty=reading.number(body, "presence_penalty"),
        logprobs=reading.flag(body, "logprobs"),
        format=read_format(form),
        budget=budget,
        thoughts=thoughts,
    )
    return settings, {"thinking": thinking, "format": form}
