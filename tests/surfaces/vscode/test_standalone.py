"""The self-contained gateway: what it needs, what it holds, that it runs where there is nothing."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distributions
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from ruamel.yaml import YAML

from tests.surfaces.vscode.e2e import ROOT
from tests.surfaces.vscode.standalone import bare_environment, built, launched, without_network
from tools.reproducible_archives import extract_tar
from tools.standalone.build import PLACE, folder_size, pack_archive
from tools.standalone.entry import choose_ca_file
from tools.standalone.glibc import elf_files, file_needs, needed_glibc, version_of
from tools.standalone.notices import (
    NOTICES,
    locked_names,
    normalized,
)
from tools.standalone.targets import TARGETS, executable_name, this_target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


OLDEST_GLIBC = (2, 28)  # of the release; docs/standalone.md
LARGEST_FOLDER = 60_000_000
LARGEST_ARCHIVE = 32_000_000


@pytest.fixture(scope="module")
def folder() -> Path:
    return built()


@pytest.fixture(scope="module")
def executable(folder: Path) -> Path:
    return folder / executable_name(this_target())


# ── it runs ───────────────────────────────────────────────────────────────────────────────────────


LOOPBACK = """
import fcntl, runpy, socket, struct, sys
try:
    with socket.socket() as probe:  # SIOCSIFFLAGS: IFF_UP and IFF_RUNNING for `lo`
        fcntl.ioctl(probe, 0x8914, struct.pack("16sh14x", b"lo", 0x41))
