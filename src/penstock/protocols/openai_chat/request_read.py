"""Chat Completions requests → canonical: the messages. `write.py` is the way back.

A message's calls, reasoning and refusal become parts in the order they would be streamed. What has no word here stays
in `extra`, at its level; how something was spelled (a list of one text, which of two limits) stays under `_`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock import request as rq
from penstock import strict_fields as strict
from penstock.errors import BadRequest
from penstock.jsontext import as_json
from penstock.lenient_fields import as_object
from penstock.markers import restored
from penstock.protocols.openai_chat.request_read_parts import (
    cached,
    read_choice,
    read_content,
    read_thoughts,
    read_tool,
    read_tools,
)
from penstock.protocols.openai_chat.wire import FIELD, NAME, read_state, rest_of
from penstock.strict_fields import build_extra, empty_fields, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.events import Extra
    from penstock.lenient_fields import Object

__all__ = ["NAME", "read_call", "read_choice", "read_message", "read_request", "read_tool"]
_MESSAGE = frozenset({
    "role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "reasoning_content",
    "reasoning", "reasoning_details", "cache_control",
})  # fmt: skip
SETTINGS = frozenset({
    "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "stop", "seed", "random_seed",
    "frequency_penalty", "presence_penalty", "n", "logprobs", "top_logprobs", "response_format", "parallel_tool_calls",
    "reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget", "verbosity", "service_tier",
    "user", "metadata", "prompt_cache_key", "store",
})  # fmt: skip
# Known, and yet kept as they are: they say more than is read from them.
MARKED = frozenset({"thinking", "enable_thinking", "thinking_budget"})
_REQUEST = SETTINGS | {
    "model", "messages", "tools", "functions", "tool_choice", "function_call", "stream", "stream_options",
}  # fmt: skip
_WORDED = _REQUEST - MARKED
_USUAL = frozenset({
    "model", "messages", "tools", "tool_choice", "stream", "stream_options", "max_tokens", "temperature", "top_p",
    "frequency_penalty", "presence_penalty", "seed", "n", "user", "parallel_tool_calls", "store",
})  # fmt: skip
_USAGE = frozenset({"include_usage"})


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    strict.as_object(body)
    messages = _messages(body)
    options = strict.get_object(body, "stream_options")
    legacy = "functions" in body or "function_call" in body
    return rq.Request(
        strict.get_text(body, "model"),
        restored(_told_apart(messages) if legacy else messages),
        read_tools(body) if legacy or "tools" in body else [],
        read_choice(body) if legacy or "tool_choice" in body else None,
        read_settings(body),
        stream=strict.get_flag(body, "stream") or False,
        usage=strict.get_flag(options, "include_usage"),
        extra=None if _plainly(body, options) else _kept(body, options),
    )


def _plainly(body: Object, options: Object) -> bool:
    """Whether everything has a canonical word and is put in the usual way."""
    if not body.keys() <= _USUAL or not options.keys() <= _USAGE or body.get("stream") is False:
        return False
    for value in body.values():  # noqa: SIM110 — a generator would cost more than the look
        if not value and value is not False and value != 0:
            return False
    return True


def _kept(body: Object, options: Object) -> Extra | None:
    """What has no word, and how the rest was put."""
    also = empty_fields(body, _REQUEST)
    if body.get("stream") is False:
        also["stream"] = False
    unknown = {**unknown_fields(body, _WORDED), **_if(stream_options=unknown_fields(options, _USAGE))}
    return build_extra(NAME, unknown, also=also, **spelled(body))


def _if(**fields: Any) -> Object:
    return {key: value for key, value in fields.items() if value}


def _messages(body: Object) -> list[rq.Message]:
    """All messages. Most are sound: only what is not is read with care for its place."""
    try:
        return [_ROLES[message["role"]](message) for message in body["messages"]]
    except (BadRequest, LookupError, TypeError, AttributeError):
        return strict.read_objects(body, "messages", read_message, need=True)


def read_message(message: Object) -> rq.Message:
    """One message of any role."""
    try:
        read = _ROLES[message["role"]]
    except (KeyError, TypeError):
        raise BadRequest(f"one of {', '.join(_ROLES)}", message.get("role"), "role") from None
    return read(message)


def _plain(message: Object) -> rq.Message:
    """What the system or the user says."""
    content, role = message.get("content"), message["role"]
    if type(content) is str and content and len(message) == 2:  # noqa: PLR2004 — a role and words: most messages
        return rq.Message("system" if role == "developer" else role, [rq.Text(content)], "", _ROLE.get(role))
    parts = read_content(content)
    made = rq.Message("system" if role == "developer" else role, parts)
    _about(made, message, content)
    return made


_ROLE: dict[str, Extra] = {"developer": {NAME: {"_": {"role": "developer"}}}}


def _about(made: rq.Message, message: Object, content: Any) -> None:
    """What else a message says of itself, and how."""
    if "name" in message:
        made.name = strict.get_text(message, "name")
    listed = isinstance(content, list) and len(content) == 1  # pyright: ignore[reportUnknownArgumentType]
    unknown = unknown_fields(message, _MESSAGE) if message.keys() - _MESSAGE else {}
    also = empty_fields(message, _MESSAGE)
    role = "developer" if message["role"] == "developer" else ""
    hint = _hinted(made.parts, message)
    if unknown or also or listed or role or hint:
        made.extra = build_extra(NAME, unknown, also=also, listed=listed, role=role, hint=hint)


def _hinted(parts: list[rq.AnyPart], message: Object) -> Object | None:
    """A cache point on the whole message stands behind its last part."""
    if message.get("cache_control") is None:
        return None
    if parts and not parts[-1].cache:
        parts[-1].cache = cached(message) or ""
    return {"cache_control": message["cache_control"]}


# ── the model and its tools ───────────────────────────────────────────────────────────────────────


def _said(message: Object) -> rq.Message:
    """What the assistant thought, said, declined and called."""
    content = message.get("content")
    if type(content) is str and content and len(message) == 2:  # noqa: PLR2004 — a role and words, again
        return rq.Message("assistant", [rq.Text(content)])
    parts: list[rq.AnyPart] = []
    few = len(message) == 3 and message.get("tool_calls") and "content" in message  # noqa: PLR2004 — and calls
    if few and (content is None or (type(content) is str and content)):
        if content:
            parts.append(rq.Text(content))
        parts += strict.read_objects(message, "tool_calls", read_call)
        return rq.Message("assistant", parts)
    parts += read_thoughts(message)
    parts += read_content(content)
    if message.get("refusal"):
        parts.append(
            rq.Text(strict.get_text(message, "refusal"), refusal=True, extra=build_extra(NAME, {}, field=True))
        )
    parts += strict.read_objects(message, "tool_calls", read_call)
    if message.get("function_call") is not None:
        parts.append(strict.read_object(message, "function_call", _legacy_call))
    made = rq.Message("assistant", parts)
    _about(made, message, content)
    if FIELD in message:
        _signed(made)
    if "content" not in message:
        own = (made.extra or {}).get(NAME, {})
        made.extra = {NAME: {**own, "_": {**own.get("_", {}), "bare": True}}}
    return made


def _signed(message: rq.Message) -> None:
    """Give the last text of a message the state that stands beside its content."""
    own = (message.extra or {}).get(NAME, {})
    state = read_state(own.get(FIELD))
    said = next((part for part in reversed(message.parts) if type(part) is rq.Text), None)
    if not state or said is None:
        return
    said.extra = {**(said.extra or {}), **state}
    rest_ = rest_of(own[FIELD])
    left = {key: value for key, value in own.items() if key != FIELD}
    message.extra = {NAME: {**left, **({FIELD: rest_} if rest_ else {}), "_": {**own.get("_", {}), "signed": True}}}


_CALL = frozenset({"id", "type", "function", "custom", "cache_control"})


def read_call(call: Object) -> rq.Call:
    """A tool call of an assistant's message."""
    if len(call) == 3 and call.get("type") == "function" and type(call.get("function")) is dict:  # noqa: PLR2004
        said: Object = call["function"]
        id, name, given = call.get("id"), said.get("name"), said.get("arguments")  # noqa: A001 — as it is called
        if type(given) is str and type(name) is str and type(id) is str and len(said) == 2:  # noqa: PLR2004
            return rq.Call(id, name, given)
    return _read_call(call)


