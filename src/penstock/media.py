"""Media: data URLs, and the type that the bytes themselves show. Nothing is fetched and nothing decoded."""

from __future__ import annotations

import binascii
import re

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
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
BRANDS = {b"avif": "image/avif", b"heic": "image/heic", b"heix": "image/heic", b"mif1": "image/heif"}


def of_url(url: str, default: str) -> tuple[str, str, str]:
    """(media type, url, base64): a data URL gives its data and no url, any other URL itself."""
    if not url.startswith("data:"):
        return default, url, ""
    head, _, data = url[5:].partition(",")
    media, *marks = head.split(";")
    if "base64" not in marks:
        plain = _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), data.encode())
        data = binascii.b2a_base64(plain, newline=False).decode()
    return media or "text/plain", "", data


def sniff(data: str) -> str:
    """The media type that the first bytes of base64 data show, or nothing."""
    try:
        head = binascii.a2b_base64(data[:64])
    except binascii.Error:
        return ""
    return next((media for sign, media in SIGNS if head.startswith(sign)), "") or _boxed(head)


def _boxed(head: bytes) -> str:
    """Formats that say what they are behind a size."""
    if head[:4] == b"RIFF":
        return RIFF.get(head[8:12], "")
    if head[4:8] == b"ftyp":
        return BRANDS.get(head[8:12], "video/mp4")
    return "video/webm" if head.startswith(b"\x1aE\xdf\xa3") else ""
