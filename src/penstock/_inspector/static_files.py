"""The files of the inspector's page, as they were built: their headers, and the compressed form a browser accepts.

The build writes `NAME.br` and `NAME.gz` beside a file where that is smaller. Nothing is compressed while serving.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

    from penstock._gateway.endpoints import Headers

CONTENT_TYPES = {
    "css": b"text/css; charset=utf-8",
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
    "png": b"image/png",
    "woff2": b"font/woff2",
    "json": b"application/json",
}
INDEX = "index.html"
NOT_BUILT = "the inspector's page is not built: `make web` builds it, and a released wheel has it"
_IMMUTABLE = b"public, max-age=31536000, immutable"  # a built file's name changes with its content


_SUFFIXES = (".br", ".gz")
_ENCODINGS = ((b"br", ".br"), (b"gzip", ".gz"))  # the smaller form first


class StaticFiles:
    """The files of the page by name. Names come from the folder, so no request can read a file outside of it."""

    def __init__(self, folder: Traversable | None = None) -> None:
        self._folder = folder or files("penstock._inspector") / "static"
        self._files: Mapping[str, Traversable] = {}

    @property
    def built(self) -> bool:
        return self._find(INDEX) is not None

    def text(self, name: str) -> str:
        """Returns the text of a file."""
        found = self._find(name)
        if found is None:
            raise InputError(NOT_BUILT)
        return found.read_text("utf-8")

    def get(self, name: str, accept_encoding: str = "") -> tuple[bytes, Headers] | None:
        """Returns a file and its headers; None if there is no such file. Compressed, if the browser accepts that."""
        found = None if name.endswith(_SUFFIXES) else self._find(name)
        if found is None:
            return None
        kind = CONTENT_TYPES.get(name.rpartition(".")[2], b"application/octet-stream")
        caching = b"no-cache" if name == INDEX else _IMMUTABLE
        headers: Headers = ((b"content-type", kind), (b"cache-control", caching), (b"vary", b"accept-encoding"))
        accepted = _accepted_encodings(accept_encoding)
        for encoding, suffix in _ENCODINGS:
            packed = self._files.get(name + suffix) if encoding in accepted else None
            if packed is not None and packed.is_file():
                return packed.read_bytes(), (*headers, (b"content-encoding", encoding))
        return found.read_bytes(), headers

    def find_name(self, start: str) -> str:
        """Returns the name of the file that begins so; empty if there is none. Built names end with a digest."""
        self._find(INDEX)
        return next((name for name in self._files if name.startswith(start) and not name.endswith(_SUFFIXES)), "")

    def _find(self, name: str) -> Traversable | None:
        found = self._files.get(name)
        if found is None or not found.is_file():  # it may have been built since
            self._files = dict(_list_files(self._folder)) if self._folder.is_dir() else {}
            found = self._files.get(name)
        return found


def _list_files(folder: Traversable, before: str = "") -> list[tuple[str, Traversable]]:
    files: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        name = before + entry.name
        files += _list_files(entry, f"{name}/") if entry.is_dir() else [(name, entry)]
    return files


def _accepted_encodings(header: str) -> set[bytes]:
    """Returns the encodings that an `Accept-Encoding` header names, but those that it refuses (`q=0`)."""
    accepted: set[bytes] = set()
    for entry in header.lower().split(","):
        name, _, parameters = entry.partition(";")
        weight = parameters.replace(" ", "").removeprefix("q=")
        if not weight or weight.strip("0.") != "":
            accepted.add(name.strip().encode("latin-1", "replace"))
    return accepted
