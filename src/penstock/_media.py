"""Media: data URLs, bytes in JSON, media types by the first bytes, and files of a stream that are sent as URLs.

Nothing is fetched here: `RemoteFiles` gets the function that fetches. `penstock.file_fetch.Fetcher` is one. A file that
cannot be fetched, or is of another kind than the stream says, stays a URL, with a diagnostic.
"""

from __future__ import annotations

import binascii
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._diagnostics import Diagnostics
from penstock._lazy_patterns import lazy_pattern
from penstock.errors import InputError, PenstockError
from penstock.request import File

SIGNATURES: dict[str, tuple[bytes, ...]] = {  # how files of a media type begin
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "application/pdf": (b"%PDF-",),
    "audio/ogg": (b"OggS",),
    "audio/flac": (b"fLaC",),
    "audio/mpeg": (b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2"),
    "audio/aac": (b"\xff\xf1", b"\xff\xf9"),
    "image/bmp": (b"BM",),
    "image/tiff": (b"II*\x00", b"MM\x00*"),
}
KINDS = ("image", "audio", "video")  # kinds that can be recognised by the first bytes
_ESCAPE = lazy_pattern(rb"%([0-9A-Fa-f]{2})")
RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
BRANDS = {b"avif": "image/avif", b"heic": "image/heic", b"heix": "image/heic", b"mif1": "image/heif"}


KNOWN = frozenset({*SIGNATURES, *RIFF.values(), *BRANDS.values(), "video/mp4", "video/webm"})


def split_file_url(url: str, default: str) -> tuple[str, str, str]:
    """Returns media type, URL and base64 data. A data URL has data and no URL; any other URL has no data."""
    if not url.startswith("data:"):
        return default, url, ""
    head, _, data = url[5:].partition(",")
    media, *marks = head.split(";")
    if "base64" not in marks:
        plain = _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), data.encode("utf-8", "replace"))
        data = binascii.b2a_base64(plain, newline=False).decode()
    return media or "text/plain", "", data


def sniff_media_type(data: str) -> str:
    """Returns the media type of base64 data by its first bytes, or an empty string."""
    try:
        head = binascii.a2b_base64(data[:64])
    except ValueError:  # not base64, or not even ASCII
        return ""
    return next((media for media, starts in SIGNATURES.items() if head.startswith(starts)), "") or _sniff_container(
        head
    )


def _sniff_container(head: bytes) -> str:
    """Returns the type of formats whose name follows a size."""
    if head[:4] == b"RIFF":
        return RIFF.get(head[8:12], "")
    if head[4:8] == b"ftyp":
        return BRANDS.get(head[8:12], "video/mp4")
    return "video/webm" if head.startswith(b"\x1aE\xdf\xa3") else ""


def is_of_kind(label: str, data: str) -> bool:
    """True if base64 data is the image, audio or video of its label. Other labels are not checked.

    A server may label an error page `image/png`. Video containers may hold audio.
    """
    kind = label.partition("/")[0].lower()
    if kind not in KINDS:
        return True
    shown = sniff_media_type(data).partition("/")[0]
    return shown == kind or {shown, kind} == {"audio", "video"}


def contradicts(label: str, data: str) -> bool:
    """True if the label is a known media type, but the data is not of its kind."""
    return bool(data) and label in KNOWN and not is_of_kind(label, data)


def encode_byte_list(value: Any) -> tuple[str, str]:
    """Returns base64 of bytes that are numbers in JSON, and their form: `list`, `object` (a byte array) or `buffer`.

    Raises ValueError if they are not bytes.
    """
    held = lenient.as_object(value)
    form, numbers = "list", value
    if held.get("type") == "Buffer":
        form, numbers = "buffer", held.get("data")
    elif held or value == {}:
        form, numbers = "object", list(held.values())
    known = lenient.get_list({"": numbers}, "")
    if known != numbers or any(type(number) is not int for number in known):
        raise ValueError(form)
    return binascii.b2a_base64(bytes(known), newline=False).decode(), form


def decode_byte_list(data: str, form: str) -> Any:
    """Returns base64 data in a form of `encode_byte_list`; unchanged for other forms."""
    if form not in ("list", "object", "buffer"):
        return data
    numbers = list(binascii.a2b_base64(data))
    if form == "buffer":
        return {"type": "Buffer", "data": numbers}
    return numbers if form == "list" else {str(place): number for place, number in enumerate(numbers)}


Fetch: TypeAlias = Callable[[str], Awaitable[File | bytes | None]]
MAX_FILES = 32  # files that are fetched for one stream
REMOTE = ("http://", "https://")


class RemoteFiles:
    """The files of one stream. `fill` returns the events with the data of fetched files."""

    def __init__(self, fetch: Fetch, limit: int = MAX_FILES) -> None:
        self._fetch = fetch
        self._left = limit
        self._open: dict[int, ev.FileStart] = {}  # files without data so far
        self._held: ev.FileStart | None = None  # waits, because the fetched file decides its media type
        self.diagnostics: Diagnostics = Diagnostics("fetch")

    async def fill(self, events: Sequence[Any]) -> list[Any]:
        """Returns the events of a batch, with fetched data."""
        out: list[Any] = []
        for event in events:
            if type(event) is ev.FileStart and event.url.lower().startswith(REMOTE) and not event.choice:
                out += self._release()
                self._open[event.index] = self._held = event
            elif type(event) is ev.FileEnd and event.index in self._open:
                out += [*await self._end_file(self._open.pop(event.index)), event]
            else:
                if type(event) is ev.FileDelta:
                    self._open.pop(event.index, None)
                out += [*self._release(), event]
        return out

    def _release(self) -> list[Any]:
        """Returns the start that is held, because another event follows."""
        held, self._held = self._held, None
        return [held] if held is not None else []

    async def _end_file(self, start: ev.FileStart) -> list[Any]:
        """Returns the start of a file, if it was held, and its data."""
        is_held = self._held is start
        before = [] if is_held else self._release()
        self._held = None
        file = await self._fetch_file(start)
        if file is None:
            return [start] if is_held else before
        data = ev.FileDelta(start.index, file.data)
        return [replace(start, media=file.media, url=""), data] if is_held else [*before, data]

    async def _fetch_file(self, start: ev.FileStart) -> File | None:
        if not self._left:
            self.diagnostics.add("fetch-limit", "more files than are fetched for one stream: the rest stay addresses")
            return None
        self._left -= 1
        try:
            found = await self._fetch(start.url)
            file = _check_file(found, start.media)
        except PenstockError as error:
            self.diagnostics.add("fetch-failed", f"a file stays an address: {error}")
        except Exception:  # noqa: BLE001 — a caller's function may raise anything; its text may hold addresses
            self.diagnostics.add("fetch-failed", "a file stays an address: the function that fetches files failed")
        else:
            return file
        return None


def _check_file(found: Any, label: str) -> File | None:
    """Returns a fetched file with the media type of its bytes; raises if it is of another kind."""
    if found is None:
        raise InputError("nothing was fetched")
    if isinstance(found, bytes | bytearray):
        found = File("", data=b64encode(found).decode())
    if not isinstance(found, File):
        raise InputError(f"expected a File or bytes from the function that fetches, found {type(found).__name__}")
    media = sniff_media_type(found.data) or found.media or label
    if not (is_of_kind(label, found.data) and is_of_kind(media, found.data)):
        raise InputError(f"it is said to be {label if label.strip('*/') else media!r}, and its bytes are not")
    return replace(found, media=media)
