"""What a function answered: Gemini's `response`, an object, ↔ a result's content.

`output` and `error` are Google's own words for what a function gave and for what went wrong; without them the whole
object is the output. Several parts in a row are a list of objects with a `type`, in the one key `content`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from penstock import request as rq
from penstock.jsontext import as_json, plain_or_raw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.pick import Object

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
