"""Files in requests: base64, addresses, data URLs, bytes however JSON has them, references to a provider's own store.

How a file's data was spelled is one word (`form`); its value is always made from the file itself, so that a file which
was changed on the way is never written as it was before. A data URL that is not in base64 is written in it.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from penstock.errors import BadRequest
from penstock.media import of_url, packed, sniff, unpacked

if TYPE_CHECKING:
    from penstock import request as rq
    from penstock.pick import Object

TAGS = ("data", "url", "reference", "text")  # {"type": tag, tag: value}, since version 7
TAGGED, HEAD = "tagged ", "head "
EXPECTED = "base64, an address, bytes or a reference"


class Held(NamedTuple):
    """What a file's data says. `form` is empty for plain base64 and for plain addresses."""

    media: str
    url: str = ""
    data: str = ""
    reference: Object | None = None
    form: str = ""


def read_data(value: Any, said: str = "", default: str = "") -> Held:
    """Data in any form. Its type: as `said`, as its address has it, as its bytes show it, or the default."""
    if isinstance(value, str):
        return _of_text(value, said, default)
    if isinstance(value, dict):
        return _of_object(cast("Object", value), said, default)
    return _bytes(value, said, default)


def _of_text(value: str, said: str, default: str) -> Held:
    if ":" not in value[:64]:  # base64 has no colon, and no address is without
        return Held(_media(said, "", value, default), data=value)
    inside, url, data = of_url(value, "")
    media = _media(said, inside, data, default)
    if url:
        return Held(media, url)
    head = value.partition(",")[0]
    plain = head == f"data:{media};base64" or not head.endswith(";base64")
    return Held(media, data=data, form="data-url" if plain else HEAD + head)


def _of_object(value: Object, said: str, default: str) -> Held:
    tag = value.get("type")
    if tag == "text" and isinstance(value.get(tag), str):
        data = base64.b64encode(value[tag].encode("utf-8", "replace")).decode()
        return Held(said or "text/plain", data=data, form="text")
    if tag in TAGS and tag in value and len(value) == 2:  # noqa: PLR2004 — the tag and what it announces
        inner = read_data(value[tag], said, default)
        return inner._replace(form=TAGGED + inner.form)
    if tag != "Buffer" and value and all(isinstance(name, str) for name in value.values()):
        return Held(_media(said, "", "", default), reference=value)
    return _bytes(value, said, default)


def _media(said: str, inside: str, data: str, default: str) -> str:
    """A type without its second half (`image`, `image/*`) is completed if it can be."""
    if "/" in said and "*" not in said:
        return said
    found = inside or (sniff(data) if data else "")
    return found or (f"{said}/*" if said and "/" not in said else said or default)


def _bytes(value: Any, said: str, default: str) -> Held:
    try:
        data, form = packed(value)
    except ValueError:
        raise BadRequest(EXPECTED, value) from None
    return Held(_media(said, "", data, default), data=data, form=form)


def write_data(file: rq.File, form: str = "", reference: Object | None = None) -> Any:
    """A file's data; in another form than it was said in if that no longer fits."""
    if form == "text" and file.data:
        return {"type": "text", "text": base64.b64decode(file.data).decode("utf-8", "replace")}
    stored = reference if not file.data and not file.url else None
    if form.startswith(TAGGED):
        tag = "reference" if stored else "url" if file.url else "data"
        return {"type": tag, tag: write_data(file, form.removeprefix(TAGGED), reference)}
    if stored:
        return stored
    if file.url or not file.data:
        return file.url
    return _spelled(file, form)


def _spelled(file: rq.File, form: str) -> Any:
    if form.startswith(HEAD) or form == "data-url":
        return f"{form.removeprefix(HEAD) if form.startswith(HEAD) else f'data:{file.media};base64'},{file.data}"
    return unpacked(file.data, form)


def first_id(reference: Object | None) -> str:
    """The provider's own id of a file, if there is just one."""
    return str(next(iter(reference.values()))) if reference and len(reference) == 1 else ""
