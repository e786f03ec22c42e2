"""Tests that Windows cannot run are found by their text, and the rest is most of the fast tests."""

from __future__ import annotations

import sys

import pytest

from tests.support.posix_only import TESTS, posix_reason


def test_modules_are_left_out_for_what_they_or_their_helpers_use() -> None:
    assert posix_reason(TESTS / "cli/test_progress.py") == "a module of POSIX", "its helper imports pty"
    assert posix_reason(TESTS / "gateway/test_workers.py") == "signals that Windows does not have"
    assert posix_reason(TESTS / "test_framing.py") == ""
    assert posix_reason(TESTS / "test_translate.py") == ""


@pytest.mark.slow
def test_most_modules_run_on_windows() -> None:
    files = [file for file in TESTS.rglob("test_*.py") if "node_modules" not in file.parts]
    left_out = [file for file in files if posix_reason(file)]
    assert len(left_out) < len(files) / 2, [str(file.relative_to(TESTS)) for file in left_out]


def test_on_windows_a_module_of_posix_is_not_collected(
    monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    from tests import conftest

    monkeypatch.setattr(sys, "platform", "win32")
    assert conftest.pytest_ignore_collect(TESTS / "cli/test_chat_terminal.py", pytestconfig) is True
    assert not conftest.pytest_ignore_collect(TESTS / "test_framing.py", pytestconfig)
