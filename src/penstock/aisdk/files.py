"""A file's bytes, however JavaScript wrote them down: base64, a data URL, a byte array that became an object."""

from __future__ import annotations

import base64
import re
from typing import Any

from penstock import pick

_DATA_URL = re.compile(r"data:([^;,]*+)([^,]*?);base64,", re.IGNORECASE)
_BYTE = 256


def split(url: str) -> tuple[str, str]:
    """Media type and base64 of a data URL; nothing of any other address."""
    head = _DATA_URL.match(url)
    return (head[1] + head[2], url[head.end() :]) if head else ("", "")


def read_file(said: dict[str, Any]) -> tuple[str, str, str]:
    """Media type, address and base64 of a file chunk given as a plain object; the latter two empty if it has none."""
    held = {**said, **pick.table(said, "file")}
    data: Any = held.get("data")
    if isinstance(data, dict):
        held = {**held, **pick.as_object(data)}  # {type: "data", data} or {type: "url", url}, since 7
    media, url = pick.text(held, "mediaType", "mimeType"), pick.text(held, "url")
    inline, found = split(url)
    if found:
        return (media or inline, "", found)
    keys = ("base64", "base64Data", "data", "uint8Array", "uint8ArrayData")
    return (media, url, next((text for key in keys if (text := _base64(held.get(key)))), ""))


def _base64(value: Any) -> str:
    """Base64 of text that is base64 already, or of bytes in any JSON form."""
    if isinstance(value, str):
        return split(value)[1] or value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        value = list(pick.as_object(value).values())
    if not isinstance(value, list) or not value:
        return ""
    numbers = pick.listed({"": value}, "")
    whole = all(isinstance(number, int) and 0 <= number < _BYTE for number in numbers)
    return base64.b64encode(bytes(numbers)).decode() if whole else ""
