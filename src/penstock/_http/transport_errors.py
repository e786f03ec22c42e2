"""Converts exceptions of HTTP libraries and error responses to typed errors.

Messages of libraries may hold secrets of a URL, so our own messages replace them.
"""

from __future__ import annotations

import errno
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock._diagnostics import read_tables
from penstock._http_errors import read_http_error
from penstock._redaction import redact, redact_cut, redact_headers
from penstock.errors import ProviderError, provider_error
from penstock.events import Fault, FaultKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._http.request_options import Timeouts

_REDIRECTION = 3  # first digit of the status
_MAX_ERROR_BODY = 20_000  # characters of an error response that are kept
_MAX_LOCATION = 1_000  # characters
_UNREACHABLE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.ECONNREFUSED})


@cache
def exception_messages() -> list[tuple[str, FaultKind, str]]:
    """Returns the names of exceptions with their kind of fault and message, the most specific first."""
    rows = read_tables("penstock._http", "transport_errors.toml")["exceptions"]
    return [(name, kind, message) for names, kind, message in rows for name in names.split()]


def connection_error(error: BaseException) -> ProviderError:
    """Returns the error for an exception of the connection."""
    names = _class_names(error)
    default: tuple[str, FaultKind, str] = ("", "network", "the connection failed")
    _, kind, message = next((row for row in exception_messages() if row[0] in names), default)
    result = provider_error(Fault(kind, _add_detail(message, error)))
    result.reached = not _failed_to_connect(error)
    return result


def response_error(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    secrets: tuple[str, ...],
    protocol: str,
    provider: str,
    model: str,
) -> ProviderError:
    """Returns the error for an error response, with its redacted body and headers."""
    fault = read_http_error(status, headers, body, secrets, protocol)
    if status // 100 == _REDIRECTION:
        where = redact_cut(headers.get("location", "elsewhere"), _MAX_LOCATION, secrets)
        fault = replace(fault, kind="not-found", message=f"the address has moved to {where}: set base_url accordingly")
    text = redact_cut(body.decode("utf-8", "replace"), _MAX_ERROR_BODY, secrets)
    return provider_error(fault, provider=provider, model=model, body=text, headers=redact_headers(headers, secrets))


def timeout_error(error: BaseException, limits: Timeouts) -> ProviderError:
    """Returns the error for a timeout; it names the limit."""
    if not {"ConnectionTimeoutError", "ConnectTimeout"}.isdisjoint(_class_names(error)):
        result = provider_error(Fault("timeout", f"no connection within {limits.connect:g} s (timeouts.connect)"))
        result.reached = False
        return result
    first, total = limits.first_byte, limits.total
    which = f"{first:g} s (timeouts.first_byte)" if first <= total else f"{total:g} s (timeouts.total)"
    return provider_error(Fault("timeout", f"no answer within {which}"))


def wait_timeout_message(limits: Timeouts, *, began: bool, past_total: bool) -> str:
    """Returns the message for a timeout while a response is read; it names the limit."""
    if past_total:
        return f"no end within {limits.total:g} s (timeouts.total)"
    if began:
        return f"nothing more within {limits.between_bytes:g} s (timeouts.between_bytes)"
    return f"no answer within {limits.first_byte:g} s (timeouts.first_byte)"


def _failed_to_connect(error: BaseException) -> bool:
    """Returns whether an exception says that no connection was made."""
    if getattr(error, "errno", None) in _UNREACHABLE:
        return True
    return not _connect_exceptions().isdisjoint(_class_names(error))


@cache
def _connect_exceptions() -> frozenset[str]:
    return frozenset(read_tables("penstock._http", "transport_errors.toml")["connect"].split())


def _class_names(error: BaseException | None) -> list[str]:
    """Returns the class names of an exception and of its causes."""
    names: list[str] = []
    while error is not None and len(names) < 100:  # noqa: PLR2004 — a cycle of causes must end too
        names += [one.__name__ for one in type(error).__mro__]
        inner: Any = getattr(error, "os_error", None)
        if isinstance(inner, BaseException):
            names += [one.__name__ for one in type(inner).__mro__]
        error = error.__cause__ or error.__context__
    return names


def _add_detail(message: str, error: BaseException) -> str:
    """Adds the status or the system's error text to our message."""
    status = getattr(error, "status", None)
    inner: Any = getattr(error, "os_error", None) or error
    detail = f"status {status}" if status else redact(str(getattr(inner, "strerror", "") or ""))
    return f"{message} ({detail[:200]})" if detail else message
