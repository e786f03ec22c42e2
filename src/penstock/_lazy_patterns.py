"""Regular expressions that are compiled when they are first used.

To compile one takes up to 5 ms. Those that most programs never need, such as the ones for errors, must not slow the
import. Patterns that read every frame are compiled at import, because each use of a lazy one takes a little longer.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class LazyPattern:
    """Has the methods and attributes of a `re.Pattern`. The first one that is used compiles it."""

    def __init__(self, text: Any, flags: int = 0) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._text, self._flags), name)  # `re` keeps the pattern, so another name finds it
        setattr(self, name, value)
        return value


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Returns a pattern that is compiled when it is first used."""
    return cast("re.Pattern[AnyStr]", LazyPattern(text, flags))
