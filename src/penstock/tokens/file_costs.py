"""Pictures and papers by their headers: pixel sizes of PNG, JPEG, GIF and WebP, pages of a PDF; nothing is decoded.

Formulas are data (`model.Picture`); here is only how each kind is computed. A picture that is elsewhere is taken at the
size that its address speaks of, else at a usual one.
"""

from __future__ import annotations

import binascii
import re
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.tokens.families import Picture

HEAD = 96 * 1024
"""Characters of base64 in which a picture's header is looked for: a preview may come before it."""
USUAL = (1800, 1200)
"""Width and height where nobody tells: two megapixels, as a phone's picture made smaller."""
USUAL_PAGES = 8
PAGE_BYTES = 40_000
SOUND = 16_000  # bytes of a second
_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_PAGES = re.compile(rb"/Count\s+(\d{1,5})")
_BOTH = re.compile(r"(?<!\d)(\d{2,4})x(\d{2,4})(?!\d)")
_WIDTH = re.compile(r"(?<!\d)(\d{2,4})px|[?&]w(?:idth)?=(\d{2,4})(?!\d)")
_HEIGHT = re.compile(r"/(\d{3,4})_")


class Size(NamedTuple):
    """Pixels; `sure` if the picture itself said so."""

    width: int
    height: int
    sure: bool


def head(data: str, most: int = HEAD) -> bytes:
    """The first bytes of base64, however it was padded or broken into lines."""
    part = data[: most - most % 4]
    try:
        return binascii.a2b_base64(part + "=" * (-len(part) % 4))
    except ValueError:  # not base64, or not even ASCII
        return b""


def size_of(data: bytes, url: str = "") -> Size:
    """The size that the header tells, or the address, or a usual one."""
    for sign, read in _HEADERS:
        if data.startswith(sign):
            found = read(data)
            if found and min(found) > 0:
                return Size(*found, sure=True)
    return _guess(url[:2_000])


def _guess(url: str) -> Size:
    if both := _BOTH.search(url):
        return Size(int(both[1]), int(both[2]), sure=False)
    if width := _WIDTH.search(url):
        side = int(width[1] or width[2])
        return Size(side, side * 2 // 3, sure=False)
    if height := _HEIGHT.search(url):
        side = int(height[1])
        return Size(side * 3 // 2, side, sure=False)
    return Size(*USUAL, sure=False)


def _png(data: bytes) -> tuple[int, int] | None:
    return (_big(data, 16, 4), _big(data, 20, 4)) if len(data) >= 24 else None  # noqa: PLR2004 - the first chunk


def _gif(data: bytes) -> tuple[int, int] | None:
    return (_little(data, 6, 2), _little(data, 8, 2)) if len(data) >= 10 else None  # noqa: PLR2004 - the header


def _jpeg(data: bytes) -> tuple[int, int] | None:
    """Go from segment to segment to the one that begins the frame."""
    place = 2
    while place + 9 <= len(data):
        if data[place] != 0xFF:  # noqa: PLR2004 - every marker begins so
            return None
        mark = data[place + 1]
        if 0xC0 <= mark <= 0xCF and mark not in (0xC4, 0xC8, 0xCC):  # noqa: PLR2004 - SOF0 to SOF15
            return _big(data, place + 7, 2), _big(data, place + 5, 2)
        place += 1 if mark == 0xFF else 2 + _big(data, place + 2, 2)  # noqa: PLR2004 - a fill byte, or a segment
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    kind, rest = data[12:16], data[20:30]
    if data[8:12] != b"WEBP" or len(rest) < 10:  # noqa: PLR2004 - the first chunk's head
        return None
    if kind == b"VP8X":
        return 1 + _little(rest, 4, 3), 1 + _little(rest, 7, 3)
    if kind == b"VP8L":
        bits = _little(rest, 1, 4)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return _little(rest, 6, 2) & 0x3FFF, _little(rest, 8, 2) & 0x3FFF


def _big(data: bytes, place: int, length: int) -> int:
    return int.from_bytes(data[place : place + length], "big")


def _little(data: bytes, place: int, length: int) -> int:
    return int.from_bytes(data[place : place + length], "little")


_HEADERS: tuple[tuple[bytes, Callable[[bytes], tuple[int, int] | None]], ...] = (
    (b"\x89PNG\r\n\x1a\n", _png), (b"\xff\xd8", _jpeg), (b"GIF8", _gif), (b"RIFF", _webp),
)  # fmt: skip


# ── formulas ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def cost(rule: Picture, width: int, height: int, detail: str = "") -> float:
    """What a picture of this size costs."""
    if detail == "low" and rule.low:
        return rule.low
    return _KINDS[rule.kind](rule, *_shrunk(rule, width, height))


def _shrunk(rule: Picture, width: float, height: float) -> tuple[float, float]:
    scale = min(1.0, rule.long / max(width, height)) if rule.long else 1.0
    if rule.short:
        scale = min(scale, rule.short / min(width, height))
    return width * scale, height * scale


def _tiles(rule: Picture, width: float, height: float) -> float:
    number = ceil(width / rule.side) * ceil(height / rule.side)
    return rule.first + rule.each * (min(number, rule.most) if rule.most else number)


def _area(rule: Picture, width: float, height: float) -> float:
    tokens = width * height / rule.each
    return min(tokens, rule.most) if rule.most else tokens


def _crops(rule: Picture, width: float, height: float) -> float:
    """Crops of two thirds of the shorter side, and the whole once more; small ones are not cut."""
    if max(width, height) <= rule.side:
        return rule.each
    side = min(max(min(width, height) // 1.5, 256), 768)
    return rule.each * (1 + ceil(width / side) * ceil(height / side))


def _fixed(rule: Picture, _width: float, _height: float) -> float:
    return rule.each


_KINDS: dict[str, Callable[[Picture, float, float], float]] = {
    "tiles": _tiles, "patches": _tiles, "area": _area, "crops": _crops, "fixed": _fixed,
}  # fmt: skip


# ── papers ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def pages(data: str) -> tuple[int, bool]:
    """The pages of a PDF, and whether it said so itself; a compressed page tree is guessed by size."""
    if not data:
        return USUAL_PAGES, False
    whole = head(data, len(data) + 3)
    if number := len(_PAGE.findall(whole)):
        return number, True
    if told := max(map(int, _PAGES.findall(whole)), default=0):
        return told, True
    return max(1, len(whole) // PAGE_BYTES), False
