"""Reads an HTTP error response into a `Fault`: kind, message, status, code, request id, retry-after.

All error shapes of all providers are read by the same code: it looks at the fields that are there. The kinds come from
the tables of `vendor_errors`. Reads no clock: a date in Retry-After is compared with the response's Date header. The
work is bounded: a provider may quote megabytes of a prompt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock._lazy_patterns import lazy_pattern
from penstock._lenient_fields import Object, as_object, as_objects, get_text
from penstock._lenient_json import parse_lenient
from penstock._redaction import redact, redact_cut, redact_json
from penstock._vendor_errors import HTTP, QUOTA_EXHAUSTED, classify_fault, is_daily_quota
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


MESSAGE_CHARACTERS = 4000  # characters of a message that are kept
_CODE = 200  # and of a code or an id
_PARSED = 2**20  # bytes of a body that is read as JSON; of a larger one only the beginning is shown, as text
_KEPT = 16 * 1024  # bytes of a body that is kept as JSON; a larger one is kept as text, cut
_QUOTES = 3  # errors of one provider inside another's that are opened
REQUEST_ID_HEADERS = (
    "request-id x-request-id x-amzn-requestid apim-request-id x-ms-request-id x-goog-request-id mistral-correlation-id "
    "x-correlation-id x-kong-request-id openai-request-id x-groq-request-id x-generation-id x-trace-id cf-ray"
).split()
_AGAIN = lazy_pattern(r"(?i)(?:try again|retry) (?:in|after) (\d{1,9}(?:\.\d{1,9})?) ?(ms|s|m)?")
_MILLIS = lazy_pattern(r"\d{1,12}(?:\.\d{1,9})?")
_SPAN = lazy_pattern(r"(?:(\d{1,9})h)?(?:(\d{1,9})m(?!s))?(?:(\d{1,12}(?:\.\d{1,12})?)(ms|s)?)?")
_GONE = "the provider gave no reason"


def read_http_error(
    status: int | None, headers: Mapping[str, str], body: bytes, secrets: Iterable[str] = (), protocol: str = ""
) -> Fault:
    """Returns the fault of an error response. Names of `headers` are in lower case; `protocol` is that of the body."""
    known = tuple(secrets)
    value = parse_lenient(body) if len(body) <= _PARSED and body.strip() else None
    said = _ErrorBody(as_object(value) or as_object(next(iter(as_objects(value)), None)))
    message = said.message or (value if isinstance(value, str) else "") or _plain_text(body) or _default_message(status)
    message = redact_cut(message, MESSAGE_CHARACTERS, known)
    words = [one[:_CODE] for one in (*said.words, headers.get("x-amzn-errortype", "").partition(":")[0]) if one]
    request_id = next((headers[name] for name in REQUEST_ID_HEADERS if headers.get(name)), "") or said.id
    spent = (QUOTA_EXHAUSTED,) if is_daily_quota(as_objects(said.error.get("details"))) else ()
    return Fault(
        kind=classify_fault((*spent, *words), message, status),
        message=message,
        status=status,
        code=redact(words[0], known) if words else "",
        request_id=redact_cut(request_id, _CODE, known),
        retry_after=_retry_delay(headers, said, message),
        extra={HTTP: {"body": _stored_body(body, value, known), **({"protocol": protocol} if protocol else {})}},
    )


def redact_fault(fault: Fault, secrets: Iterable[str] = ()) -> Fault:
    """Returns the fault without secrets, for clients, the journal and the log."""
    known = tuple(secrets)
    return replace(
        fault,
        message=redact_cut(fault.message, MESSAGE_CHARACTERS, known),
        code=redact_cut(fault.code, _CODE, known),
        request_id=redact_cut(fault.request_id, _CODE, known),
        extra=redact_json(fault.extra, known),
    )


def _stored_body(body: bytes, value: Any, known: tuple[str, ...]) -> Any:
    """Returns the body as it is stored with the fault."""
    if len(body) <= _KEPT:
        return redact_json(value, known)
    return redact_cut(body.decode("utf-8", "replace"), MESSAGE_CHARACTERS, known)


class _ErrorBody:
    """The error object of a body, wherever it is, with its message and codes."""

    def __init__(self, whole: Object, quotes: int = 0) -> None:
        self.whole = whole
        self._quotes = quotes  # how many errors this one is nested in
        inner = whole.get("error", whole.get("errors", whole.get("detail")))
        error = as_object(inner) or as_object(next(iter(as_objects(inner)), None))
        self.error = error or whole
        self.message = next(self._messages(inner), "")
        self.words = list(self._words())
        self.id = get_text(self.error, "request_id", "requestId") or get_text(whole, "request_id", "requestId", "id")

    def _messages(self, inner: Any) -> Iterator[str]:
        """Yields messages. The error that an intermediary quotes comes before its own message."""
        raw = as_object(self.error.get("metadata")).get("raw") if self._quotes < _QUOTES else None
        quoted = parse_lenient(raw.encode("utf-8", "surrogatepass")) if isinstance(raw, str) else raw
        if as_object(quoted):
            deeper = _ErrorBody(as_object(quoted), self._quotes + 1).message
            if deeper:
                yield f"{get_text(self.error, 'message')}: {deeper}".removeprefix(": ")
        for place in (self.error, self.whole):
            found = get_text(place, "message", "Message", "msg", "error_description", "detail", "title", "error")
            if found:
                yield found
        if isinstance(inner, str) and inner:
            yield inner
        if isinstance(inner, list) and inner:
            yield "; ".join(str(redact_json(one))[:MESSAGE_CHARACTERS] for one in inner[:5])  # pyright: ignore[reportUnknownVariableType]

    def _words(self) -> Iterator[str]:
        """Yields codes, the most specific first: Google's reasons, inner codes, the code, the status name, the type."""
        for row in as_objects(self.error.get("details")):
            yield get_text(row, "reason")
        yield get_text(as_object(self.error.get("details")), "error_code")  # Anthropic's
        yield get_text(as_object(self.error.get("innererror")), "code")
        for place in (self.error, self.whole):
            for key in ("code", "status", "type", "__type", "error_type"):
                value = place.get(key)
                if isinstance(value, str) and value != "error" and not value.isdigit():
                    yield value.rpartition("#")[2]

    def delay(self) -> float | None:
        delays = (parse_duration(get_text(row, "retryDelay")) for row in as_objects(self.error.get("details")))
        return next((delay for delay in delays if delay is not None), None)


