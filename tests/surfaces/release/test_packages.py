"""Packages of a release: what is in them, and that two builds are equal byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.surfaces.release.builds import EPOCH, ROOT, STATIC, commit_tree, copy_tree, names_in, need_page
from tools.release.__main__ import STEPS
from tools.release.source_tree import list_files
from tools.release.steps import IMAGE_FILES, Release, build_image_context
from tools.release.versions import read_version
from tools.reproducible_archives import extract_tar

MINUTES = 10


def run_build(folder: Path, umask: int, *words: str) -> None:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    env = os.environ | {"SOURCE_DATE_EPOCH": str(EPOCH), "PATH": path, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=env, umask=umask, capture_output=True, text=True,
        timeout=60 * MINUTES, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def digests(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def test_two_builds_of_sdist_and_wheel_are_equal(tmp_path: Path) -> None:
    need_page()
    found: list[dict[str, str]] = []
    for name, umask in (("one", 0o022), ("another/folder", 0o077)):
        folder = copy_tree(tmp_path / name, page=True)
        run_build(folder, umask, "-m", "hatchling", "build", "-d", str(folder / "dist"))
        found.append(digests(folder / "dist"))
    assert found[0] == found[1]
    version = read_version()
    assert set(found[0]) == {f"penstock-{version}.tar.gz", f"penstock-{version}-py3-none-any.whl"}
    in_wheel = names_in(tmp_path / "one/dist" / f"penstock-{version}-py3-none-any.whl")
    page = {file.relative_to(ROOT / STATIC).as_posix() for file in (ROOT / STATIC).rglob("*") if file.is_file()}
    assert {name.removeprefix("penstock/_inspector/static/") for name in in_wheel if "/static/" in name} == page
    # Nothing that is not in the repository, but for the page and the metadata.
    in_sdist = names_in(tmp_path / "one/dist" / f"penstock-{version}.tar.gz")
    strange = {name for name in in_sdist - set(list_files()) if not name.startswith(f"{STATIC}/")}
    assert strange == {"PKG-INFO"}
    # `pip install` of the sdist builds a wheel: the same one.
    extract_tar(tmp_path / "one/dist" / f"penstock-{version}.tar.gz", tmp_path)
    run_build(
        tmp_path / f"penstock-{version}",
        0o022,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(tmp_path / "again"),
    )
    assert digests(tmp_path / "again").items() <= found[0].items()


@pytest.mark.nightly
def test_two_releases_in_two_folders_are_equal(tmp_path: Path) -> None:
    """The npm packages are installed in each, and the page is built in each. `make release` does the same."""
    found: list[dict[str, str]] = []
    for name, umask in (("one", 0o022), ("another/folder", 0o077)):
        folder = copy_tree(tmp_path / name, page=False)
        commit_tree(folder)
        npm = [str(Path(sys.executable).parent / "npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(npm, cwd=folder / "vscode", check=True, capture_output=True, timeout=60 * MINUTES)
        wanted = ",".join(step for step in STEPS if step != "platform")
        run_build(folder, umask, "-m", "tools.release", "--allow-dirty", "--steps", wanted)
        found.append(digests(folder / "dist"))
    assert found[0] == found[1]
    version = read_version()
    ends = ("-image-context.tar.gz", "-py3-none-any.whl", ".cdx.json", ".tar.gz", ".vsix")
    assert set(found[0]) == {"SHA256SUMS", *(f"penstock-{version}{end}" for end in ends)}
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path / "one/dist", check=True)
    with zipfile.ZipFile(tmp_path / f"one/dist/penstock-{version}.vsix") as vsix:
        wheel = vsix.read(f"extension/bundle/penstock-{version}-py3-none-any.whl")
    assert hashlib.sha256(wheel).hexdigest() == found[0][f"penstock-{version}-py3-none-any.whl"]


def test_the_image_context_has_every_file_that_the_image_copies(tmp_path: Path) -> None:
    version = read_version()
    build_image_context(Release(ROOT, tmp_path, version, EPOCH))
    (file,) = tmp_path.iterdir()
    with tarfile.open(file) as tar:
        names = tar.getnames()
        assert {row.mode for row in tar} <= {0o644, 0o755}
    lines = (ROOT / "deploy/Dockerfile").read_text().replace("\\\n", " ").splitlines()
    sources = [
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    assert len(sources) > 5
    missing = [word for word in sources if not any(name == word or name.startswith(f"{word}/") for name in names)]
    assert missing == []
    assert "deploy/Dockerfile" in names
    assert all(any(name.startswith(one) for name in names) for one in IMAGE_FILES)


def test_the_sbom_has_what_is_shipped() -> None:
    need_page()
    pytest.importorskip("cyclonedx", reason="cyclonedx-python-lib is not installed (make installs it)")
    from tools.publication import Publication
    from tools.release.sbom import check_sbom, make_sbom

    publication = Publication("https://example.com/someone/penstock")
    text = make_sbom(ROOT, "1.2.3", EPOCH, publication)
    assert text == make_sbom(ROOT, "1.2.3", EPOCH, publication), "the same tree gives the same bytes"
    found = json.loads(text)
    assert found["metadata"]["component"]["version"] == "1.2.3"
    assert found["metadata"]["component"]["externalReferences"][0]["url"] == publication.repository
    rows = {
        row["purl"].partition("@")[0] if "%40" not in row["purl"] else row["purl"]: row for row in found["components"]
    }
    msgspec = rows["pkg:pypi/msgspec"]
    assert msgspec["scope"] == "required"
    assert {row["value"] for row in msgspec["properties"]} >= {"serve", "image", "self-contained gateway"}
    assert len(msgspec["externalReferences"][0]["hashes"]) > 5
    preact = rows["pkg:npm/preact"]
    assert (preact["scope"], preact["licenses"][0]["license"]["id"]) == ("required", "MIT")
    assert preact["hashes"][0]["alg"] == "SHA-512"
    assert rows["pkg:npm/typescript"]["scope"] == "excluded", "it builds the page and is not in it"
    shipped = {row["bom-ref"] for row in found["components"] if row["scope"] == "required"}
    (links,) = [row["dependsOn"] for row in found["dependencies"] if row["ref"] == "pkg:pypi/penstock@1.2.3"]
    assert set(links) == shipped
    found["components"][0]["type"] = "a strange one"
    with pytest.raises(SystemExit, match="does not fit the schema"):
        check_sbom(json.dumps(found))
