"""Tools from Python functions: schemas from signatures and docstrings, arguments, results."""

from __future__ import annotations

import asyncio
import enum
import functools
import gc
import itertools
import weakref
from collections import deque
from dataclasses import dataclass
from datetime import date
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict

import jsonschema
import msgspec
import pydantic
import pytest

from penstock import FunctionTool
from penstock import request as rq
from penstock.client import PendingToolCall, tool
from penstock.errors import InputError, ToolError
from tests.support.client_parts import InvalidValue, read_docstring, write_result
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


GOOGLE = """Searches the library.

    It reads all shelves.

    Args:
        query (str): what is looked for,
            in any language
        limit: how many

    Returns:
        titles: of books

    Raises:
        ValueError: never
    """
NUMPY = """Searches the library.

    It reads all shelves.

    Parameters
    ----------
    query : str
        what is looked for,
        in any language
    limit : int, optional
        how many

    Returns
    -------
    list
        titles
    """
SPHINX = """Searches the library.

    It reads all shelves.

    :param str query: what is looked for,
        in any language
    :param limit: how many
    :type limit: int
    :returns: titles
    """


@each("docstring", [GOOGLE, NUMPY, SPHINX])
def test_docstrings_in_every_style(docstring: str) -> None:
    text, parameters = read_docstring(docstring)
    assert text == "Searches the library.\n\nIt reads all shelves."
    assert parameters == {"query": "what is looked for, in any language", "limit": "how many"}


def test_docstrings_without_sections() -> None:
    assert read_docstring(None) == ("", {})
    assert read_docstring("One line: with a colon.") == ("One line: with a colon.", {})
    assert read_docstring("Args:\n    a: first\nAfter it.") == ("", {"a": "first"})


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Box(msgspec.Struct):
    corner: Point
    color: Color = Color.RED


class Options(TypedDict):
    verbose: bool
    note: NotRequired[str]


class Author(pydantic.BaseModel):
    name: str
    born: date | None = None


def everything(  # noqa: PLR0917 — a parameter for every kind of type
    text: str,
    number: float,
    point: Point,
    box: Box,
    options: Options,
    author: Author,
    authors: list[Author],
    names: dict[str, list[int]],
    maybe: int | None,
    either: int | str,
    when: date,
    at_most: Annotated[int, msgspec.Meta(le=5)],
    at_least: Annotated[int, pydantic.Field(ge=5, description="five or more")],
    choice: Literal["a", "b"] = "a",
    color: Color = Color.BLUE,
    anything: Any = None,
) -> str:
    """Takes everything."""
    rest = [text, number, names, maybe, either, at_most, at_least, choice, anything]
    first = f"{point.x} {box.corner.y} {author.name} {authors[0].born} {when.year} {color.name} {options['verbose']}"
    return f"{first} {len(rest)}"


GOOD: dict[str, Any] = {
    "text": "a", "number": 1.5, "point": {"x": 1}, "box": {"corner": {"x": 1, "y": 2}}, "options": {"verbose": True},
    "author": {"name": "Ada"}, "authors": [{"name": "Ada", "born": "1815-12-10"}], "names": {"a": [1]}, "maybe": None,
    "either": "x", "when": "2026-01-02", "at_most": 5, "at_least": 5,
}  # fmt: skip


def test_types_of_every_kind() -> None:
    made = FunctionTool(everything)
    schema = made.definition.schema
    assert schema is not None
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(GOOD, schema)
    assert schema["properties"]["choice"] == {"enum": ["a", "b"], "default": "a"}
    assert schema["properties"]["color"]["default"] == "blue"
    assert schema["properties"]["at_least"]["description"] == "five or more"
    assert "choice" not in schema["required"]
    arguments = made.read_arguments(msgspec.json.encode(GOOD).decode())
    assert arguments["point"] == Point(1, 0)
    assert arguments["author"] == Author(name="Ada")
    (part,) = asyncio.run(made.run(arguments))
    assert part == rq.Text("1 2 Ada 1815-12-10 2026 BLUE True 9")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a nested field": ({"box": {"corner": {"x": "left"}}}, "box.corner.x: Expected `int`, got `str`"),
    "an item": ({"names": {"a": [1, "two"]}}, "names[...][1]: Expected `int`, got `str`"),
    "a literal": ({"choice": "c"}, "choice: Invalid enum value 'c'"),
    "a pydantic field": ({"authors": [{"name": "Ada"}, {}]}, "authors[1].name: Field required"),
    "a bound of msgspec": ({"at_most": 6}, "at_most: Expected `int` <= 5"),
    "a bound of pydantic": ({"at_least": 4}, "at_least: Input should be greater than or equal to 5"),
}


