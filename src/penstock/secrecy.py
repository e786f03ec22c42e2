"""Secrets out of text: keys, tokens, passwords in addresses, headers that carry them. One place, for all who print.

By what they look like, and by value where the caller knows them. A mark is left, so that nobody takes the
rest for whole.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MARK = "[secret]"
_SHORT = 4  # a value of fewer letters is no secret, and would be found everywhere
# What keys begin with, before a dash.
_MAKERS = (
    "sk", "rk", "pk", "gsk", "hf", "r8", "pa", "jina", "xai", "pplx", "nvapi", "csk", "fw", "key", "tvly", "vck",
    "sess", "ghp", "gho", "ghu", "ghs", "github_pat", "glpat",
)  # fmt: skip
_BEGINNINGS = ("AIza", "ya29.", "AKIA", "ASIA", "eyJ")  # and those without one
# A word's beginning, also behind an escape of JSON, whose last letter would otherwise be taken for a part of it.
_EDGE = r"(?:\b|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4}))"
_TOKENS = re.compile(
    rf"""(?x)
    {_EDGE}(?:{"|".join(_MAKERS)})[-_][A-Za-z0-9_\-*.]{{6,}}
    | {_EDGE}AIza[A-Za-z0-9_\-]{{20,}}
    | {_EDGE}ya29\.[A-Za-z0-9_\-.]{{10,}}
    | {_EDGE}(?:AKIA|ASIA)[A-Z0-9]{{12,}}
    | {_EDGE}eyJ[A-Za-z0-9_\-]{{8,}}\.[A-Za-z0-9_\-]{{8,}}(?:\.[A-Za-z0-9_\-]*)?
    """
)
_DASH = re.compile(r"[-_](?<=[kf8aixwyspout][-_])(?=[A-Za-z0-9_\-*.]{6})")  # behind the last letter of one
_LONGEST = max(map(len, _MAKERS))
_BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9_\-.~+/=]{6,}")
_NAMED = re.compile(
    r"""(?ix)
    (\b(?:api[_-]?key|x-api-key|access[_-]?token|auth[_-]?token|client[_-]?secret|secret[_-]?key|secret|password
        |passphrase|x-amz-security-token|x-amz-signature|x-amz-credential|(?<=[?&])key)
     ["']?\s*[=:]\s*["']?)
    [^\s"'&,;}]{4,}
    """
)
_USERINFO = re.compile(r"(?i)\b([a-z][a-z0-9+.\-]*://)[^\s/@:]*:?[^\s/@]*@")
_HEADERS = frozenset({
    "authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "set-cookie",
    "x-amz-security-token", "ocp-apim-subscription-key", "x-auth-token", "x-access-token",
})  # fmt: skip
_TELLING = re.compile(r"(?i)(?:^|[-_])(?:key|token|secret|password|auth|authorization|credential|cookie)s?$")


def hide(text: str, secrets: Iterable[str] = ()) -> str:
    """The text with a mark in place of whatever is or looks like a secret."""
    for secret in secrets:
        if len(secret) >= _SHORT:
            text = text.replace(secret, MARK)
    text = _USERINFO.sub(rf"\1{MARK}@", text)
    text = _BEARER.sub(rf"\1{MARK}", text)
    text = _NAMED.sub(rf"\1{MARK}", text)
    return _TOKENS.sub(MARK, text)


def hide_headers(headers: Mapping[str, str], secrets: Iterable[str] = ()) -> dict[str, str]:
    """Headers fit to be shown."""
    known = tuple(secrets)
    return {name: MARK if telling(name) else hide(value, known) for name, value in headers.items()}


def telling(name: str) -> bool:
    """Whether a header or field of that name holds a secret."""
    return name.lower() in _HEADERS or _TELLING.search(name) is not None


def hide_values(value: Any, secrets: Iterable[str] = ()) -> Any:
    """A JSON value with the secrets in its strings hidden; names are kept, so nothing of its shape is lost."""
    known = tuple(secrets)
    if isinstance(value, str):
        return hide(value, known)
    if isinstance(value, dict):
        return {key: hide_values(inner, known) for key, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [hide_values(inner, known) for inner in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def find(text: str, secrets: Iterable[str] = ()) -> list[tuple[int, int]]:
    """Where secrets stand in a text that must keep its form: those known by value, those that look like nothing else.

    Names with a value are not looked at: what follows one may be a word of the format, such as `null`.
    """
    spans = [
        (place, place + len(secret)) for secret in secrets if len(secret) >= _SHORT for place in _all(text, secret)
    ]
    spans += [match.span() for place in _places(text) if (match := _TOKENS.match(text, place))]
    lower = text.lower()
    if "bearer" in lower or "basic" in lower:
        spans += [(match.end(1), match.end()) for match in _BEARER.finditer(text)]
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _places(text: str) -> Iterator[int]:
    """Where a token may begin: looked for this way, a long text takes a fraction of the time."""
    for found in _DASH.finditer(text):
        dash = found.start()
        first = max(dash - _LONGEST, 0)
        if text.endswith(_MAKERS, first, dash):
            yield from range(first, dash)
    for beginning in _BEGINNINGS:
        yield from _all(text, beginning)


def _all(text: str, piece: str) -> Iterator[int]:
    """Every place of a piece, also where it overlaps itself."""
    place = text.find(piece)
    while place >= 0:
        yield place
        place = text.find(piece, place + 1)
