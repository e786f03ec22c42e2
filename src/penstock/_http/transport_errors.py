"""Converts exceptions of HTTP libraries and error responses to typed errors.

Messages of libraries may hold secrets of a URL, so our own messages replace them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from penstock._http_errors import read_http_error
from penstock._redaction import redact, redact_cut, redact_headers
from penstock.errors import ProviderError, provider_error
from penstock.events import Fault, FaultKind

if TYPE_CHECKING:
    from collections.abc import Mapping


_REDIRECTION = 3  # first digit of the status
_MAX_ERROR_BODY = 20_000  # characters of an error response that are kept
_MAX_LOCATION = 1_000  # characters
# Continue retries if an error says "premature close", Node's words for a body that ends too early.
_PREMATURE_CLOSE = "the connection to the provider broke in the middle of the answer (premature close)"
# Names of exceptions (aiohttp, httpx, the SDKs, Python), most specific first → kind of fault and message.
EXCEPTIONS: tuple[tuple[str, FaultKind, str], ...] = (
    ("ClientConnectorDNSError", "network", "the host's name is not known"),
    ("gaierror", "network", "the host's name is not known"),
    ("ClientConnectorCertificateError", "network", "its certificate is not trusted: name its CA in ca_bundle"),
    ("SSLCertVerificationError", "network", "its certificate is not trusted: name its CA in ca_bundle"),
    ("ClientHttpProxyError", "network", "the proxy refused"),
    ("ClientProxyConnectionError", "network", "the proxy cannot be reached"),
    ("ProxyError", "network", "the proxy refused or cannot be reached"),
    ("ClientConnectorSSLError", "network", "TLS failed"),
    ("SSLError", "network", "TLS failed"),
    ("ServerFingerprintMismatch", "network", "its certificate is not the expected one"),
    ("ServerDisconnectedError", "network", "it closed the connection without an answer"),
    ("DecompressSizeError", "malformed", "the answer is too large when it is unpacked"),
    ("ContentEncodingError", "malformed", "the answer is not packed as it says"),
    ("DecodingError", "malformed", "the answer is not packed as it says"),
    ("ClientPayloadError", "network", _PREMATURE_CLOSE),
    ("RemoteProtocolError", "network", _PREMATURE_CLOSE),
    ("ConnectionRefusedError", "network", "nothing listens there"),
    ("ConnectionTimeoutError", "timeout", "no connection in time"),
    ("ConnectTimeout", "timeout", "no connection in time"),
    ("PoolTimeout", "timeout", "no connection in time"),
    ("ReadTimeout", "timeout", "no answer in time"),
    ("WriteTimeout", "timeout", "the request could not be sent in time"),
    ("APITimeoutError", "timeout", "no answer in time"),
    ("TimeoutError", "timeout", "no answer in time"),
    ("ConnectionResetError", "network", "the connection was reset"),
    ("BrokenPipeError", "network", "the connection was closed while the request was sent"),
    ("ConnectionAbortedError", "network", "the connection was aborted"),
    ("TooManyRedirects", "malformed", "it redirects in circles"),
    ("ContentTypeError", "malformed", "the answer is of another type than was asked for"),
    ("ClientResponseError", "malformed", "the answer is not HTTP"),
    ("BadHttpMessage", "malformed", "the answer is not HTTP"),
    ("ReadError", "network", _PREMATURE_CLOSE),
    ("WriteError", "network", "the connection was closed while the request was sent"),
    ("UnsupportedProtocol", "network", "its address is not http:// or https://"),
    ("InvalidURL", "network", "its address is not valid"),
    ("JSONDecodeError", "malformed", "the answer is no JSON"),
    ("DecodeError", "malformed", "the answer is no JSON"),
    ("UnicodeDecodeError", "malformed", "the answer is no text"),
    ("APIResponseValidationError", "malformed", "the answer is not what was asked for"),
    ("UnknownApiResponseError", "malformed", "the answer is not what was asked for"),
    ("ConnectError", "network", "it cannot be reached"),
    ("ClientConnectorError", "network", "it cannot be reached"),
)


class WaitLimits(Protocol):
    """How long each wait for a response may take, in seconds."""

    @property
    def connect(self) -> float: ...
    @property
    def first_byte(self) -> float: ...
    @property
    def between_bytes(self) -> float: ...
    @property
    def total(self) -> float: ...


def connection_error(error: BaseException) -> ProviderError:
    """Returns the error for an exception of the connection."""
    names = list(_class_names(error))
    for name, kind, words in EXCEPTIONS:
        if name in names:
            return provider_error(Fault(kind, _add_detail(words, error)))
    return provider_error(Fault("network", _add_detail("the connection failed", error)))


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
    return provider_error(
        fault, provider=provider, model=model,
        body=redact_cut(body.decode("utf-8", "replace"), _MAX_ERROR_BODY, secrets),
        headers=redact_headers(headers, secrets),
    )  # fmt: skip


def timeout_error(error: BaseException, limits: WaitLimits) -> ProviderError:
    """Returns the error for a timeout; it names the limit."""
    if "ConnectionTimeoutError" in _class_names(error) or "ConnectTimeout" in _class_names(error):
        return provider_error(Fault("timeout", f"no connection within {limits.connect:g} s (timeouts.connect)"))
    first, total = limits.first_byte, limits.total
    which = f"{first:g} s (timeouts.first_byte)" if first <= total else f"{total:g} s (timeouts.total)"
    return provider_error(Fault("timeout", f"no answer within {which}"))


def _class_names(error: BaseException | None) -> list[str]:
    """Returns the class names of an exception and of its causes."""
    made: list[str] = []
    while error is not None and len(made) < 100:  # noqa: PLR2004 — a cycle of causes must end too
        made += [one.__name__ for one in type(error).__mro__]
        inner: Any = getattr(error, "os_error", None)
        if isinstance(inner, BaseException):
            made += [one.__name__ for one in type(inner).__mro__]
        error = error.__cause__ or error.__context__
    return made


def _add_detail(words: str, error: BaseException) -> str:
    """Adds the status or the system's error text to our message."""
    status = getattr(error, "status", None)
    inner: Any = getattr(error, "os_error", None) or error
    detail = f"status {status}" if status else redact(str(getattr(inner, "strerror", "") or ""))
    return f"{words} ({detail[:200]})" if detail else words
