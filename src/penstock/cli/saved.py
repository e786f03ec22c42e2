"""A saved error, in any of the forms that people save one, read back into a typed one."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from penstock.errors import InputError, ProviderError, provider_error
from penstock.jsontext import loose
from penstock.pick import as_object, number
from penstock.rejection import rejection
from penstock.secrecy import hide, hide_headers

_STATUS = re.compile(r"HTTP/[\d.]+ (\d{3})")


def saved_error(data: bytes, place: str) -> ProviderError:
    """The error that a file tells of."""
    if not data.strip():
        raise InputError(f"{place}: there is nothing in it")
    status, headers, body = _dumped(data) or _recorded(data) or (None, {}, data)
    fault = rejection(status, headers, body)
    shown = hide(_pretty(body))
    return provider_error(fault, body=shown, headers=hide_headers(headers))


def _dumped(data: bytes) -> tuple[int | None, dict[str, str], bytes] | None:
    """What `curl -i` prints: a status line, headers, a blank line, the body. Of several heads the last one counts."""
    rest, found = data, None
    while (head := _STATUS.match(rest[:20].decode("latin-1"))) is not None:
        lines, _, rest = rest.replace(b"\r\n", b"\n").partition(b"\n\n")
        rows = (line.partition(":") for line in lines.decode("latin-1").splitlines()[1:])
        found = (int(head[1]), {name.strip().lower(): value.strip() for name, _, value in rows})
    return (*found, rest) if found else None


def _recorded(data: bytes) -> tuple[int | None, dict[str, str], bytes] | None:
    """An object with a status and a body."""
    value = as_object(loose(data))
    if "body" not in value or not ({"status", "status_code", "headers"} & set(value)):
        return None
    body: Any = value["body"]
    headers = {str(name).lower(): str(one) for name, one in as_object(value.get("headers")).items()}
    raw = body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    return number(value, "status") or number(value, "status_code"), headers, raw


def _pretty(body: bytes) -> str:
    value = loose(body)
    if value is None:
        return body[:20_000].decode("utf-8", "replace")
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
