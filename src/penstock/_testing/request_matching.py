"""Compares a request with recorded ones: what does not count is left out, and differences are described.

Ids of tool calls are numbered in the order of their appearance: some providers give calls no id, and then each run has
other ones. Fields that identify a user or a cache do not count.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import msgspec

from penstock._lenient_fields import as_object, get_list
from penstock._redaction import MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock._testing.cassette_file import RecordedRequest

Difference: TypeAlias = tuple[str, Any, Any]  # path, recorded, sent
_UNIMPORTANT = frozenset({"metadata", "prompt_cache_key", "safety_identifier", "user"})  # at the top of a body
_ID_FIELDS = frozenset({"call_id", "tool_call_id", "tool_use_id", "toolUseId"})
_CALL_FIELDS = ("function", "name", "type")  # an object with one of them and an `id` is a call
_BOUNDARY = re.compile(r"boundary=\"?([^\";]+)")
_ABSENT: Any = object()
_COMPARED = 1000  # characters that are compared to find the nearest request
_SHOWN = 80  # characters of a value in a message
_OTHER_PATH = 1000  # differences that another path counts for


class RequestMatcher:
    """Says which recorded request a request is. `ignore`: paths such as `messages.0.content`, `tools.*.description`."""

    def __init__(
        self, ignore: Sequence[str] = (), normalize: Callable[[Any], Any] | None = None, *, bodies: bool = True
    ) -> None:
        self._ignore = [path.split(".") for path in ignore]
        self._normalize = normalize
        self._bodies = bodies

    def matches(self, recorded: RecordedRequest, sent: RecordedRequest) -> bool:
        """True if both ask for the same. Hosts do not count: a region or a port may differ."""
        if (recorded.method, _target(recorded.url)) != (sent.method, _target(sent.url)):
            return False
        return not self._bodies or not any(_compare("", self.comparable_body(recorded), self.comparable_body(sent)))

    def comparable_body(self, request: RecordedRequest) -> Any:
        """Returns the body without what does not count."""
        if request.json is msgspec.UNSET:
            return _without_boundary(request)
        value = _number_ids(request.json, {})
        if isinstance(value, dict):
            value = {name: one for name, one in as_object(value).items() if name not in _UNIMPORTANT}
        for path in self._ignore:
            _remove(value, path)
        return self._normalize(value) if self._normalize is not None else value

    def differences(self, recorded: RecordedRequest, sent: RecordedRequest) -> list[Difference]:
        """Returns where two requests differ."""
        found: list[Difference] = []
        if recorded.method != sent.method:
            found.append(("method", recorded.method, sent.method))
        if _target(recorded.url) != _target(sent.url):
            found.append(("path", _target(recorded.url), _target(sent.url)))
        return [*found, *_compare("", self.comparable_body(recorded), self.comparable_body(sent))]

    def distance(self, recorded: RecordedRequest, sent: RecordedRequest) -> float:
        """Returns a number that is small for similar requests."""
        return sum(
            _OTHER_PATH if path in {"method", "path"} else 2 - _similarity(one, other)
            for path, one, other in self.differences(recorded, sent)
        )


def describe_difference(row: Difference) -> str:
    """Returns a difference in three lines."""
    path, recorded, sent = row
    shown = _show_both(recorded, sent)
    return f"    {path or 'the body'}\n      recorded: {shown[0]}\n      sent:     {shown[1]}"


def same_host(recorded: RecordedRequest, sent: RecordedRequest) -> bool:
    """True if both are for the same host."""
    return urlsplit(recorded.url).hostname == urlsplit(sent.url).hostname


def _target(url: str) -> tuple[str, str]:
    """Returns the path and the query, without keys in it: to replay, there is none."""
    parts = urlsplit(url)
    return parts.path, "&".join(field for field in parts.query.split("&") if not field.endswith(f"={MARK}"))


def _without_boundary(request: RecordedRequest) -> bytes:
    """Returns a body that is not JSON. The boundary of a form is random."""
    data = b"".join(request.pieces())
    found = _BOUNDARY.search(request.headers.get("content-type", ""))
    return data.replace(found[1].encode(), b"boundary") if found else data


def _number_ids(value: Any, numbers: dict[str, str]) -> Any:
    """Returns a copy with numbers in place of the ids of calls. The depth of the value is limited where it is read."""
    if isinstance(value, list):
        return [_number_ids(one, numbers) for one in _as_list(value)]
    if not isinstance(value, dict):
        return value
    fields = as_object(value)
    is_call = any(name in fields for name in _CALL_FIELDS)
    return {
        name: numbers.setdefault(one, f"#{len(numbers) + 1}")
        if isinstance(one, str) and (name in _ID_FIELDS or (name == "id" and is_call))
        else _number_ids(one, numbers)
        for name, one in fields.items()
    }


def _as_list(value: Any) -> list[Any]:
    return get_list({"": value}, "")


def _remove(value: Any, path: list[str]) -> None:
    """Removes a path from a value; `*` is every item."""
    name, rest = path[0], path[1:]
    if isinstance(value, list):
        items = _as_list(value)
        places: list[Any] = list(range(len(items))) if name == "*" else [int(name)] if name.isdigit() else []
        places = [place for place in places if place < len(items)]
    else:
        fields = as_object(value)
        places = list(fields) if name == "*" else [name] if name in fields else []
    for place in places:
        if rest:
            _remove(value[place], rest)
        else:
            value[place] = None


def _compare(path: str, recorded: Any, sent: Any) -> Iterator[Difference]:
    if recorded == sent or (isinstance(recorded, str) and isinstance(sent, str) and _fits(recorded, sent)):
        return
    if isinstance(recorded, dict) and isinstance(sent, dict):
        first, second = as_object(recorded), as_object(sent)
        for name in {**first, **second}:
            inner = f"{path}.{name}" if path else name
            yield from _compare(inner, first.get(name, _ABSENT), second.get(name, _ABSENT))
    elif isinstance(recorded, list) and isinstance(sent, list):
        one, two = _as_list(recorded), _as_list(sent)
        for number in range(max(len(one), len(two))):
            pair = (items[number] if number < len(items) else _ABSENT for items in (one, two))
            yield from _compare(f"{path}[{number}]", *pair)
    else:
        yield path, recorded, sent


def _fits(recorded: str, sent: str) -> bool:
    """True if the texts are the same but for removed secrets. To replay, secrets are not known or are other ones."""
    first, *rest = recorded.split(MARK)
    if not rest or not sent.startswith(first):
        return False
    at = len(first)
    for piece in rest[:-1]:
        found = sent.find(piece, at + 1)
        if found < 0:
            return False
        at = found + len(piece)
    return len(sent) > at + len(rest[-1]) and sent.endswith(rest[-1])


def _similarity(recorded: Any, sent: Any) -> float:
    """Returns how similar two values are, from 0 to 1."""
    first, second = _show(recorded)[:_COMPARED], _show(sent)[:_COMPARED]
    return SequenceMatcher(None, first, second, autojunk=False).quick_ratio()


def _show_both(recorded: Any, sent: Any) -> tuple[str, str]:
    """Returns two values as text, around their first difference if they are long."""
    texts = [_show(one) for one in (recorded, sent)]
    if max(map(len, texts)) <= _SHOWN:
        return texts[0], texts[1]
    same = next((n for n, pair in enumerate(zip(*texts, strict=False)) if pair[0] != pair[1]), min(map(len, texts)))
    start = max(same - _SHOWN // 4, 0)
    first, second = (
        f"{'…' if start else ''}{text[start : start + _SHOWN]}{'…' if len(text) > start + _SHOWN else ''}"
        for text in texts
    )
    return first, second


def _show(value: Any) -> str:
    if value is _ABSENT:
        return "(absent)"
    if isinstance(value, bytes):
        return repr(value)
    return msgspec.json.encode(value).decode()
