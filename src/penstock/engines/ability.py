"""What a vendor's client can do, as data: what it speaks and fetches, how it may be signed, which versions are known.

`vendors` fills it in, `sdk` asks it. Looks at what is installed; imports none of it.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

import msgspec


class Ability(msgspec.Struct, frozen=True, kw_only=True):
    """What a vendor's client can do: the types of payloads and bodies by protocol; no type: it is read as it is.

    `fetches` are the shapes of what is no turn. `oldest` and `newest` are the major versions that the parity tests were
    run with, `newest` only where what is used is not public.
    """

    package: str
    streams: dict[str, str]
    wholes: dict[str, str]
    fetches: dict[str, str]
    operations: frozenset[str]
    schemes: frozenset[str] = frozenset({"none", "bearer", "header", "google", "ibm"})
    oldest: int
    newest: int | None = None

    def types(self, protocol: str) -> list[str]:
        """All types of a protocol or shape."""
        found = (rows.get(protocol) for rows in (self.streams, self.wholes, self.fetches))
        return [place for place in found if place]

    def unknown(self, distribution: str) -> str:
        """Why the version that is installed will not do; nothing where it will."""
        major = _major(distribution)
        if self.oldest <= major <= (major if self.newest is None else self.newest):
            return ""
        known = f"{self.oldest}" if self.newest == self.oldest else f"{self.oldest} and later"
        return f"version {major} of {distribution} is not known, only {known}"


@cache
def _major(package: str) -> int:
    return int(version(package).partition(".")[0])
