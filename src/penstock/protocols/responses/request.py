"""Responses requests → canonical. `write.py` is the way back.

`instructions` are the first system message. What has no word here (`previous_response_id`, `include` …) stays in
`extra`; how something was spelled stays under `_`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import pick, reading
from penstock import request as rq
from penstock.carrying import restored
from penstock.errors import BadRequest
from penstock.protocols.responses.request_items import Items
from penstock.protocols.responses.request_tools import read_choice, read_tools
from penstock.protocols.responses.speech import NAME
from penstock.reading import keep, rest, unsaid

if TYPE_CHECKING:
    from penstock.pick import Object

__all__ = ["NAME", "read_format", "read_request"]
LOGPROBS = "message.output_text.logprobs"
MORE = ("frequency_penalty", "presence_penalty", "top_k", "seed", "stop")  # words that only some providers have
_FORMAT = frozenset({"type", "name", "schema", "description", "strict"})
_REQUEST = frozenset({
    "model", "input", "instructions", "tools", "tool_choice", "stream", "max_output_tokens", "temperature", "top_p",
    "top_logprobs", "parallel_tool_calls", "reasoning", "text", "service_tier", "user", "metadata", "prompt_cache_key",
    "store", *MORE,
})  # fmt: skip


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    reading.as_object(body)
    items = Items()
    instructions = reading.text(body, "instructions")
    if instructions:
        items.messages.append(rq.Message("system", [rq.Text(instructions)], extra=keep(NAME, {}, top=True)))
    _read_input(items, body.get("input"))
    tools = read_tools(body)
    known = {(tool.namespace, tool.name) for tool in tools}
    tools += [tool for tool in items.tools if (tool.namespace, tool.name) not in known]
    reasoning, text = reading.table(body, "reasoning"), reading.table(body, "text")
    return rq.Request(
        reading.text(body, "model"),
        restored(items.done()),
        tools,
        read_choice(body),
        _settings(body, reasoning, text),
        stream=reading.flag(body, "stream") or False,
        extra=_extra(body, reasoning, text),
    )


def _read_input(items: Items, given: Any) -> None:
    if isinstance(given, str):
        if given:
            items.messages.append(rq.Message("user", [rq.Text(given)], extra=keep(NAME, {}, string=True)))
    elif isinstance(given, list):
        reading.each(given, items.read, "input")  # pyright: ignore[reportUnknownArgumentType]
    elif given is not None:
        raise BadRequest("a string or a list of items", given, "input")


def _extra(body: Object, reasoning: Object, text: Object) -> Any:
    fields = rest(body, _REQUEST)
    for key, more in (
        ("reasoning", rest(reasoning, {"effort", "summary"})),
        ("text", rest(text, {"format", "verbosity"})),
    ):
        if more:
            fields[key] = more
    also = unsaid(body, _REQUEST)
    if body.get("stream") is False:
        also["stream"] = False
    form = pick.table(text, "format")
    odd = bool(form) and (read_format(form) is None or bool(rest(form, _FORMAT) or unsaid(form, _FORMAT)))
    return keep(
        NAME, fields, read=True, also=also, summary=reasoning.get("summary"), format=form if odd else None,
        thinking=unsaid(reasoning, {"effort", "summary"}), texts=unsaid(text, {"format", "verbosity"}),
        more=[key for key in MORE if body.get(key) is not None], stop=isinstance(body.get("stop"), str),
    )  # fmt: skip


def _settings(body: Object, reasoning: Object, text: Object) -> rq.Settings:
    return rq.Settings(
        max_output=reading.whole(body, "max_output_tokens"),
        temperature=reading.number(body, "temperature"),
        top_p=reading.number(body, "top_p"),
        top_k=reading.whole(body, "top_k"),
        stop=reading.strings(body, "stop"),
        seed=reading.whole(body, "seed"),
        frequency_penalty=reading.number(body, "frequency_penalty"),
        presence_penalty=reading.number(body, "presence_penalty"),
        logprobs=True if LOGPROBS in reading.strings(body, "include") else None,
        top_logprobs=reading.whole(body, "top_logprobs"),
        format=read_format(_table(text, "format", "text")),
        parallel_calls=reading.flag(body, "parallel_tool_calls"),
        effort=_word(reasoning, "effort", "reasoning"),
        thoughts=True if _word(reasoning, "summary", "reasoning") else None,
        verbosity=_word(text, "verbosity", "text"),
        tier=reading.text(body, "service_tier"),
        user=reading.text(body, "user"),
        metadata=reading.table(body, "metadata") or None,
        cache_key=reading.text(body, "prompt_cache_key"),
        store=reading.flag(body, "store"),
    )


def _word(source: Object, key: str, where: str) -> str:
    try:
        return reading.text(source, key)
    except BadRequest as error:
        raise error.at(where) from None


def _table(source: Object, key: str, where: str) -> Object:
    try:
        return reading.table(source, key)
    except BadRequest as error:
        raise error.at(where) from None


def read_format(form: Object) -> rq.Format | None:
    """The form of the answer; one without a word is None."""
    kind = form.get("type")
    if kind == "text":
        return rq.Format()
    if kind == "json_object":
        return rq.Format("json")
    if kind != "json_schema":
        return None
    try:
        return rq.Format(
            "schema", reading.text(form, "name"), reading.table(form, "schema") or None,
            reading.text(form, "description"), reading.flag(form, "strict"),
        )  # fmt: skip
    except BadRequest as error:
        raise error.at("format").at("text") from None
