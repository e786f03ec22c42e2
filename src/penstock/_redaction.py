"""Redaction: removes keys, tokens, passwords in URLs and values of secret fields from text, JSON and bytes.

Secrets are found by their form, and by value where the caller knows them. `[secret]` is left in their place.
Every search is linear in the length of the text: what is searched is often chosen by an attacker. Callers on the event
loop cut long texts with `redact_cut`.
"""

from __future__ import annotations

import binascii
import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from penstock._escaped_characters import find_unescaped
from penstock._input_limits import MAX_JSON_DEPTH
from penstock._lazy_patterns import lazy_pattern
from penstock._named_secrets import Span, find_named_values, is_named_secret, to_lower
from penstock._secret_values import REMOVAL_MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

MARK = REMOVAL_MARK
DEEP = "[nested too deep]"
_SHORT = 4  # shorter values are not secrets, and would be found everywhere
_PASSES = 8  # a mark is a word boundary, so that the text after it may now look like a secret
_LOOKAHEAD = 4096  # characters after a cut that are searched, too, so that a secret that crosses the cut is found
# How keys begin, before a dash.
_MAKERS = tuple(
    "sk rk pk gsk hf r8 pa jina xai pplx nvapi csk fw key tvly vck sess ghp gho ghu ghs github_pat glpat".split()
)
# The start of a word, also after what ends with a letter or digit and is no part of it: a JSON escape, `%3D`, `=3D`,
# `\x3d`, the end of a colour code (`\x1b[32m`).
_EDGE = (
    r"(?:\b|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})|(?<=%25[0-9A-Fa-f]{2})"
    r"|(?<=\\x[0-9A-Fa-f]{2})|(?<==3D)|(?<=[0-9;\[][mK]))"
)
_WORD = rf"(?:{_EDGE}|(?<=_))"  # of tokens that are long, so that they are no part of a name
_AFTER_NAME = r"(?<=_)(?:sk-|glpat-|xai-|pplx-|nvapi-|tvly-|(?:gsk|gh[opsu]|github_pat)_)(?=[A-Za-z_\-*.]{0,40}+[0-9])"
_TOKEN = lazy_pattern(
    rf"(?:{_EDGE}(?:{'|'.join(_MAKERS)})[-_][A-Za-z0-9_\-*.]{{6,}}+|{_AFTER_NAME}[A-Za-z0-9_\-*.]{{16,}}+)"
)
_DASH = lazy_pattern(r"[-_](?<=[kf8aixwyspout][-_])(?=[A-Za-z0-9_\-*.]{6})")  # behind the last letter of one
_LONGEST = max(map(len, _MAKERS))
_WORDS = lazy_pattern(r"key[-_][a-z_\-.]++")  # a name such as key_revoked: keys have digits or capitals
_HEX, _ALPHANUMERIC, _DASHED = "a-f0-9", "A-Za-z0-9", r"A-Za-z0-9_\-"
# Tokens that are told by how they begin and how long they are: the characters after the beginning, and how many.
_LONG_TOKENS = (
    *(
        (word, _HEX, 32)
        for word in "dop_v1_ doo_v1_ dor_v1_ dapi shpat_ shpss_ shpca_ shppa_ sbp_ rubygems_ pul-".split()
    ),
    *((word, _ALPHANUMERIC, 30) for word in "npm_ secret_ ntn_ lin_api_".split()),
    *(
        (word, _DASHED, 20)
        for word in "sq0atp- sq0csp- GOCSPX- hvs. dckr_pat_ figd_ lsv2_pt_ glptt- gldt- glrt-".split()
    ),
    ("pypi-AgE", _DASHED, 40),
    ("ATATT3", r"A-Za-z0-9_\-=", 60),
    ("whsec_", "A-Za-z0-9+/=", 24),
    ("1//0", _DASHED, 30),  # Google's refresh tokens
)
_SLACK = r"(?:(?<=hooks\.slack\.com/)|(?<=hooks\.slack\.com\\/))"
_SLASH = r"\\{0,15}+/"
# Tokens without such a dash: how they begin, and their pattern. Group 1 matches only tokens; other runs are skipped
# at once, so that no run is read twice.
_BEGINNINGS = (
    ("AIza", lazy_pattern(rf"{_WORD}(AIza[A-Za-z0-9_\-]{{20,}}+)")),
    ("ya29.", lazy_pattern(rf"{_WORD}(ya29\.[A-Za-z0-9_\-.]{{10,}}+)")),
    ("AKIA", lazy_pattern(rf"{_WORD}(AKIA[A-Z0-9]{{12,}}+)")),
    ("ASIA", lazy_pattern(rf"{_WORD}(ASIA[A-Z0-9]{{12,}}+)")),
    (
        "xox",
        lazy_pattern(rf"{_WORD}(xox[a-z](?:\.xox[a-z])?-(?=[A-Za-z\-]{{0,20}}[0-9])[A-Za-z0-9\-]{{10,}}+)"),
    ),  # Slack
    ("xapp-", lazy_pattern(rf"{_WORD}(xapp-[0-9]-[A-Za-z0-9\-]{{10,}}+)")),
    ("SG.", lazy_pattern(rf"{_WORD}(SG\.[A-Za-z0-9_\-]{{16,}}+\.[A-Za-z0-9_\-]{{16,}}+)")),  # SendGrid
    (":AA", lazy_pattern(r"(?<=[0-9]{8})(:AA[A-Za-z0-9_\-]{32,}+)")),  # Telegram
    # Addresses that anybody who knows them may post to. In JSON, a slash may have backslashes.
    (
        "services",
        lazy_pattern(rf"{_SLACK}(services{_SLASH}T[A-Z0-9]{{6,}}+{_SLASH}B[A-Z0-9]{{6,}}+{_SLASH}[A-Za-z0-9]{{16,}}+)"),
    ),
    ("webhooks", lazy_pattern(rf"(?<=/)(webhooks{_SLASH}[0-9]{{16,20}}+{_SLASH}[A-Za-z0-9_\-]{{50,}}+)")),  # Discord
    *((word, lazy_pattern(rf"{_WORD}({re.escape(word)}[{end}]{{{least},}}+)")) for word, end, least in _LONG_TOKENS),
    (
        "eyJ",  # a JSON Web Token
        lazy_pattern(rf"{_WORD}eyJ[A-Za-z0-9_\-]{{8,}}+(\.[A-Za-z0-9_\-]{{8,}}+(?:\.[A-Za-z0-9_\-]*+)?)?"),
    ),
)
_SCHEMES = ("bearer", "basic")
_BEARER = lazy_pattern(r"(?i)\b(bearer|basic)\s++((?:[A-Za-z0-9_\-.~+/=]|\\{1,15}+/){6,}+)")
_LOWER_WORD = lazy_pattern(r"[a-z]+[.\-]*")
_ABOUT_SCHEMES = lazy_pattern(
    r"(?i)(?:auth|authentication|authorization|tokens?|schemes?|headers?|credentials?|access|format|prefix|realm)[0-9]{0,2}[.\-]*"
)
_MIXED = lazy_pattern(r"(?=[^0-9]*+[0-9])(?=[^A-Z]*+[A-Z])(?=[^a-z]*+[a-z])")
_LONG_LOGIN = 16  # characters
_NAMES = ("key", "token", "secret", "pass", "x-amz-")  # one of them is in every name below
_NAMED = lazy_pattern(
    r"""(?ix)
    \b(?:api[_-]?key|x-api-key|access[_-]?token|auth[_-]?token|client[_-]?secret|secret[_-]?key|secret|password
        |passphrase|x-amz-security-token|x-amz-signature|x-amz-credential|(?<=[?&])key)
    ["']?\s*+[=:]\s*+["']?
    ([^\s"'&,;}]{4,}+)
    """
)
# Userinfo ends before a slash, so two runs never overlap.
_USERINFO = lazy_pattern(r"(?<=[A-Za-z0-9+.\-])://([^\s/@]*+)@")
_HEADERS = frozenset(
    "authorization proxy-authorization x-api-key api-key x-goog-api-key cookie set-cookie x-amz-security-token".split()
) | {"ocp-apim-subscription-key", "x-auth-token", "x-access-token"}
_ESCAPED_BY_SOME = (("<>&", "\\u%04x"), ("<>&'+`", "\\u%04X"))  # what Go and .NET escape, and how
_SECRET_NAME = lazy_pattern(r"(?i)(?:^|[-_])(?:key|token|secret|password|auth|authorization|credential|cookie)s?$")


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Returns the text with a mark in place of everything that is or looks like a secret."""
    known = tuple(secrets)
    return _redact_repeatedly(text, lambda piece: [*_spans_in_any_format(piece, known), *_name_spans(piece)])


def redact_cut(text: str, limit: int, secrets: Iterable[str] = ()) -> str:
    """Returns the first `limit` characters, redacted, and the number of cut ones. A secret at the cut is removed.

    The work is bounded, however long the text is.
    """
    if len(text) <= limit:
        return redact(text, secrets)
    known = tuple(secrets)
    window = text[: limit + max(_LOOKAHEAD, *map(len, known), 0)]
    spans = [*_spans_in_any_format(window, known), *_name_spans(window), *_open_end(window)]
    shown = [(first, min(last, limit)) for first, last in _merged(spans) if first < limit]
    return f"{redact(_replace_spans(text[:limit], shown), known)} … [{len(text) - limit} more characters]"


def redact_range(text: str, start: int, end: int, secrets: Iterable[str] = ()) -> str:
    """Returns a part of a text without secrets, also those that reach into it from outside. JSON stays JSON.

    The work is bounded by the length of the part.
    """
    known = tuple(dict.fromkeys(one for secret in secrets for one in (secret, *json_spellings(secret))))
    margin = max(_LOOKAHEAD, *map(len, known), 0)
    first = max(0, start - margin)
    spans = _merged(_spans_in_any_format(text[first : end + margin], known))
    inside = [(max(begin + first, start) - start, min(last + first, end) - start) for begin, last in spans]
    return _replace_spans(text[start:end], [span for span in inside if span[0] < span[1]])


def cut_bytes(data: bytes, limit: int, secrets: Iterable[str] = ()) -> bytes:
    """Returns about the first `limit` bytes. A secret at the cut is removed; those before it are not."""
    known = tuple(byte_spellings(secrets))
    margin = max(_LOOKAHEAD, *map(len, known), 0)
    start = max(0, limit - margin)
    tail = data[start : limit + margin].decode("latin-1")
    return data[:start] + redact_range(tail, 0, limit - start, known).encode("latin-1")


def redact_bytes(data: bytes, secrets: Iterable[str] = ()) -> bytes:
    """Returns a frame or body without secrets; the same object if it has none.

    Only what cannot be part of a format is replaced, so JSON stays JSON: known values, also as JSON spells them, tokens
    of a known form, and values after the names of secrets (`_named_secrets`).
    """
    return redact_and_count(data, secrets)[0]


def redact_and_count(data: bytes, secrets: Iterable[str] = ()) -> tuple[bytes, int]:
    """Returns the same as `redact_bytes`, and the number of secrets that were removed."""
    text = data.decode("latin-1")
    known = tuple(byte_spellings(secrets))
    spans = find_secrets(text, known)
    if not spans:
        return data, 0
    first = _replace_spans(text, spans)
    cleaned = _redact_repeatedly(first, lambda piece: _spans_in_any_format(piece, known))
    return cleaned.encode("latin-1"), len(spans) + cleaned.count(MARK) - first.count(MARK)


def redact_headers(headers: Mapping[str, str], secrets: Iterable[str] = ()) -> dict[str, str]:
    """Returns headers without secrets."""
    known = tuple(secrets)
    return {
        name: MARK if is_secret_name(name) and not _counts_tokens(name) else redact(value, known)
        for name, value in headers.items()
    }


def _counts_tokens(name: str) -> bool:
    """True for headers such as `x-ratelimit-remaining-tokens`: their tokens are no secrets."""
    return name.lower().endswith("tokens") and ("ratelimit" in name.lower() or "rate-limit" in name.lower())


def is_secret_name(name: str) -> bool:
    """True if a header or field of this name holds a secret."""
    return name.lower() in _HEADERS or _SECRET_NAME.search(name) is not None


def redact_json(value: Any, secrets: Iterable[str] = ()) -> Any:
    """Returns a JSON value with the secrets in its strings and names redacted.

    What is nested deeper than `MAX_JSON_DEPTH` is replaced, so the result can be encoded. Not recursive.
    """
    known = tuple(secrets)
    whole: list[Any] = [value]
    waiting: list[tuple[Any, Any, int]] = [(whole, 0, 0)]  # a container, a place in it, how deep the place is
    while waiting:
        container, place, depth = waiting.pop()
        inner = container[place]
        if isinstance(inner, str):
            is_named = isinstance(place, str) and is_named_secret(place, inner)
            container[place] = MARK if is_named else redact(inner, known)
        elif isinstance(inner, dict | list):
            container[place] = made = _copy_level(inner, known) if depth < MAX_JSON_DEPTH else DEEP  # pyright: ignore[reportUnknownArgumentType]
            if made is not DEEP:
                waiting += [(made, one, depth + 1) for one in (made if isinstance(made, dict) else range(len(made)))]
    return whole[0]


def find_secrets(text: str, secrets: Iterable[str] = ()) -> list[Span]:
    """Returns the positions of secrets in a text that must keep its format, such as JSON.

    They are known values, tokens of a known form, and values after the names of secrets, if they are texts.
    """
    return _merged(_spans_in_any_format(text, secrets))


# ── search ────────────────────────────────────────────────────────────────────────────────────────


def _spans_in_any_format(text: str, secrets: Iterable[str]) -> list[Span]:
    """Returns what may be replaced in any format."""
    known, lower = tuple(secrets), to_lower(text)
    escaped = find_unescaped(text, lambda decoded: _token_spans(decoded, to_lower(decoded), known))
    return [*_token_spans(text, lower, known), *find_named_values(text, lower), *escaped]


def _token_spans(text: str, lower: str, secrets: Iterable[str]) -> list[Span]:
    spans = [
        span
        for secret in secrets
        if len(secret) >= _SHORT and secret in text
        for span in _find_overlapping(text, secret)
    ]
    spans += _keys(text)
    for beginning, pattern in _BEGINNINGS:
        if beginning in text:
            spans += _tokens(text, beginning, pattern)
    if any(word in lower for word in _SCHEMES):
        spans += [found.span(2) for found in _BEARER.finditer(text) if _is_authorization(found[1], found[2])]
    return spans


def _is_authorization(scheme: str, value: str) -> bool:
    """False for words of a sentence: `basic authentication`, `the bearer should know`."""
    if scheme.lower() == "bearer":
        return not (_ABOUT_SCHEMES.fullmatch(value) or (scheme.islower() and _LOWER_WORD.fullmatch(value)))
    plain = value.replace("\\", "")
    if len(plain) >= _LONG_LOGIN and _MIXED.match(plain):
        return True
    try:
        return b":" in binascii.a2b_base64(plain[: len(plain) // 4 * 4])
    except binascii.Error:
        return False


def _name_spans(text: str) -> list[Span]:
    """Returns values after a name, and passwords in URLs."""
    spans: list[Span] = []
    if "=" in text or ":" in text:
        lower = text.lower()
        if any(word in lower for word in _NAMES):
            spans += [match.span(1) for match in _NAMED.finditer(text)]
        if "://" in text and "@" in text:
            spans += [match.span(1) for match in _USERINFO.finditer(text)]
    return spans


def _keys(text: str) -> Iterator[Span]:
    """Yields tokens with a dash. Searching for the dash first is much faster in a long text."""
    end = 0
    for found in _DASH.finditer(text):
        dash = found.start()
        first = max(dash - _LONGEST, end)
        if dash < end or not text.endswith(_MAKERS, first, dash):
            continue
        token = next((token for place in range(first, dash) if (token := _TOKEN.match(text, place))), None)
        if token is not None:
            end = token.end()
            if _WORDS.fullmatch(token[0]) is None:
                yield token.span()


def _tokens(text: str, beginning: str, pattern: re.Pattern[str]) -> Iterator[Span]:
    place = text.find(beginning)
    while place >= 0:
        run = pattern.match(text, place)
        if run is not None and run[1]:
            yield run.span()
        place = text.find(beginning, run.end() if run is not None else place + 1)


def _find_overlapping(text: str, piece: str) -> Iterator[Span]:
    """Yields every position of a piece, also if it overlaps itself.

    Repetitions are followed period by period, so that "aaaa" in a text of a's takes linear time.
    """
    period = (piece + piece).find(piece, 1)
    repeated = piece[-period:]
    place = text.find(piece)
    while place >= 0:
        end = place + len(piece)
        while text.startswith(repeated, end):
            end += period
        yield place, end
        place = text.find(piece, end - len(piece) + 1)


def _open_end(text: str) -> Iterator[Span]:
    """Yields what may be the start of a secret at the end of a cut text: a JSON Web Token, a password."""
    run = len(text.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"))
    token = text.find("eyJ", run)
    if token >= 0:
        yield token, len(text)
    address = text.rfind("://")
    if address >= 0 and not re.search(r"[\s/@]", text[address + 3 :]):
        yield address + 3, len(text)


# ── and what is put there ─────────────────────────────────────────────────────────────────────────


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _redact_repeatedly(text: str, spans: Callable[[str], list[Span]]) -> str:
    """Redacts a text repeatedly, until nothing changes. Marks themselves are not searched."""
    for _ in range(_PASSES):
        pieces = text.split(MARK)
        shown = [_replace_spans(piece, _merged(spans(piece))) for piece in pieces]
        if shown == pieces:
            break
        text = MARK.join(shown)
    return text


def _replace_spans(text: str, spans: list[Span]) -> str:
    if not spans:
        return text
    pieces: list[str] = []
    place = 0
    for first, last in spans:
        pieces += (text[place:first], MARK)
        place = last
    return "".join([*pieces, text[place:]])


def _copy_level(inner: dict[str, Any] | list[Any], known: tuple[str, ...]) -> dict[str, Any] | list[Any]:
    """Returns a copy of one level. Names that are secrets are numbered, so that none replaces another."""
    if isinstance(inner, list):
        return list(inner)
    made: dict[str, Any] = {}
    for name, value in inner.items():
        shown = redact(name, known)
        made[shown if shown is name or shown not in made else f"{shown} {len(made)}"] = value
    return made


def byte_spellings(secrets: Iterable[str]) -> list[str]:
    """Returns secrets as they may occur in bytes read as Latin-1: plain, and with all JSON escapes."""
    spelled = (one for secret in secrets for one in (secret, *json_spellings(secret)))
    return list(dict.fromkeys(one.encode("utf-8", "surrogatepass").decode("latin-1") for one in spelled))


@lru_cache(1000)
def json_spellings(secret: str) -> tuple[str, ...]:
    """Returns a secret as encoders write it in a JSON string: with few escapes, those of PHP, Go, .NET and Python."""
    written = json.dumps(secret, ensure_ascii=False)[1:-1]
    ascii_only = json.dumps(secret)[1:-1]
    found = [written, ascii_only, written.replace("/", "\\/"), ascii_only.replace("/", "\\/")]
    for characters, form in _ESCAPED_BY_SOME:
        escapes = {ord(one): form % ord(one) for one in characters}
        found += [text.replace('\\"', form % 34).translate(escapes) for text in (written, ascii_only)]
        found.append(written.translate(escapes))
    return tuple(dict.fromkeys(found))
