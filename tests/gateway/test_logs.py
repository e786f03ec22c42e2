"""Log lines: one each, readable or JSON, without secrets and without what a terminal or a reader would obey."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from penstock._gateway.log_setup import setup_logging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._gateway.config import Log

log = logging.getLogger("penstock.testing-logs")


@pytest.fixture(autouse=True)
def root() -> Iterator[None]:
    """The loggers as they were."""
    one = logging.getLogger("penstock")
    was = (one.level, one.propagate, list(one.handlers))
    yield
    one.level, one.propagate, one.handlers = was[0], was[1], was[2]


def lines(log_as: Log) -> io.StringIO:
    file = io.StringIO()
    setup_logging(log_as, lambda: ["planted-value"], file)
    return file


def test_lines_to_read() -> None:
    file = lines({"level": "info"})
    log.info("hello %s", "world", extra={"turn": 3})
    log.debug("not this")
    [line] = file.getvalue().splitlines()
    assert line.endswith(" info    penstock.testing-logs: hello world turn=3")


def test_lines_to_collect() -> None:
    file = lines({"form": "json"})
    try:
        raise ValueError("with planted-value")  # noqa: TRY301
    except ValueError:
        log.exception("it broke", extra={"turn": "a planted-value"})
    [said] = [json.loads(line) for line in file.getvalue().splitlines()]
    assert (said["level"], said["message"], said["turn"]) == ("error", "it broke", "a [secret]")
    assert said["stack"][-1] == "ValueError: with [secret]"


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_and_line_breaks_do_not_get_through(form: Any) -> None:
    file = lines({"form": form})
    log.warning("key planted-value and sk-planted0123456789\nsecond\rthird %s", "x" * 10_000)
    [line] = file.getvalue().splitlines()
    assert "planted-value" not in line
    assert "sk-planted" not in line
    assert len(line) < 3000


def test_a_second_setup_replaces_the_first() -> None:
    first, second = lines({}), lines({})
    log.warning("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1
