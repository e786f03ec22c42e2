"""What a caller's stream may hold besides bytes: any object as the JSON it stands for, any exception as a fault."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from penstock import events as ev
from penstock.errors import PenstockError, StreamFault


def as_json(item: Any) -> bytes:
    """Any object as JSON: plain data, Structs and dataclasses, models with `model_dump`, objects with attributes."""
    try:
        return msgspec.json.encode(item, enc_hook=_plain)
    except (TypeError, ValueError, OverflowError, RecursionError):  # half an emoji, keys of odd types
        try:
            return json.dumps(item, default=_plain, skipkeys=True).encode()
        except (TypeError, ValueError, RecursionError):
            return msgspec.json.encode(ascii(item))


def _plain(item: Any) -> Any:
    if isinstance(item, BaseException):
        return {"name": type(item).__name__, "message": str(item)}
    dump = getattr(item, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(item, Mapping):
        return dict(item)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    fields: Any = getattr(item, "__dict__", None)
    return repr(item) if fields is None else fields


def from_json(data: bytes) -> Any:
    """The value, or the text as it is."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):  # bytes that are no UTF-8 are a ValueError
        return data.decode("utf-8", "replace")


def fault_of(error: Exception) -> ev.Fault:
    """An exception of the transport, or of reading its bytes."""
    if isinstance(error, StreamFault):
        return error.fault
    kind: ev.FaultKind = "timeout" if isinstance(error, TimeoutError) else "network"
    if isinstance(error, PenstockError):
        kind = "malformed"
    return ev.Fault(kind, str(error) or type(error).__name__, code=type(error).__name__)
