r"""Finds the values of secrets by the names before them, in any text: JSON, frames, program code, configuration files.

The text keeps its format: a value is replaced within a JSON string, never a quote, a bracket, a number or null. Quotes
may be escaped, because JSON stands in strings of JSON: `{"arguments":"{\"password\":\"…\"}"}`. What counts as a value:

- After a name of `_SURE`, a text in quotes of at least four characters, except placeholders (`${PASSWORD}`, `<key>`,
  `YOUR_API_KEY`, `string`) and sentences about a secret ("Enter your password").
- After such a name, a run without quotes that has a letter and a digit and at least seven characters. After `NAME=` in
  capital letters and in queries of URLs, any run of four characters. Calls, subscripts, types and variables stay.
- After other keys and tokens (`STRIPE_KEY`, `"token"`), only what is long and has letters and digits:
  `"token": "hello"` is a word of an answer, not a secret.
- The session token in a link to the inspector (`#session=…`).
- The user and password of a URL, and the inside of a private key in PEM.

Every search is linear in the length of the text. Only ASCII counts as white space, digit or letter: the text may be
bytes that are read as Latin-1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from penstock._lazy_patterns import lazy_pattern
from penstock._secret_values import DIGIT, is_secret_run, is_secret_text, is_strong, is_strong_run, is_template

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

Span: TypeAlias = tuple[int, int]
_NAME_LENGTH = 48  # characters of a name that are read
_STEMS = (
    "password", "passwd", "passphrase", "secret", "key", "token", "authorization", "pwd", "signature", "credential",
    "sig", "#session",
)  # fmt: skip
_SURE_STEMS = frozenset({"password", "passwd", "passphrase", "secret", "authorization", "#session"})
_AFTER_STEM = frozenset("\"'`\\ \t\x1b:=*_-0123456789")
_SIGNS = frozenset("=: \t\x1b*")  # after a name without a quote and without a number
_AFTER_SIGN = frozenset("=> \t\x1b\\\"'`bfruBFRU")  # what does not begin a value at once
_SURE_LENGTH = 16  # characters of the longest match of `_SURE`, and some more
_SURE = lazy_pattern(
    r"""(?x)(?:password|passwd|passphrase|[_\-;]pwd|secret|authorization
    |(?:api|access|secret|private|encryption|signing)[_\-.\ ]?key
    |(?:access|refresh|auth|session|bearer|api|security|client|bot|personal|secret|private)[_\-.\ ]?token)$"""
)
_UNSURE = lazy_pattern(r"(?:^token|(?:account|auth|subscription|shared|master|storage|admin|service)[_\-. ]?key)$")
_CAPITALS = lazy_pattern(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
_PARAMETERS = frozenset({"key", "token", "sig", "signature", "x-amz-signature", "x-amz-credential", "x-goog-signature"})
_ESCAPED = {"0026": "&", "0022": '"', "0027": "'"}
_NAME_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
_QUOTE = r"""\\{0,15}+"|\\{1,8}+u0022|['`]"""  # the second is how .NET escapes a quote
_SPACE = r"(?:[ \t\r\n]|\\{1,15}+[nrt]){0,12}+"
_COLOUR = r"(?:\x1b|\\{1,15}+u001[bB])\[[0-9;]{0,20}+[mK]"
_BLANK = rf"(?:[ \t]|\\{{1,15}}+t|{_COLOUR}){{0,12}}+"
_NUMBER = r"(?:_base)?(?:[_-]?[0-9]{1,2})?"
_PREFIX = r"(?:[bfru]{1,2}(?=[\\\"'`]))?"  # of a string in Python
# A name in quotes, and a value in the same quotes or in those of a program. Then the value begins there for certain.
_MEMBER = lazy_pattern(rf"(?i){_NUMBER}({_QUOTE})\]?{_SPACE}(?::=|=>|[:=]){_SPACE}{_PREFIX}(\1|['`])")
_BOLD = r":\*\*|\*\*:|:__(?=[ ])|__:"  # in Markdown: `**Password:** …`
# A name without quotes; between name and sign there may be a type: `password: str = "…"`.
_ASSIGNED = lazy_pattern(
    rf"(?i){_NUMBER}(?P<blank>{_BLANK})(?P<sign>{_BOLD}|:[ ]?[a-z][a-z_.\[\]| ]{{0,40}}=(?!=)|:=|=>|={{1,3}}|:)"
    rf"(?P<after>{_BLANK}){_PREFIX}(?P<quote>{_QUOTE})?"
)
_RUN_CHARACTER = r"""(?:[^\x00-\x20"'`\\,;&(){}\[\]<>|]|\\{1,15}+(?:/|u002[bB]|u(?!00[0-7])[0-9A-Fa-f]{4}))"""
_RUN = lazy_pattern(rf"{_RUN_CHARACTER}++")
_DECIDING = 128  # characters of a run that decide: the runs of several names may overlap
_PLAIN_OR_SPELLED = lazy_pattern('"|u0022')
_LINE_END = lazy_pattern(r"[\r\n]")
_CALLED = frozenset("([<")  # after a run: it is a function or a type
_BEFORE_VALUE = lazy_pattern(r"[ \t\r\n,}\]:;.)]|\\+[nrt]")  # so the quote before it ends a text
_IN_SIMPLE = r"\\\r\n\""
_SIMPLE = {
    mark: lazy_pattern(rf'(?:[^{mark}{_IN_SIMPLE}]|\\{{1,15}}+(?![\\nr"]|u0022|u000[aAdD]).)*+') for mark in ("'", "`")
}
_USER_INFO = lazy_pattern(r""":(?:\\{0,15}+/){2}((?:[^\x00-\x20"'`\\/@?#<>]|\\{1,15}+u00[0-9A-Fa-f]{2})++)@""")
_PEM = "PRIVATE KEY"
_PEM_BODY = lazy_pattern(rf"{_PEM}(?: BLOCK)?-----((?:[A-Za-z0-9+/=:,. \t\r\n]|\\++(?!u00|\")|-(?!----)){{32,}}+)")


