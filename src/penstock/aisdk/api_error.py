"""Errors of AI SDK streams → the fields of a fault: text, an Error as JSON, a provider's own object.

An `APICallError` (https://ai-sdk.dev/docs/reference/ai-sdk-errors/ai-api-call-error) tells status, headers and body of
the response: they are read as a rejection over HTTP is, and kept in `extra`, secrets removed. Its `requestBodyValues`
hold the prompt and are not kept. An `AI_RetryError` stands for the last of its errors.
"""

from __future__ import annotations

from typing import Any, get_args

from penstock import pick
from penstock.aisdk.words import SDK, encoded
from penstock.events import FaultKind
from penstock.faults import classify, kind_of
from penstock.jsontext import loose
from penstock.rejection import IDS, MESSAGE, retry_after
from penstock.secrecy import hide, hide_headers, hide_values, redact_cut

KINDS: dict[str, FaultKind] = {kind: kind for kind in get_args(FaultKind)}
_VAGUE = frozenset({"invalid", "server", "other"})  # kinds that the words of a body may know better
_CAUSES = 3  # errors inside each other that are kept
_HEADERS = 100  # that are kept
_PARSED = 2**20  # characters of a body that is read as JSON


def read_error(value: Any, fallback: str = "the stream reported an error") -> dict[str, Any]:
    """The fields of a fault."""
    if isinstance(value, str):
        return {"kind": "other", "message": value or fallback}
    outer = pick.as_object(value)
    said = _last_try(outer)
    headers, body = _headers(said), pick.text(said, "responseBody")
    inner = _inner(said, body)
    status = pick.number(said, "statusCode") or pick.number(said, "status")
    code = pick.text(inner, "code", "type") or pick.text(said, "code", "type", "name")
    message = pick.text(outer, "message", "$js") or pick.text(inner, "message") or (encoded(value) if value else "")
    return {
        "kind": _kind(said, inner, code, status, message), "message": message or fallback, "status": status,
        "code": code, "request_id": pick.text(said, "requestId") or _first(headers, IDS),
        "retry_after": _wait(said, headers), "extra": _details(outer, said, headers, body),
    }  # fmt: skip


def _last_try(outer: pick.Object) -> pick.Object:
    """The error of the last try, where the SDK has tried several times."""
    tries = pick.objects(outer.get("errors"))
    return pick.table(outer, "lastError") or (tries[-1] if tries else outer)


def _inner(said: pick.Object, body: str) -> pick.Object:
    """The provider's own error object."""
    found = pick.table(said, "data") or pick.table(said, "error")
    if not found and 0 < len(body) <= _PARSED:
        found = pick.as_object(loose(body.encode("utf-8", "surrogatepass")))
    return pick.table(found, "error") or found


def _kind(said: pick.Object, inner: pick.Object, code: str, status: int | None, message: str) -> FaultKind:
    if code in KINDS:
        return KINDS[code]  # one of our own words
    words = [pick.text(source, key) for source in (inner, said) for key in ("type", "code", "name")]
    kind = kind_of(*words, status=status)
    if kind not in _VAGUE:
        return kind
    return classify([word for word in words if word], f"{message} {pick.text(inner, 'message')}", status)


def _headers(said: pick.Object) -> dict[str, str]:
    rows = list(pick.table(said, "responseHeaders").items())[:_HEADERS]
    return {name.lower(): value for name, value in rows if isinstance(value, str)}


def _first(headers: dict[str, str], names: tuple[str, ...]) -> str:
    return next((headers[name] for name in names if headers.get(name)), "")


def _wait(said: pick.Object, headers: dict[str, str]) -> float | None:
    given = said.get("retryAfter")
    return float(given) if isinstance(given, int | float) and given >= 0 else retry_after(headers)


def _details(outer: pick.Object, said: pick.Object, headers: dict[str, str], body: str) -> dict[str, Any] | None:
    """What else is known of the error, bounded and without secrets."""
    found = {
        "name": pick.text(outer, "name"), "url": hide(pick.text(said, "url")[:MESSAGE]),
        "responseHeaders": hide_headers(headers), "responseBody": redact_cut(body, MESSAGE),
        "data": _bounded(said.get("data")), "cause": _cause(said.get("cause")), "isRetryable": said.get("isRetryable"),
        "reason": pick.text(outer, "reason"),
    }  # fmt: skip
    kept = {key: value for key, value in found.items() if value not in ("", None, {})}
    return {SDK: {"error": kept}} if kept.keys() - {"name"} else None


def _bounded(value: Any) -> Any:
    """A value without secrets; a large one as text, cut."""
    if not isinstance(value, dict | list):
        return None
    shown = encoded(hide_values(value))
    return hide_values(value) if len(shown) <= MESSAGE else redact_cut(shown, MESSAGE)


def _cause(value: Any, left: int = _CAUSES) -> Any:
    """An error's cause: its words, and its own cause."""
    if isinstance(value, str):
        return redact_cut(value, MESSAGE)
    said = pick.as_object(value)
    if not said or not left:
        return None
    words = {key: redact_cut(text, MESSAGE) for key in ("name", "code", "message") if (text := pick.text(said, key))}
    inner = _cause(said.get("cause"), left - 1)
    return {**words, "cause": inner} if inner else words
