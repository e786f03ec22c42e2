"""Has msgspec build its types before two threads can: at first use in both at once it may crash the interpreter."""

from __future__ import annotations

from contextlib import suppress

import msgspec


def build_types() -> None:
    """Have msgspec build what it knows of every Struct that is loaded. It does so at first use, and may crash there.

    Large requests are converted in a thread while others are converted on the event loop.
    """
    waiting: list[type[msgspec.Struct]] = [msgspec.Struct]
    seen: set[type[msgspec.Struct]] = set()
    while waiting:
        for one in type.__subclasses__(waiting.pop()):
            if one not in seen:
                seen.add(one)
                waiting.append(one)
    for one in seen:
        if one.__module__.partition(".")[0] == "penstock":
            with suppress(Exception):  # what cannot be built is never read either
                msgspec.json.Decoder(one)
