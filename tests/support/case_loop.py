"""One test for many golden cases: a parametrised test for each would spend more time in pytest than in penstock.

`@over(CASES)` gives the test each case in turn, a protocol's cases at a time, and reports all that fail.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.support.stream_cases import Case


def over(cases: Iterable[Case]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the test's argument `case` by `protocol`, and loop over the cases of it."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.protocol, []).append(case)

    def wrap(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def looped(protocol: str, **others: Any) -> None:
            failures: list[str] = []
            for case in groups[protocol]:
                try:
                    test(case=case, **others)
                except AssertionError as error:
                    failures.append(f"{case.id}: {error}")
            assert not failures, "\n\n".join(failures)

        signature = inspect.signature(test)
        given = [value for name, value in signature.parameters.items() if name != "case"]
        first = inspect.Parameter("protocol", inspect.Parameter.KEYWORD_ONLY)
        others = [value.replace(kind=inspect.Parameter.KEYWORD_ONLY) for value in given]
        looped.__signature__ = signature.replace(parameters=[first, *others])  # type: ignore[attr-defined]
        del looped.__wrapped__  # or pytest would read the old signature
        marked: Callable[..., None] = pytest.mark.parametrize("protocol", groups)(looped)
        return marked

    return wrap
