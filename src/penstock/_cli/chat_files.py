"""Files that go with a question in `penstock chat`: images and PDFs as they are, everything else as text."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from penstock._media import sniff_media_type
from penstock.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 20_000_000
PDF = "application/pdf"


def read_attachment(path: Path) -> dict[str, Any]:
    """Returns a file as a content part in the format of OpenAI's Chat API. Raises for what a model cannot read."""
    if path.is_file() and path.stat().st_size > MAX_BYTES:
        raise InputError(f"{path}: a file may have at most {MAX_BYTES // 1_000_000} MB")
    data = path.read_bytes()
    if not data:
        raise InputError(f"{path}: the file is empty")
    encoded = b64encode(data).decode()
    media = sniff_media_type(encoded)
    url = f"data:{media};base64,{encoded}"
    if media == PDF:
        return {"type": "file", "file": {"filename": path.name, "file_data": url}}
    try:  # before images: a text may begin like one
        return {"type": "text", "text": f"The file {path.name}:\n\n{data.decode('utf-8-sig')}"}
    except UnicodeDecodeError:
        if media.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": url}}
        raise InputError(f"{path}: expected an image, a PDF or a text in UTF-8") from None
