"""Packages of a release: what is in them, and that two builds are equal byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.surfaces.release.builds import EPOCH, ROOT, STATIC, commit_tree, copy_tree, names_in, need_page
from tools.release.__main__ import STEPS, find_problems
from tools.release.checksums import write_checksums
from tools.release.source_tree import list_files
from tools.release.steps import IMAGE_FILES, Release, build_image_context, empty_folder
from tools.release.versions import read_version
from tools.reproducible_archives import extract_tar, rewrite_zip, source_date_epoch, write_tar

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


def test_a_zip_file_is_written_again_by_its_content_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))
    rows = {"b/plain.txt": (0o600, (2020, 1, 1, 0, 0, 0)), "a/tool": (0o700, (1999, 1, 1, 0, 0, 0))}
    for name, order in (("one.zip", list(rows)), ("two.zip", [*reversed(rows)])):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for row in order:
                info = zipfile.ZipInfo(row, rows[row][1] if name == "one.zip" else (2001, 2, 3, 4, 5, 6))
                info.external_attr = rows[row][0] << 16
                archive.writestr(info, f"the content of {row}")
        rewrite_zip(tmp_path / name)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        modes = {row.filename: stat.S_IMODE(row.external_attr >> 16) for row in archive.infolist()}
        assert archive.read("a/tool") == b"the content of a/tool"
    assert modes == {"a/tool": 0o755, "b/plain.txt": 0o644}


@pytest.mark.parametrize("filters", [True, False] if sys.version_info < (3, 12) else [True])
def test_a_tar_file_is_unpacked_with_and_without_filters(
    filters: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11.2 has none."""
    (tmp_path / "tool").write_text("content")
    (tmp_path / "tool").chmod(0o700)
    write_tar(tmp_path / "one.tar.gz", tmp_path, ["tool"])
    if not filters:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    extract_tar(tmp_path / "one.tar.gz", tmp_path / "out")
    assert (tmp_path / "out/tool").read_text() == "content"
    assert stat.S_IMODE((tmp_path / "out/tool").stat().st_mode) == 0o755


def test_the_time_of_entries_is_one_that_a_zip_file_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert source_date_epoch() == 315532800


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


def test_checksums_are_those_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"b")
    (tmp_path / "a.txt").write_bytes(b"a")
    write_checksums(tmp_path)
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, check=True, capture_output=True)
    assert [line[66:] for line in (tmp_path / "SHA256SUMS").read_text().splitlines()] == ["a.txt", "b.txt"]
    (tmp_path / "b.txt").write_bytes(b"c")
    assert subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, capture_output=True).returncode  # noqa: PLW1510


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [1.0.0] - 2026-01-01\n\n### Added\n- All.\n")
    commit_tree(tmp_path)
    return tmp_path


def test_a_release_needs_a_committed_tree_and_its_section_of_the_changelog(repository: Path) -> None:
    assert find_problems("1.0.0", repository) == []
    (problem,) = find_problems("1.1.0", repository)
    assert "no section [1.1.0]: run make changelog" in problem
    (repository / "new.py").touch()
    (problem,) = find_problems("1.0.0", repository)
    assert problem == "these files are not committed: new.py"
    for number in range(20):
        (repository / f"more{number}").touch()
    (problem,) = find_problems("1.0.0", repository)
    assert problem.endswith("and 11 more")


def test_a_tag_must_be_that_of_the_version(repository: Path) -> None:
    subprocess.run(["git", "tag", "v1.0.1"], cwd=repository, check=True)
    assert find_problems("1.0.0", repository) == ["the commit has the tag v1.0.1, but the version is 1.0.0"]
    subprocess.run(["git", "tag", "v1.0.0"], cwd=repository, check=True)
    assert find_problems("1.0.0", repository) == []


def test_files_of_somebody_else_are_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").touch()
    with pytest.raises(SystemExit, match="is not empty"):
        empty_folder(tmp_path, ours=False)
    empty_folder(tmp_path, ours=True)
    assert [*tmp_path.iterdir()] == []


def test_a_step_that_does_not_exist_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.release", "--steps", "wheel"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "there is no step wheel: page, python" in done.stderr


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
