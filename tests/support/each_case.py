"""`@each`: like pytest's `parametrize`, but one test that tries all rows and reports each that fails.

A test that does the same with thirty texts is one statement. As thirty tests it would be collected, set up and
reported thirty times, which costs more than the test.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def each(names: str, rows: Iterable[Any], name: Callable[[Any], str] = repr) -> Callable[[Test], Test]:
    """Replace the test's arguments `names` ("a, b") by a loop over `rows`. Other arguments are fixtures, as ever.

    A row is one value, or as many as there are names. `name` says what a row is called in a report.
    """
    given = [one.strip() for one in names.split(",")]
    known = list(rows)
    assert known, names

    def wrap(test: Test) -> Test:
        assert not inspect.iscoroutinefunction(test), "nobody would await it"

        def looped(*args: Any, **others: Any) -> None:
            failures: list[BaseException] = []
            skips: list[BaseException] = []
            for row in known:
                values = [row] if len(given) == 1 else row
                try:
                    test(*args, **others, **dict(zip(given, values, strict=True)))
                except pytest.skip.Exception as absent:
                    skips.append(absent)
                except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 — all are reported below
                    failure.add_note(f"with {names}: {name(row)[:500]}")
                    failures.append(failure)
            if failures:
                message = f"{len(failures)} of {len(known)} cases fail"
                raise failures[0] if len(failures) == 1 else BaseExceptionGroup(message, failures)
            if skips:  # also if others ran: no skip is hidden
                raise skips[0]

        for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(looped, attribute, getattr(test, attribute))
        signature = inspect.signature(test)
        left = [value for key, value in signature.parameters.items() if key not in given]
        looped.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        looped.pytestmark = list(getattr(test, "pytestmark", ()))  # type: ignore[attr-defined]
        return looped

    return wrap
