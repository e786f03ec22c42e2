"""Tokens of files from their headers: pixels of PNG, JPEG, GIF and WebP, pages of a PDF, seconds of WAV, MP3 and MP4.

The formulas are data (`families.ImageFormula`); this module computes them. An image behind a URL has the size that the
URL mentions, or a default size. Images are not decoded.
"""

from __future__ import annotations

import binascii
import re
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._tokens.families import ImageFormula

_HEAD = 96 * 1024  # Base64 characters in which an image's header is searched; a preview may precede it
DEFAULT_SIZE = (1800, 1200)  # two megapixels, like a phone's picture after scaling
_MAX_SIDE = 100_000  # pixels; a header that says more is not believed
_DEFAULT_PAGES = 8
_MAX_PAGES = 1_000  # the most that a provider takes in one document
_MIN_PAGE_BYTES = 64  # a file that says it has more pages is not believed
_MAX_SECONDS = 34_200.0  # 9.5 hours, the longest recording that a provider takes
_PAGE_BYTES = 40_000
AUDIO_BYTES = 16_000  # per second
_PDF_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_PDF_COUNT = re.compile(rb"/Count\s+(\d{1,5})")
_URL_SIZE = re.compile(r"(?<!\d)(\d{2,4})x(\d{2,4})(?!\d)")
_URL_WIDTH = re.compile(r"(?<!\d)(\d{2,4})px|[?&]w(?:idth)?=(\d{2,4})(?!\d)")
_URL_HEIGHT = re.compile(r"/(\d{3,4})_")


class ImageSize(NamedTuple):
    """Pixels; `known` if the image's header has them."""

    width: int
    height: int
    known: bool


def decode_head(data: str, limit: int = _HEAD) -> bytes:
    """Decodes the first characters of Base64, with any padding and line breaks."""
    part = data[: limit - limit % 4]
    try:
        return binascii.a2b_base64(part + "=" * (-len(part) % 4))
    except ValueError:  # not base64, or not even ASCII
        return b""


def image_size(data: bytes, url: str = "") -> ImageSize:
    """Returns the size from the header, from the URL, or the default."""
    for signature, read in _HEADERS:
        if data.startswith(signature):
            found = read(data)
            if found and min(found) > 0 and max(found) <= _MAX_SIDE:
                return ImageSize(*found, known=True)
    return _guess_size(url[:2_000])