def _read_call(call: Object) -> rq.Call:
    """The same, step by step, for whatever is odd or wrong about it."""
    custom = call.get("type") == "custom"
    kind, field = ("custom", "input") if custom else ("function", "arguments")
    try:
        said = strict.as_object(call.get(kind))
        name, given = strict.require_text(said, "name"), said.get(field)
        if type(given) is not str:
            given = _arguments(given, field)
    except BadRequest as error:
        raise error.at(kind) from None
    made = rq.Call(strict.get_text(call, "id"), name, given, "client", "text" if custom else "json")
    if len(call) != 3 or len(said) != 2 or "type" not in call or given is not said.get(field):  # noqa: PLR2004 — id, type, function
        _odd_call(made, call, said, field)
    return made


def _odd_call(made: rq.Call, call: Object, said: Object, field: str) -> None:
    made.cache = cached(call) or ""
    unknown = unknown_fields(call, _CALL)
    state = read_state(unknown.get(FIELD))
    if state:
        unknown = {**unknown_fields(unknown, {FIELD}), **_if(**{FIELD: rest_of(unknown[FIELD])})}
    made.extra = build_extra(
        NAME, {**unknown, **_if(function=unknown_fields(said, {"name", field}))}, untyped="type" not in call,
        hint={"cache_control": call["cache_control"]} if made.cache else None, unnamed="id" not in call,
        given=None if isinstance(said.get(field), str) else {"as": said.get(field)}, signed=bool(state),
    )  # fmt: skip
    if state:
        made.extra = {**(made.extra or {}), **state}


