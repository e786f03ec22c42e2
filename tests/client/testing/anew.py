"""Rows of `@each` that have an upstream without requests, and no file yet."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.testing import Upstream
    from tests.support.each_case import Test


def anew(test: Test) -> Test:
    """Forget what the fixtures `upstream` and `path` have of the row before."""

    @wraps(test)
    def run(*, upstream: Upstream, path: Path, **row: Any) -> None:
        upstream.requests.clear()
        path.unlink(missing_ok=True)
        test(upstream=upstream, path=path, **row)

    return run
