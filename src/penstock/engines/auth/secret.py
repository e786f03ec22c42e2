"""A secret that does not show itself: not printed, logged, copied into a message or written as JSON by mistake."""

from __future__ import annotations

from typing import NoReturn

from penstock.secrecy import MARK


class Secret:
    """A key or token. `reveal()` is the only way to its value."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return f"Secret({MARK!r})" if self._value else "Secret('')"

    def __str__(self) -> str:
        return MARK if self._value else ""

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __reduce__(self) -> NoReturn:
        message = "a secret is not to be written anywhere"
        raise TypeError(message)
