"""Every example runs: in a process of its own, with warnings as errors, from a folder that is not the project's.

test_example_jobs.py runs the nine jobs of docs/comparison.md against scripted providers, too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.command_runner import environment
from tests.support.paths import PROJECT
from tools import example_pages as pages

EXAMPLES = sorted((PROJECT / "examples").glob("*.py"))
# The web examples are servers: tests/client/test_web_examples.py runs them. A file of tests is run by pytest. The
# stories need a gateway: tests/page/test_runs.py has one.
SCRIPTS = [path for path in EXAMPLES if not path.name.startswith(("web_", "test_", "inspector_stories"))]
PYRIGHT = shutil.which("pyright", path=Path(sys.executable).parent)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environment(), capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout, "an example shows something"
    assert done.stderr == b""
    shown = (pages.PAGES / f"{path.stem}.md").read_text(encoding="utf-8")
    output = pages.shorten_output(path.stem, done.stdout.decode())
    assert f"```text\n{output}```" in shown, f"run: python -m tools.example_pages {path.stem}"


@pytest.mark.parametrize("name", ["test_my_app", "web_starlette", "web_fastapi", "web_django"])
def test_the_page_of_a_server_or_test_has_its_output(name: str) -> None:
    module = name.removeprefix("web_")
    if module != name and find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    page = (pages.PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert page == pages.write_page(name, pages.run_example(name)), f"run: python -m tools.example_pages {name}"


def test_each_example_has_a_page_that_the_list_names() -> None:
    files = {path.stem for path in EXAMPLES} | {path.name for path in EXAMPLES[0].parent.iterdir() if path.is_dir()}
    assert set(pages.TABLE) == files - {"__pycache__"}
    assert {path.stem for path in pages.PAGES.glob("*.md")} == {*pages.TABLE, "README"}
    assert (pages.PAGES / "README.md").read_text(encoding="utf-8") == pages.write_list()
    for name, row in pages.TABLE.items():
        page = (pages.PAGES / f"{name}.md").read_text(encoding="utf-8")
        assert page.startswith(f"# {row['title']}\n\n{row['shows']}\n")
        assert [command for command in pages.list_commands(name) if command not in page] == []


def test_there_are_examples() -> None:
    assert len(SCRIPTS) > 10


@pytest.mark.skipif(PYRIGHT is None, reason="pyright is not installed")
def test_examples_are_strictly_typed(tmp_path: Path) -> None:
    """Copies are checked, in strict mode: the project's own configuration is not used."""
    assert PYRIGHT is not None
    for path in EXAMPLES:
        framework = path.stem.removeprefix("web_")
        if framework == path.stem or find_spec(framework) is not None:
            shutil.copy(path, tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    command = [PYRIGHT, "--pythonpath", sys.executable]
    folders = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": folders, "VIRTUAL_ENV": sys.prefix}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
