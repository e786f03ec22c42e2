"""Text of providers in terminals and logs: no control characters, escape sequences or bidi controls reach them."""

from __future__ import annotations

import io
import logging
import sys
import unicodedata
from typing import Any

from penstock._gateway.config import Log as LogTable
from penstock._gateway.log_setup import setup_logging
from penstock._printable_text import printable, printable_lines
from tests.support.each_case import each
from tests.support.stream_adapter import Log, outcome

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\u2066\x00\x7f\r\x08\u2028"
ALLOWED = "\u200c\u200d"


def unsafe_characters(text: str, allowed: str = "") -> set[str]:
    """The characters of a text that a terminal may obey."""
    return {char for char in text if unicodedata.category(char)[0] == "C" or char in "\u2028\u2029"} - {
        *allowed,
        *ALLOWED,
    }


def test_every_character() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert not unsafe_characters(printable(every))
    assert not unsafe_characters(printable_lines(every), "\n\t")
    assert printable("a\r\nb\tc") == "a␍⏎b⇥c"
    assert printable_lines("a\r\nb\tc\rd") == "a\nb\tc␍d"
    assert printable("👩\u200d👧 naïve 漢字") == printable_lines("👩\u200d👧 naïve 漢字") == "👩\u200d👧 naïve 漢字"


@each("form", ["text", "json"])
def test_log_lines_of_the_gateway(form: Any) -> None:
    file, root = io.StringIO(), logging.getLogger("penstock")
    before = root.handlers[:], root.level, root.propagate
    try:
        setup_logging(LogTable(form=form), file=file)
        logging.getLogger("penstock.gateway").warning("failed: %s", HOSTILE, extra={"model": HOSTILE})
    finally:
        root.handlers[:], root.level, root.propagate = before
    line = file.getvalue()
    assert line.count("evil") == 2
    assert not unsafe_characters(line, "\n")
    assert line.count("\n") == 1


def test_log_lines_of_the_adapter() -> None:
    log = Log()
    outcome([{"type": "error", "error": HOSTILE}], logger=log)
    [line] = [text for _, text in log.lines if "evil" in text]
    assert not unsafe_characters(line)