@each("case", WRONG)
def test_errors_name_the_place(case: str) -> None:
    change, message = WRONG[case]
    with pytest.raises(InvalidValue) as caught:
        FunctionTool(everything).read_arguments(msgspec.json.encode({**GOOD, **change}).decode())
    assert message in str(caught.value)


def test_all_errors_are_told_at_once() -> None:
    with pytest.raises(InvalidValue) as caught:
        FunctionTool(everything).read_arguments("{}")
    assert str(caught.value).count("it is required, and missing") == 13


def test_text_that_means_the_value_is_taken() -> None:
    def add(a: int, b: float, c: bool) -> float:
        return a + b + c

    assert FunctionTool(add).read_arguments('{"a":"3","b":"1.5","c":"true"}') == {"a": 3, "b": 1.5, "c": True}


def test_parameters_of_every_kind() -> None:
    def kinds(first: int, /, second: int, *, third: int = 3, **others: str) -> list[Any]:
        return [first, second, third, others]

    made = FunctionTool(kinds)
    assert made.definition.schema is not None
    assert made.definition.schema["additionalProperties"] is True
    (part,) = asyncio.run(made.run(made.read_arguments('{"first":1,"second":2,"x":"y"}')))
    assert part == rq.Json('[1,2,3,{"x":"y"}]')


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, by: int = 1) -> int:
        """Adds."""
        self.count += by
        return self.count

    async def __call__(self, by: int) -> int:
        return self.add(by)


def scale(by: int, factor: int) -> int:
    return by * factor


def test_methods_partials_and_objects() -> None:
    counter = Counter()
    method, instance, partial = (
        FunctionTool(counter.add),
        FunctionTool(counter),
        FunctionTool(functools.partial(scale, factor=2)),
    )
    assert (method.name, instance.name, partial.name) == ("add", "Counter", "scale")
    assert asyncio.run(method.run({"by": 2})) == [rq.Json("2")]
    assert asyncio.run(instance.run({"by": 3})) == [rq.Json("5")]
    assert asyncio.run(partial.run({"by": 4})) == [rq.Json("8")]


def test_the_decorator() -> None:
    @tool
    def plain(a: int) -> int:
        return a + 1

    @tool(name="other", description="Does it.", timeout=3, needs_approval=True)
    def named(a: int) -> int:
        return a + 2

    assert (plain(1), named(1)) == (2, 3)  # still functions
    assert (plain.name, named.name, named.timeout, named.needs_approval) == ("plain", "other", 3, True)
    assert named.definition.description == "Does it."


def variadic(*numbers: int) -> int:
    return sum(numbers)


def unknown(value: Counter) -> None:
    """Takes what JSON cannot give."""


UNUSABLE: dict[str, tuple[Any, str]] = {
    "a lambda": (lambda: 1, "needs a name"),
    "any number of arguments": (variadic, r"\*numbers cannot be described"),
    "a type without a schema": (unknown, "parameter 'value'"),
}


@each("case", UNUSABLE)
def test_functions_that_cannot_be_tools(case: str) -> None:
    function, message = UNUSABLE[case]
    with pytest.raises(InputError, match=message):
        FunctionTool(function)


RESULTS: dict[str, tuple[Any, list[rq.ResultPart]]] = {
    "text": ("hello", [rq.Text("hello")]),
    "nothing": (None, [rq.Json("null")]),
    "a number": (3, [rq.Json("3")]),
    "a dataclass": (Point(1, 2), [rq.Json('{"x":1,"y":2}')]),
    "a model": (Author(name="Ada", born=date(1815, 12, 10)), [rq.Json('{"name":"Ada","born":"1815-12-10"}')]),
    "models in a list": ([Author(name="Ada")], [rq.Json('[{"name":"Ada","born":null}]')]),
    "bytes": (b"\x00\x01", [rq.File("application/octet-stream", data="AAE=")]),
    "a part": (
        rq.File("image/png", url="https://example.org/a.png"),
        [rq.File("image/png", url="https://example.org/a.png")],
    ),
    "parts and text": (
        ["see:", rq.File("image/png", data="AAE=")],
        [rq.Text("see:"), rq.File("image/png", data="AAE=")],
    ),
    "any object": (Color.RED, [rq.Json('"red"')]),
}


