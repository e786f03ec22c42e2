"""What a response repeats of its request, in the full form that Open Responses asks for.

What that has no word for (built-in tools, a schema, an effort of one provider's own) is not repeated: it is no news.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import pick
from penstock.protocols.responses.body import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.pick import Object

_OURS = frozenset({"background", "completed_at", "error", "incomplete_details", "store"})  # not the request's to say
_TOOL: Object = {"type": "function", "name": "", "description": None, "parameters": None, "strict": None}
_FORM: Object = {"type": "json_schema", "name": "", "description": None, "strict": False}
_WORDS = {"effort": {"none", "low", "medium", "high", "xhigh"}, "summary": {"concise", "detailed", "auto"}}


def settings(body: Object, *, background: bool = False) -> Object:
    """All of it. A response is stored unless the request says otherwise."""
    said = {key: body[key] for key in DEFAULTS if key not in _OURS and body.get(key) is not None}
    full = {key: whole(said[key]) for key, whole in _WHOLE.items() if key in said}
    return {**said, **full, "background": background, "store": body.get("store") is not False}


def _tools(given: Any) -> list[Object]:
    rows = pick.objects(given)
    return [
        {**_TOOL, **{key: row[key] for key in _TOOL if key in row}} for row in rows if row.get("type") == "function"
    ]


def _thinking(given: Any) -> Object:
    said = pick.as_object(given)
    return {**said, **{key: said[key] if said.get(key) in words else None for key, words in _WORDS.items()}}


def _text(given: Any) -> Object:
    made = {"format": {"type": "text"}, **pick.as_object(given)}
    form = pick.table(made, "format")
    return {**made, "format": {**_FORM, **form, "schema": None}} if form.get("type") == "json_schema" else made


def _choice(given: Any) -> Any:
    """A choice among tools; one of a built-in is said as what it comes to, that some tool must be used."""
    if not isinstance(given, dict):
        return given
    choice = pick.as_object(given)
    if choice.get("type") == "allowed_tools":
        functions = [row for row in pick.rows(choice, "tools") if row.get("type") == "function"]
        return {"mode": "auto", **choice, "tools": functions}
    return choice if choice.get("type") == "function" else "required"


_WHOLE: dict[str, Callable[[Any], Any]] = {
    "tools": _tools, "reasoning": _thinking, "text": _text, "tool_choice": _choice,
}  # fmt: skip
