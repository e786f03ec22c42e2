"""Media: data URLs, bytes as JSON has them, the type that the bytes themselves show. Nothing is fetched."""

from __future__ import annotations

import binascii
import re
from typing import Any

from penstock import _lenient_fields as lenient

SIGNS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
    (b"\xff\xf1", "audio/aac"),
    (b"\xff\xf9", "audio/aac"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)
KINDS = ("image", "audio", "video")  # of which the first bytes tell
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
BRANDS = {b"avif": "image/avif", b"heic": "image/heic", b"heix": "image/heic", b"mif1": "image/heif"}


KNOWN = frozenset({*(media for _, media in SIGNS), *RIFF.values(), *BRANDS.values(), "video/mp4", "video/webm"})


def parse_data_url(url: str, default: str) -> tuple[str, str, str]:
    """(media type, url, base64): a data URL gives its data and no url, any other URL itself."""
    if not url.startswith("data:"):
        return default, url, ""
    head, _, data = url[5:].partition(",")
    media, *marks = head.split(";")
    if "base64" not in marks:
        plain = _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), data.encode("utf-8", "replace"))
        data = binascii.b2a_base64(plain, newline=False).decode()
    return media or "text/plain", "", data


def sniff_media_type(data: str) -> str:
    """The media type that the first bytes of base64 data show, or nothing."""
    try:
        head = binascii.a2b_base64(data[:64])
    except ValueError:  # not base64, or not even ASCII
        return ""
    return next((media for sign, media in SIGNS if head.startswith(sign)), "") or _boxed(head)


def _boxed(head: bytes) -> str:
    """Formats that say what they are behind a size."""
    if head[:4] == b"RIFF":
        return RIFF.get(head[8:12], "")
    if head[4:8] == b"ftyp":
        return BRANDS.get(head[8:12], "video/mp4")
    return "video/webm" if head.startswith(b"\x1aE\xdf\xa3") else ""


def is_of_kind(label: str, data: str) -> bool:
    """Whether base64 data is the picture, sound or film that a label says. Other labels are not checked.

    The bytes must show it: a server may call a page that explains an error `image/png`. Containers of films hold sound.
    """
    kind = label.partition("/")[0].lower()
    if kind not in KINDS:
        return True
    shown = sniff_media_type(data).partition("/")[0]
    return shown == kind or {shown, kind} == {"audio", "video"}


def contradicts(label: str, data: str) -> bool:
    """Whether base64 data is of no kind that is known here, though its label is one whose first bytes are known."""
    return bool(data) and label in KNOWN and not is_of_kind(label, data)


def encode_byte_list(value: Any) -> tuple[str, str]:
    """Base64 of bytes that JSON has as numbers, and how: a `list`, a byte array that became an `object`, a `buffer`.

    A ValueError if they are no bytes.
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
    """Base64 in one of the forms of `packed`; as it is if that is no form."""
    if form not in ("list", "object", "buffer"):
        return data
    numbers = list(binascii.a2b_base64(data))
    if form == "buffer":
        return {"type": "Buffer", "data": numbers}
    return numbers if form == "list" else {str(place): number for place, number in enumerate(numbers)}
