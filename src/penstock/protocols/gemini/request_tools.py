"""Tools and tool choice of a generateContent request → canonical. `write_tools.py` is the way back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock import reading
from penstock import request as rq
from penstock.carrying import grammar_of
from penstock.errors import BadRequest
from penstock.protocols.gemini.own import NAME
from penstock.protocols.gemini.schema import to_json
from penstock.protocols.gemini.spelling import keys
from penstock.reading import keep, rest

if TYPE_CHECKING:
    from penstock.pick import Object

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
    return [tool for row in reading.rows(body, "tools", reader.read) for tool in row]


class _Tools:
    """State: how many objects there were, and whether one of them had functions."""

    def __init__(self) -> None:
        self._count = 0
        self._functions = False

    def read(self, given: Object) -> list[rq.Tool]:
        """One object of the list: functions, or one of Google's tools, or several of those under their keys."""
        given = keys(given)
        said = [key for key, value in given.items() if value is not None]
        self._count += 1
        again = _DECLARATIONS in said and self._functions
        self._functions = self._functions or _DECLARATIONS in said
        group = self._count if again or len(said) > 1 else 0
        made: list[rq.Tool] = []
        for key in said:
            if key == _DECLARATIONS:
                made += reading.rows(given, key, lambda one: _function(keys(one), group))
            else:
                extra = keep(NAME, {"tool": {key: given[key]}}, group=group)
                made.append(rq.Tool(_HUMP.sub("_", key).lower(), kind="provider", extra=extra))
        return made


def _function(said: Object, group: int) -> rq.Tool:
    unknown = rest(said, _TOOL) if said.keys() - _TOOL else {}
    schema, subset = _schema(said)
    free = None if schema is None else grammar_of(schema)
    description = reading.text(said, "description")
    empty = "description" in said and not description
    marks = {"group": group, "parameters": subset, "empty": empty}
    extra = keep(NAME, unknown, **marks) if unknown or any(marks.values()) else None
    name = reading.needed(said, "name")
    if free is not None:
        return rq.Tool(name, description, free or None, kind="custom", extra=extra)
    return rq.Tool(name, description, schema, extra=extra)


def _schema(said: Object) -> tuple[Object | None, Any]:
    """The schema, and what it was if it was said in Gemini's own way."""
    if said.get("parametersJsonSchema") is not None:
        return reading.table(said, "parametersJsonSchema"), None
    if said.get("parameters") is None:
        return None, None
    given = reading.table(said, "parameters")
    schema = to_json(given)
    return schema, True if schema is given else given


def read_choice(config: Object) -> tuple[rq.ToolChoice | None, Object]:
    """Which functions may or must be called, and what else the tools' settings say."""
    beside = rest(config, {"functionCallingConfig"})
    if config.get("functionCallingConfig") is None:
        return None, beside
    try:
        return reading.inside(config, "functionCallingConfig", lambda said: _choice(keys(said))), beside
    except BadRequest as error:
        raise error.at("toolConfig") from None


def _choice(said: Object) -> rq.ToolChoice:
    word = said.get("mode")
    if not isinstance(word, str | int | None) or word not in MODES:
        raise BadRequest("AUTO, ANY, NONE or VALIDATED", word, "mode")
    names = reading.strings(said, "allowedFunctionNames")
    mode = MODES[word]
    if mode == "required" and len(names) == 1:
        mode = "tool"
    usual = "VALIDATED" if mode == "auto" and names else {"auto": "AUTO", "none": "NONE"}.get(mode, "ANY")
    marks = {"word": [word]} if word != usual else {}
    return rq.ToolChoice(mode, names, extra=keep(NAME, rest(said, {"mode", "allowedFunctionNames"}), **marks))
