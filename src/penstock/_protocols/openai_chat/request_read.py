"""Chat Completions requests → canonical: messages, calls and settings.

A message's calls, reasoning and refusal become parts in the order they would be streamed. Fields without a canonical
name stay in `extra`, at their level; how something was written (a list of one text, which of two limits) stays under
`_`. request_write.py writes the same body again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from penstock import _openai_requests as openai
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._lenient_fields import Object, as_object
from penstock._lenient_json import as_json
from penstock._markers import extract_markers
from penstock._protocols.openai_chat import request_read_parts
from penstock._protocols.openai_chat.request_read_parts import non_empty, read_cache_hint, read_part
from penstock._protocols.openai_chat.wire import EXTRA_CONTENT, NAME, drop_content_signature, read_signature
from penstock._strict_fields import build_extra, empty_fields, unknown_fields
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.events import Extra

_MESSAGE_KEYS = frozenset("role content name tool_calls tool_call_id function_call refusal".split()).union(
    "reasoning_content reasoning reasoning_details cache_control".split()
)
_COMMON_KEYS = frozenset(
    "model messages tools tool_choice stream stream_options max_tokens temperature top_p".split()
).union("frequency_penalty presence_penalty seed n user parallel_tool_calls store".split())
_STREAM_OPTIONS = frozenset({"include_usage"})
_CALL_KEYS = frozenset({"id", "type", "function", "custom", "cache_control"})
_ROLE_EXTRA: dict[str, Extra] = {"developer": {NAME: {"_": {"role": "developer"}}}}


def read_request(body: Object) -> rq.Request:
    """Reads a request from its parsed body."""
    strict.as_object(body)
    messages = _read_messages(body)
    options = strict.get_object(body, "stream_options")
    legacy = "functions" in body or "function_call" in body
    return rq.Request(
        strict.get_text(body, "model"),
        extract_markers(_number_legacy_calls(messages) if legacy else messages, refusals=False),
        request_read_parts.read_tools(body) if legacy or "tools" in body else [],
        request_read_parts.read_choice(body) if legacy or "tool_choice" in body else None,
        read_settings(body),
        stream=strict.get_flag(body, "stream") or False,
        usage=strict.get_flag(options, "include_usage"),
        extra=None if _is_plain_request(body, options) else _read_extra(body, options),
    )


def _is_plain_request(body: Object, options: Object) -> bool:
    """True if every field has a canonical name and the usual form."""
    if not body.keys() <= _COMMON_KEYS or not options.keys() <= _STREAM_OPTIONS or body.get("stream") is False:
        return False
    for value in body.values():  # noqa: SIM110 — a generator would cost more than the checks
        if not value and value is not False and value != 0:
            return False
    return True


def _read_extra(body: Object, options: Object) -> Extra | None:
    """Returns fields without a canonical name, and how the others were written."""
    also = empty_fields(body, REQUEST_KEYS)
    if body.get("stream") is False:
        also["stream"] = False
    unknown = {
        **unknown_fields(body, REQUEST_KEYS - KEPT_SETTINGS),
        **non_empty(stream_options=unknown_fields(options, _STREAM_OPTIONS)),
    }
    return build_extra(NAME, unknown, also=also, **read_spelling(body))


def _read_messages(body: Object) -> list[rq.Message]:
    """Reads all messages. Valid ones take the fast path; an error is located by a second, slower pass."""
    try:
        return [_ROLE_READERS[message["role"]](message) for message in body["messages"]]
    except (BadRequest, LookupError, TypeError, AttributeError):
        return strict.read_objects(body, "messages", read_message, need=True)


def read_message(message: Object) -> rq.Message:
    """Reads a message of any role."""
    try:
        read = _ROLE_READERS[message["role"]]
    except (KeyError, TypeError):
        raise BadRequest(f"one of {', '.join(_ROLE_READERS)}", message.get("role"), "role") from None
    return read(message)


def _read_plain_message(message: Object) -> rq.Message:
    """Reads a message of the system or the user."""
    content, role = message.get("content"), message["role"]
    if type(content) is str and content and len(message) == 2:  # noqa: PLR2004 — a role and a text: most messages
        return rq.Message("system" if role == "developer" else role, [rq.Text(content)], "", _ROLE_EXTRA.get(role))
    canonical = rq.Message("system" if role == "developer" else role, openai.read_content(content, read_part))
    _read_message_fields(canonical, message, content)
    return canonical


def _read_message_fields(canonical: rq.Message, message: Object, content: Any) -> None:
    """Reads the other fields of a message, and how it was written."""
    if "name" in message:
        canonical.name = strict.get_text(message, "name")
    listed = isinstance(content, list) and len(content) == 1  # pyright: ignore[reportUnknownArgumentType]
    unknown = unknown_fields(message, _MESSAGE_KEYS) if message.keys() - _MESSAGE_KEYS else {}
    also = empty_fields(message, _MESSAGE_KEYS)
    role = "developer" if message["role"] == "developer" else ""
    hint = _read_cache_hint(canonical.parts, message)
    if unknown or also or listed or role or hint:
        canonical.extra = build_extra(NAME, unknown, also=also, listed=listed, role=role, hint=hint)


def _read_cache_hint(parts: list[rq.AnyPart], message: Object) -> Object | None:
    """Puts a cache point of the whole message on its last part."""
    if message.get("cache_control") is None:
        return None
    if parts and not parts[-1].cache:
        parts[-1].cache = read_cache_hint(message) or ""
    return {"cache_control": message["cache_control"]}


def _read_assistant(message: Object) -> rq.Message:
    """Reads reasoning, text, refusal and calls of an assistant message."""
    content = message.get("content")
    if type(content) is str and content and len(message) == 2:  # noqa: PLR2004 — a role and a text
        return rq.Message("assistant", [rq.Text(content)])
    is_plain_call = len(message) == 3 and message.get("tool_calls") and "content" in message  # noqa: PLR2004 — and calls
    if is_plain_call and (content is None or (type(content) is str and content)):
        texts = [rq.Text(content)] if content else []
        return rq.Message("assistant", [*texts, *strict.read_objects(message, "tool_calls", read_call)])
    parts: list[rq.AnyPart] = [
        *request_read_parts.read_reasoning_fields(message),
        *openai.read_content(content, read_part),
    ]
    if message.get("refusal"):
        refusal = strict.get_text(message, "refusal")
        parts.append(rq.Text(refusal, refusal=True, extra=build_extra(NAME, {}, field=True)))
    parts += strict.read_objects(message, "tool_calls", read_call)
    if message.get("function_call") is not None:
        parts.append(strict.read_object(message, "function_call", _read_legacy_call))
    canonical = rq.Message("assistant", parts)
    _read_message_fields(canonical, message, content)
    if EXTRA_CONTENT in message:
        _move_signature(canonical)
    if "content" not in message:
        canonical.extra = strict.add_marks(canonical.extra, NAME, bare=True)
    return canonical


def _move_signature(message: rq.Message) -> None:
    """Moves the signature next to the content into the last text of the message."""
    extras = (message.extra or {}).get(NAME, {})
    state = read_signature(extras.get(EXTRA_CONTENT))
    last_text = next((part for part in reversed(message.parts) if type(part) is rq.Text), None)
    if not state or last_text is None:
        return
    last_text.extra = {**(last_text.extra or {}), **state}
    other = drop_content_signature(extras[EXTRA_CONTENT])
    fields = {key: value for key, value in extras.items() if key != EXTRA_CONTENT}
    marks = {**extras.get("_", {}), "signed": True}
    message.extra = {NAME: {**fields, **non_empty(**{EXTRA_CONTENT: other}), "_": marks}}


def read_call(call: Object) -> rq.Call:
    """Reads a tool call of an assistant message."""
    if len(call) == 3 and call.get("type") == "function" and type(call.get("function")) is dict:  # noqa: PLR2004
        fields: Object = call["function"]
        id, name, value = call.get("id"), fields.get("name"), fields.get("arguments")  # noqa: A001 — the wire name
        if type(value) is str and type(name) is str and type(id) is str and len(fields) == 2:  # noqa: PLR2004
            return rq.Call(id, name, value)
    return _read_call(call)


def _read_call(call: Object) -> rq.Call:
    """Reads a call with unusual or wrong fields, step by step."""
    custom = call.get("type") == "custom"
    kind, field = ("custom", "input") if custom else ("function", "arguments")
    try:
        fields = strict.as_object(call.get(kind))
        name, value = strict.require_text(fields, "name"), fields.get(field)
        if type(value) is not str:
            value = _read_arguments(value, field)
    except BadRequest as error:
        raise error.at(kind) from None
    canonical = rq.Call(strict.get_text(call, "id"), name, value, "client", "text" if custom else "json")
    if len(call) != 3 or len(fields) != 2 or "type" not in call or value is not fields.get(field):  # noqa: PLR2004 — id, type, function
        _read_unusual_call(canonical, call, fields, field)
    return canonical


def _read_unusual_call(canonical: rq.Call, call: Object, fields: Object, field: str) -> None:
    canonical.cache = read_cache_hint(call) or ""
    unknown = unknown_fields(call, _CALL_KEYS)
    state = read_signature(unknown.get(EXTRA_CONTENT))
    if state:
        other = drop_content_signature(unknown[EXTRA_CONTENT])
        unknown = {**unknown_fields(unknown, {EXTRA_CONTENT}), **non_empty(**{EXTRA_CONTENT: other})}
    canonical.extra = build_extra(
        NAME,
        {**unknown, **non_empty(function=unknown_fields(fields, {"name", field}))},
        untyped="type" not in call,
        hint={"cache_control": call["cache_control"]} if canonical.cache else None,
        unnamed="id" not in call,
        given=None if isinstance(fields.get(field), str) else {"as": fields.get(field)},
        signed=bool(state),
    )
    if state:
        canonical.extra = {**(canonical.extra or {}), **state}


def _read_arguments(value: Any, field: str) -> str:
    """Accepts an object instead of its JSON text, as some clients send it."""
    if value is None:
        return ""
    if not isinstance(value, dict):
        raise BadRequest("a string of JSON", value, field)
    return as_json(value)


def _read_result(message: Object) -> rq.Message:
    """Reads a tool result."""
    content, call = message.get("content"), message.get("tool_call_id")
    if len(message) == 3 and type(content) is str and content and type(call) is str and call:  # noqa: PLR2004
        return rq.Message("tool", [rq.Result(call, "", [rq.Text(content)])])
    call, name = strict.get_text(message, "tool_call_id"), strict.get_text(message, "name")
    parts = openai.read_content(content, read_part)
    inside: list[rq.ResultPart] = [part for part in parts if isinstance(part, rq.ResultPart)]
    result = rq.Result(call, name, inside)
    result.extra = build_extra(
        NAME,
        unknown_fields(message, _MESSAGE_KEYS),
        also=empty_fields(message, _MESSAGE_KEYS),
        named=bool(name),
        listed=isinstance(content, list) and bool(parts),
        files=any(type(part) is rq.File for part in inside),
        role="function" if message["role"] == "function" else "",
        hint=_read_cache_hint([result], message),
        bare="content" not in message,
        unnamed="tool_call_id" not in message,
    )
    return rq.Message("tool", [result])


def _read_legacy_call(call: Object) -> rq.Call:
    name, arguments = strict.require_text(call, "name"), strict.get_text(call, "arguments")
    return rq.Call("", name, arguments, extra=build_extra(NAME, {}, legacy=True))


def _number_legacy_calls(messages: list[rq.Message]) -> list[rq.Message]:
    """Gives legacy function calls, which have a name only, an id that their results share."""
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


_ROLE_READERS: dict[str, Callable[[Object], rq.Message]] = {
    **dict.fromkeys(("system", "developer", "user"), _read_plain_message),
    "assistant": _read_assistant,
    **dict.fromkeys(("tool", "function"), _read_result),
}


# ── settings ──────────────────────────────────────────────────────────────────────────────────────

# These settings are read, and also kept unchanged: they hold more than the reader understands.
KEPT_SETTINGS = frozenset({"thinking", "enable_thinking", "thinking_budget"})
_SCHEMA_KEYS = frozenset({"name", "schema", "description", "strict"})
_FORMAT_KEYS = {"text": {"type"}, "json_object": {"type"}, "json_schema": {"type", "json_schema"}}


_SETTING_READERS = openai.index_readers(
    {
        strict.get_number: "temperature top_p frequency_penalty presence_penalty",
        strict.get_integer: "top_k n=choices top_logprobs",
        strict.get_flag: "logprobs parallel_tool_calls=parallel_calls store",
        strict.get_text: "verbosity service_tier=tier user prompt_cache_key=cache_key",
        strict.get_strings: "stop",
        openai.get_metadata: "metadata",
    }
)
_THINKING_KEYS = frozenset({"reasoning_effort", "reasoning", "enable_thinking", "thinking", "thinking_budget"})
REQUEST_KEYS = frozenset({*_SETTING_READERS, *_THINKING_KEYS}).union(
    "model messages tools functions tool_choice function_call stream stream_options".split(),
    "max_tokens max_completion_tokens seed random_seed response_format".split(),
)


def read_spelling(body: Object) -> Object:
    """Returns how a request wrote settings that have several forms."""
    long, short = body.get("max_completion_tokens") is not None, body.get("max_tokens") is not None
    return {
        "limit": "max_completion_tokens" if long else "",
        "limits": [body["max_completion_tokens"], body["max_tokens"]] if long and short else None,
        "stop": isinstance(body.get("stop"), str),
        "seed": "random_seed" if body.get("random_seed") is not None else "",
        "top_k": body.get("top_k") is not None,
        "reasoning": {"as": body["reasoning"]} if isinstance(body.get("reasoning"), dict) else None,
        "format": _find_unusual_format(body.get("response_format")),
    }


def read_settings(body: Object) -> rq.Settings:
    """Reads the settings that all protocols share in some form."""
    fields = openai.read_fields(body, _SETTING_READERS)
    if "max_completion_tokens" in body or "max_tokens" in body:
        limit = strict.get_integer(body, "max_completion_tokens")
        fields["max_output"] = strict.get_integer(body, "max_tokens") if limit is None else limit
    if "seed" in body or "random_seed" in body:
        seed = strict.get_integer(body, "seed")
        fields["seed"] = strict.get_integer(body, "random_seed") if seed is None else seed
    if not _THINKING_KEYS.isdisjoint(body):
        fields["effort"], fields["budget"], fields["thoughts"] = read_effort(body)
    return rq.Settings(**fields, format=read_format(body))


def read_effort(body: Object) -> tuple[str, int | None, bool | None]:
    """Returns effort, budget and whether to show reasoning, from the standard field or those of the dialects."""
    effort = strict.get_text(body, "reasoning_effort")
    if body.get("reasoning") is not None:
        other, budget, shown = strict.read_object(body, "reasoning", read_reasoning)
        return effort or other, budget, shown
    off = strict.get_flag(body, "enable_thinking") is False
    if body.get("thinking") is not None:
        if off or strict.get_object(body, "thinking").get("type") == "disabled":
            return effort, 0, None
        return effort, strict.read_object(body, "thinking", partial(strict.get_integer, key="budget_tokens")), None
    return effort, 0 if off else strict.get_integer(body, "thinking_budget"), None


def read_reasoning(fields: Object) -> tuple[str, int | None, bool | None]:
    """Reads the `reasoning` object of some dialects."""
    hidden = strict.get_flag(fields, "exclude")
    budget = 0 if strict.get_flag(fields, "enabled") is False else strict.get_integer(fields, "max_tokens")
    return strict.get_text(fields, "effort"), budget, None if hidden is None else not hidden


def read_format(body: Object) -> rq.Format | None:
    """Reads `response_format`."""
    is_absent = body.get("response_format") is None
    return None if is_absent else strict.read_object(body, "response_format", _read_format_object)


def _read_format_object(value: Object) -> rq.Format | None:
    kind = value.get("type")
    if kind == "json_schema":
        return strict.read_object(value, "json_schema", openai.read_schema_format)
    return openai.read_plain_format(kind)


def _find_unusual_format(value: Any) -> Object | None:
    """Returns a `response_format` that cannot be written again from its canonical form."""
    if not isinstance(value, dict):
        return None
    form = cast("Object", value)
    fields = as_object(form.get("json_schema"))
    known = _FORMAT_KEYS.get(str(form.get("type")), set())
    unknown_keys = unknown_fields(form, known) or unknown_fields(fields, _SCHEMA_KEYS)
    empty = any(value in (None, "", {}) for value in fields.values())
    return {"as": form} if unknown_keys or empty or (fields and not fields.get("name")) else None
