"""The exceptions penstock raises. In-band trouble is a `Fault` event, not one of these.

PenstockError
├── InputError            what was given cannot be used; the message names the place and the fix
│   ├── UnknownProtocol   no protocol of that name, or it cannot be read or written
│   ├── Unrecognised      the protocol was to be found out, and no protocol knows the stream
│   ├── BadRequest        a request that cannot be read: the path, what was found, what was expected
│   ├── FramingError      the bytes are not the framing they were said to be
│   └── FrameTooLarge     one frame is larger than the limit
├── MissingExtra          an optional dependency is needed; the message names the extra
├── StreamFault           a `Fault` event, raised because the caller asked for an exception
└── GrammarError          a codec broke the event grammar: a bug of ours, please report it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.events import Fault

_JSON_KINDS: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}


class PenstockError(Exception):
    """The root of everything penstock raises on purpose."""


class InputError(PenstockError, ValueError):
    """Something the caller gave cannot be used."""


class UnknownProtocol(InputError):
    """No such protocol, or not in that direction."""

    def __init__(self, name: str, known: Iterable[str], what: str = "protocol") -> None:
        self.name = name
        super().__init__(f"unknown {what} {name!r}; known are: {', '.join(sorted(known))}")


class Unrecognised(InputError):
    """No protocol knows the stream."""

    def __init__(self, frames: int, known: Iterable[str]) -> None:
        seen = "no protocol knows what is in it" if frames else "there is nothing in it"
        super().__init__(f"cannot tell the protocol of the stream: {seen}; known are: {', '.join(sorted(known))}")


class BadRequest(InputError):
    """A value of a request is not what it must be. The path grows from the inside out as readers pass it on."""

    def __init__(self, expected: str, found: object, step: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.found = "null" if found is None else _JSON_KINDS.get(type(found), type(found).__name__)
        self.path = step

    def at(self, step: str | int) -> BadRequest:
        """The same error, one level further out."""
        step = f"[{step}]" if isinstance(step, int) else step
        self.path = step + ("" if not self.path or self.path.startswith("[") else ".") + self.path
        return self

    def __str__(self) -> str:
        return f"{self.path or 'the body'}: expected {self.expected}, found {self.found}"


class FramingError(InputError):
    """The bytes do not follow their framing."""


class FrameTooLarge(InputError):
    """A single frame grew past the configured limit."""

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"a frame of at least {size} bytes is over the limit of {limit}; raise `limit` to accept it")


class MissingExtra(PenstockError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"this needs the package {package!r}: pip install 'penstock[{extra}]'")


class StreamFault(PenstockError):
    """A fault of the stream, as an exception."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(f"{fault.kind}: {fault.message}")


class GrammarError(PenstockError):
    """Events came in an order that the grammar forbids."""
