"""Interactions requests ↔ canonical requests. Only requests that were read from this API are written back to it.

The input is a text, the contents of one message, or steps: user input, model output, thoughts, calls and results.
Consecutive steps of the model become one message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._lenient_fields import Object, as_object
from penstock._lenient_json import as_json, decode_unless_too_deep
from penstock._markers import input_as_object
from penstock._protocols.gemini.request_settings import LEVELS
from penstock._protocols.gemini.wire import NAME
from penstock._request_writer import RequestDraft, add_missing, drop_empty, split_extra, write_settings
from penstock._strict_fields import build_extra, empty_fields, unknown_fields
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

_MODES: dict[str, rq.ChoiceMode] = {"auto": "auto", "any": "required", "none": "none", "validated": "auto"}
_MODE_NAMES = {mode: name for name, mode in reversed(_MODES.items())}
_SUMMARIES = {"auto": True, "none": False}
_SUMMARY_NAMES = {shown: name for name, shown in _SUMMARIES.items()}
_REQUEST = frozenset({"model", "input", "system_instruction", "tools", "generation_config", "stream", "store"})
_SETTING_NAMES = "temperature:temperature top_p:top_p seed:seed stop_sequences:stop max_output_tokens:max_output"
_SETTINGS = {key: name for key, _, name in (pair.partition(":") for pair in _SETTING_NAMES.split())}
_CONFIG = {*_SETTINGS, "thinking_level", "thinking_summaries", "tool_choice"}
_CONTENT_TYPES = frozenset({"text", "image", "audio", "video", "document"})


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def is_interaction(body: Object) -> bool:
    """True for a body of the Interactions API."""
    return "input" in body and "contents" not in body


def read_interaction(body: Object) -> rq.Request:
    """Reads a parsed body."""
    system = strict.get_text(body, "system_instruction")
    messages, shape = _read_input(body.get("input"))
    if system:
        messages.insert(0, rq.Message("system", [rq.Text(system)]))
    config = strict.get_object(body, "generation_config")
    empty = empty_fields(body, _REQUEST)
    if body.get("stream") is False:
        empty["stream"] = False
    other_config = {key: value for key, value in config.items() if key not in _CONFIG or _has_unknown_value(key, value)}
    unknown = unknown_fields(body, _REQUEST) | drop_empty(generation_config=other_config)
    return rq.Request(
        strict.get_text(body, "model"),
        messages,
        strict.read_objects(body, "tools", _read_tool),
        _read_choice(config.get("tool_choice")),
        _read_settings(config, strict.get_flag(body, "store")),
        stream=strict.get_flag(body, "stream") or False,
        extra=build_extra(NAME, unknown, interaction=shape, also=empty, level=config.get("thinking_level")),
    )


def _has_unknown_value(key: str, value: Any) -> bool:
    """True for a known key with a value that has no canonical form."""
    if key == "tool_choice":
        return not isinstance(value, str)
    known: Any = {"thinking_level": LEVELS, "thinking_summaries": _SUMMARIES}.get(key)
    return known is not None and not (isinstance(value, str) and value in known)


def _read_settings(config: Object, store: bool | None) -> rq.Settings:  # noqa: FBT001 — a field of the body
    level = strict.get_text(config, "thinking_level")
    fields = strict.read_settings(config, _SETTINGS)
    thoughts = _SUMMARIES.get(strict.get_text(config, "thinking_summaries"))
    return rq.Settings(**fields, effort=level if level in LEVELS else "", thoughts=thoughts, store=store)


def _read_tool(tool: Object) -> rq.Tool:
    kind = strict.get_text(tool, "type")
    if kind != "function":
        return rq.Tool(strict.get_text(tool, "name") or kind, kind="provider", extra={NAME: {"tool": tool}})
    schema = strict.get_object(tool, "parameters") if tool.get("parameters") is not None else None
    extra = build_extra(NAME, unknown_fields(tool, {"type", "name", "description", "parameters"}))
    return rq.Tool(strict.require_text(tool, "name"), strict.get_text(tool, "description"), schema, extra=extra)


def _read_choice(mode: Any) -> rq.ToolChoice | None:
    if not isinstance(mode, str):
        return None
    if mode not in _MODES:
        raise BadRequest("auto, any, none or validated", mode, "generation_config.tool_choice")
    return rq.ToolChoice(_MODES[mode], extra=build_extra(NAME, {}, word=mode if mode == "validated" else ""))


def _read_input(value: Any) -> tuple[list[rq.Message], str]:
    """Returns the messages, and the form of the input: text, contents or steps."""
    if isinstance(value, str):
        return [rq.Message("user", [rq.Text(value)])], "text"
    if not isinstance(value, list):
        raise BadRequest("a string or a list", value, "input")
    types = {str(as_object(one).get("type")) for one in value}  # pyright: ignore[reportUnknownVariableType]
    if types and types <= _CONTENT_TYPES:
        return [rq.Message("user", strict.read_each(value, _read_content, "input"))], "contents"  # pyright: ignore[reportUnknownArgumentType]
    messages: list[rq.Message] = []
    for role, parts in strict.read_each(value, _read_step, "input"):  # pyright: ignore[reportUnknownArgumentType]
        if messages and messages[-1].role == role != "user":
            messages[-1].parts += parts
        else:
            messages.append(rq.Message(role, parts))
    return messages, "steps"


def _read_step(step: Object) -> tuple[rq.Role, list[rq.AnyPart]]:
    if step.get("type") is None and step.get("role") in ("user", "model"):
        is_text = isinstance(step.get("content"), str)
        parts: list[rq.AnyPart] = [rq.Text(step["content"])] if is_text else _read_contents(step)
        for part in parts:
            _add_marks(part, turn="text" if is_text else "contents")
        return "user" if step["role"] == "user" else "assistant", parts
    kind = strict.get_text(step, "type")
    if kind == "user_input":
        return "user", _read_contents(step)
    read = _STEP_READERS.get(kind)
    parts = [rq.Opaque(NAME, kind, step)] if read is None else read(step)
    return "tool" if kind == "function_result" else "assistant", parts


def _add_marks(part: rq.AnyPart, **marks: Any) -> None:
    if not isinstance(part, rq.Opaque):
        native = (part.extra or {}).get(NAME, {})
        part.extra = {NAME: {**native, "_": {**native.get("_", {}), **marks}}}


def _read_contents(step: Object) -> list[rq.AnyPart]:
    return strict.read_objects(step, "content", _read_content)


def _read_output(step: Object) -> list[rq.AnyPart]:
    """Reads model output. The mark keeps it apart from a preceding step."""
    parts = _read_contents(step)
    for part in parts[:1]:
        _add_marks(part, step=True)
    return parts


def _read_thought(step: Object) -> list[rq.AnyPart]:
    text = "".join(strict.read_objects(step, "summary", lambda one: strict.get_text(one, "text")))
    extra = build_extra(NAME, unknown_fields(step, {"type", "summary"}), pieces=step.get("summary"))
    return [rq.Reasoning(text, "summary" if text else "redacted", extra=extra)]


def _read_call(step: Object) -> list[rq.AnyPart]:
    id, name = strict.require_text(step, "id"), strict.require_text(step, "name")  # noqa: A001 — as the part calls it
    extra = build_extra(NAME, unknown_fields(step, {"type", "id", "name", "arguments"}))
    return [rq.Call(id, name, as_json(strict.get_object(step, "arguments")), extra=extra)]


def _read_result(step: Object) -> list[rq.AnyPart]:
    value: Any = step.get("result")
    content: list[rq.ResultPart]
    if isinstance(value, str):
        content = [rq.Text(value)]
    elif isinstance(value, list):
        content = cast("list[rq.ResultPart]", strict.read_each(value, _read_content, "result"))  # pyright: ignore[reportUnknownArgumentType]
    else:
        content = [] if value is None else [rq.Json(as_json(value))]
    failed = strict.get_flag(step, "is_error")
    unknown = unknown_fields(step, {"type", "call_id", "name", "result", "is_error"})
    extra = build_extra(NAME, unknown, listed=isinstance(value, list), said=failed is False)
    name = strict.get_text(step, "name")
    return [rq.Result(strict.require_text(step, "call_id"), name, content, failed or False, extra=extra)]


def _read_content(content: Object) -> rq.AnyPart:
    kind = strict.get_text(content, "type")
    if kind == "text":
        extra = build_extra(NAME, unknown_fields(content, {"type", "text"}))
        return rq.Text(strict.require_text(content, "text"), extra=extra)
    if kind not in _CONTENT_TYPES:
        return rq.Opaque(NAME, kind, content)
    media, url, data = (strict.get_text(content, key) for key in ("mime_type", "uri", "data"))
    is_default = media.partition("/")[0] == kind or (kind == "document" and media.startswith("application/"))
    unknown = unknown_fields(content, {"type", "mime_type", "uri", "data"})
    extra = build_extra(NAME, unknown, kind="" if is_default else kind)
    return rq.File(media or f"{kind}/*", url, data, extra=extra)


_STEP_READERS: dict[str, Callable[[Object], list[rq.AnyPart]]] = {
    "model_output": _read_output,
    "thought": _read_thought,
    "function_call": _read_call,
    "function_result": _read_result,
}


# ── writing ───────────────────────────────────────────────────────────────────────────────────────


def write_interaction(request: rq.Request, draft: RequestDraft) -> Object:
    """Writes a body of the Interactions API."""
    native, marks = split_extra(request.extra, NAME)
    body = drop_empty(model=request.model)
    messages = list(request.messages)
    if messages and messages[0].role == "system":
        body["system_instruction"] = "\n".join(part.text for part in messages.pop(0).parts if isinstance(part, rq.Text))
    body["input"] = _write_input(messages, marks["interaction"], draft)
    tools = [_write_tool(tool, draft) for tool in request.tools]
    config = _write_config(request) | native.get("generation_config", {})
    body |= drop_empty(tools=tools, generation_config=config, stream=request.stream or None)
    body |= drop_empty(store=request.settings.store)
    body.update({key: value for key, value in native.items() if key != "generation_config"})
    add_missing(body, marks.get("also"))
    return body


def _write_config(request: rq.Request) -> Object:
    settings, choice = request.settings, request.choice
    config = write_settings(settings, _SETTINGS) | drop_empty(thinking_level=settings.effort)
    if choice is not None:
        mode = split_extra(choice.extra, NAME)[1].get("word") or _MODE_NAMES.get(choice.mode)
        config |= drop_empty(tool_choice=mode)
    if settings.thoughts is not None:
        config["thinking_summaries"] = _SUMMARY_NAMES[settings.thoughts]
    return config


def _write_tool(tool: rq.Tool, draft: RequestDraft) -> Object:
    native, _ = draft.split_extra(tool.extra)
    if "tool" in native:
        original: Object = native["tool"]
        return original
    function = {"type": "function", "name": tool.name, **drop_empty(description=tool.description)}
    if tool.schema is not None:
        function["parameters"] = tool.schema
    return {**function, **native}


def _write_input(messages: list[rq.Message], shape: str, draft: RequestDraft) -> Any:
    if len(messages) == 1 and messages[0].role == "user":
        parts = messages[0].parts
        if shape == "text" and len(parts) == 1 and isinstance(parts[0], rq.Text):
            return parts[0].text
        if shape == "contents":
            return [_write_content(part, draft) for part in parts]
    return [step for message in messages for step in _write_steps(message, draft)]


def _write_steps(message: rq.Message, draft: RequestDraft) -> list[Object]:
    steps: list[Object] = []
    is_user = message.role != "assistant"
    for part in message.parts:
        native, marks = draft.split_extra(getattr(part, "extra", None))
        write = _STEP_WRITERS.get(type(part))
        if write is not None:
            steps.append(write(part, native, marks, draft))
        elif isinstance(part, rq.Opaque) and not is_user:
            steps.append(part.data)
        elif marks.get("turn") == "text":
            steps.append({"role": "user" if is_user else "model", "content": cast("rq.Text", part).text})
        elif steps and ("turn" in marks or ("content" in steps[-1] and "step" not in marks)):
            steps[-1]["content"].append(_write_content(part, draft))
        else:
            start = {"role": "user" if is_user else "model"}
            if "turn" not in marks:
                start = {"type": "user_input" if is_user else "model_output"}
            steps.append({**start, "content": [_write_content(part, draft)]})
    return steps


def _write_thought(_part: rq.Reasoning, native: Object, marks: Object, _: RequestDraft) -> Object:
    summary = {"summary": marks["pieces"]} if "pieces" in marks else {}
    return {"type": "thought", **summary, **native}


def _write_call(call: rq.Call, native: Object, _marks: Object, _: RequestDraft) -> Object:
    return {"type": "function_call", "id": call.id, "name": call.name, "arguments": input_as_object(call)[0], **native}


def _write_result(result: rq.Result, native: Object, marks: Object, draft: RequestDraft) -> Object:
    step = {"type": "function_result", "call_id": result.call, **drop_empty(name=result.name)}
    only = result.content[0] if len(result.content) == 1 and not marks.get("listed") else None
    if isinstance(only, rq.Json):
        step["result"] = decode_unless_too_deep(only.json)
    elif isinstance(only, rq.Text):
        step["result"] = only.text
    elif result.content or marks.get("listed"):
        step["result"] = [_write_content(part, draft) for part in result.content]
    if result.failed or marks.get("said"):
        step["is_error"] = result.failed
    return {**step, **native}


def _write_content(part: Any, draft: RequestDraft) -> Object:
    if isinstance(part, rq.Opaque):
        return part.data if part.protocol == NAME else {"type": "text", "text": ""}
    native, marks = draft.split_extra(part.extra)
    if not isinstance(part, rq.File):
        return {"type": "text", "text": part.text if isinstance(part, rq.Text) else part.json, **native}
    kind = part.media.partition("/")[0]
    kind = marks.get("kind") or (kind if kind in ("image", "audio", "video") else "document")
    source: Object = {"uri": part.url} if part.url else {"data": part.data}
    media = {} if part.media.endswith("/*") else {"mime_type": part.media}
    return {"type": kind, **source, **media, **native}


_STEP_WRITERS: dict[type, Any] = {rq.Reasoning: _write_thought, rq.Call: _write_call, rq.Result: _write_result}