class _Quote(NamedTuple):
    r"""A quote: `"`, `'`, a backtick or `\u0022`, and the backslashes before it that belong to it.

    `unit`: of `\u0022`, how many backslashes stand for one, because JSON is written in JSON.
    """

    mark: str
    slashes: int
    unit: int = 0


class _Name(NamedTuple):
    """A name before a value. `is_sure`: every value is a secret. `parameter`: of the query of a URL."""

    is_sure: bool
    capitals: bool
    parameter: bool
    before: str  # the text before it


def find_named_values(text: str, lower: str) -> list[Span]:
    """Returns the positions of values after the names of secrets, of users in URLs and of private keys. Not merged.

    `lower`: the text in lower case, from `to_lower`.
    """
    spans: list[Span] = []
    if "=" in text or ":" in text:
        runs = _Runs(text)
        for stem in _STEMS:
            if stem in lower:
                spans += _values_after(runs, lower, stem)
        if "@" in text and (":/" in text or ":\\" in text):
            spans += [one.span(1) for one in _USER_INFO.finditer(text) if _is_login(one[1])]
    if _PEM in text:
        spans += _private_keys(text)
    return spans


def is_named_secret(name: str, value: str) -> bool:
    """True if a member of a JSON object has the name of a secret, and its value is not a placeholder."""
    last = name[-_NAME_LENGTH:].rstrip("0123456789").rstrip("_-")
    lower = last.lower().removesuffix("_base")
    is_sure = _SURE.search(lower) is not None
    return (is_sure or _may_name_secret(lower, capitals=last.isupper())) and is_secret_text(value, is_sure=is_sure)


def _may_name_secret(name: str, *, capitals: bool) -> bool:
    """True for names of keys and tokens that need not be secrets."""
    return (capitals and name.endswith(("_key", "_token"))) or _UNSURE.search(name) is not None