@each("case", RESULTS)
def test_results(case: str) -> None:
    value, expected = RESULTS[case]
    assert write_result(value) == expected


# ── results that have no JSON of their own ────────────────────────────────────────────────────────


class Plain:
    """Its text would be an address in memory."""


def holds_itself() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def count_up() -> Iterator[int]:
    yield from range(3)


async def count_up_async() -> AsyncIterator[int]:
    for number in range(3):
        yield number


def count_for_ever() -> Iterator[int]:
    return itertools.count()


async def count_for_ever_async() -> AsyncIterator[int]:
    for number in itertools.count():
        yield number


@each(
    "tool, json",
    [
        (count_up, "[0,1,2]"),
        (count_up_async, "[0,1,2]"),
        (lambda: map(str, [1]), '["1"]'),
        (lambda: {"rows": (one for one in "ab")}, '{"rows":["a","b"]}'),
        (lambda: range(2), "[0,1]"),
        (lambda: deque([1]), "[1]"),
        (lambda: MappingProxyType({"a": None}), '{"a":null}'),
        (lambda: PurePosixPath("/tmp/a"), '"/tmp/a"'),
        (lambda: [None, 1.5], "[null,1.5]"),
    ],
)
def test_results_that_become_json(tool: Any, json: str) -> None:
    (part,) = asyncio.run(FunctionTool(tool, name="tool").run({}))
    assert isinstance(part, rq.Json)
    assert part.json == json


@each(
    "tool, message",
    [
        (lambda: float("nan"), "NaN or Infinity"),
        (lambda: {"rows": [1.0, float("inf")]}, "NaN or Infinity"),
        (lambda: (one for one in [float("-inf")]), "NaN or Infinity"),
        (Plain, "an object of type Plain; return text, a dict"),
        (lambda: {"a": [Plain()]}, "an object of type Plain; return text, a dict"),
        (lambda: ValueError("x"), "an object of type ValueError"),
        (holds_itself, "holds itself"),
        (count_for_ever, "more than 10000 items"),
        (count_for_ever_async, "more than 10000 items"),
        (lambda: {(1, 2): 3}, "has no JSON"),
    ],
)
def test_results_without_json_are_errors_for_the_model(tool: Any, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        asyncio.run(FunctionTool(tool, name="tool").run({}))


def test_an_answer_of_the_programs_without_json_is_refused() -> None:
    with pytest.raises(InputError, match=r"answer: .* NaN"):
        PendingToolCall("1", "f", {}).answer(float("nan"))


# ── descriptions are kept ─────────────────────────────────────────────────────────────────────────


def test_the_description_of_a_function_is_made_once() -> None:
    def find(word: str, limit: int = 3) -> str:
        """Finds a word."""
        return word * limit

    first, second = FunctionTool(find), FunctionTool(find, timeout=3)
    assert first.definition.schema is second.definition.schema
    assert FunctionTool(find, name="look").definition.name == "look"
    assert FunctionTool(find, description="Looks.").definition.description == "Looks."
    assert FunctionTool(find).definition.description == "Finds a word."


def test_a_function_that_changes_is_described_anew() -> None:
    def find(word: str, limit: int = 1, *, deep: bool = True) -> str:
        """Finds a word."""
        return word * limit * deep

    def properties() -> Any:
        schema = FunctionTool(find).definition.schema
        return schema["properties"] if schema else {}

    assert properties()["limit"] == {"type": "integer", "default": 1}
    find.__defaults__ = (True,)
    assert properties()["limit"] == {"type": "integer", "default": True}
    find.__kwdefaults__ = {"deep": False}
    assert properties()["deep"]["default"] is False
    find.__annotations__["limit"] = str
    assert properties()["limit"]["type"] == "string"
    find.__doc__ = "Looks for a word."
    assert FunctionTool(find).definition.description == "Looks for a word."


def test_a_description_does_not_keep_its_function() -> None:
    class Shelf:
        tools: tuple[Any, ...] = ()

    def make() -> tuple[weakref.ref[Any], weakref.ref[Any]]:
        shelf = Shelf()

        def plain(word: str = "") -> str:
            return word

        def bound(word: str, of: Any = shelf) -> str:
            return f"{word}{of}"

        shelf.tools = (bound,)
        assert FunctionTool(plain).definition.schema is not None
        assert FunctionTool(bound).definition.schema is not None
        return weakref.ref(plain), weakref.ref(bound)

    plain, bound = make()
    gc.collect()
    assert plain() is None
    assert bound() is None
