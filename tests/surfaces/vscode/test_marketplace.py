"""What the Marketplace asks of an extension, as a checklist: the manifest, the README, the walkthrough, the package."""

from __future__ import annotations

import json
import re
import struct
import zipfile
from typing import TYPE_CHECKING, Any

from tests.surfaces.vscode.e2e import EXTENSION, alone, need_packages

if TYPE_CHECKING:
    from pathlib import Path

ADDRESS = "https://example.com/someone/penstock"
BUILT_IN = ("workbench.", "vscode.")
MAX_DESCRIPTION = 200  # of the extension, as the Marketplace shows it in lists


def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EXTENSION / "package.json").read_text("utf-8"))
    return found


def commands() -> dict[str, dict[str, Any]]:
    return {row["command"]: row for row in manifest()["contributes"]["commands"]}


def png_size(file: Path) -> tuple[int, int]:
    data = file.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return int(width), int(height)


def test_the_manifest_has_what_the_marketplace_shows() -> None:
    row = manifest()
    assert len(row["description"]) <= MAX_DESCRIPTION
    assert row["license"] == "Apache-2.0"
    assert row["categories"] == ["AI", "Chat"]
    assert 3 <= len(row["keywords"]) <= 30
    assert re.fullmatch(r"#[0-9a-f]{6}", row["galleryBanner"]["color"])
    assert row["galleryBanner"]["theme"] in {"dark", "light"}
    assert min(png_size(EXTENSION / row["icon"])) >= 128
    assert "private" not in row
    assert "enabledApiProposals" not in row
    assert (EXTENSION / "CHANGELOG.md").read_text("utf-8").count(f"## {row['version']}") == 1


def test_no_telemetry_is_sent() -> None:
    for file in (EXTENSION / "src").rglob("*.ts"):
        assert not re.search(
            r"createTelemetryLogger|TelemetryReporter|sendTelemetry|@vscode/extension-telemetry", file.read_text()
        ), file


def test_every_command_has_a_name_and_every_name_is_used_once() -> None:
    rows = commands()
    assert all(row["category"] == "Penstock" and row["title"][0].isupper() for row in rows.values())
    titles = [row["title"] for row in rows.values()]
    assert len(set(titles)) == len(titles)
    assert "Generate Commit Message" not in titles, "VS Code has a button of this name"
    menus = manifest()["contributes"]["menus"]
    named = {row["command"] for rows in menus.values() for row in rows}
    assert named <= set(rows)


def test_menus_need_no_proposed_api() -> None:
    """`scm/inputBox` and others are refused by a real build for extensions without the proposal; code-server takes them."""
    stable = {"commandPalette", "scm/title", "scm/repository", "scm/sourceControl", "view/title"}
    assert set(manifest()["contributes"]["menus"]) <= stable


def links(text: str) -> list[str]:
    return re.findall(r"\(command:([\w.]+)", text)


def test_every_link_runs_a_command_that_exists() -> None:
    contributes = manifest()["contributes"]
    texts = [step["description"] for row in contributes["walkthroughs"] for step in row["steps"]]
    sources = "".join(file.read_text() for file in (EXTENSION / "src").rglob("*.ts"))
    used = {name for text in texts for name in links(text)} | set(re.findall(r'command: "([\w.]+)"', sources))
    assert {name for name in used if not name.startswith(BUILT_IN)} - set(commands()) == set()


def test_a_package_with_an_address_passes_the_packer(tmp_path: Path) -> None:
    need_packages()
    from tools.vscode_pack import pack

    before = (EXTENSION / "package.json").read_bytes()
    vsix = tmp_path / "penstock.vsix"
    with alone():
        pack(vsix, repository=ADDRESS)
    assert (EXTENSION / "package.json").read_bytes() == before
    with zipfile.ZipFile(vsix) as archive:
        packed = json.loads(archive.read("extension/package.json"))
        readme = archive.read("extension/readme.md").decode()
        assert archive.read("extension/changelog.md").startswith(b"# Changelog")
    assert packed["bugs"]["url"] == f"{ADDRESS}/issues"
    assert f"]({ADDRESS}/raw/v{packed['version']}/vscode/docs/models.png)" in readme
