"""Writes THIRD-PARTY-NOTICES.txt: every package and library of the folder, its licence and the licence's text.

A file whose owner is not known, and a package without a licence text, stop the build: the notices are complete, or they
are not written.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HERE = Path(__file__).resolve().parent
NOTICES = "THIRD-PARTY-NOTICES.txt"
OURS = {"penstock", "launch", "entry"}
_LICENSE_FILE = re.compile(r"(?:^|/)(?:licen[cs]e|copying|notice)[^/]*$", re.IGNORECASE)
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)
_RULE = "=" * 100
_PYTHON_FILE = re.compile(
    r"^(?:lib)?python3[\d.]*(?:\.so|\.dll|\.dylib)|^Python(?:\.framework)?$|^base_library\.zip$", re.IGNORECASE
)
_LIBRARY_FILE = re.compile(r"\.(?:so|dll|dylib)(?:\.[\d.]+)?$", re.IGNORECASE)


class IncompleteNoticesError(Exception):
    """Something in the folder has no known licence."""


def write_notices(folder: Path, site: Path, lock: Path, modules: Iterable[str], python: str) -> Path:
    """Writes the notices into the folder. `modules`: those inside the executable; `python`: the licence of Python."""
    installed = {normalized(one.name): one for one in distributions(path=[str(site)])}
    locked = [name for name in locked_names(lock) if name in installed]  # the others are for other systems
    libraries = load_libraries()
    unknown = unknown_parts(folder, modules, [installed[name] for name in locked], libraries)
    if unknown:
        raise IncompleteNoticesError(f"no licence is known for {', '.join(unknown)}")
    parts = [_package(installed[name]) for name in locked]
    parts.append(_part(f"Python {sys.version.split()[0]}", "Python-2.0", python))
    parts.append(_package(installed["pyinstaller"], "the bootloader, under its exception to the GPL"))
    page = installed["penstock"].locate_file("penstock/_inspector/static/licenses.md")
    parts.append(_part("The packages of the inspector's page", "MIT", Path(str(page)).read_text("utf-8")))
    parts += [_library(name, row) for name, row in libraries.items()]
    head = "The self-contained gateway of penstock holds the software below, under the licences of its authors.\n"
    path = folder / NOTICES
    path.write_text(head + "".join(parts), "utf-8")
    return path


def normalized(name: str) -> str:
    """Returns a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked_names(lock: Path) -> list[str]:
    """Returns the names of the packages in a lock file."""
    return [normalized(name) for name in _LOCKED.findall(lock.read_text("utf-8"))]


def load_libraries() -> dict[str, dict[str, Any]]:
    """Returns the libraries in C that come with Python."""
    table = tomllib.loads((HERE / "libraries.toml").read_text("utf-8"))
    texts: dict[str, str] = table["texts"]
    return {name: row | {"text": texts.get(row["text"], row["text"])} for name, row in table["libraries"].items()}


def unknown_parts(
    folder: Path, modules: Iterable[str], packages: Iterable[Distribution], libraries: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Returns the modules and files that no package, library or Python itself owns."""
    owned = set(OURS)
    for one in packages:
        owned.add(one.metadata["Name"])
        owned.update(file.parts[0].partition(".")[0] for file in one.files or () if file.parts)
        owned.update(".".join(file.parts[:1]) for file in one.files or () if file.parts)
    known = sys.stdlib_module_names | owned
    strange = {name.partition(".")[0] for name in modules} - known
    strange = {name for name in strange if not name.startswith(("pyimod", "pyi_", "_sysconfigdata", "_pyi"))}
    files = tuple(prefix for row in libraries.values() for prefix in row["files"])
    internal = folder / "_internal"
    for path in internal.iterdir():
        name = path.name
        if _PYTHON_FILE.search(name) or name in owned or re.fullmatch(r"python3\.\d+|lib-dynload", name):
            continue
        if _LIBRARY_FILE.search(name) or name.endswith(".pyd"):
            module = name.partition(".")[0]
            if not name.lower().startswith(files) and module not in known:
                strange.add(name)
        elif not (name.endswith(".dist-info") or name.partition(".")[0] in owned):
            strange.add(name)
    return sorted(strange)


def _package(one: Distribution, remark: str = "") -> str:
    files = [file for file in one.files or () if _LICENSE_FILE.search(file.as_posix()) and file.suffix != ".py"]
    texts = [Path(str(one.locate_file(file))).read_text("utf-8", "replace") for file in files]
    if not texts:
        raise IncompleteNoticesError(f"{one.metadata['Name']} has no licence text")
    meta: Any = one.metadata  # a message: typeshed does not know all of its methods
    classifiers = [
        row.rpartition(" :: ")[2] for row in meta.get_all("Classifier") or [] if row.startswith("License ::")
    ]
    license_ = (
        meta.get("License-Expression") or " or ".join(classifiers) or (meta.get("License") or "").partition("\n")[0]
    )
    title = f"{meta['Name']} {one.version}" + (f" ({remark})" if remark else "")
    return _part(title, license_ or "see below", "\n\n".join(dict.fromkeys(texts)))


def _library(name: str, row: Mapping[str, Any]) -> str:
    return _part(name, row["license"], f"{row['copyright']}\n{row['url']}\n\n{row['text'].strip()}")


def _part(title: str, license_: str, text: str) -> str:
    return f"\n{_RULE}\n{title}\nLicence: {license_}\n{_RULE}\n\n{text.strip()}\n"
