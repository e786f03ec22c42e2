"""The extension's packages: one for all platforms, and one for each that carries a self-contained gateway.

The package for the platform of this machine is the real one. A gateway for another system cannot be built here: its package is
made with a stand-in folder, which shows what is packed and how, not that it runs. The release builds and starts each on its own
system (.github/workflows/release.yml).
"""

from __future__ import annotations

import json
import re
import stat
import subprocess
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.surfaces.vscode.e2e import ROOT, alone, need_packages
from tests.surfaces.vscode.standalone import bare_environment, built, launched
from tools.standalone.build import pack_archive
from tools.standalone.notices import NOTICES
from tools.standalone.targets import TARGETS, executable_name, this_target

if TYPE_CHECKING:
    from pathlib import Path


LARGEST = 34_000_000  # bytes of a package for one platform
LARGEST_PLAIN = 3_000_000
OTHERS = [target for target in TARGETS if target != this_target()]
SAMPLE = {"win32-x64", "darwin-arm64"}  # the others differ from these by name only
OTHER_TARGETS = [pytest.param(target, marks=() if target in SAMPLE else pytest.mark.nightly) for target in OTHERS]
GATEWAY = "extension/bundle/gateway/"


class Packages:
    """Makes a package when it is first asked for, by its platform; "" is the plain one."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._made: dict[str, Path] = {}

    def __getitem__(self, target: str) -> Path:
        if target not in self._made:
            self._made[target] = self._write(target)
        return self._made[target]

    def _write(self, target: str) -> Path:
        from tools.vscode_pack import prepare, write_package

        vsix = self._place / f"penstock-{target}.vsix"
        gateway = built() if target == this_target() else stand_in(self._place, target) if target else None
        with alone():
            if not self._made:
                prepare()
            write_package(vsix, target, gateway)
        return vsix


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    need_packages()
    return Packages(tmp_path_factory.mktemp("packages"))


def stand_in(place: Path, target: str) -> Path:
    """Returns an archive with the files that every platform's gateway has, for a system that is not this one."""
    folder = place / target / "penstock-gateway"
    (folder / "_internal/penstock").mkdir(parents=True)
    for name in (
        executable_name(target),
        "LICENSE",
        NOTICES,
        "_internal/base_library.zip",
        "_internal/penstock/py.typed",
    ):
        (folder / name).write_text(f"stands in for {name} of {target}")
    (folder / executable_name(target)).chmod(0o755)
    return pack_archive(folder, place, target)


def files_of(vsix: Path) -> dict[str, zipfile.ZipInfo]:
    with zipfile.ZipFile(vsix) as archive:
        return {row.filename: row for row in archive.infolist()}


def platform_of(vsix: Path) -> str:
    with zipfile.ZipFile(vsix) as archive:
        found = re.search(r'TargetPlatform="([^"]*)"', archive.read("extension.vsixmanifest").decode())
    return found[1] if found else ""


def test_the_plain_package_has_no_gateway_and_is_small(packages: Packages, record_property: Any) -> None:
    assert platform_of(packages[""]) == ""
    size = packages[""].stat().st_size
    record_property("table", f"vsix: {size / 1e6:.1f} MB for all platforms")
    assert [name for name in files_of(packages[""]) if name.startswith(GATEWAY)] == []
    assert size < LARGEST_PLAIN


def test_the_package_of_this_platform_holds_the_whole_gateway(packages: Packages, record_property: Any) -> None:
    folder, vsix = built(), packages[this_target()]
    assert platform_of(vsix) == this_target()
    size = vsix.stat().st_size
    record_property("table", f"vsix: {size / 1e6:.1f} MB for {this_target()}")
    assert size < LARGEST
    plain, files = set(files_of(packages[""])), files_of(vsix)
    expected = {f"{GATEWAY}{path.relative_to(folder).as_posix()}" for path in folder.rglob("*") if path.is_file()}
    assert set(files) - plain == expected
    assert plain - set(files) == set()
    assert {f"{GATEWAY}{name}" for name in ("penstock", "LICENSE", NOTICES)} <= expected
    assert files[f"{GATEWAY}penstock"].external_attr >> 16 & stat.S_IXUSR, "VS Code unpacks it with this mode"


@pytest.mark.parametrize("target", OTHER_TARGETS)
def test_a_package_of_another_platform(packages: Packages, target: str) -> None:
    """With a stand-in for the gateway, out of the archive that its own system builds."""
    plain, files = set(files_of(packages[""])), files_of(packages[target])
    assert platform_of(packages[target]) == target
    names = {executable_name(target), "LICENSE", NOTICES, "_internal/base_library.zip", "_internal/penstock/py.typed"}
    assert set(files) - plain == {GATEWAY + name for name in names}
    if not target.startswith("win32"):
        assert files[f"{GATEWAY}penstock"].external_attr >> 16 & stat.S_IXUSR


def test_an_installed_package_starts_its_gateway(packages: Packages, tmp_path: Path) -> None:
    """Unpacked as VS Code does it: the bytes, and the mode of each file."""
    with zipfile.ZipFile(packages[this_target()]) as archive:
        for row in archive.infolist():
            (tmp_path / archive.extract(row, tmp_path)).chmod((row.external_attr >> 16 & 0o777) or 0o644)
    executable = tmp_path / GATEWAY / "penstock"
    version = json.loads((tmp_path / "extension/package.json").read_text())["version"]
    done = subprocess.run(
        [executable, "--version"], env=bare_environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert done.stdout == f"penstock {version}\n"
    with launched((str(executable), "vscode-launch"), tmp_path / "state") as gateway:
        assert gateway.ask("/healthz")["status"] == "ok"
        assert gateway.ask("/vscode/models")["models"]


def test_no_gateway_stays_behind_in_the_tree(packages: Packages) -> None:
    """An extension that is run from the tree would start it, however old it is."""
    assert packages[this_target()].exists()
    assert not (ROOT / "vscode/bundle/gateway").exists()
