"""Tells secrets from placeholders, variables, words and sentences: what may be the value after the name of a secret.

Only ASCII counts as white space, digit or letter, as in `_named_secrets`.
"""

from __future__ import annotations

import re

from penstock._lazy_patterns import lazy_pattern

REMOVAL_MARK = "[secret]"
_SHORTEST = 4  # characters of a value: shorter ones are no secrets
_SHORTEST_RUN = 7  # without quotes
_STRONG, _STRONGER = 16, 20  # characters of a value whose name alone does not tell
_TEMPLATE = lazy_pattern(
    r"""(?x)\$[A-Z_][A-Z0-9_]*|\$[A-Za-z_]+(?:(?:->|\.)[A-Za-z_]+)*|<[^<>]*>|\{[^{}]*\}|%(?:s|d|\([a-z_]+\)s|\w+%)
    |.*(?:\$\{|\{\{).*|\$\(.*\)|\[[A-Za-z _-]*\]|[*xX.\#_-]+|(?i:your)[-_ ].*|[~.]{0,2}/[A-Za-z_./-]+
    |(?:[A-Z][A-Z0-9]*_)*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE)(?:_\d{1,2})?|[\w./~-]+\.(?:pem|key|crt|json|txt|env)""",
    re.ASCII | re.DOTALL,
)
_WORDS = frozenset(
    """any boolean false hidden none null number object optional password required str string text true undefined
    unknown""".split()
)
_SCHEME = lazy_pattern(r"(?i)(?:bearer|basic|token|digest)[ ]+")
_ABOUT_SECRETS = lazy_pattern(r"(?i)pass(?:word|phrase|wd)|secret|token|key|credential")
_VARIABLE = lazy_pattern(r"[A-Za-z_]\w*(?:\??\.[A-Za-z_]\w*)*", re.ASCII)
_NAMED_LIKE_A_SECRET = lazy_pattern(r"(?i)(?:password|passwd|passphrase|pwd|secret|key|token)(?:_?[0-9]{1,2})?$")
_LETTERS_FOR_DIGITS = lazy_pattern("[0-9][a-z]")  # `S3cretPassword` is a password, `user2_password` a variable
_REFERENCE = lazy_pattern(r"\$[A-Za-z_]+[0-9]*")
_RESOURCE = lazy_pattern(r"[a-z]+[0-9]{0,2}(?:-[a-z]+[0-9]{0,2})+")  # what people call one: `my-tls-secret1`
_DENSE = lazy_pattern(r"[A-Za-z0-9_\-+/=.~:%\\]+")
DIGIT, _LETTER = lazy_pattern("[0-9]"), lazy_pattern("[A-Za-z]")


def is_secret_text(value: str, *, is_sure: bool) -> bool:
    """True for a text in quotes, unless it is a placeholder or a sentence about a secret."""
    scheme = _SCHEME.match(value)
    rest = value[scheme.end() :] if scheme is not None else value
    if len(rest.replace(REMOVAL_MARK, "")) < _SHORTEST or is_template(rest) or rest.lower() in _WORDS:
        return False
    if not is_sure:
        return is_strong(rest, _STRONGER)
    return not (" " in rest and _ABOUT_SECRETS.search(rest) and not DIGIT.search(rest))


def is_secret_run(value: str, *, is_given: bool) -> bool:
    """True for a value without quotes after the name of a secret. `is_given`: it is not program code."""
    is_secret = len(value) >= _SHORTEST if is_given else len(value) >= _SHORTEST_RUN and _is_mixed(value)
    return is_secret and not _is_code(value, is_given=is_given)


def is_strong_run(value: str, *, is_given: bool) -> bool:
    """True for a value without quotes after a name that need not be that of a secret."""
    return is_strong(value) and not _is_code(value, is_given=is_given)


def _is_code(value: str, *, is_given: bool) -> bool:
    """True for placeholders, variables and references."""
    return is_template(value) or _is_variable(value, is_given=is_given) or _is_reference(value, is_given=is_given)


def is_template(value: str) -> bool:
    """True for a placeholder or the path of a file."""
    return _TEMPLATE.fullmatch(value) is not None


def _is_variable(value: str, *, is_given: bool) -> bool:
    """True for names in program code such as `args.password` and `user2_password`, and for words such as `None`."""
    if _VARIABLE.fullmatch(value) is None:
        return False
    if not DIGIT.search(value):
        is_name = _NAMED_LIKE_A_SECRET.search(value) is not None and ("_" in value or not is_given)
        return is_name or "." in value or value.lower() in _WORDS
    return not is_given and _NAMED_LIKE_A_SECRET.search(value) is not None and not _LETTERS_FOR_DIGITS.search(value)


def _is_reference(value: str, *, is_given: bool) -> bool:
    """True for a variable of a shell or of PHP, and for a secret's name such as `my-tls-secret1`."""
    if _REFERENCE.fullmatch(value) is not None:
        return True
    return not is_given and _RESOURCE.fullmatch(value) is not None and _NAMED_LIKE_A_SECRET.search(value) is not None


def _is_mixed(value: str) -> bool:
    return DIGIT.search(value) is not None and _LETTER.search(value) is not None


def is_strong(value: str, length: int = _STRONG) -> bool:
    """True for a long text with letters and digits, and without white space."""
    return len(value) >= length and _is_mixed(value) and _DENSE.fullmatch(value) is not None
