"""Tools and tool choice of a generateContent request → canonical. `write_tools.py` is the way back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import msgspec

from penstock import request as rq
from penstock import strict_fields
from penstock.carrying import grammar_of, schema_of
from penstock.errors import BadRequest
from penstock.jsontext import as_json, plain_or_raw
from penstock.protocols.gemini.request_settings import to_json, to_subset
from penstock.protocols.gemini.wire import NAME, camel_keys
from penstock.strict_fields import build_extra, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.lenient_fields import Object
    from penstock.protocols.gemini.request_write import PartWriter

MODES: dict[Any, rq.ChoiceMode] = {
    "AUTO": "auto", "ANY": "required", "NONE": "none", "VALIDATED": "auto", "MODE_UNSPECIFIED": "auto", None: "auto",
    0: "auto", 1: "auto", 2: "required", 3: "none", 4: "auto",
}  # fmt: skip
_DECLARATIONS = "functionDeclarations"
_TOOL = frozenset({"name", "description", "parameters", "parametersJsonSchema"})
_HUMP = re.compile(r"(?<!^)(?=[A-Z])")


def read_tools(body: Object) -> list[rq.Tool]:
    """All tools: functions of the client's, and Google's own."""
    reader = _Tools()
    return [tool for row in strict_fields.read_objects(body, "tools", reader.read) for tool in row]


class _Tools:
    """State: how many objects there were, and whether one of them had functions."""

    def __init__(self) -> None:
        self._count = 0
        self._functions = False

    def read(self, given: Object) -> list[rq.Tool]:
        """One object of the list: functions, or one of Google's tools, or several of those under their keys."""
        given = camel_keys(given)
        said = [key for key, value in given.items() if value is not None]
        self._count += 1
        again = _DECLARATIONS in said and self._functions
        self._functions = self._functions or _DECLARATIONS in said
        group = self._count if again or len(said) > 1 else 0
        made: list[rq.Tool] = []
        for key in said:
            if key == _DECLARATIONS:
                made += strict_fields.read_objects(given, key, lambda one: _read_function(camel_keys(one), group))
            else:
                extra = build_extra(NAME, {"tool": {key: given[key]}}, group=group)
                made.append(rq.Tool(_HUMP.sub("_", key).lower(), kind="provider", extra=extra))
        return made


def _read_function(said: Object, group: int) -> rq.Tool:
    unknown = unknown_fields(said, _TOOL) if said.keys() - _TOOL else {}
    schema, subset = _schema(said)
    free = None if schema is None else grammar_of(schema)
    description = strict_fields.get_text(said, "description")
    empty = "description" in said and not description
    marks = {"group": group, "parameters": subset, "empty": empty}
    extra = build_extra(NAME, unknown, **marks) if unknown or any(marks.values()) else None
    name = strict_fields.require_text(said, "name")
    if free is not None:
        return rq.Tool(name, description, free or None, kind="custom", extra=extra)
    return rq.Tool(name, description, schema, extra=extra)


def _schema(said: Object) -> tuple[Object | None, Any]:
    """The schema, and what it was if it was said in Gemini's own way."""
    if said.get("parametersJsonSchema") is not None:
        return strict_fields.get_object(said, "parametersJsonSchema"), None
    if said.get("parameters") is None:
        return None, None
    given = strict_fields.get_object(said, "parameters")
    schema = to_json(given)
    return schema, True if schema is given else given


def read_choice(config: Object) -> tuple[rq.ToolChoice | None, Object]:
    """Which functions may or must be called, and what else the tools' settings say."""
    beside = unknown_fields(config, {"functionCallingConfig"})
    if config.get("functionCallingConfig") is None:
        return None, beside
    try:
        return strict_fields.read_object(config, "functionCallingConfig", lambda said: _choice(camel_keys(said))), beside
    except BadRequest as error:
        raise error.at("toolConfig") from None