except PermissionError:
    pass
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_it_answers_with_no_path_no_python_and_no_network(executable: Path) -> None:
    """In a network namespace in which there is nothing but a loopback, as the release does it on every platform."""
    python = getattr(sys, "_base_executable", sys.executable)
    smoke = ROOT / "tools/standalone/smoke.py"
    command = [*without_network(), python, "-I", "-c", LOOPBACK, smoke, executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["health"] == "ok"
    assert any(model.startswith("replay/") for model in found["models"])
    assert found["version"].startswith("penstock ")


def test_it_wants_its_key_and_stops_with_its_leases(executable: Path, tmp_path: Path) -> None:
    with launched((str(executable), "vscode-launch"), tmp_path) as gateway:
        assert gateway.ask("/vscode/models")["models"]
        with pytest.raises(OSError, match="401"):
            gateway.ask("/vscode/models", key="another")
        for lease in (tmp_path / "windows").iterdir():
            lease.unlink()
        assert gateway.process.stderr is not None
        assert "the last window is closed: stopping" in gateway.process.stderr.read()
        assert gateway.process.wait(30) in {0, 130}


def test_the_key_is_on_no_command_line(executable: Path, tmp_path: Path) -> None:
    with launched((str(executable), "vscode-launch"), tmp_path) as gateway:
        words = (b"/proc/%d/cmdline" % gateway.pid).decode()
        with open(words, "rb") as file:  # noqa: PTH123 — a file of the system
            assert b"a-key-for-this-test" not in file.read()


def test_the_start_is_about_as_quick_as_that_of_an_installed_python(
    executable: Path, tmp_path: Path, record_property: Any
) -> None:
    """Seconds are printed, after the first start, whose files are not in memory yet. Compared is the time of the processor."""

    def starts(*command: str) -> tuple[list[float], float]:
        seconds, used = [], []
        for _ in range(4):
            before = os.times()
            with launched(command, tmp_path) as gateway:
                seconds.append(gateway.seconds)
            after = os.times()
            used.append(after.children_user + after.children_system - before.children_user - before.children_system)
        return seconds[1:], min(used)

    seconds, used = starts(str(executable), "vscode-launch")
    _, python = starts(sys.executable, str(ROOT / "vscode/media/launch.py"))
    told = f"{min(seconds):.2f} to {max(seconds):.2f} s, {used:.2f} s of processor time (with Python: {python:.2f} s)"
    record_property("table", f"standalone: start until it listens {told}")
    assert used < 2 * python


@pytest.mark.parametrize(
    "words",
    [
        ["--help"], ["--version"], ["serve", "--help"], ["setup", "--help"], ["setup", "--list"], ["models", "replay"],
        ["providers"], ["chat", "replay/agent", "Hello"], ["doctor", "--help"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_the_other_commands_work(executable: Path, tmp_path: Path, words: list[str]) -> None:
    env = bare_environment(tmp_path)
    done = subprocess.run(
        [executable, *words], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr


def test_a_key_is_stored_and_agents_are_set_up(executable: Path, tmp_path: Path) -> None:
    """The packages that edit files and ask the keyring are inside: without them these commands say what is missing."""
    env = bare_environment(tmp_path)
    words = ["setup", "--agent", "codex"]
    done = subprocess.run(
        [executable, *words], cwd=tmp_path, env=env, input="", capture_output=True, text=True, timeout=60, check=False
    )
    assert not re.search(r"Traceback|pip install|not installed", done.stdout + done.stderr), done.stderr


class Refusing(BaseHTTPRequestHandler):
    """A provider that answers every question with 401."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self.send_response(401)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Any]:
    """A provider over TLS, with a certificate of an authority that only `ca.pem` knows."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.asked = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("trusted", [True, False])
def test_a_provider_is_asked_over_tls_if_its_authority_is_known(
    executable: Path, provider: Any, tmp_path: Path, *, trusted: bool
) -> None:
    url = f"https://localhost:{provider.server_port}/v1"
    (tmp_path / "penstock.toml").write_text(
        f'[providers.local]\nlike = "openai-compatible"\nbase_url = "{url}"\nkey = "k"\nmodels = ["m"]\n'
    )
    env = {"HOME": str(tmp_path), "PENSTOCK_CONFIG": str(tmp_path / "penstock.toml")}
    env |= {"SSL_CERT_FILE": str(tmp_path / "ca.pem")} if trusted else {}
    command = [str(executable), "chat", "local/m", "Hello"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert bool(provider.asked) is trusted, done.stderr
    assert ("certificate" in done.stderr.lower()) is not trusted, done.stderr


# ── what it needs and holds ───────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is of Linux")
def test_the_oldest_glibc(folder: Path, record_property: Any) -> None:
    """All but Python itself, and what its machine lends it, run with the glibc that is promised.

    A release is built with a Python for that glibc (`--glibc` of tools/standalone), this build with the machine's own.
    """
    needs = {path.relative_to(folder).as_posix(): file_needs(path) for path in elf_files(folder)}
    needed, file = needed_glibc(folder)
    record_property("table", f"standalone: glibc {'.'.join(map(str, needed))} because of {file}")
    machine = version_of(os.confstr("CS_GNU_LIBC_VERSION").split()[1])  # type: ignore[union-attr]
    assert (2, 0) < needed <= machine
    ours = {name: need for name, need in needs.items() if not name.startswith(("_internal/python3", "_internal/lib"))}
    assert "penstock" in ours
    assert {name: need for name, need in ours.items() if need > OLDEST_GLIBC} == {}


def test_build_tools_and_tests_stay_out(folder: Path) -> None:
    text = (PLACE / "work/gateway/PYZ-00.toc").read_text()
    modules = {name.partition(".")[0] for name in re.findall(r"^ *\[?\('([\w.]+)',", text, re.MULTILINE)}
    assert {"penstock", "uvicorn", "launch", "uvloop", "httptools", "keyring", "tomlkit"} <= modules
    assert modules.isdisjoint(
        {"PyInstaller", "pip", "setuptools", "hatchling", "pytest", "_pytest", "tkinter", "readline"}
    )
    names = [path.name for path in folder.rglob("*")]
    assert [name for name in names if "readline" in name or name.endswith(".py")] == []
    assert [path for path in folder.rglob("*") if path.is_symlink()] == []
    for path in folder.rglob("*"):
        if path.suffix in {".toml", ".json", ".txt", ".md"}:
            assert str(ROOT) not in path.read_text("utf-8", "replace"), path


def test_the_notices_name_every_part(folder: Path) -> None:
    text = (folder / NOTICES).read_text()
    titles = [
        normalized(found) for found in re.findall(r"^=+\n(\S+)[^\n]*\nLicence: \S.*\n=+\n\n\S", text, re.MULTILINE)
    ]
    site = next((PLACE / "venv").glob("lib/python3.*/site-packages"))
    installed = {normalized(one.name) for one in distributions(path=[str(site)])}
    build_only = set(locked_names(ROOT / "requirements/pyinstaller.lock"))
    locked = set(locked_names(ROOT / "requirements/standalone.lock"))
    assert installed - build_only - {"penstock", "pip", "setuptools"} <= set(titles)
    assert set(titles) >= (locked & installed) | {"python", "pyinstaller", "openssl", "sqlite", "libffi"}
    assert "preact" in text
    assert "Bootloader Exception" in text
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_the_download_is_the_folder_and_small(folder: Path, tmp_path: Path, record_property: Any) -> None:
    archive = pack_archive(folder, tmp_path, "linux-x64")
    assert archive.name == "penstock-gateway-linux-x64.tar.gz"
    size, whole = archive.stat().st_size, folder_size(folder)
    record_property("table", f"standalone: {size / 1e6:.1f} MB packed, {whole / 1e6:.1f} MB unpacked")
    assert size < LARGEST_ARCHIVE
    assert whole < LARGEST_FOLDER
    extract_tar(archive, tmp_path)
    with tarfile.open(archive) as tar:
        assert {(row.uid, row.gid, row.uname) for row in tar} == {(0, 0, "")}
    unpacked = tmp_path / "penstock-gateway"
    done = subprocess.run([unpacked / "penstock", "--version"], env={}, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("penstock ")
    ours = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    assert {path.relative_to(unpacked) for path in unpacked.rglob("*") if path.is_file()} == ours
    zipped = pack_archive(folder, tmp_path, "win32-x64")
    assert zipped.name == "penstock-gateway-win32-x64.zip"


# ── without a build ───────────────────────────────────────────────────────────────────────────────


def test_the_release_builds_every_platform_from_pinned_parts() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text()
    jobs = YAML(typ="safe").load(text)["jobs"]
    rows = {name: job["strategy"]["matrix"]["include"] for name, job in jobs.items() if "strategy" in job}
    assert sorted(row["target"] for include in rows.values() for row in include) == sorted(TARGETS)
    assert all("manylinux_2_28" in row["image"] for row in rows["linux"])
    assert f"--glibc {'.'.join(map(str, OLDEST_GLIBC))}" in text
    assert {row["target"]: row["executable"] for row in rows["desktop"]} == {
        target: executable_name(target) for target in TARGETS if target.startswith(("darwin", "win32"))
    }
    used = re.findall(r"uses: (\S+)", text)
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name)] == []
    for job in rows:
        assert any("smoke.py" in step.get("run", "") for step in jobs[job]["steps"]), f"{job} starts what it built"


def test_certificates_are_the_systems_own_where_there_are_some(tmp_path: Path) -> None:
    ours = tmp_path / "company.pem"
    ours.touch()
    assert choose_ca_file((str(tmp_path / "none"), str(ours)), "packaged") == str(ours)
    assert choose_ca_file((str(tmp_path / "none"),), "packaged") == "packaged"
