"""Validates HTTP header fields (RFC 9110, section 5) and serialises them. Every HTTP head that is written passes here.

Requests that are sent take visible ASCII, space and tab: RFC 9110 gives other bytes no meaning, and the HTTP libraries
disagree on how to encode them. Responses may also hold bytes from 0x80 up (`obs-text`). Messages name the place and the
position of what is wrong, never the value: it may be a key.

Also validates URLs and request lines (RFC 9112, section 3), and reads the headers of received requests: `read_headers`
is the only reader, so no two places see different values. Repeated headers are joined by a comma (RFC 9110, section
5.3), except those that decide about access: they must not be repeated, because a proxy may have used the other one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import starmap
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock._input_limits import MAX_HEADER_NAME, MAX_HEADER_VALUE, MAX_HEADERS, MAX_REQUEST_HEAD
from penstock._lazy_patterns import lazy_pattern
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Fields = Iterable[tuple[bytes, bytes]]

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++")
_VALUE = re.compile(r"[\t -~]*+")
_CONTROL = lazy_pattern(r"[\x00-\x1f\x7f]")
_OUTSIDE_ASCII = lazy_pattern(r"[^\x00-\x7f]")
_FIELD_LINE = lazy_pattern(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++: [\t -~\x80-\xff]*+\r\n")
# Names in lower case, values without space around them.
_VALID_LINES = re.compile(r"(?:[!#$%&'*+\-.^_`|~0-9a-z]++: (?![ \t])[\t -~]*+(?<![ \t])\r\n)*+")
_LINE_BREAKS = frozenset("\r\n")
# These decide where a message ends and which host it is for. Only the code that writes the head may set them: a second
# Content-Length, or one beside Transfer-Encoding, is how requests are smuggled (RFC 9112, section 11.2).
MANAGED = frozenset(
    "connection content-length expect host keep-alive proxy-connection te trailer transfer-encoding upgrade".split()
)


class InvalidHeaderError(InputError):
    """A header, key, address or model name that must not be written into an HTTP head."""


def is_token(name: str) -> bool:
    """True if a text can be the name of a header."""
    return len(name) <= MAX_HEADER_NAME and _TOKEN.fullmatch(name) is not None


def unsafe_character(text: str, *, ascii_only: bool = True) -> str:
    """Names the first character that a value must not have and its position, from 1; empty if there is none."""
    found = _CONTROL.search(text) or (_OUTSIDE_ASCII.search(text) if ascii_only else None)
    if found is None:
        return ""
    if found[0] in _LINE_BREAKS:
        kind = "line break"
    else:
        kind = "control character" if _CONTROL.match(found[0]) else "character outside ASCII"
    return f"a {kind} at position {found.start() + 1}"


def check_text(text: str, where: str, *, ascii_only: bool = True, limit: int = MAX_HEADER_VALUE) -> None:
    """Raises unless a key, a name or another text may become part of a head. `where` begins the message."""
    if len(text) <= limit and text.isascii() and text.isprintable():
        return
    if len(text) > limit:
        raise InvalidHeaderError(f"{where} is too long: {len(text)} characters, at most {limit} are accepted")
    problem = unsafe_character(text, ascii_only=ascii_only)
    if problem:
        raise InvalidHeaderError(f"{where} has {problem}")


def check_key(key: str, where: str) -> None:
    """Raises unless a key may be sent. Space around it is removed later; service account JSON is never sent."""
    key = key.strip()
    if not key.startswith("{"):
        check_text(key, where)


def check_header(name: str, value: str, where: str = "") -> None:
    """Raises unless a header may be sent. `where` is the setting or parameter that it comes from."""
    if not is_token(name):
        raise InvalidHeaderError(
            f"{_prefix(where)}{name[:40]!r} is not a header name: letters, digits and '-' are expected"
        )
    if name.lower() in MANAGED:
        raise InvalidHeaderError(f"{_prefix(where)}the header {name!r} is set by the HTTP library and cannot be chosen")
    if len(value) <= MAX_HEADER_VALUE and _VALUE.fullmatch(value) and value == value.strip(" \t"):
        return
    place = f"{_prefix(where)}the value of {name!r}"
    check_text(value.replace("\t", " "), place)
    raise InvalidHeaderError(f"{place} begins or ends with a space")


def check_headers(headers: Mapping[str, str], where: str = "") -> None:
    """Raises unless all headers may be sent in one request."""
    if len(headers) > MAX_HEADERS:
        raise InvalidHeaderError(f"{_prefix(where)}{len(headers)} headers; at most {MAX_HEADERS} are accepted")
    for name, value in headers.items():
        check_header(name, value, where)


def encode_headers(headers: Mapping[str, str]) -> bytes:
    """Returns the lines of a request's headers."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if not _all_valid(headers, lines):
        check_headers(headers)
    return lines.encode("ascii")


def _all_valid(headers: Mapping[str, str], lines: str) -> bool:
    """True if one regular expression accepts all lines. If not, `check_headers` finds what is wrong, if anything is."""
    return (
        len(lines) <= MAX_HEADER_VALUE
        and max(map(len, headers), default=0) <= MAX_HEADER_NAME
        and lines.count("\n") == len(headers) <= MAX_HEADERS
        and MANAGED.isdisjoint(headers)
        and _VALID_LINES.fullmatch(lines) is not None
    )


def encode_response_headers(fields: Fields) -> bytes:
    """Returns the lines of a response's headers. Raises for a field that would be read as something else."""
    return b"".join(starmap(_response_line, fields))


