"""Tools, tool choice and function responses ↔ canonical tools, tool choice and result content.

`output` and `error` are Google's keys for the output and the error of a function. Without them the whole object is the
output. Several parts are a list of objects with a `type`, under the one key `content`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import msgspec

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._lenient_json import as_json, decode_unless_too_deep
from penstock._markers import parse_free_text_schema
from penstock._protocols.gemini.request_settings import to_json_schema, write_schema
from penstock._protocols.gemini.wire import NAME, to_camel_keys
from penstock._strict_fields import build_extra, unknown_fields
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock._lenient_fields import Object
    from penstock._request_writer import RequestDraft

_MODES: dict[Any, rq.ChoiceMode] = {
    **dict.fromkeys(("AUTO", "VALIDATED", "MODE_UNSPECIFIED", None, 0, 1, 4), "auto"),
    **dict.fromkeys(("ANY", 2), "required"),
    **dict.fromkeys(("NONE", 3), "none"),
}
_MODE_NAMES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "tool": "ANY"}
_DECLARATIONS = "functionDeclarations"
_FUNCTION = frozenset({"name", "description", "parameters", "parametersJsonSchema"})
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


# ── reading tools ─────────────────────────────────────────────────────────────────────────────────


def read_tools(body: Object) -> list[rq.Tool]:
    """Reads the client's functions and Google's own tools."""
    has_functions: list[bool] = []  # of each object of the list so far

    def read_group(group: Object) -> list[rq.Tool]:
        """Reads one object of the list: functions, and Google's tools by their keys."""
        group = to_camel_keys(group)
        keys = [key for key, value in group.items() if value is not None]
        is_repeated = _DECLARATIONS in keys and any(has_functions)
        has_functions.append(_DECLARATIONS in keys)
        number = len(has_functions) if is_repeated or len(keys) > 1 else 0
        return [tool for key in keys for tool in _read_tools(group, key, number)]

    return [tool for row in strict.read_objects(body, "tools", read_group) for tool in row]


def _read_tools(group: Object, key: str, number: int) -> list[rq.Tool]:
    if key == _DECLARATIONS:
        return strict.read_objects(group, key, lambda one: _read_function(to_camel_keys(one), number))
    extra = build_extra(NAME, {"tool": {key: group[key]}}, group=number)
    return [rq.Tool(_WORD_START.sub("_", key).lower(), kind="provider", extra=extra)]


def _read_function(function: Object, group: int) -> rq.Tool:
    unknown = unknown_fields(function, _FUNCTION)
    schema, original = _read_parameters(function)
    grammar = None if schema is None else parse_free_text_schema(schema)
    description = strict.get_text(function, "description")
    marks = {"group": group, "parameters": original, "empty": "description" in function and not description}
    tool = rq.Tool(
        strict.require_text(function, "name"), description, schema, extra=build_extra(NAME, unknown, **marks)
    )
    if grammar is not None:
        tool.kind, tool.schema = "custom", grammar or None
    return tool


def _read_parameters(function: Object) -> tuple[Object | None, Any]:
    """Returns the JSON Schema, and the original if it is in the subset dialect (True if both are equal)."""
    if function.get("parametersJsonSchema") is not None:
        return strict.get_object(function, "parametersJsonSchema"), None
    if function.get("parameters") is None:
        return None, None
    original = strict.get_object(function, "parameters")
    schema = to_json_schema(original)
    return schema, True if schema is original else original


def read_choice(config: Object) -> tuple[rq.ToolChoice | None, Object]:
    """Returns the tool choice, and the other fields of `toolConfig`."""
    others = unknown_fields(config, {"functionCallingConfig"})
    try:
        return strict.read_optional(config, "functionCallingConfig", _read_mode), others
    except BadRequest as error:
        raise error.at("toolConfig") from None


def _read_mode(config: Object) -> rq.ToolChoice:
    config = to_camel_keys(config)
    original = config.get("mode")
    if not isinstance(original, str | int | None) or original not in _MODES:
        raise BadRequest("AUTO, ANY, NONE or VALIDATED", original, "mode")
    names = strict.get_strings(config, "allowedFunctionNames")
    mode = _MODES[original]
    if mode == "required" and len(names) == 1:
        mode = "tool"
    marks = {"word": [original]} if original != _get_mode_name(mode, names) else {}
    unknown = unknown_fields(config, {"mode", "allowedFunctionNames"})
    return rq.ToolChoice(mode, names, extra=build_extra(NAME, unknown, **marks))


def _get_mode_name(mode: str, names: list[str]) -> str:
    """Names that may be called, but need not be, have the mode VALIDATED."""
    return "VALIDATED" if mode == "auto" and names else _MODE_NAMES[mode]


# ── writing tools ─────────────────────────────────────────────────────────────────────────────────


def write_tools(tools: Iterable[rq.Tool], draft: RequestDraft, *, subset: bool) -> list[Object]:
    """Writes functions in one object and each of Google's tools in its own, unless they were read in other groups."""
    groups: dict[int | str, Object] = {}
    for tool in tools:
        native, marks = draft.split_extra(tool.extra)
        if tool.cache:
            draft.report_loss("cache")
        is_function = tool.kind in ("function", "custom")
        if not is_function and "tool" not in native:
            draft.report_loss("tool")
            continue
        key = marks.get("group") or ("functions" if is_function else f"tool {len(groups)}")
        group = groups.setdefault(key, {})
        if is_function:
            function = _write_function(tool, native, marks, draft, subset=subset)
            group.setdefault(_DECLARATIONS, []).append(function)
        else:
            group.update(native["tool"])
    return list(groups.values())


