"""The public face: which names there are, that they are the same whoever imported what before, and that they are cheap."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules, walk_packages
from types import ModuleType
from typing import Any

import pytest

import penstock
from penstock import events as ev
from penstock.errors import InputError
from tests.cli.command_runner import environment
from tests.support.each_case import each

NAMES = {
    "Answer", "Client", "DataPart", "Diagnostic", "File", "FunctionTool", "Hop", "HybridTokenEstimator",
    "InvalidOutput", "LlmApi", "McpServer", "Message", "PenstockError", "Pipe", "ProviderError", "Request",
    "RequestOptions", "Run", "Stage", "Stream", "StreamFault", "SyncClient", "SyncStream", "Text", "TextPart",
    "ThinkingPart", "Timeouts", "Tool", "ToolCallPart", "ToolError", "Turn", "Usage", "VSCodeStreamAdapter",
    "__version__", "bridge", "convert", "convert_messages", "decoder", "encoder", "errors", "events", "fold",
    "fold_all", "guess",
    "tool", "tracer", "translate", "unfold",
}  # fmt: skip
PUBLIC_MODULES = set(
    "client errors events file_fetch framing gateway messages providers request stores testing tokens vscode".split()
)
HEAVY = {"aiohttp", "anyio", "asyncio", "botocore", "msgspec", "openai", "rich", "starlette", "unittest", "uvicorn"}


def python(code: str) -> Any:
    """What a fresh interpreter prints, as JSON."""
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def loaded_after(code: str) -> set[str]:
    modules: list[str] = python(f"import json, sys\n{code}\nprint(json.dumps(list(sys.modules)))")
    return {name.partition(".")[0] for name in modules}


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_names_are_these() -> None:
    """A change here is a change for users: say it in CHANGELOG.md."""
    assert set(penstock.__all__) == NAMES
    assert len(penstock.__all__) == len(NAMES)
    assert set(dir(penstock)) >= NAMES
    assert [name for name in NAMES if getattr(penstock, name) is not getattr(penstock, name)] == []


def test_a_name_that_is_not_there() -> None:
    package: Any = penstock
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


def test_a_module_is_public_or_has_an_underscore() -> None:
    """A new module directly under `penstock` is internal unless it is added here and to the page of stable names."""
    found = {module.name for module in iter_modules(penstock.__path__)}
    assert {name for name in found if not name.startswith("_")} == PUBLIC_MODULES


def test_every_module_below_is_internal() -> None:
    """Public modules are not packages: nothing can be imported from below them, nor under an old name."""
    names = [module.name for module in walk_packages(penstock.__path__, "penstock.", onerror=lambda _: None)]
    public = [name for name in names if not any(part.startswith("_") for part in name.split("."))]
    assert sorted(public) == sorted(f"penstock.{name}" for name in PUBLIC_MODULES)
    assert len(names) > 100
    with pytest.raises(ModuleNotFoundError):
        import_module("penstock.engines.express")


@each("name", sorted(PUBLIC_MODULES - {"events", "request", "errors", "stores", "file_fetch"}))
def test_a_public_module_lists_its_names(name: str) -> None:
    module = import_module(f"penstock.{name}")
    assert module.__all__ == sorted(module.__all__, key=lambda one: (not one.isupper(), not one[0].isupper(), one))
    assert all(hasattr(module, one) for one in module.__all__)


def test_modules_stay_modules() -> None:
    assert isinstance(penstock.events, ModuleType)
    assert isinstance(penstock.errors, ModuleType)
    assert callable(penstock.translate)


def test_a_face_needs_msgspec_alone() -> None:
    """The editor's face and that of requests are used inside other people's programs."""
    loaded = loaded_after("import penstock.vscode, penstock.messages")
    third = {name for name in loaded - set(sys.stdlib_module_names) if not name.startswith(("_", "sitecustomize"))}
    assert third <= {"msgspec", "penstock", "typing_extensions"}


# ── cost ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_heavy_is_imported() -> None:
    commands = "write, sys.stdout = sys.stdout, sys.stderr\nmain(['--help'])\nmain(['--version'])\nsys.stdout = write"
    assert not loaded_after(f"import penstock\nfrom penstock._cli import main\n{commands}") & HEAVY
    used = "import penstock\nlist(penstock.translate(b'data: {}\\n\\n', 'anthropic', 'openai-chat'))"
    assert not loaded_after(used) & (HEAVY - {"msgspec"})


def test_fold_returns_the_turn_of_a_stream() -> None:
    events = [ev.Start("id", "m"), ev.TextStart(0), ev.TextDelta(0, "3.2 m"), ev.TextEnd(0), ev.Finish("stop")]
    assert penstock.fold(events).text == "3.2 m"
    assert penstock.fold_all([*events, *events]) == [penstock.fold(events)] * 2
    with pytest.raises(InputError, match="2 choices: fold_all"):
        penstock.fold([*events, *events])
    with pytest.raises(InputError, match="no events"):
        penstock.fold([])
