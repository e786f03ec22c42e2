"""How the extension's gateway is started and stopped: the launcher's leases, its key, and the wheel that travels along."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from penstock._gateway.keys import KeyRing
from penstock.gateway import GatewayConfig
from tests.surfaces.vscode.e2e import EXTENSION, HERE, ROOT, alone, need_packages, script

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

LAUNCHER = EXTENSION / "media/launch.py"
BUILD_TOOLS = {"hatchling", "pathspec", "pluggy", "trove-classifiers", "setuptools", "pip", "wheel", "pyinstaller"}


@pytest.fixture
def launcher() -> ModuleType:
    spec = importlib.util.spec_from_file_location("launch", LAUNCHER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_lease_is_fresh_while_its_window_lives(launcher: Any, tmp_path: Path) -> None:
    assert not launcher.wanted(tmp_path / "nowhere")
    assert not launcher.wanted(tmp_path)
    (tmp_path / "no-number").touch()
    assert not launcher.wanted(tmp_path)
    mine = tmp_path / f"{os.getpid()}-1"
    mine.touch()
    assert launcher.wanted(tmp_path)
    os.utime(mine, (time.time() - 120, time.time() - 120))
    assert not launcher.wanted(tmp_path)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (tmp_path / f"{gone.pid}-1").touch()
    assert not launcher.wanted(tmp_path)


def test_a_key_comes_with_the_process() -> None:
    ring = KeyRing(GatewayConfig(), {"PENSTOCK_GATEWAY_KEY": "one-time", "PENSTOCK_DATA": "/nowhere"})
    assert ring
    assert ring.find("one-time") is not None
    assert ring.find("another") is None
    assert ring.secrets == ("one-time",)
    assert not KeyRing(GatewayConfig(), {"PENSTOCK_DATA": "/nowhere"})


def test_the_lock_that_travels_along_has_all_that_a_server_needs() -> None:
    """An environment is made of it alone, by hash: what it lacks would be missed by the first request."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["serve"]]
    names = {re.split(r"[^A-Za-z0-9_-]", row)[0] for row in needed}
    for lock in ("runtime", "standalone"):
        locked = set(re.findall(r"^([A-Za-z0-9_-]+)==", (ROOT / f"requirements/{lock}.lock").read_text(), re.MULTILINE))
        assert names - locked == set()
        assert locked.isdisjoint(BUILD_TOOLS), "build tools are not among the packages that run"


def test_it_stops_after_the_last_window(tmp_path: Path) -> None:
    lease = tmp_path / "windows" / f"{os.getpid()}-1"
    lease.parent.mkdir()
    lease.touch()
    quick = f"import runpy,sys; sys.argv[0] = {str(LAUNCHER)!r}; m = runpy.run_path(sys.argv[0]); g = m['watch'].__globals__; "
    quick += "g['LOOK'] = 0.1; g['GRACE'] = 0.3; sys.exit(m['main']())"
    command = [sys.executable, "-c", quick, str(lease.parent), "--port", "0"]
    env = {**os.environ, "PENSTOCK_DATA": str(tmp_path), "PENSTOCK_CONFIG": ""}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first, second = process.stderr.readline(), process.stderr.readline()
        assert first == f"penstock-vscode: pid {process.pid}\n"
        assert re.search(r"http://127\.0\.0\.1:\d+", second)
        lease.unlink()
        assert "the last window is closed: stopping" in process.stderr.read()
        assert process.wait(20) in {0, 130}  # as after Ctrl-C


@pytest.mark.parametrize("way", ["uvx", pytest.param("venv", marks=pytest.mark.nightly)])
def test_the_wheel_that_travels_along_starts(way: str, tmp_path: Path) -> None:
    """Nothing but the wheel, its lock, and a Python or uv that knows nothing of penstock."""
    need_packages()
    from tools.vscode_pack import bundle

    with alone():
        bundle()
        uv = os.path.join(os.path.dirname(sys.executable), "uv")  # noqa: PTH118, PTH120 — beside it, not where it leads
        said = script(
            HERE / "drive/launch.mjs", way, tmp_path, getattr(sys, "_base_executable", sys.executable), uv, limit=300.0
        )
    found = json.loads(said)
    assert found["model"].startswith("replay/")
    assert found["healthy"] is True