def _arguments(given: Any, field: str) -> str:
    """An object where its text should be (some clients): understood, and sent back the same way."""
    if given is None:
        return ""
    if not isinstance(given, dict):
        raise BadRequest("a string of JSON", given, field)
    return as_json(given)


def _answered(message: Object) -> rq.Message:
    """A tool's result."""
    content = message.get("content")
    call = message.get("tool_call_id")
    if len(message) == 3 and type(content) is str and content and type(call) is str and call:  # noqa: PLR2004
        return rq.Message("tool", [rq.Result(call, "", [rq.Text(content)])])
    call, name = strict.get_text(message, "tool_call_id"), strict.get_text(message, "name")
    parts = read_content(content)
    inside: list[rq.ResultPart] = [part for part in parts if isinstance(part, rq.ResultPart)]
    result = rq.Result(call, name, inside)
    made = rq.Message("tool", [result])
    result.extra = build_extra(
        NAME, unknown_fields(message, _MESSAGE), also=empty_fields(message, _MESSAGE), named=bool(name),
        listed=isinstance(content, list) and bool(parts), files=any(type(part) is rq.File for part in inside),
        role="function" if message["role"] == "function" else "", hint=_hinted([result], message),
        bare="content" not in message, unnamed="tool_call_id" not in message,
    )  # fmt: skip
    return made


# ── before there were tools ───────────────────────────────────────────────────────────────────────


def _legacy_call(call: Object) -> rq.Call:
    name = strict.require_text(call, "name")
    return rq.Call("", name, strict.get_text(call, "arguments"), extra=build_extra(NAME, {}, legacy=True))


def _told_apart(messages: list[rq.Message]) -> list[rq.Message]:
    """Functions were called by name alone: each call gets an id, which its result takes over."""
    last: dict[str, str] = {}
    count = 0
    for message in messages:
        for part in message.parts:
            if type(part) is rq.Call and not part.id:
                part.id = last[part.name] = f"call_{count}"
                count += 1
            elif type(part) is rq.Result and not part.call:
                part.call = last.get(part.name) or part.name
    return messages


_ROLES: dict[str, Callable[[Object], rq.Message]] = {
    "system": _plain, "developer": _plain, "user": _plain, "assistant": _said, "tool": _answered,
    "function": _answered,
}  # fmt: skip


_SCHEMA = frozenset({"name", "schema", "description", "strict"})
# What is read as it stands: its name with us, and how.
_SAID: dict[str, tuple[str, Callable[[Object, str], Any]]] = {
    "temperature": ("temperature", strict.get_number), "top_p": ("top_p", strict.get_number),
    "top_k": ("top_k", strict.get_integer), "stop": ("stop", strict.get_strings),
    "frequency_penalty": ("frequency_penalty", strict.get_number),
    "presence_penalty": ("presence_penalty", strict.get_number), "n": ("choices", strict.get_integer),
    "logprobs": ("logprobs", strict.get_flag), "top_logprobs": ("top_logprobs", strict.get_integer),
    "parallel_tool_calls": ("parallel_calls", strict.get_flag), "verbosity": ("verbosity", strict.get_text),
    "service_tier": ("tier", strict.get_text), "user": ("user", strict.get_text),
    "metadata": ("metadata", lambda body, key: strict.get_object(body, key) or None),
    "prompt_cache_key": ("cache_key", strict.get_text), "store": ("store", strict.get_flag),
}  # fmt: skip
_THINKING = frozenset({"reasoning_effort", "reasoning", "enable_thinking", "thinking", "thinking_budget"})


