"""A module that `-m` leaves out as a whole is not imported; any other is."""

from __future__ import annotations

import pytest

from tests.support.mark_filter import excluded_marks, is_left_out

FAST = "not slow and not node"


@pytest.mark.parametrize(
    ("expression", "marks"),
    [
        ("not slow", {"slow"}), (FAST, {"slow", "node"}), ("", set()), ("slow", set()), ("not slow or node", set()),
        ("not slow and node", set()), ("not (slow and node)", set()), ("not (slow) and not node", set()),
        ("not slow and not node or corpus", set()), ('not row(id="A")', set()),
    ],
)  # fmt: skip
def test_only_plain_exclusions_are_understood(expression: str, marks: set[str]) -> None:
    assert excluded_marks(expression) == marks


@pytest.mark.parametrize(
    ("source", "left_out"),
    [
        ("import pytest\npytestmark = pytest.mark.slow  # why\n", True),
        ('pytestmark = [pytest.mark.row("G1"), pytest.mark.slow]\n', True),
        ("pytestmark = [\n    pytest.mark.corpus,\n    pytest.mark.node,\n]\n", True),
        ("pytestmark = pytest.mark.corpus\n", False),
        ("pytestmark = pytest.mark.slower\n", False),
        ("pytestmark = BY_SLICE\n@pytest.mark.slow\ndef test() -> None: ...\n", False),
        ("class TestAll:\n    pytestmark = pytest.mark.slow\n", False),
        ("@pytest.mark.slow\ndef test() -> None: ...\n", False),
    ],
)
def test_only_the_marks_of_the_module_count(source: str, left_out: bool) -> None:
    assert is_left_out(source, FAST) is left_out


def test_without_an_expression_nothing_is_left_out() -> None:
    assert not is_left_out("pytestmark = pytest.mark.slow\n", "")