def _choice(said: Object) -> rq.ToolChoice:
    word = said.get("mode")
    if not isinstance(word, str | int | None) or word not in MODES:
        raise BadRequest("AUTO, ANY, NONE or VALIDATED", word, "mode")
    names = strict_fields.get_strings(said, "allowedFunctionNames")
    mode = MODES[word]
    if mode == "required" and len(names) == 1:
        mode = "tool"
    usual = "VALIDATED" if mode == "auto" and names else {"auto": "AUTO", "none": "NONE"}.get(mode, "ANY")
    marks = {"word": [word]} if word != usual else {}
    return rq.ToolChoice(
        mode, names, extra=build_extra(NAME, unknown_fields(said, {"mode", "allowedFunctionNames"}), **marks)
    )


_WORDS = {"auto": "AUTO", "none": "NONE", "required": "ANY", "tool": "ANY"}


def write_tools(tools: Iterable[rq.Tool], draft: PartWriter) -> list[Object]:
    """Functions in one object, each of Google's tools in its own, unless they were grouped otherwise."""
    made: list[Object] = []
    groups: dict[int | str, Object] = {}
    for tool in tools:
        own, marks = draft.split_extra(tool.extra)
        if tool.cache:
            draft.report_loss("cache")
        function = tool.kind in ("function", "custom")
        if not function and "tool" not in own:
            draft.report_loss("tool")
            continue
        key = marks.get("group") or ("functions" if function else f"tool {len(made)}")
        if key not in groups:
            groups[key] = {}
            made.append(groups[key])
        if function:
            groups[key].setdefault("functionDeclarations", []).append(_write_function(tool, own, marks, draft))
        else:
            groups[key].update(own["tool"])
    return made


def _write_function(tool: rq.Tool, own: Object, marks: Object, draft: PartWriter) -> Object:
    if tool.strict is not None:
        draft.report_loss("strict")
    if tool.namespace:
        draft.report_loss("namespace")
    made: Object = {"name": tool.name}
    if tool.description or marks.get("empty"):
        made["description"] = tool.description
    if tool.kind == "custom":
        draft.report_carried("free-text")
        made.update(_write_parameters(schema_of(tool), marks, draft))
    elif tool.schema is not None:
        made.update(_write_parameters(tool.schema, marks, draft))
    return {**made, **own}


def _write_parameters(schema: Object, marks: Object, draft: PartWriter) -> Object:
    was = marks.get("parameters")
    if was is True:
        return {"parameters": schema}
    if was and to_json(was) == schema:
        return {"parameters": was}
    whole = (
        schema if "type" in schema or not schema.keys().isdisjoint(("$ref", "anyOf")) else {"type": "object", **schema}
    )
    if draft.quirks.schemas == "subset":
        return {"parameters": to_subset(whole, lambda: draft.report_loss("schema"))}
    return {"parametersJsonSchema": whole}


def write_choice(choice: rq.ToolChoice, draft: PartWriter) -> Object:
    """A mode, and the names it is about. Names that only may be called are a mode of their own."""
    own, marks = draft.split_extra(choice.extra)
    made: Object = {"mode": "VALIDATED" if choice.mode == "auto" and choice.names else _WORDS[choice.mode]}
    if "word" in marks and _WORDS[MODES[marks["word"][0]]] == _WORDS[choice.mode]:
        made = {"mode": marks["word"][0]} if marks["word"][0] is not None else {}
    if choice.names:
        made["allowedFunctionNames"] = choice.names
    return {**made, **own}


OUTPUT, ERROR, CONTENT = "output", "error", "content"
_OWN = frozenset({OUTPUT, ERROR, CONTENT})
_FIELDS = {"text": str, "json": object, "file": int}


