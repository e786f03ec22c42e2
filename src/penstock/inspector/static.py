"""The page: files that were built from web/ into this package. Where they are not there, nothing is served."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

    from penstock.gateway.endpoints import Headers

TYPES = {
    "css": b"text/css; charset=utf-8", "html": b"text/html; charset=utf-8", "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml", "png": b"image/png", "woff2": b"font/woff2", "json": b"application/json",
}  # fmt: skip
INDEX = "index.html"
ABSENT = "the inspector's page is not built: `make web` builds it, and a released wheel has it"
_KEPT = b"public, max-age=31536000, immutable"  # a built file's name changes with its content


class Pages:
    """All files by their names. Names come from the folder, never from a request: no path leads out of it."""

    def __init__(self, folder: Traversable | None = None) -> None:
        self._folder = folder or files("penstock.inspector") / "static"
        self._files: Mapping[str, Traversable] = {}

    @property
    def built(self) -> bool:
        return self._find(INDEX) is not None

    def text(self, name: str) -> str:
        """A file that is there."""
        found = self._find(name)
        if found is None:
            raise InputError(ABSENT)
        return found.read_text("utf-8")

    def get(self, name: str) -> tuple[bytes, Headers] | None:
        """A file and what is said of it; None where there is none."""
        found = self._find(name)
        if found is None:
            return None
        kind = TYPES.get(name.rpartition(".")[2], b"application/octet-stream")
        kept = b"no-cache" if name == INDEX else _KEPT
        return found.read_bytes(), ((b"content-type", kind), (b"cache-control", kept))

    def _find(self, name: str) -> Traversable | None:
        found = self._files.get(name)
        if found is None or not found.is_file():  # it may have been built since
            self._files = dict(_walk(self._folder)) if self._folder.is_dir() else {}
            found = self._files.get(name)
        return found


def _walk(folder: Traversable, before: str = "") -> list[tuple[str, Traversable]]:
    made: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        name = before + entry.name
        made += _walk(entry, f"{name}/") if entry.is_dir() else [(name, entry)]
    return made
