"""The examples in the docstrings of public names run and print what they show."""

from __future__ import annotations

import doctest
from importlib import import_module
from inspect import getmodule, isclass, isfunction, unwrap
from typing import TYPE_CHECKING, Any

from tests.core.public.test_surface import PUBLIC_MODULES
from tests.support.each_case import each

if TYPE_CHECKING:
    import pytest


def public_objects() -> dict[int, tuple[str, Any]]:
    """The public modules, and the classes and functions that they offer: each once, by one of its names."""
    found: dict[int, tuple[str, Any]] = {}
    for module in ["penstock", *(f"penstock.{name}" for name in sorted(PUBLIC_MODULES))]:
        content = import_module(module)
        found[id(content)] = module, content
        for name in getattr(content, "__all__", [one for one in vars(content) if not one.startswith("_")]):
            value = unwrap(getattr(content, name))
            ours = (getattr(value, "__module__", None) or "").startswith("penstock")
            if ours and (isclass(value) or isfunction(value)):
                found[id(value)] = f"{module}.{name}", value
    return found


def find_examples(name: str, value: Any) -> list[doctest.DocTest]:
    """The tests in the docstring of a module, or of a function, or of a class and its methods."""
    finder = doctest.DocTestFinder(recurse=isclass(value), exclude_empty=True)
    names = vars(getmodule(value) or value)
    return [test for test in finder.find(value, name, globs=dict(names)) if test.examples]


EXAMPLES = [test for name, value in public_objects().values() for test in find_examples(name, value)]


@each("example", EXAMPLES, lambda example: example.name)
def test_an_example_prints_what_it_shows(example: doctest.DocTest, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(key, raising=False)
    printed: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(example, out=printed.append, clear_globs=False)
    assert runner.failures == 0, "".join(printed)
