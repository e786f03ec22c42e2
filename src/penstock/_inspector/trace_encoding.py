"""Encodes a trace as JSON without secrets, a slice of rows at a time.

A search for secrets in one long text would stop all other threads, the event loop too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock._gateway.callers import make_refusal
from penstock._inspector.api_router import encode_public, encode_redacted, redact_json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._inspector.schemas import Trace

SLICE_BYTES = 256 * 1024  # of JSON whose secrets are removed at once
_ROWS = ("frames", "events", "outputs", "marks")


def encode_trace(trace: Trace, secrets: Iterable[str] = (), limit: int = 0) -> bytes:
    """Returns the trace as JSON, without secrets. Its rows are taken out of it, so that they can be freed.

    `limit`: bytes of the answer at most, then a refusal with 413; 0 is any number.
    """
    known, size, parts = tuple(secrets), 0, [b"{"]
    for name in _ROWS:
        rows: list[Any] = getattr(trace, name)
        setattr(trace, name, [])
        parts.append(b'"%b":[' % name.encode())
        for number, data in enumerate(_encode_rows(rows, known)):
            size += len(data)
            if limit and size > limit:
                raise _too_long(limit)
            parts += (b"," if number else b"", data)
        parts.append(b"],")
    others = {key: value for key, value in msgspec.to_builtins(trace).items() if key not in _ROWS}
    return b"".join([*parts, encode_redacted(others, known)[1:]])


def _encode_rows(rows: list[Any], secrets: tuple[str, ...]) -> Iterator[bytes]:
    """Yields the rows without secrets, separated by commas, in slices."""
    waiting: list[bytes] = []
    size = 0
    for row in rows:
        waiting.append(encode_public(row))
        size += len(waiting[-1])
        if size >= SLICE_BYTES:
            yield _redact_rows(waiting, secrets)
            waiting, size = [], 0
    if waiting:
        yield _redact_rows(waiting, secrets)


def _redact_rows(rows: list[bytes], secrets: tuple[str, ...]) -> bytes:
    return redact_json_text(b",".join(rows).decode(), secrets).encode()


def _too_long(limit: int) -> Exception:
    message = (
        f"the trace of this stream has more than {limit // 2**20} MiB, the most that is shown of an upload: "
        "penstock inspect FILE in a terminal takes any size"
    )
    return make_refusal(413, "too-large", message, code="trace_too_long")
