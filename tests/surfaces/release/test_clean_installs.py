"""The wheel in clean environments, with each Python that is here: it installs, starts, streams and shows its page.

No Node is on PATH, and nothing of this tree. Packages come from the registry that pip and uv are set up for.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.surfaces.release.builds import EPOCH, ROOT, need_page
from tools.release.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
LIMIT = 600
CHECK = ROOT / "tools/release/serve_check.py"
UV = Path(sys.executable).parent / "uv"
pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_page()
    folder = tmp_path_factory.mktemp("wheel")
    env = os.environ | {"SOURCE_DATE_EPOCH": str(EPOCH)}
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(words, cwd=ROOT, env=env, check=True, capture_output=True, timeout=LIMIT)
    (file,) = folder.glob("*.whl")
    return file


@cache
def find_python(version: str) -> Path | None:
    """A Python of a version: on PATH, of pyenv, or of uv, which downloads one where it can reach its site."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [shutil.which(f"python{version}") or "", *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))]
    for place in filter(None, places):
        # Of an environment, the Python that it was made with.
        words = [place, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys._base_executable)"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        found, _, base = done.stdout.strip().partition(" ")
        if found == version:
            return Path(base)
    subprocess.run([UV, "python", "install", "-q", version], capture_output=True, check=False, timeout=120)
    words = [str(UV), "python", "find", "--managed-python", "-q", version]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return Path(done.stdout.strip()) if done.returncode == 0 else None


def need_python(version: str) -> Path:
    found = find_python(version)
    if found is None:
        pytest.skip(f"there is no Python {version} here, and uv cannot download one")
    return found


def clean_environment(home: Path) -> dict[str, str]:
    """Variables for a user who has no Node and has never heard of this tree; the set-up of the registry stays."""
    registry = ("PIP_", "UV_INDEX", "UV_DEFAULT_INDEX", "UV_FIND_LINKS", "SSL_CERT", "HTTP", "HTTPS", "NO_PROXY")
    kept = {name: value for name, value in os.environ.items() if name.startswith(registry)}
    programs = home / "bin"
    programs.mkdir(parents=True)
    for name in ("sh", "realpath", "dirname"):  # the script that uv installs uses these
        (programs / name).symlink_to(str(shutil.which(name)))
    user = {"HOME": os.environ["HOME"], "UV_CACHE_DIR": str(home / "cache"), "UV_TOOL_DIR": str(home / "tools")}
    return kept | user | {"PATH": str(programs), "LANG": "C.UTF-8"}


def run_step(words: list[str | Path], env: Mapping[str, str], folder: Path) -> str:
    done = subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


def assert_serves(command: list[str | Path], env: Mapping[str, str], folder: Path) -> None:
    assert shutil.which("node", path=env["PATH"]) is None
    found: dict[str, Any] = json.loads(run_step([sys.executable, "-I", CHECK, *command], env, folder))
    assert len(found["text"]) > 20
    assert found["script"] > 100_000, "the page's script"
    assert found["health"]["status"] == "ok"


@pytest.mark.parametrize("version", VERSIONS)
def test_pip_install_and_serve(version: str, wheel: Path, tmp_path: Path) -> None:
    python = need_python(version)
    env = clean_environment(tmp_path / "home")
    run_step([python, "-m", "venv", tmp_path / "venv"], env, tmp_path)
    own = tmp_path / "venv/bin"
    run_step([own / "python", "-m", "pip", "install", "-q", "--no-input", f"{wheel}[serve]"], env, tmp_path)
    assert run_step([own / "penstock", "--version"], env, tmp_path).split()[1] == read_version()
    assert_serves([own / "penstock"], env, tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_uvx_and_serve(version: str, wheel: Path, tmp_path: Path) -> None:
    python = need_python(version)
    env = clean_environment(tmp_path / "home")
    assert_serves([UV, "tool", "run", "--python", python, "--from", f"{wheel}[serve]", "penstock"], env, tmp_path)


def test_without_the_extra_serve_says_what_to_install(wheel: Path, tmp_path: Path) -> None:
    env = clean_environment(tmp_path / "home")
    words: list[str | Path] = [UV, "tool", "run", "--python", need_python("3.11"), "--from", wheel, "penstock", "serve"]
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode != 0
    assert "penstock[serve]" in done.stderr
    assert "Traceback" not in done.stderr
