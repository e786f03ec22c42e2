"""What `penstock.Client` imports: nothing heavy that a program may not need. The time itself is in docs/performance.md."""

from __future__ import annotations

from tests.core.public.test_surface import loaded_after, python
from tests.support.each_case import each

HEAVY = {
    "IPython", "aiohttp", "anyio", "bz2", "django", "fastapi", "httpx", "mcp", "openai", "opentelemetry", "pydantic", "pytest",
    "rich", "shutil", "sqlite3", "starlette", "tempfile", "uvicorn", "zipfile",
}  # fmt: skip

# What a client needs when it is created or asks, and what adds two fifths to the work if the class imports it.
LATER = {"asyncio", "hashlib", "pathlib", "ssl", "tomllib", "urllib"}


@each("name", ["Client", "SyncClient", "Answer", "Stream", "Request"])
def test_a_client_loads_nothing_heavy(name: str) -> None:
    assert loaded_after(f"import penstock\npenstock.{name}") & HEAVY == set()


def test_the_class_loads_nothing_that_only_calls_need() -> None:
    """Without what Python, `msgspec` and `logging` load themselves, which differs between versions."""
    given = loaded_after("import logging, msgspec, penstock")
    assert (loaded_after("import penstock\npenstock.Client") - given) & LATER == set()


def test_no_function_hides_a_module_of_its_name() -> None:
    """`import penstock.fold as f` once bound a function."""
    code = """
import json, pkgutil, types
import penstock
modules = {one.name for one in pkgutil.iter_modules(penstock.__path__)}
print(json.dumps([name for name in penstock.__all__ if name in modules and not isinstance(getattr(penstock, name), types.ModuleType)]))
"""
    assert python(code) == []
