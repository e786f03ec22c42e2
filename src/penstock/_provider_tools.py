"""What tools that providers run themselves have in common: a search, the reading of a page, a program.

Every provider spells their input and their answer in its own way, as JSON. Here they are read by the names of their
fields, whoever wrote them, so that an encoder can write them as its own protocol's tools. No protocol is known by name.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Literal, TypeAlias, cast

from penstock import _lenient_fields as lenient
from penstock._jsontext import try_decode

Kind: TypeAlias = Literal["search", "page", "program"]
KINDS: dict[str, Kind] = {
    "web_search": "search", "google_search": "search",
    "web_fetch": "page", "url_context": "page",
    "code_execution": "program", "code_interpreter": "program", "bash_code_execution": "program",
}  # fmt: skip
_ADDRESSES = ("url", "uri")
_OUTPUTS = ("stdout", "output", "logs", "stderr")
_MOST = 1000  # values that are looked at in an answer


def search_queries(given: str) -> list[str]:
    """What was searched for."""
    return _texts(given, ("query", "queries"))


def page_urls(given: str) -> list[str]:
    """The pages that were to be read."""
    return _texts(given, (*_ADDRESSES, "urls"))


def program_code(given: str) -> str:
    """The code that was run."""
    return next(iter(_texts(given, ("code", "command"))), "")


def found_pages(answer: str) -> list[tuple[str, str]]:
    """Addresses and titles of the pages that were found, each once."""
    found: dict[str, str] = {}
    for one in _objects(_value(answer)):
        address = lenient.get_text(one, *_ADDRESSES)
        if address:
            found.setdefault(address, lenient.get_text(one, "title"))
    return list(found.items())


def program_output(answer: str) -> str:
    """What a program wrote."""
    value = _value(answer)
    if isinstance(value, str):
        return value
    return "".join(lenient.get_text(one, name) for one in _objects(value) for name in _OUTPUTS)


def _value(json: str) -> Any:
    value = try_decode(json)
    return value if isinstance(value, dict | list | str) else None  # pyright: ignore[reportUnknownVariableType]


def _texts(given: str, names: tuple[str, ...]) -> list[str]:
    """The texts under these names, wherever they stand; a list holds several. Each once."""
    made: dict[str, None] = {}
    for one in _objects(_value(given)):
        for name in names:
            value = one.get(name)
            several: list[Any] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
            made.update((text, None) for text in several if isinstance(text, str) and text)
    return list(made)


def _objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a value, from the outside in."""
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
