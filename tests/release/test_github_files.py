"""The files of .github and pre-commit: they fit their schemas, name what exists, and have the least permissions."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.release.builds import ROOT
from tools.release.__main__ import STEPS

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
# What jobs may do beside reading the repository.
WRITES = {
    ("codeql", "analyze"): {"security-events"},
    ("docs", "publish"): {"pages", "id-token"},
    ("release", "extension"): {"id-token", "attestations"},
    ("release", "pypi"): {"id-token"},
    ("release", "upload"): {"contents"},
}
PATH = re.compile(r"(?<![\w./-])(?:\.ci|deploy|requirements|src|tests|tools|vscode|web)/[\w./-]+\w")
MODULE = re.compile(r"-m (tools\.[\w.]+|tools)\b")
FAST = re.compile(r'--hypothesis-profile=fast -m "[^"]+"')


def read_yaml(file: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(file)
    return loaded


@cache
def read_jobs(file: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = read_yaml(file)["jobs"]
    return found


def list_steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in read_jobs(file).values() for step in job["steps"]]


def scripts(file: Path) -> list[str]:
    return [step["run"] for step in list_steps(file) if "run" in step]


def names(file: Path) -> str:
    return file.stem


def test_all_workflows_are_here() -> None:
    assert {file.stem for file in WORKFLOWS} == {"codeql", "dependency-review", "docs", "lint", "release", "test"}


@pytest.mark.parametrize("file", WORKFLOWS, ids=names)
def test_jobs_have_the_least_permissions_and_a_limit(file: Path) -> None:
    assert read_yaml(file)["permissions"] == {"contents": "read"}
    for name, job in read_jobs(file).items():
        writes = {scope for scope, level in job.get("permissions", {}).items() if level == "write"}
        assert writes == WRITES.get((file.stem, name), set()), name
        assert job["timeout-minutes"] <= 90, name


@pytest.mark.parametrize("file", WORKFLOWS, ids=names)
def test_actions_are_pinned_to_a_commit_with_their_version(file: Path) -> None:
    used = re.findall(r"uses: (.+)", file.read_text("utf-8"))
    pinned = re.compile(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [name for name in used if not pinned.fullmatch(name)] == []
    for step in list_steps(file):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def test_an_action_has_one_commit_everywhere() -> None:
    used = {tuple(row.split("@")) for file in WORKFLOWS for row in re.findall(r"uses: (\S+)", file.read_text("utf-8"))}
    assert len({name for name, _ in used}) == len(used)


@pytest.mark.parametrize("file", WORKFLOWS, ids=names)
def test_no_secret_and_no_text_of_a_stranger_reaches_a_shell(file: Path) -> None:
    assert "secrets." not in file.read_text("utf-8")
    for script in scripts(file):
        assert not re.search(r"\$\{\{\s*github\.(?:event|head_ref)", script)
        assert not re.search(r"(?:echo|printf|cat)\b.*TOKEN|\bset -x\b", script)


@pytest.mark.parametrize("file", WORKFLOWS, ids=names)
def test_what_a_workflow_names_exists(file: Path) -> None:
    for script in scripts(file):
        for target in re.findall(r"\bmake ([a-z][a-z-]*)", script):
            assert re.search(rf"^(?:[a-z- ]+ )?{target}(?: [a-z- ]+)?:", MAKEFILE, re.MULTILINE), target
        for path in PATH.findall(script):
            assert (ROOT / path).exists() or path.startswith("build/"), path
        for module in MODULE.findall(script):
            assert find_spec(module) is not None, module
        for chosen in re.findall(r"--steps ([\w,]+)", script):
            assert set(chosen.split(",")) <= set(STEPS)


def test_files_that_a_job_takes_are_those_that_another_job_made() -> None:
    made, taken = set[str](), set[str]()
    for step in list_steps(GITHUB / "workflows/release.yml"):
        if step.get("uses", "").startswith("actions/upload-artifact@"):
            made.add(step["with"]["name"])
        elif step.get("uses", "").startswith("actions/download-artifact@"):
            taken.add(step["with"].get("name") or step["with"]["pattern"])
    assert {name.partition("${{")[0] for name in made} == {"packages", "notes", "gateway-", "release"}
    assert taken == {"packages", "notes", "gateway-*", "release"}


def test_the_index_gets_the_sdist_and_the_wheel_only() -> None:
    (script,) = [step["run"] for step in read_jobs(GITHUB / "workflows/release.yml")["pypi"]["steps"] if "run" in step]
    patterns = re.findall(r"packages/(\S+)", script)
    ends = [".tar.gz", "-py3-none-any.whl", "-image-context.tar.gz", ".cdx.json"]
    assert [end for end in ends if any(fnmatch(f"penstock-0.1.0{end}", pattern) for pattern in patterns)] == ends[:2]


def test_every_python_that_is_promised_is_tested() -> None:
    rows = read_jobs(GITHUB / "workflows/test.yml")["fast"]["strategy"]["matrix"]["include"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    promised = {row.rpartition(" ")[2] for row in project["classifiers"] if re.search(r":: 3\.\d+$", row)}
    assert {row["python"] for row in rows} == promised
    assert {row["system"].partition("-")[0] for row in rows} == {"ubuntu", "macos", "windows"}
    (fast,) = FAST.findall(MAKEFILE)
    assert fast in (GITHUB / "workflows/test.yml").read_text("utf-8"), "the fast tests are those of make fast"


def test_before_a_commit_the_same_programs_run_as_in_make_check() -> None:
    (local,) = read_yaml(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local", "no program of another version is downloaded"
    entries = [hook["entry"] for hook in local["hooks"]]
    for entry in entries:
        program = entry.split()[0].removeprefix(".venv/bin/")
        assert re.search(rf"\$\(BIN\)/{program}\b", MAKEFILE) or entry.startswith("make "), entry
    assert {"make mypy", "make contracts"} <= set(entries)


SCHEMAS = [
    *(("vendor.github-workflows", file) for file in WORKFLOWS),
    *(("vendor.github-issue-forms", GITHUB / f"ISSUE_TEMPLATE/{name}.yml") for name in ("bug", "idea")),
    ("vendor.github-issue-config", GITHUB / "ISSUE_TEMPLATE/config.yml"),
    ("vendor.dependabot", GITHUB / "dependabot.yml"),
]


@pytest.mark.slow
def test_files_fit_the_schemas_of_github() -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed (make installs it)")
    for schema in {schema for schema, _ in SCHEMAS}:
        files = [str(file) for name, file in SCHEMAS if name == schema]
        words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_zizmor_finds_no_weakness_in_the_workflows() -> None:
    program = Path(sys.executable).parent / "zizmor"
    if not program.exists():
        pytest.skip("zizmor is not installed (make installs it)")
    done = subprocess.run(
        [program, "--offline", "--no-progress", GITHUB], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