def _default_message(status: int | None) -> str:
    return f"status {status}, {_GONE}" if status else _GONE


def _plain_text(body: bytes) -> str:
    """Returns the text of a body that is not JSON; of a web page only its title."""
    begun = body[:_KEPT]
    return " ".join((_html_title(begun) or begun).decode("utf-8", "replace").split())


def _html_title(page: bytes) -> bytes:
    """Returns the title of a web page. The search is linear."""
    lower = page.lower()
    first = lower.find(b"<title")
    opened = lower.find(b">", first) if first >= 0 else -1
    last = lower.find(b"</title", opened) if opened >= 0 else -1
    return page[opened + 1 : last] if last >= 0 else b""


# ── retry-after ───────────────────────────────────────────────────────────────────────────────────


def _retry_delay(headers: Mapping[str, str], said: _ErrorBody, message: str) -> float | None:
    delays = retry_after(headers), said.delay(), retry_after_message(message)
    return next((delay for delay in delays if delay is not None), None)


def retry_after_message(message: str) -> float | None:
    """Returns the delay in seconds that a message asks for."""
    again = _AGAIN.search(message)
    return float(again[1]) * {"ms": 0.001, "m": 60.0}.get(again[2] or "s", 1.0) if again else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the delay in seconds that a header asks for."""
    millis = headers.get("retry-after-ms", "")
    if _MILLIS.fullmatch(millis):
        return float(millis) / 1000
    for name in ("retry-after", "x-ratelimit-reset-after"):
        value = headers.get(name, "").strip()
        delay = parse_duration(value)
        if delay is None and value:
            delay = _seconds_until(value, headers.get("date", ""))
        if delay is not None:
            return delay
    return None


def rate_limit_reset(headers: Mapping[str, str], now: float, *, refused: bool = False) -> float | None:
    """Returns the seconds until an exhausted limit of the response resets; None if no limit is exhausted.

    The headers of all vendors have the same words in different orders: `x-ratelimit-remaining-tokens` and
    `x-ratelimit-reset-tokens` (Chat Completions and most who copy it), `…-ratelimit-tokens-remaining` and `…-reset`
    (Messages), `x-ratelimit-remaining-tokens-minute` (Cerebras). A limit is exhausted if 0 is left of it, or if its
    status is `rejected`. Azure sends -1 for what it does not know. With `refused`, a reset time alone will do, as
    Azure's `x-rate-limit-reset-tokens` (https://github.com/openai/openai-python/issues/937). `now`: seconds since 1970.
    """
    limits = {name.replace("rate-limit", "ratelimit"): value for name, value in headers.items() if "limit" in name}
    found = [
        _time_until(value, now)
        for name, value in limits.items()
        if "ratelimit" in name and "reset" in name and _is_exhausted(name, limits, refused=refused)
    ]
    return max((seconds for seconds in found if seconds and seconds > 0), default=None)


def _is_exhausted(name: str, limits: Mapping[str, str], *, refused: bool) -> bool:
    """True if the limit of a reset header is exhausted."""
    left, status = (limits.get(name.replace("reset", word)) for word in ("remaining", "status"))
    if left is None and status is None:
        return refused
    return (left or "").strip() == "0" or status == "rejected"


_EPOCH_SECONDS, _EPOCH_MILLIS = 10, 13  # digits of points in time; a duration has fewer


def _time_until(value: str, now: float) -> float | None:
    """Returns the seconds to a time: a duration, seconds or milliseconds since 1970, or a date."""
    value = value.strip()
    if value.isdecimal() and _EPOCH_SECONDS <= len(value) <= _EPOCH_MILLIS:
        return int(value) / (1000 if len(value) == _EPOCH_MILLIS else 1) - now
    seconds = parse_duration(value)
    if seconds is not None:
        return seconds
    from datetime import datetime  # noqa: PLC0415 — only limits that are exhausted need it

    try:
        return datetime.fromisoformat(value).timestamp() - now
    except (ValueError, OverflowError):
        return None


def parse_duration(value: str) -> float | None:
    """`1.5`, `20s`, `350ms`, `1m30s` → seconds."""
    found = _SPAN.fullmatch(value.strip())
    if not value.strip() or found is None:
        return None
    rest = float(found[3] or 0) * (0.001 if found[4] == "ms" else 1)
    return int(found[1] or 0) * 3600 + int(found[2] or 0) * 60 + rest


def _seconds_until(when: str, now: str) -> float | None:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 — it loads sockets, which readers of streams never need

    try:
        return max(0.0, (parsedate_to_datetime(when) - parsedate_to_datetime(now)).total_seconds())
    except (TypeError, ValueError):
        return None
