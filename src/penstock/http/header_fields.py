"""Validates HTTP header fields (RFC 9110, section 5) and serialises them. Every HTTP head that is written passes here.

Requests that are sent take visible ASCII, space and tab: RFC 9110 gives other bytes no meaning, and the HTTP libraries
disagree on how to encode them. Responses may also hold bytes from 0x80 up (`obs-text`). Messages name the place and the
position of what is wrong, never the value: it may be a key.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.errors import InputError
from penstock.input_limits import MAX_HEADER_NAME, MAX_HEADER_VALUE, MAX_HEADERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Fields = Iterable[tuple[bytes, bytes]]

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++")
_VALUE = re.compile(r"[\t -~]*+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_OUTSIDE_ASCII = re.compile(r"[^\x00-\x7f]")
_FIELD_LINE = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++: [\t -~\x80-\xff]*+\r\n")
# Names in lower case, values without space around them.
_GOOD_LINES = re.compile(r"(?:[!#$%&'*+\-.^_`|~0-9a-z]++: (?![ \t])[\t -~]*+(?<![ \t])\r\n)*+")
_LINE_BREAKS = frozenset("\r\n")
# These decide where a message ends and which host it is for. Only the code that writes the head may set them: a second
# Content-Length, or one beside Transfer-Encoding, is how requests are smuggled (RFC 9112, section 11.2).
MANAGED = frozenset({
    "connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",
})  # fmt: skip


class InvalidHeaderError(InputError):
    """A header, key, address or model name that must not be written into an HTTP head."""


def is_token(name: str) -> bool:
    """Whether a text can be the name of a header."""
    return len(name) <= MAX_HEADER_NAME and _TOKEN.fullmatch(name) is not None


def unsafe_character(text: str, *, ascii_only: bool = True) -> str:
    """What must not stand in a header's value and where, counted from 1; empty if there is nothing of the kind."""
    found = _CONTROL.search(text) or (_OUTSIDE_ASCII.search(text) if ascii_only else None)
    if found is None:
        return ""
    if found[0] in _LINE_BREAKS:
        kind = "line break"
    else:
        kind = "control character" if _CONTROL.match(found[0]) else "character outside ASCII"
    return f"a {kind} at position {found.start() + 1}"


def check_text(text: str, where: str, *, ascii_only: bool = True, limit: int = MAX_HEADER_VALUE) -> None:
    """Raise unless a key, a name or another text may become part of a head. `where` begins the message."""
    if len(text) <= limit and text.isascii() and text.isprintable():
        return
    if len(text) > limit:
        raise InvalidHeaderError(f"{where} is too long: {len(text)} characters, at most {limit} are accepted")
    problem = unsafe_character(text, ascii_only=ascii_only)
    if problem:
        raise InvalidHeaderError(f"{where} has {problem}")


def check_key(key: str, where: str) -> None:
    """Raise unless a key may be sent. Space around it is cut off later; the JSON of a service account is never sent."""
    key = key.strip()
    if not key.startswith("{"):
        check_text(key, where)


def check_header(name: str, value: str, where: str = "") -> None:
    """Raise unless a header may be sent. `where` is the setting or parameter that it comes from."""
    if not is_token(name):
        raise InvalidHeaderError(
            f"{_prefix(where)}{name[:40]!r} is not a header name: letters, digits and '-' are expected"
        )
    if name.lower() in MANAGED:
        raise InvalidHeaderError(f"{_prefix(where)}the header {name!r} is set by the HTTP client and cannot be chosen")
    if len(value) <= MAX_HEADER_VALUE and _VALUE.fullmatch(value) and value == value.strip(" \t"):
        return
    place = f"{_prefix(where)}the value of {name!r}"
    check_text(value.replace("\t", " "), place)
    raise InvalidHeaderError(f"{place} begins or ends with a space")


def check_headers(headers: Mapping[str, str], where: str = "") -> None:
    """Raise unless all headers may be sent in one request."""
    if len(headers) > MAX_HEADERS:
        raise InvalidHeaderError(f"{_prefix(where)}{len(headers)} headers; at most {MAX_HEADERS} are accepted")
    for name, value in headers.items():
        check_header(name, value, where)


def encode_headers(headers: Mapping[str, str]) -> bytes:
    """The lines of a request's headers."""
    made = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if not _plainly_good(headers, made):
        check_headers(headers)
    return made.encode("ascii")


def _plainly_good(headers: Mapping[str, str], lines: str) -> bool:
    """Whether one look at all lines is enough. Where it is not, `check_headers` says what is wrong, if anything is."""
    return (
        len(lines) <= MAX_HEADER_VALUE
        and max(map(len, headers), default=0) <= MAX_HEADER_NAME
        and lines.count("\n") == len(headers) <= MAX_HEADERS
        and MANAGED.isdisjoint(headers)
        and _GOOD_LINES.fullmatch(lines) is not None
    )


def encode_response_headers(fields: Fields) -> bytes:
    """The lines of a response's headers. Raises for a field that would be read as something else."""
    return b"".join([_response_line(name, value) for name, value in fields])


@lru_cache(500)
def _response_line(name: bytes, value: bytes) -> bytes:
    """One line. Most responses have the same ones."""
    line = b"%b: %b\r\n" % (name, value)
    if not _FIELD_LINE.fullmatch(line):
        raise InvalidHeaderError(f"a response header is not valid: {name[:40]!r}")
    return line


def response_header(name: str, value: str) -> tuple[bytes, bytes] | None:
    """A header of a response whose value comes from outside; None where the value is not fit to be one."""
    if not value or len(value) > MAX_HEADER_VALUE or unsafe_character(value):
        return None
    return name.encode("ascii"), value.strip(" \t").encode("ascii")


def _prefix(where: str) -> str:
    return f"{where}: " if where else ""