def read_response(
    response: Object | None, files: Sequence[rq.File | rq.Opaque]
) -> tuple[list[rq.ResultPart], bool, Object]:
    """The content, whether it is that of a failure, and how it was spelled."""
    if not response:
        return list(files), False, {"bare": response is None}
    word = next(iter(response)) if len(response) == 1 else ""
    failed = word == ERROR
    value: Any = response[word] if word in (OUTPUT, ERROR) else response
    items = _listed(value, len(files)) if word in (ERROR, CONTENT) else None
    if items is not None:
        return _content(items, files), failed, {"listed": True}
    content = [rq.Text(value) if isinstance(value, str) else rq.Json(as_json(value))]
    return [*content, *files], failed, {"wrapped": word == OUTPUT and _stands_alone(value)}


def _listed(value: Any, files: int) -> list[Object] | None:
    """The items of a list that this module could have written."""
    items = cast("Object", value).get(CONTENT) if isinstance(value, dict) and len(cast("Object", value)) == 1 else None
    if not isinstance(items, list):
        return None
    fine = all(_item(item, files) for item in items)  # pyright: ignore[reportUnknownVariableType]
    return cast("list[Object]", items) if fine else None


def _item(item: Any, files: int) -> bool:
    if not isinstance(item, dict) or len(cast("Object", item)) != 2:  # noqa: PLR2004 — a type and a value
        return False
    kind = cast("Object", item).get("type")
    if not isinstance(kind, str) or kind not in _FIELDS or kind not in item:
        return False
    value = cast("Object", item)[kind]
    if not isinstance(value, _FIELDS[kind]) or isinstance(value, bool):
        return kind == "json"
    return kind != "file" or 0 <= cast("int", value) < files


def _content(items: list[Object], files: Sequence[rq.File | rq.Opaque]) -> list[rq.ResultPart]:
    """The items in order, files in their places; files that no item speaks of come last."""
    content: list[rq.ResultPart] = []
    left = dict(enumerate(files))
    for item in items:
        if item["type"] == "text":
            content.append(rq.Text(item["text"]))
        elif item["type"] == "json":
            content.append(rq.Json(as_json(item["json"])))
        elif item["file"] in left:
            content.append(left.pop(item["file"]))
    return [*content, *left.values()]


def write_response(content: Sequence[rq.ResultPart], failed: bool, marks: Object) -> Object | None:  # noqa: FBT001
    """The response for texts, values and files; what is no text and no value travels beside it."""
    said = [part for part in content if isinstance(part, rq.Text | rq.Json)]
    if not said and not failed and not marks.get("listed"):
        return None if marks.get("bare") else {}
    if len(said) != 1 or content[0] is not said[0] or marks.get("listed"):
        return _outer({CONTENT: _items(content)}, failed)
    only = said[0]
    if isinstance(only, rq.Text):
        return {ERROR if failed else OUTPUT: only.text}
    value = _value(only)
    if isinstance(value, str) or (failed and _listed(value, len(content)) is not None):
        return _outer({CONTENT: _items([only])}, failed)
    if failed or marks.get("wrapped") or not _stands_alone(value):
        return {ERROR if failed else OUTPUT: value}
    return cast("Object", value)


def _outer(value: Any, failed: bool) -> Object:  # noqa: FBT001
    return {ERROR: value} if failed else value


def _value(part: rq.Json) -> Any:
    try:
        return plain_or_raw(part.json)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return part.json


def _stands_alone(value: Any) -> bool:
    """Whether a value can be the whole response, and be read as such."""
    if not isinstance(value, dict) or not value:
        return False
    return len(cast("Object", value)) > 1 or next(iter(cast("Object", value))) not in _OWN


def _items(content: Sequence[rq.ResultPart]) -> list[Object]:
    made: list[Object] = []
    files = 0
    for part in content:
        if isinstance(part, rq.Text):
            made.append({"type": "text", "text": part.text})
        elif isinstance(part, rq.Json):
            made.append({"type": "json", "json": _value(part)})
        else:
            made.append({"type": "file", "file": files})
            files += 1
    return made
