"""Builds the folder of the self-contained gateway with PyInstaller, in an environment of locked packages."""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from tools.standalone.notices import write_notices
from tools.standalone.targets import this_target

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "build/standalone"
NAME = "penstock-gateway"
LOCKS = tuple(ROOT / f"requirements/{name}.lock" for name in ("standalone", "pyinstaller"))
HERE = ROOT / "tools/standalone"
LIMIT = 600  # seconds that a step may take
# 1980 is the first year that a zip file can hold. Archives of the same files are the same bytes.
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))


def run(*command: str | Path, **environ: str) -> None:
    """Runs a step. Its output is shown only if it fails."""
    words = [str(word) for word in command]
    env = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}}
    done = subprocess.run(  # noqa: S603 — our own
        words, cwd=ROOT, env=env | environ, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")


def build(wheel: Path | None = None) -> Path:
    """Returns the folder, built anew if anything that goes into it has changed."""
    folder, stamp = PLACE / NAME, PLACE / "stamp"
    if wheel is None:
        # The inspector's page is part of every package. The environment's own npm comes first.
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
        run("bash", ROOT / "tools/web.sh", "build", PATH=path)
    inputs = [*LOCKS, ROOT / "LICENSE", ROOT / "vscode/media/launch.py", *_files(HERE)]
    digest = _digest([*inputs, *([wheel] if wheel else _files(ROOT / "src/penstock"))])
    if folder.is_dir() and stamp.is_file() and stamp.read_text() == digest:
        return folder
    stamp.unlink(missing_ok=True)
    python = _environment()
    _install_penstock(python, wheel)
    work = PLACE / "work"
    spec = HERE / "gateway.spec"
    words = ["--noconfirm", "--log-level", "WARN", "--distpath", str(PLACE), "--workpath", str(work), str(spec)]
    run(python, "-m", "PyInstaller", *words, PENSTOCK_ROOT=str(ROOT), PYTHONHASHSEED="1")
    _drop_symbols(folder)
    _resolve_links(folder)
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")
    write_notices(folder, _site_packages(python), LOCKS[0], _frozen_modules(work), python_license())
    stamp.write_text(digest)
    return folder


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for path in files:
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _environment() -> Path:
    """Returns the Python of an environment with the locked packages and PyInstaller, and nothing else but penstock."""
    place, wanted = PLACE / "venv", _digest([*LOCKS, HERE / "build.py"])
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = place / "complete"
    if not (stamp.is_file() and stamp.read_text() == wanted):
        base: str = getattr(sys, "_base_executable", sys.executable)
        run(base, "-m", "venv", "--clear", place)
        for lock in LOCKS:
            _install(python, "--only-binary", ":all:", "--require-hashes", "-r", lock)
        stamp.write_text(wanted)
    return python


def _install_penstock(python: Path, wheel: Path | None) -> None:
    if wheel is None:
        made = PLACE / "wheel"
        shutil.rmtree(made, ignore_errors=True)
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", made)
        (wheel,) = made.glob("penstock-*.whl")
    _install(python, "--no-deps", "--force-reinstall", wheel)


def _install(python: Path, *words: str | Path) -> None:
    """Installs packages by uv, which is several times as fast, or by pip where there is no uv."""
    beside = Path(sys.executable).parent / ("uv.exe" if os.name == "nt" else "uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv:
        run(uv, "pip", "install", "--quiet", "--python", python, *_oldest_wheels(), *words)
    else:
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words)


def _oldest_wheels() -> list[str]:
    """Some packages have a second wheel for a newer glibc, which is taken where the machine has that. Not here."""
    target = this_target()
    if not target.startswith("linux"):
        return []
    return ["--python-platform", f"{'aarch64' if target.endswith('arm64') else 'x86_64'}-manylinux_2_28"]


def _site_packages(python: Path) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603
    return Path(done.stdout.strip())


def _frozen_modules(work: Path) -> list[str]:
    """Returns the names of the modules that are in the executable."""
    _, entries = ast.literal_eval((work / "gateway/PYZ-00.toc").read_text("utf-8"))
    return [entry[0] for entry in entries]


def _drop_symbols(folder: Path) -> None:
    """Removes debug symbols, half of the size on Linux. The executable is left as it is: its modules are at its end."""
    strip = shutil.which("strip")
    if sys.platform == "linux" and strip:
        libraries = [path for path in folder.rglob("*.so*") if path.is_file() and not path.is_symlink()]
        run(strip, "--strip-unneeded", *libraries)


def _resolve_links(folder: Path) -> None:
    """Replaces links by copies: a package of VS Code cannot hold links."""
    for path in [path for path in folder.rglob("*") if path.is_symlink()]:
        target = path.resolve()
        path.unlink()
        if target.is_dir():
            shutil.copytree(target, path)
        else:
            shutil.copy2(target, path)


def python_license() -> str:
    """Returns the licence of the Python that is put into the folder."""
    base = Path(sys.base_prefix)
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    places = [
        base / "lib" / library / "LICENSE.txt", base / "LICENSE.txt", base / "LICENSE",
        Path("/usr/share/doc") / library / "copyright",
    ]  # fmt: skip
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        sys.exit(f"the licence of Python is not in {base}")
    return found.read_text("utf-8")


def folder_size(folder: Path) -> int:
    """Returns the bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def pack_archive(folder: Path, place: Path, target: str) -> Path:
    """Packs the folder: a zip file for Windows, else a compressed tar file."""
    place.mkdir(parents=True, exist_ok=True)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if target.startswith("win32"):
        archive = place / f"{NAME}-{target}.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as packed:
            for path in files:
                packed.write(path, f"{NAME}/{path.relative_to(folder).as_posix()}")
        return archive
    archive = place / f"{NAME}-{target}.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in files:
            tar.add(path, f"{NAME}/{path.relative_to(folder).as_posix()}", filter=_anonymous)
    return archive


def _anonymous(row: tarfile.TarInfo) -> tarfile.TarInfo:
    row.uid = row.gid = 0
    row.uname = row.gname = ""
    row.mtime = EPOCH
    row.mode = 0o755 if row.mode & 0o100 else 0o644
    return row
