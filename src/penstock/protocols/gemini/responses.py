"""What a function answered: Gemini's `response`, an object, ↔ a result's content.

`output` and `error` are Google's own words for what a function gave and for what went wrong; without them the whole
object is the output. Several parts in a row are a list of objects with a `type`, in the one key `content`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from penstock import request as rq
from penstock.jsontext import as_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.pick import Object

OUTPUT, ERROR, CONTENT = "output", "error", "content"
_OWN = frozenset({OUTPUT, ERROR, CONTENT})
_FIELDS = {"text": str, "json": object, "file": int}
_decode = msgspec.json.Decoder().decode


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
        content, left = _content(items, files)
        return [*content, *left], failed, {"listed": len(content) == 1}
    content = [rq.Text(value) if isinstance(value, str) else rq.Json(as_json(value))]
    return [*content, *files], failed, {"wrapped": word == OUTPUT and _stands_alone(value)}


def _listed(value: Any, files: int) -> list[Object] | None:
    """The items of a list that this module could have written."""
    items = cast("Object", value).get(CONTENT) if isinstance(value, dict) and len(cast("Object", value)) == 1 else None
    if not isinstance(items, list) or not items:
        return None
    fine = all(_item(item, files) for item in cast("list[Any]", items))
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


def _content(
    items: list[Object], files: Sequence[rq.File | rq.Opaque]
) -> tuple[list[rq.ResultPart], list[rq.File | rq.Opaque]]:
    """The items in order, files in their places, and the files that no item speaks of."""
    content: list[rq.ResultPart] = []
    placed: set[int] = set()
    for item in items:
        if item["type"] == "text":
            content.append(rq.Text(item["text"]))
        elif item["type"] == "json":
            content.append(rq.Json(as_json(item["json"])))
        elif item["file"] not in placed:
            placed.add(item["file"])
            content.append(files[item["file"]])
    return content, [file for number, file in enumerate(files) if number not in placed]


def write_response(content: Sequence[rq.ResultPart], failed: bool, marks: Object) -> Object | None:  # noqa: FBT001
    """The response for texts, values and files; the files themselves travel beside it."""
    said = [part for part in content if not isinstance(part, rq.File)]
    if not said and not failed:
        return None if marks.get("bare") else {}
    behind = not any(isinstance(part, rq.File) for part in content[: len(said)])
    if len(said) != 1 or not behind or marks.get("listed"):
        return _outer({CONTENT: _items(content)} if said or failed else "", failed)
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


def _value(part: rq.ResultPart) -> Any:
    try:
        return _decode(part.json) if isinstance(part, rq.Json) else None
    except (msgspec.DecodeError, UnicodeEncodeError):
        return cast("rq.Json", part).json


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
        elif isinstance(part, rq.File):
            made.append({"type": "file", "file": files})
            files += 1
        else:
            made.append({"type": "json", "json": _value(part)})
    return made
