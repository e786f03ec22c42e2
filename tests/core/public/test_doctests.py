"""The examples in the docstrings of public names run and print what they show. The main names have one."""

from __future__ import annotations

import doctest
from importlib import import_module
from inspect import getmodule, isclass, isfunction, unwrap
from typing import Any

import pytest

import penstock
from tests.core.public.test_surface import PUBLIC_MODULES

MAIN_NAMES = set(
    "penstock.Pipe penstock.bridge penstock.decoder penstock.encoder penstock.fold penstock.guess penstock.translate "
    "penstock.unfold client.Client client.Cost client client.SyncClient client.read_ui_messages "
    "errors.PenstockError errors.explain events.CallEnd events.Fault events file_fetch.fetch_files "
    "framing.AutoParser framing.NdjsonParser framing.SseParser framing.SseWriter gateway.App messages.convert "
    "messages.convert_messages messages.read_request messages.write_request providers.identify providers.model "
    "providers.provider request.Request stores.MemoryStore testing.Reply testing.play testing.scripted testing.wire "
    "tokens vscode.VSCodeStreamAdapter".split()
)


def public_objects() -> dict[str, Any]:
    """The public modules, and the classes and functions that they offer, by name."""
    modules = {"penstock": penstock, **{name: import_module(f"penstock.{name}") for name in sorted(PUBLIC_MODULES)}}
    found: dict[str, Any] = {}
    for module, content in modules.items():
        found[module] = content
        for name in getattr(content, "__all__", [one for one in vars(content) if not one.startswith("_")]):
            value = unwrap(getattr(content, name))
            ours = (getattr(value, "__module__", None) or "").startswith("penstock")
            if ours and (isclass(value) or isfunction(value)):
                found[f"{module}.{name}"] = value
    return found


def find_examples(name: str, value: Any) -> list[doctest.DocTest]:
    """The tests in the docstring of a module, or of a function, or of a class and its methods."""
    finder = doctest.DocTestFinder(recurse=isclass(value), exclude_empty=True)
    names = vars(getmodule(value) or value)
    return [test for test in finder.find(value, name, globs=dict(names)) if test.examples]


def collect_examples() -> dict[str, doctest.DocTest]:
    """Every example once, also of an object that several modules offer."""
    objects = {id(value): (name, value) for name, value in public_objects().items()}
    return {test.name: test for name, value in objects.values() for test in find_examples(name, value)}


EXAMPLES = collect_examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_prints_what_it_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(key, raising=False)
    printed: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(EXAMPLES[name], out=printed.append, clear_globs=False)
    assert runner.failures == 0, "".join(printed)


def test_the_main_names_have_an_example() -> None:
    objects = public_objects()
    assert MAIN_NAMES - objects.keys() == set()
    assert {name for name in MAIN_NAMES if not find_examples(name, objects[name])} == set()