def _guess_size(url: str) -> ImageSize:
    if size := _URL_SIZE.search(url):
        return ImageSize(int(size[1]), int(size[2]), known=False)
    if width := _URL_WIDTH.search(url):
        side = int(width[1] or width[2])
        return ImageSize(side, side * 2 // 3, known=False)
    if height := _URL_HEIGHT.search(url):
        side = int(height[1])
        return ImageSize(side * 3 // 2, side, known=False)
    return ImageSize(*DEFAULT_SIZE, known=False)


def _png_size(data: bytes) -> tuple[int, int] | None:
    return (_big_endian(data, 16, 4), _big_endian(data, 20, 4)) if len(data) >= 24 else None  # noqa: PLR2004 - the first chunk


def _gif_size(data: bytes) -> tuple[int, int] | None:
    return (_little_endian(data, 6, 2), _little_endian(data, 8, 2)) if len(data) >= 10 else None  # noqa: PLR2004 - the header


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Reads segments up to the start of the frame, which has the size."""
    position = 2
    while position + 9 <= len(data):
        if data[position] != 0xFF:  # noqa: PLR2004 - the first byte of every marker
            return None
        marker = data[position + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # noqa: PLR2004 - SOF0 to SOF15
            return _big_endian(data, position + 7, 2), _big_endian(data, position + 5, 2)
        position += 1 if marker == 0xFF else 2 + _big_endian(data, position + 2, 2)  # noqa: PLR2004 - a fill byte, or a segment
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    kind, rest = data[12:16], data[20:30]
    if data[8:12] != b"WEBP" or len(rest) < 10:  # noqa: PLR2004 - the header of the first chunk
        return None
    if kind == b"VP8X":
        return 1 + _little_endian(rest, 4, 3), 1 + _little_endian(rest, 7, 3)
    if kind == b"VP8L":
        bits = _little_endian(rest, 1, 4)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return _little_endian(rest, 6, 2) & 0x3FFF, _little_endian(rest, 8, 2) & 0x3FFF


def _big_endian(data: bytes, position: int, length: int) -> int:
    return int.from_bytes(data[position : position + length], "big")


def _little_endian(data: bytes, position: int, length: int) -> int:
    return int.from_bytes(data[position : position + length], "little")


_HEADERS: tuple[tuple[bytes, Callable[[bytes], tuple[int, int] | None]], ...] = (
    (b"\x89PNG\r\n\x1a\n", _png_size),
    (b"\xff\xd8", _jpeg_size),
    (b"GIF8", _gif_size),
    (b"RIFF", _webp_size),
)


# ── formulas ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def image_tokens(rule: ImageFormula, width: int, height: int, detail: str = "") -> float:
    """Returns the tokens of an image of this size."""
    if detail == "low" and rule.low:
        return rule.low
    return _FORMULAS[rule.kind](rule, *_shrink(rule, width, height))


def _shrink(rule: ImageFormula, width: float, height: float) -> tuple[float, float]:
    scale = min(1.0, rule.long / max(width, height)) if rule.long else 1.0
    if rule.short:
        scale = min(scale, rule.short / min(width, height))
    return width * scale, height * scale


def _tiles(rule: ImageFormula, width: float, height: float) -> float:
    tiles = ceil(width / rule.side) * ceil(height / rule.side)
    return rule.first + rule.each * (min(tiles, rule.most) if rule.most else tiles)


def _area(rule: ImageFormula, width: float, height: float) -> float:
    tokens = width * height / rule.each
    return min(tokens, rule.most) if rule.most else tokens


def _crops(rule: ImageFormula, width: float, height: float) -> float:
    """Counts crops of two thirds of the shorter side and the whole image; small images are not cropped."""
    if max(width, height) <= rule.side:
        return rule.each
    side = min(max(min(width, height) // 1.5, 256), 768)
    return rule.each * (1 + ceil(width / side) * ceil(height / side))


_FORMULAS: dict[str, Callable[[ImageFormula, float, float], float]] = {
    "tiles": _tiles,
    "patches": _tiles,
    "area": _area,
    "crops": _crops,
    "fixed": lambda rule, _width, _height: rule.each,
}


# ── documents ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def count_pages(data: str) -> tuple[int, bool]:
    """Returns the pages of a PDF, and whether the PDF has that number. Without it the size gives a guess."""
    if not data:
        return _DEFAULT_PAGES, False
    content = decode_head(data, len(data) + 3)
    pages = len(_PDF_PAGE.findall(content)) or max(map(int, _PDF_COUNT.findall(content)), default=0)
    if 0 < pages <= min(_MAX_PAGES, max(1, len(content) // _MIN_PAGE_BYTES)):
        return pages, True
    return min(max(1, len(content) // _PAGE_BYTES), _MAX_PAGES), False


# ── sound and video ───────────────────────────────────────────────────────────────────────────────────────────────────

_MP3_KILOBITS = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0)  # MPEG-1 layer III
_MP3_HEADER = re.compile(rb"\xff[\xfa\xfb]([\x10-\xef])")


def media_seconds(data: str) -> float | None:
    """Returns the length of a WAV, MP3 or MP4 from its header; None if it is not there or cannot be true."""
    found = _read_seconds(data)
    return found if found is not None and found <= _MAX_SECONDS else None


def _read_seconds(data: str) -> float | None:
    head, size = decode_head(data), len(data) * 3 // 4
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        rate = _little_endian(head, 28, 4)
        return size / rate if rate else None
    if head[4:8] == b"ftyp":
        tail = data[max(0, (len(data) - _HEAD) // 4 * 4) :]
        return _mp4_seconds(head) or _mp4_seconds(decode_head(tail, len(tail) + 3))
    if head[:3] == b"ID3" or head[:2] in (b"\xff\xfa", b"\xff\xfb"):
        frame = _MP3_HEADER.search(head)
        return size / (_MP3_KILOBITS[frame[1][0] >> 4] * 125) if frame else None
    return None


def _mp4_seconds(data: bytes) -> float | None:
    """Reads the movie header, which is near the start or the end of the file."""
    start = data.find(b"mvhd")
    if start < 0:
        return None
    wide = 8 if data[start + 4 : start + 5] == b"\x01" else 4  # bytes of a time, by the version of the header
    position = start + 8 + 2 * wide
    scale, length = _big_endian(data, position, 4), _big_endian(data, position + 4, wide)
    return length / scale if scale and length else None
