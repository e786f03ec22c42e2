"""Reads the headers of a request that came in. The only reader of them: no two places may see different values.

Lines of the same name are joined by a comma (RFC 9110, section 5.3), but for those that decide who is let in: they must
not be repeated, because whatever stands in front of the gateway may have believed the other one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY_HEADERS = ("x-penstock-key", "authorization", "x-api-key", "x-goog-api-key", "api-key")
SINGLE = frozenset({
    *KEY_HEADERS, "host", "origin", "content-length", "content-type", "sec-fetch-site", "sec-fetch-mode",
    "access-control-request-method",
})  # fmt: skip


def read_headers(lines: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers by name in lower case. Of the headers in `SINGLE` the first is kept; see `repeated_header`."""
    made = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in lines}
    return made if len(made) == len(lines) else _joined(lines)


def _joined(lines: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    made: dict[str, str] = {}
    for raw_name, raw_value in lines:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name not in made:
            made[name] = value
        elif name not in SINGLE:
            made[name] = f"{made[name]}, {value}"
    return made


def repeated_header(lines: Sequence[tuple[bytes, bytes]]) -> str:
    """The name of a header that was sent more than once and must not be; empty if there is none."""
    seen: set[bytes] = set()
    for raw_name, _ in lines:
        name = raw_name.lower()
        if name in seen and name.decode("latin-1") in SINGLE:
            return name.decode("latin-1")
        seen.add(name)
    return ""