def spelled(body: Object) -> Object:
    """How a request puts what can be put in several ways."""
    long, short = body.get("max_completion_tokens") is not None, body.get("max_tokens") is not None
    return {
        "limit": "max_completion_tokens" if long else "",
        "limits": [body["max_completion_tokens"], body["max_tokens"]] if long and short else None,
        "stop": isinstance(body.get("stop"), str),
        "seed": "random_seed" if body.get("random_seed") is not None else "",
        "top_k": body.get("top_k") is not None,
        "reasoning": {"as": body["reasoning"]} if isinstance(body.get("reasoning"), dict) else None,
        "format": _odd_format(body.get("response_format")),
    }


def read_settings(body: Object) -> rq.Settings:
    """The settings that all protocols share in some form."""
    said: dict[str, Any] = {}
    for key in body:
        if key in _SAID:
            name, read = _SAID[key]
            said[name] = read(body, key)
    if "max_completion_tokens" in body or "max_tokens" in body:
        limit = strict.get_integer(body, "max_completion_tokens")
        said["max_output"] = strict.get_integer(body, "max_tokens") if limit is None else limit
    if "seed" in body or "random_seed" in body:
        seed = strict.get_integer(body, "seed")
        said["seed"] = strict.get_integer(body, "random_seed") if seed is None else seed
    if not _THINKING.isdisjoint(body):
        said["effort"], said["budget"], said["thoughts"] = read_effort(body)
    return rq.Settings(**said, format=read_format(body))


def read_effort(body: Object) -> tuple[str, int | None, bool | None]:
    """Effort, budget and whether to show it, from the standard field or from those of the dialects."""
    effort = strict.get_text(body, "reasoning_effort")
    if body.get("reasoning") is not None:
        said, budget, shown = strict.read_object(body, "reasoning", read_reasoning)
        return effort or said, budget, shown
    off = strict.get_flag(body, "enable_thinking") is False
    if body.get("thinking") is not None:
        thinking = strict.get_object(body, "thinking")
        off = off or thinking.get("type") == "disabled"
        return (
            effort,
            0 if off else strict.read_object(body, "thinking", lambda one: strict.get_integer(one, "budget_tokens")),
            None,
        )
    return effort, 0 if off else strict.get_integer(body, "thinking_budget"), None


def read_reasoning(said: Object) -> tuple[str, int | None, bool | None]:
    """The object that some dialects have for all about reasoning."""
    hidden = strict.get_flag(said, "exclude")
    off = strict.get_flag(said, "enabled") is False
    budget = 0 if off else strict.get_integer(said, "max_tokens")
    return strict.get_text(said, "effort"), budget, None if hidden is None else not hidden


def read_format(body: Object) -> rq.Format | None:
    """The form that an answer should have."""
    if body.get("response_format") is None:
        return None
    return strict.read_object(body, "response_format", _form)


def _form(given: Object) -> rq.Format | None:
    kind = given.get("type")
    if kind == "json_schema":
        return strict.read_object(given, "json_schema", _schema)
    return rq.Format("json") if kind == "json_object" else rq.Format() if kind == "text" else None


def _schema(said: Object) -> rq.Format:
    schema = strict.get_object(said, "schema") or None
    name, description = strict.get_text(said, "name"), strict.get_text(said, "description")
    return rq.Format("schema", name, schema, description, strict.get_flag(said, "strict"))


_FORMS = {"text": {"type"}, "json_object": {"type"}, "json_schema": {"type", "json_schema"}}


def _odd_format(given: Any) -> Object | None:
    """A form of answer that cannot be said again from what is read of it."""
    if not isinstance(given, dict):
        return None
    whole = cast("Object", given)
    said = as_object(whole.get("json_schema"))
    strange = unknown_fields(whole, _FORMS.get(str(whole.get("type")), set())) or unknown_fields(said, _SCHEMA)
    empty = any(value in (None, "", {}) for value in said.values())
    return {"as": whole} if strange or empty or (said and not said.get("name")) else None
