"""Interactions requests → canonical. `write_interactions.py` is the way back, for those that were read here.

The input is a text, contents of one message, or steps: what the user said, what the model thought, said and called, and
what functions gave. Steps of the model in a row are one message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock import request as rq
from penstock import strict_fields
from penstock.carrying import input_of
from penstock.errors import BadRequest
from penstock.jsontext import as_json, plain_or_raw
from penstock.lenient_fields import as_object
from penstock.protocols.gemini.request_settings import LEVELS
from penstock.protocols.gemini.wire import NAME
from penstock.request_writer import add_missing, split_extra
from penstock.strict_fields import build_extra, empty_fields, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.lenient_fields import Object
    from penstock.protocols.gemini.request_write import PartWriter

MODES: dict[str, rq.ChoiceMode] = {"auto": "auto", "any": "required", "none": "none", "validated": "auto"}
SUMMARIES = {"auto": True, "none": False}
_REQUEST = frozenset({"model", "input", "system_instruction", "tools", "generation_config", "stream", "store"})
_CONFIG = frozenset({
    "temperature", "top_p", "seed", "stop_sequences", "max_output_tokens", "thinking_level", "thinking_summaries",
    "tool_choice",
})  # fmt: skip


def is_interaction(body: Object) -> bool:
    """Whether a body is for the Interactions API."""
    return "input" in body and "contents" not in body


def read_interaction(body: Object) -> rq.Request:
    """A request from its parsed body."""
    system = strict_fields.get_text(body, "system_instruction")
    messages, shape = _read_input(body.get("input"))
    if system:
        messages.insert(0, rq.Message("system", [rq.Text(system)]))
    config = strict_fields.get_object(body, "generation_config")
    also = empty_fields(body, _REQUEST)
    if body.get("stream") is False:
        also["stream"] = False
    own = unknown_fields(body, _REQUEST)
    odd = {key: value for key, value in config.items() if key not in _CONFIG or _is_odd(key, value)}
    if odd:
        own["generation_config"] = odd
    return rq.Request(
        strict_fields.get_text(body, "model"),
        messages,
        strict_fields.read_objects(body, "tools", _read_tool),
        _choice(config.get("tool_choice")),
        _settings(config, strict_fields.get_flag(body, "store")),
        stream=strict_fields.get_flag(body, "stream") or False,
        extra=build_extra(NAME, own, interaction=shape, also=also, level=config.get("thinking_level")),
    )


def _is_odd(key: str, value: Any) -> bool:
    """Whether a known key says something without a canonical word."""
    if key == "tool_choice":
        return not isinstance(value, str)
    known: Any = {"thinking_level": LEVELS, "thinking_summaries": SUMMARIES}.get(key)
    return known is not None and not (isinstance(value, str) and value in known)


def _settings(config: Object, store: bool | None) -> rq.Settings:  # noqa: FBT001 — as it was said
    level = strict_fields.get_text(config, "thinking_level")
    return rq.Settings(
        max_output=strict_fields.get_integer(config, "max_output_tokens"),
        temperature=strict_fields.get_number(config, "temperature"),
        top_p=strict_fields.get_number(config, "top_p"),
        stop=strict_fields.get_strings(config, "stop_sequences"),
        seed=strict_fields.get_integer(config, "seed"),
        effort=level if level in LEVELS else "",
        thoughts=SUMMARIES.get(strict_fields.get_text(config, "thinking_summaries")),
        store=store,
    )


def _read_tool(tool: Object) -> rq.Tool:
    kind = strict_fields.get_text(tool, "type")
    if kind != "function":
        return rq.Tool(strict_fields.get_text(tool, "name") or kind, kind="provider", extra={NAME: {"tool": tool}})
    schema = strict_fields.get_object(tool, "parameters") if tool.get("parameters") is not None else None
    extra = build_extra(NAME, unknown_fields(tool, {"type", "name", "description", "parameters"}))
    return rq.Tool(
        strict_fields.require_text(tool, "name"), strict_fields.get_text(tool, "description"), schema, extra=extra
    )


def _choice(given: Any) -> rq.ToolChoice | None:
    if not isinstance(given, str):
        return None
    if given not in MODES:
        raise BadRequest("auto, any, none or validated", given, "generation_config.tool_choice")
    return rq.ToolChoice(MODES[given], extra=build_extra(NAME, {}, word=given if given == "validated" else ""))


# ── the input ─────────────────────────────────────────────────────────────────────────────────────


def _read_input(given: Any) -> tuple[list[rq.Message], str]:
    """Messages, and which of the forms it was."""
    if isinstance(given, str):
        return [rq.Message("user", [rq.Text(given)])], "text"
    if not isinstance(given, list):
        raise BadRequest("a string or a list", given, "input")
    kinds = {str(as_object(one).get("type")) for one in given}  # pyright: ignore[reportUnknownVariableType]
    if kinds and kinds <= _CONTENTS.keys():
        return [rq.Message("user", strict_fields.read_each(given, _read_content, "input"))], "contents"  # pyright: ignore[reportUnknownArgumentType]
    messages: list[rq.Message] = []
    for role, parts in strict_fields.read_each(given, _step, "input"):  # pyright: ignore[reportUnknownArgumentType]
        if messages and messages[-1].role == role != "user":
            messages[-1].parts += parts
        else:
            messages.append(rq.Message(role, parts))
    return messages, "steps"


def _step(step: Object) -> tuple[rq.Role, list[rq.AnyPart]]:
    if step.get("type") is None and step.get("role") in ("user", "model"):
        said: list[rq.AnyPart] = [rq.Text(step["content"])] if isinstance(step.get("content"), str) else _contents(step)
        for part in said:
            _mark(part, turn="text" if isinstance(step.get("content"), str) else "contents")
        return "user" if step["role"] == "user" else "assistant", said
    kind = strict_fields.get_text(step, "type")
    if kind == "user_input":
        return "user", _contents(step)
    read = _STEP_READERS.get(kind)
    return ("tool" if kind == "function_result" else "assistant"), (
        [rq.Opaque(NAME, kind, step)] if read is None else read(step)
    )


def _mark(part: rq.AnyPart, **marks: Any) -> None:
    if not isinstance(part, rq.Opaque):
        own = (part.extra or {}).get(NAME, {})
        part.extra = {NAME: {**own, "_": {**own.get("_", {}), **marks}}}


def _contents(step: Object) -> list[rq.AnyPart]:
    return strict_fields.read_objects(step, "content", _read_content)


def _said(step: Object) -> list[rq.AnyPart]:
    """What the model said: a step of its own, though it may follow another."""
    parts = _contents(step)
    if parts:
        _mark(parts[0], step=True)
    return parts


def _read_thought(step: Object) -> list[rq.AnyPart]:
    words = "".join(strict_fields.read_objects(step, "summary", lambda piece: strict_fields.get_text(piece, "text")))
    own = unknown_fields(step, {"type", "summary"})
    extra = build_extra(NAME, own, pieces=step.get("summary"))
    return [rq.Reasoning(words, "summary" if words else "redacted", extra=extra)]


def _read_call(step: Object) -> list[rq.AnyPart]:
    id, name = strict_fields.require_text(step, "id"), strict_fields.require_text(step, "name")  # noqa: A001 — as the part calls it
    extra = build_extra(NAME, unknown_fields(step, {"type", "id", "name", "arguments"}))
    return [rq.Call(id, name, as_json(strict_fields.get_object(step, "arguments")), extra=extra)]


def _read_result(step: Object) -> list[rq.AnyPart]:
    given: Any = step.get("result")
    content: list[rq.ResultPart]
    if isinstance(given, str):
        content = [rq.Text(given)]
    elif isinstance(given, list):
        content = cast("list[rq.ResultPart]", strict_fields.read_each(given, _read_content, "result"))  # pyright: ignore[reportUnknownArgumentType]
    else:
        content = [] if given is None else [rq.Json(as_json(given))]
    failed = strict_fields.get_flag(step, "is_error")
    own = unknown_fields(step, {"type", "call_id", "name", "result", "is_error"})
    extra = build_extra(NAME, own, listed=isinstance(given, list), said=failed is False)
    name = strict_fields.get_text(step, "name")
    return [rq.Result(strict_fields.require_text(step, "call_id"), name, content, failed or False, extra=extra)]


def _read_content(content: Object) -> rq.AnyPart:
    kind = strict_fields.get_text(content, "type")
    if kind == "text":
        return rq.Text(
            strict_fields.require_text(content, "text"),
            extra=build_extra(NAME, unknown_fields(content, {"type", "text"})),
        )
    if kind not in _CONTENTS:
        return rq.Opaque(NAME, kind, content)
    media, url, data = (strict_fields.get_text(content, key) for key in ("mime_type", "uri", "data"))
    usual = media.partition("/")[0] == kind or (kind == "document" and media.startswith("application/"))
    extra = build_extra(NAME, unknown_fields(content, {"type", "mime_type", "uri", "data"}), kind="" if usual else kind)
    return rq.File(media or f"{kind}/*", url, data, extra=extra)


_CONTENTS = {"text": "", "image": "", "audio": "", "video": "", "document": ""}
_STEP_READERS: dict[str, Callable[[Object], list[rq.AnyPart]]] = {
    "model_output": _said, "thought": _read_thought, "function_call": _read_call, "function_result": _read_result,
}  # fmt: skip


_MODE_NAMES = {mode: word for word, mode in reversed(MODES.items())}


def write_interaction(request: rq.Request, draft: PartWriter) -> Object:
    """A body of the Interactions API."""
    own, marks = split_extra(request.extra, NAME)
    body: Object = {"model": request.model} if request.model else {}
    messages = list(request.messages)
    if messages and messages[0].role == "system":
        body["system_instruction"] = "\n".join(part.text for part in messages.pop(0).parts if isinstance(part, rq.Text))
    body["input"] = _write_input(messages, marks["interaction"], draft)
    tools = [made for tool in request.tools for made in _write_tool(tool, draft)]
    if tools:
        body["tools"] = tools
    config = {**_write_config(request), **own.get("generation_config", {})}
    if config:
        body["generation_config"] = config
    if request.stream:
        body["stream"] = True
    if request.settings.store is not None:
        body["store"] = request.settings.store
    body.update({key: value for key, value in own.items() if key != "generation_config"})
    add_missing(body, marks.get("also"))
    return body


def _write_config(request: rq.Request) -> Object:
    asked, choice = request.settings, request.choice
    words = {known: word for word, known in SUMMARIES.items()}
    word = None if choice is None else split_extra(choice.extra, NAME)[1].get("word") or _MODE_NAMES.get(choice.mode)
    said: Object = {
        "temperature": asked.temperature, "top_p": asked.top_p, "seed": asked.seed,
        "stop_sequences": asked.stop or None, "max_output_tokens": asked.max_output,
        "thinking_level": asked.effort or None, "tool_choice": word,
        "thinking_summaries": None if asked.thoughts is None else words[asked.thoughts],
    }  # fmt: skip
    return {key: value for key, value in said.items() if value is not None}


def _write_tool(tool: rq.Tool, draft: PartWriter) -> list[Object]:
    own, _ = draft.split_extra(tool.extra)
    if "tool" in own:
        return [own["tool"]]
    made: Object = {"type": "function", "name": tool.name}
    if tool.description:
        made["description"] = tool.description
    if tool.schema is not None:
        made["parameters"] = tool.schema
    return [{**made, **own}]


def _write_input(messages: list[rq.Message], shape: str, draft: PartWriter) -> Any:
    if len(messages) == 1 and messages[0].role == "user":
        parts = messages[0].parts
        if shape == "text" and len(parts) == 1 and isinstance(parts[0], rq.Text):
            return parts[0].text
        if shape == "contents":
            return [_write_content(part, draft) for part in parts]
    return [step for message in messages for step in _write_steps(message, draft)]


def _write_steps(message: rq.Message, draft: PartWriter) -> list[Object]:
    made: list[Object] = []
    user = message.role != "assistant"
    for part in message.parts:
        own, marks = draft.split_extra(getattr(part, "extra", None))
        write = _STEP_WRITERS.get(type(part))
        if write is not None:
            made.append(write(part, own, marks, draft))
        elif isinstance(part, rq.Opaque) and not user:
            made.append(part.data)
        elif "turn" in marks:
            _write_turn(part, marks["turn"], user=user, made=made, draft=draft)
        elif made and "content" in made[-1] and "step" not in marks:
            made[-1]["content"].append(_write_content(part, draft))
        else:
            made.append({"type": "user_input" if user else "model_output", "content": [_write_content(part, draft)]})
    return made


def _write_turn(part: Any, form: str, *, user: bool, made: list[Object], draft: PartWriter) -> None:
    if form == "text":
        made.append({"role": "user" if user else "model", "content": part.text})
    elif made:
        made[-1]["content"].append(_write_content(part, draft))
    else:
        made.append({"role": "user" if user else "model", "content": [_write_content(part, draft)]})


def _write_thought(_part: rq.Reasoning, own: Object, marks: Object, _: PartWriter) -> Object:
    pieces = {"summary": marks["pieces"]} if "pieces" in marks else {}
    return {"type": "thought", **pieces, **own}


def _write_call(call: rq.Call, own: Object, _marks: Object, _: PartWriter) -> Object:
    return {"type": "function_call", "id": call.id, "name": call.name, "arguments": input_of(call)[0], **own}


def _write_result(result: rq.Result, own: Object, marks: Object, draft: PartWriter) -> Object:
    made: Object = {"type": "function_result", "call_id": result.call}
    if result.name:
        made["name"] = result.name
    only = result.content[0] if len(result.content) == 1 and not marks.get("listed") else None
    if isinstance(only, rq.Json):
        made["result"] = plain_or_raw(only.json)
    elif isinstance(only, rq.Text):
        made["result"] = only.text
    elif result.content or marks.get("listed"):
        made["result"] = [_write_content(part, draft) for part in result.content]
    if result.failed or marks.get("said"):
        made["is_error"] = result.failed
    return {**made, **own}


def _write_content(part: Any, draft: PartWriter) -> Object:
    if isinstance(part, rq.Opaque):
        return part.data if part.protocol == NAME else {"type": "text", "text": ""}
    own, marks = draft.split_extra(part.extra)
    if not isinstance(part, rq.File):
        return {"type": "text", "text": part.text if isinstance(part, rq.Text) else part.json, **own}
    kind = part.media.partition("/")[0]
    kind = marks.get("kind") or (kind if kind in ("image", "audio", "video") else "document")
    where: Object = {"uri": part.url} if part.url else {"data": part.data}
    media = {} if part.media.endswith("/*") else {"mime_type": part.media}
    return {"type": kind, **where, **media, **own}


_STEP_WRITERS: dict[type, Any] = {rq.Reasoning: _write_thought, rq.Call: _write_call, rq.Result: _write_result}