@lru_cache(500)
def _response_line(name: bytes, value: bytes) -> bytes:
    """Returns one line. Cached: most responses have the same lines."""
    line = b"%b: %b\r\n" % (name, value)
    if not _FIELD_LINE.fullmatch(line):
        raise InvalidHeaderError(f"a response header is not valid: {name[:40]!r}")
    return line


def response_header(name: str, value: str) -> tuple[bytes, bytes] | None:
    """Returns a response header whose value comes from outside; None if the value is not valid."""
    if not value or len(value) > MAX_HEADER_VALUE or unsafe_character(value):
        return None
    return name.encode("ascii"), value.strip(" \t").encode("ascii")


def _prefix(where: str) -> str:
    return f"{where}: " if where else ""


_COMMON_NAMES = """Accept Accept-Encoding Accept-Language Anthropic-Beta Anthropic-Version Authorization Cache-Control
Connection Content-Encoding Content-Length Content-Type Cookie Date Host Keep-Alive Openai-Processing-Ms Origin Referer
Request-Id Retry-After Server Strict-Transport-Security Traceparent Transfer-Encoding User-Agent Vary Via X-Api-Key
X-Penstock-Key X-Request-Id X-Stainless-Arch X-Stainless-Lang X-Stainless-Os X-Stainless-Package-Version
X-Stainless-Retry-Count X-Stainless-Runtime X-Stainless-Runtime-Version X-Stainless-Timeout""".split()
# Common names as they are sent → in lower case: all heads share one string for each, which need not be decoded.
COMMON_HEADERS: Mapping[bytes, str] = MappingProxyType({
    spelled.encode(): name.lower() for name in _COMMON_NAMES for spelled in (name, name.lower())
})  # fmt: skip
KEY_HEADERS = ("x-penstock-key", "authorization", "x-api-key", "x-goog-api-key", "api-key")
_UNIQUE = "host origin content-length content-type sec-fetch-site sec-fetch-mode access-control-request-method"
UNIQUE_HEADERS = frozenset((*KEY_HEADERS, *_UNIQUE.split()))


def read_headers(lines: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Returns the headers by name in lower case. Of `UNIQUE_HEADERS` the first is kept; see `repeated_header`."""
    known = COMMON_HEADERS.get
    headers = {known(name) or name.decode("latin-1").lower(): value.decode("latin-1") for name, value in lines}
    return headers if len(headers) == len(lines) else _join_repeated(lines)


def _join_repeated(lines: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in lines:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name not in headers:
            headers[name] = value
        elif name not in UNIQUE_HEADERS:
            headers[name] = f"{headers[name]}, {value}"
    return headers


def repeated_header(lines: Sequence[tuple[bytes, bytes]]) -> str:
    """The name of a header that was sent more than once and must not be; empty if there is none."""
    seen: set[bytes] = set()
    for raw_name, _ in lines:
        name = raw_name.lower()
        if name in seen and name.decode("latin-1") in UNIQUE_HEADERS:
            return name.decode("latin-1")
        seen.add(name)
    return ""


_METHOD = re.compile(r"[A-Z]{1,20}")
_TARGET = re.compile(r"/[!-\"$-~]*+")  # visible ASCII but "#": a fragment is not sent
_AUTHORITY = re.compile(r"[A-Za-z0-9.\-_~%!$&'()*+,;=:\[\]]++")
_SCHEMES = ("http://", "https://")


@lru_cache(1000)
def check_url(url: str, where: str = "the address") -> None:
    """Raises unless a URL is valid for HTTP. The message does not show the URL: it may hold a password.

    `urlsplit` silently drops tabs and line breaks, so they are checked before.
    """
    from urllib.parse import urlsplit  # noqa: PLC0415 — few configurations name a URL

    check_text(url, where, ascii_only=False, limit=MAX_REQUEST_HEAD)
    if " " in url:
        raise InvalidHeaderError(f"{where} has a space at position {url.index(' ') + 1}")
    if not url.lower().startswith(_SCHEMES):
        raise InvalidHeaderError(f"{where} does not begin with http:// or https://")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InvalidHeaderError(f"{where} has a host or port that is not valid") from None
    authority = parts.netloc.rpartition("@")[2]
    if not host or (authority.isascii() and not _AUTHORITY.fullmatch(authority)):
        raise InvalidHeaderError(f"{where} has no valid host")
    if "#" in url:
        raise InvalidHeaderError(f"{where} has a fragment (#…), which is never sent")


def check_request(method: str, url: str, headers: Mapping[str, str]) -> None:
    """Raises unless a request may be sent whose head another library writes."""
    _check_method(method)
    check_url(url)
    check_headers(headers)
    _check_total(len(url) + sum(len(name) + len(value) + 4 for name, value in headers.items()))


def _check_method(method: str) -> None:
    if not _METHOD.fullmatch(method):
        raise InvalidHeaderError(f"{method[:20]!r} is not an HTTP method")


def _check_total(size: int) -> None:
    if size > MAX_REQUEST_HEAD:
        raise InvalidHeaderError(f"the address and headers take {size} bytes; at most {MAX_REQUEST_HEAD} are sent")


def encode_request_head(method: str, target: str, authority: str, headers: Mapping[str, str]) -> bytes:
    """Returns the request line and headers, without the empty line at the end. Raises if a part could be misread."""
    _check_method(method)
    if not _TARGET.fullmatch(target):
        raise InvalidHeaderError(f"the path of the address has {unsafe_character(target) or 'a space or a fragment'}")
    if not _AUTHORITY.fullmatch(authority):
        raise InvalidHeaderError("the host of the address is not valid")
    head = f"{method} {target} HTTP/1.1\r\nhost: {authority}\r\n".encode("ascii") + encode_headers(headers)
    _check_total(len(head))
    return head
