"""One test for many golden cases: a parametrised test for each would spend more time in pytest than in penstock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.support.each_case import Test
    from tests.support.stream_cases import Case


def over(cases: Iterable[Case]) -> Callable[[Test], Test]:
    """Replace the test's argument `case` by a loop over cases, which reports all that fail."""
    return each("case", cases, lambda case: str(case.id))
