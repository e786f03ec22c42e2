"""How many examples Hypothesis tries: `make fast` tries fewer than `make test`, by its profile (tests/conftest.py)."""

from __future__ import annotations

import hypothesis

USUAL = 50
FAST = 10


def examples(count: int) -> int:
    """For a test that sets a number itself: that many in `make test`, and proportionally fewer in `make fast`.

    Never fewer than three: the first is always the simplest there is.
    """
    return max(3, count * hypothesis.settings().max_examples // USUAL)
