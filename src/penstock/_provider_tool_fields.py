"""Tools that providers run: web search, page fetch, code execution.

Every provider has its own JSON for their inputs and results. These functions read them by their field names, so that an
encoder can write them as tools of its protocol. No protocol is known by name.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Literal, TypeAlias, cast

from penstock import _lenient_fields as lenient
from penstock._lenient_json import try_decode

Kind: TypeAlias = Literal["search", "page", "program"]
KINDS: dict[str, Kind] = {
    "web_search": "search", "google_search": "search",
    "web_fetch": "page", "url_context": "page",
    "code_execution": "program", "code_interpreter": "program", "bash_code_execution": "program",
}  # fmt: skip
_ADDRESSES = ("url", "uri")
_OUTPUTS = ("stdout", "output", "logs", "stderr")
_MOST = 1000  # objects that are read in a result


def search_queries(given: str) -> list[str]:
    """Returns the search queries of an input."""
    return _texts(given, ("query", "queries"))


def page_urls(given: str) -> list[str]:
    """Returns the URLs of an input."""
    return _texts(given, (*_ADDRESSES, "urls"))


def program_code(given: str) -> str:
    """Returns the code of an input."""
    return next(iter(_texts(given, ("code", "command"))), "")


def found_pages(answer: str) -> list[tuple[str, str]]:
    """Returns the URLs and titles in a result, each once."""
    found: dict[str, str] = {}
    for one in _objects(_value(answer)):
        address = lenient.get_text(one, *_ADDRESSES)
        if address:
            found.setdefault(address, lenient.get_text(one, "title"))
    return list(found.items())


def program_output(answer: str) -> str:
    """Returns the output of a program."""
    value = _value(answer)
    if isinstance(value, str):
        return value
    return "".join(lenient.get_text(one, name) for one in _objects(value) for name in _OUTPUTS)


def _value(json: str) -> Any:
    value = try_decode(json)
    return value if isinstance(value, dict | list | str) else None  # pyright: ignore[reportUnknownVariableType]


def _texts(given: str, names: tuple[str, ...]) -> list[str]:
    """Returns the texts under these names at any depth, each once. A list has several."""
    made: dict[str, None] = {}
    for one in _objects(_value(given)):
        for name in names:
            value = one.get(name)
            several: list[Any] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
            made.update((text, None) for text in several if isinstance(text, str) and text)
    return list(made)


def _objects(value: Any) -> list[dict[str, Any]]:
    """Returns the objects in a value, from the outside in."""
    found: list[dict[str, Any]] = []
    waiting: deque[Any] = deque([value])
    while waiting and len(found) < _MOST:  # not recursive: the data may be of any depth
        one = waiting.popleft()
        if isinstance(one, dict):
            found.append(cast("dict[str, Any]", one))
            waiting += cast("dict[str, Any]", one).values()
        elif isinstance(one, list):
            waiting += one
    return found
