"""Values → what is sent: JSON without a secret in it, with the headers that keep a browser honest.

Every answer of the inspector goes through here, so that none is forgotten. Leans on `secrecy` for what a secret is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.jsontext import clean
from penstock.secrecy import MARK, find

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.gateway.endpoints import Headers

# Scripts and styles of our own only, from here only; nothing may frame the page, and it sends no form anywhere.
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src data: blob:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFE: Headers = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
JSON: Headers = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
TEXT: Headers = ((b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store"))
_encode = msgspec.json.Encoder().encode


@lru_cache(1000)
def suspect(text: str, secrets: tuple[str, ...]) -> bool:
    """Whether there is a secret in it. Remembered: many rows are alike."""
    return bool(find(text, secrets))


def plain(value: Any) -> bytes:
    """A value as JSON, as it is."""
    try:
        return _encode(value)
    except UnicodeEncodeError:  # half a character, which some programs send
        return _encode(clean(msgspec.to_builtins(value)))


def encoded(value: Any, secrets: Iterable[str] = ()) -> bytes:
    """A value as JSON, without secrets."""
    data = plain(value)
    text = data.decode()
    hidden = hide(text, _spelt(secrets))
    return data if hidden is text else hidden.encode()


def hide(text: str, secrets: Iterable[str] = ()) -> str:
    """A text, of JSON or of anything else, with a mark in place of secrets: its form is kept."""
    spans = find(text, secrets)
    if not spans:
        return text
    pieces: list[str] = []
    place = 0
    for first, last in spans:
        pieces += [text[place:first], MARK]
        place = last
    return "".join([*pieces, text[place:]])


def _spelt(secrets: Iterable[str]) -> list[str]:
    """Secrets as JSON spells them, and as it spells them in a text that is JSON itself."""
    made: list[str] = []
    for secret in secrets:
        once = _inside(secret)
        made += dict.fromkeys((secret, once, _inside(once)))
    return made


def _inside(text: str) -> str:
    return _encode(text.encode("utf-8", "replace").decode())[1:-1].decode()


def event(name: str, data: bytes) -> bytes:
    """A server-sent event."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)