def to_lower(text: str) -> str:
    """Returns the text in lower case, of the same length."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.replace("\u0130", "i").lower()


class _Runs:
    """The runs of a text, which are values without quotes. Names in one run share its end and its next digit."""

    def __init__(self, text: str) -> None:
        self.text: str = text
        self._run: Span = (0, 0)
        self._digit: Span = (1, 0)  # where the search began, and where the digit is

    def find_end(self, start: int) -> int:
        """Returns where the run ends that has a character here; `start` if there is none."""
        first, end = self._run
        if not first <= start < end:
            found = _RUN.match(self.text, start)
            self._run = (start, end := found.end() if found is not None else start)
        return end

    def has_digit(self, start: int, end: int) -> bool:
        """True if a digit is in this part of the text."""
        first, digit = self._digit
        if not first <= start <= digit:
            found = DIGIT.search(self.text, start)
            self._digit = (start, digit := found.start() if found is not None else len(self.text))
        return digit < end


def _values_after(runs: _Runs, lower: str, stem: str) -> Iterator[Span]:
    text = runs.text
    place = lower.find(stem)
    while place >= 0:
        end = place + len(stem)
        if text[end : end + 1] in _AFTER_STEM:
            name = _read_name(text, lower, place, end, is_sure=stem in _SURE_STEMS)
            span = _read_value(runs, end, name) if name is not None else None
            if span is not None:
                yield span
                end = span[1]
        place = lower.find(stem, end)


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def _read_name(text: str, lower: str, place: int, end: int, *, is_sure: bool) -> _Name | None:
    """Returns the name that ends here; None if it is not that of a secret. `is_sure`: its last word alone tells."""
    first = max(place - _NAME_LENGTH, 0)
    head = text[first:place].rstrip(_NAME_CHARACTERS)
    start, before = first + len(head), head
    if head.endswith("\\"):  # the name begins after an escape, whose letter is not part of it
        start, before = _skip_escape(text, start, place, head)
    name = lower[start:end]
    is_sure = is_sure or _SURE.search(lower, max(first, end - _SURE_LENGTH), end) is not None
    parameter = before.endswith(("?", "&")) and (is_sure or name in _PARAMETERS)
    capitals = _CAPITALS.fullmatch(text, start, end) is not None
    if not (is_sure or parameter or _may_name_secret(name, capitals=capitals)):
        return None
    return _Name(is_sure, capitals, parameter, before)


def _ends_with_quote(before: str) -> bool:
    """True if a quote is before the name, which may be of two words: "API key"."""
    words = before.removesuffix(" ")
    outside = words.rstrip(_NAME_CHARACTERS)
    return outside.endswith(('"', "'", "`")) or (outside.endswith("\\") and words.startswith("u0022", len(outside)))


def _skip_escape(text: str, start: int, place: int, head: str) -> tuple[int, str]:
    """Returns where a name begins, and the text before it with the character that the escape spells."""
    if text[start] == "u" and start + 5 <= place:
        return start + 5, head.rstrip("\\") + _ESCAPED.get(text[start + 1 : start + 5], " ")
    return (start + 1, " ") if text[start] in "nrtbf" and start < place else (start, head)


# ── values ────────────────────────────────────────────────────────────────────────────────────────


def _read_value(runs: _Runs, end: int, name: _Name) -> Span | None:
    """Returns the value after a name."""
    text = runs.text
    member = _MEMBER.match(text, end) if text[end] not in _SIGNS else None
    if member is not None:
        is_quoted = _ends_with_quote(name.before)
        return _quoted_value(runs, member.end(), _read_quote(member[2]), name) if is_quoted else None
    if text[end] == "=" and text[end + 1 : end + 2] not in _AFTER_SIGN:  # the most frequent form is read at once
        return _read_unquoted_value(runs, end + 1, name, is_given=name.parameter or name.capitals)
    found = _ASSIGNED.match(text, end)
    return _assigned_value(runs, found, name) if found is not None else None


def _assigned_value(runs: _Runs, found: re.Match[str], name: _Name) -> Span | None:
    """Returns the value after a name and a sign."""
    text, start = runs.text, found.end()
    if found["quote"] is None:
        is_given = name.parameter or (name.capitals and found["sign"] == "=" and not found["blank"] + found["after"])
        return _read_unquoted_value(runs, start, name, is_given=is_given)
    quote = _read_quote(found["quote"])
    if _BEFORE_VALUE.match(text, start) or _ends_quotation(name, found["quote"]):
        return None
    span = _quoted_value(runs, start, quote, name)
    if span is not None and text[span[0]] in "+&" and text[span[0]] == text[span[1] - 1]:
        return None  # "password=" + password + "…"
    return span


def _read_quote(text: str) -> _Quote:
    if not text.endswith("u0022"):
        return _Quote(text[-1], _own_slashes(len(text) - 1))
    unit, inner = _split_slashes(len(text) - len("u0022"))
    return _Quote("u0022", _own_slashes(inner), unit)


def _own_slashes(count: int) -> int:
    """Returns how many of the backslashes before a quote belong to it: none, 1, 3, 7. The others are escaped ones."""
    return (count ^ (count + 1)) >> 1


def _split_slashes(count: int) -> tuple[int, int]:
    r"""Returns how many backslashes before `u0022` stand for one, and how many are before the quote that it spells."""
    unit = count & -count
    return unit, (count // unit - 1) // 2


def _ends_quotation(name: _Name, quote: str) -> bool:
    """True if the quote before the name is the same as the one behind it: `the label "password:"`."""
    return name.before.endswith(quote) and not name.before.endswith("\\" + quote)


def _quoted_value(runs: _Runs, start: int, quote: _Quote, name: _Name) -> Span | None:
    text = runs.text
    if quote.mark in _SIMPLE:
        body = _SIMPLE[quote.mark].match(text, start)
        end = body.end() if body is not None else start
        closed = end == len(text) or text[end] == quote.mark
    else:
        end, closed = _closing_quote(text, start, quote)
    if not closed:
        return _read_unquoted_value(runs, start, name, is_given=False)
    return (start, end) if is_secret_text(text[start:end], is_sure=name.is_sure) else None


def _closing_quote(text: str, start: int, quote: _Quote) -> tuple[int, bool]:
    r"""Returns where the value ends, and whether a quote or the end of the text ends it.

    Every quote ends it that closes its string or one around it. Quotes inside the value have more backslashes.
    """
    place = start
    while True:
        at, is_spelled = _next_quote(text, place, quote)
        piece = text[place:at]
        line = _LINE_END.search(piece)
        if line is not None:
            return place + line.start(), False
        if at == len(text):
            return at, True
        own = _closing_slashes(len(piece) - len(piece.rstrip("\\")), quote, is_spelled=is_spelled)
        if own is not None:
            return at - own, True
        place = at + 1


def _next_quote(text: str, place: int, quote: _Quote) -> tuple[int, bool]:
    r"""Returns where the next quote is, or the end of the text, and whether it is spelled `\u0022`."""
    if quote.unit:
        found = _PLAIN_OR_SPELLED.search(text, place)
        return (found.start(), found[0] != '"') if found is not None else (len(text), False)
    at = text.find('"', place)
    return at if at >= 0 else len(text), False


def _closing_slashes(count: int, quote: _Quote, *, is_spelled: bool) -> int | None:
    """Returns how many of the backslashes before a quote belong to it; None if the quote is inside the value."""
    step = 2 * quote.slashes + 2
    if not is_spelled:
        return None if (count + 1) % (2 * quote.unit or step) == 0 else _own_slashes(count)
    if count == 0:
        return None
    unit, inner = _split_slashes(count)
    if unit != quote.unit:
        return count
    return None if (inner + 1) % step == 0 else (2 * _own_slashes(inner) + 1) * unit


def _read_unquoted_value(runs: _Runs, start: int, name: _Name, *, is_given: bool) -> Span | None:
    """Returns a value without quotes. `is_given`: it is not program code."""
    end = runs.find_end(start)
    cut = min(end, start + _DECIDING)
    if end == start or runs.text[cut : cut + 1] in _CALLED:
        return None
    is_unsure = not name.is_sure and not name.parameter
    if (is_unsure or not is_given) and not runs.has_digit(start, cut):
        return None
    value = runs.text[start:cut].rstrip(".:!?*")
    is_secret = (is_strong_run if is_unsure else is_secret_run)(value, is_given=is_given)
    return (start, end) if is_secret else None


# ── URLs and private keys ─────────────────────────────────────────────────────────────────────────


def _is_login(info: str) -> bool:
    """True for the user information of a URL that has a password or is a token."""
    _, colon, password = info.partition(":")
    return (bool(password) and not is_template(password)) if colon else is_strong(info)


def _private_keys(text: str) -> Iterator[Span]:
    for found in _PEM_BODY.finditer(text):
        if "-----BEGIN " in text[max(found.start() - 40, 0) : found.start()]:
            yield found.span(1)