def _write_function(tool: rq.Tool, native: Object, marks: Object, draft: RequestDraft, *, subset: bool) -> Object:
    if tool.strict is not None:
        draft.report_loss("strict")
    if tool.namespace:
        draft.report_loss("namespace")
    function: Object = {"name": tool.name}
    if tool.description or marks.get("empty"):
        function["description"] = tool.description
    schema = draft.write_input_schema(tool)
    if schema is not None:
        keys = ("parameters", "parametersJsonSchema")
        function.update(write_schema(schema, marks.get("parameters"), keys, draft, subset=subset))
    return {**function, **native}


def write_choice(choice: rq.ToolChoice, draft: RequestDraft) -> Object:
    """Writes a mode and its names, as they were spelled if they mean the same."""
    native, marks = draft.split_extra(choice.extra)
    config: Object = {"mode": _get_mode_name(choice.mode, choice.names)}
    if "word" in marks:
        spelled = marks["word"][0]
        if _MODE_NAMES[_MODES[spelled]] == _MODE_NAMES[choice.mode]:
            config = {"mode": spelled} if spelled is not None else {}
    if choice.names:
        config["allowedFunctionNames"] = choice.names
    return {**config, **native}


# ── function responses ────────────────────────────────────────────────────────────────────────────

_OUTPUT, _ERROR, _CONTENT = "output", "error", "content"


def read_response(
    response: Object | None, files: Sequence[rq.File | rq.Opaque]
) -> tuple[list[rq.ResultPart], bool, Object]:
    """Returns the content, whether the function failed, and marks of how it was spelled."""
    if not response:
        return list(files), False, {"bare": response is None}
    key = next(iter(response)) if len(response) == 1 else ""
    failed = key == _ERROR
    value: Any = response[key] if key in (_OUTPUT, _ERROR) else response
    items = _get_items(value, len(files)) if key in (_ERROR, _CONTENT) else None
    if items is not None:
        return _read_items(items, files), failed, {"listed": True}
    content = [rq.Text(value) if isinstance(value, str) else rq.Json(as_json(value))]
    return [*content, *files], failed, {"wrapped": key == _OUTPUT and _is_direct_output(value)}


def _get_items(value: Any, files: int) -> list[Object] | None:
    """Returns the items of a list that this module could have written; None for any other value."""
    match value:
        case {"content": list(items), **others} if not others and all(_is_item(item, files) for item in items):  # pyright: ignore[reportUnknownVariableType]
            return cast("list[Object]", items)
        case _:
            return None


def _is_item(item: Any, files: int) -> bool:
    match item:
        case {"type": "text", "text": str(), **others} | {"type": "json", "json": _, **others}:
            return not others
        case {"type": "file", "file": int(number), **others}:
            return not others and not isinstance(number, bool) and 0 <= number < files
        case _:
            return False


def _read_items(items: list[Object], files: Sequence[rq.File | rq.Opaque]) -> list[rq.ResultPart]:
    """Reads the items in order. Files that no item refers to come last."""
    content: list[rq.ResultPart] = []
    others = dict(enumerate(files))
    for item in items:
        if item["type"] == "text":
            content.append(rq.Text(item["text"]))
        elif item["type"] == "json":
            content.append(rq.Json(as_json(item["json"])))
        elif item["file"] in others:
            content.append(others.pop(item["file"]))
    return [*content, *others.values()]


def write_response(content: Sequence[rq.ResultPart], failed: bool, marks: Object) -> Object | None:  # noqa: FBT001
    """Writes texts and JSON values. Files are written beside the response; items refer to them by number."""
    values = [part for part in content if isinstance(part, rq.Text | rq.Json)]
    if not values and not failed and not marks.get("listed"):
        return None if marks.get("bare") else {}
    if len(values) != 1 or content[0] is not values[0] or marks.get("listed"):
        return _write_items(content, failed=failed)
    only, key = values[0], _ERROR if failed else _OUTPUT
    if isinstance(only, rq.Text):
        return {key: only.text}
    value = _parse_json(only)
    if isinstance(value, str) or (failed and _get_items(value, len(content)) is not None):
        return _write_items([only], failed=failed)
    if failed or marks.get("wrapped") or not _is_direct_output(value):
        return {key: value}
    return cast("Object", value)


def _parse_json(part: rq.Json) -> Any:
    try:
        return decode_unless_too_deep(part.json)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return part.json


def _is_direct_output(value: Any) -> bool:
    """True if a value can be the whole response and is read back as such."""
    if not isinstance(value, dict) or not value:
        return False
    return len(cast("Object", value)) > 1 or next(iter(cast("Object", value))) not in (_OUTPUT, _ERROR, _CONTENT)


def _write_items(content: Sequence[rq.ResultPart], *, failed: bool) -> Object:
    items: list[Object] = []
    files = 0
    for part in content:
        if isinstance(part, rq.Text):
            items.append({"type": "text", "text": part.text})
        elif isinstance(part, rq.Json):
            items.append({"type": "json", "json": _parse_json(part)})
        else:
            items.append({"type": "file", "file": files})
            files += 1
    return {_ERROR: {_CONTENT: items}} if failed else {_CONTENT: items}
