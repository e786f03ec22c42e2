"""Validates addresses and request lines (RFC 9112, section 3) and serialises the head of a request."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.http.header_fields import InvalidHeaderError, check_headers, check_text, encode_headers, unsafe_character
from penstock.input_limits import MAX_REQUEST_HEAD

if TYPE_CHECKING:
    from collections.abc import Mapping

_METHOD = re.compile(r"[A-Z]{1,20}")
_TARGET = re.compile(r"/[!-\"$-~]*+")  # visible ASCII but "#": a fragment is not sent
_AUTHORITY = re.compile(r"[A-Za-z0-9.\-_~%!$&'()*+,;=:\[\]]++")
_SCHEMES = ("http://", "https://")


@lru_cache(1000)
def check_url(url: str, where: str = "the address") -> None:
    """Raise unless an address can be asked over HTTP. The message does not show it: it may hold a password.

    `urlsplit` drops tabs and line breaks without a word, so they are looked for before it sees the address.
    """
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
    """Raise unless a request may be sent whose head another library writes."""
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
    """The request line and headers, without the empty line that ends them. Raises if a part could be misread."""
    _check_method(method)
    if not _TARGET.fullmatch(target):
        raise InvalidHeaderError(f"the path of the address has {unsafe_character(target) or 'a space or a fragment'}")
    if not _AUTHORITY.fullmatch(authority):
        raise InvalidHeaderError("the host of the address is not valid")
    head = f"{method} {target} HTTP/1.1\r\nhost: {authority}\r\n".encode("ascii") + encode_headers(headers)
    _check_total(len(head))
    return head
