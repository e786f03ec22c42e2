"""Logs on standard error: lines to read, or JSON objects to collect. Secrets never get past here.

Only the loggers under `penstock` are touched, so that an application that mounts the gateway keeps its own set-up.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from penstock.gateway.trace_log import TRACE, TRACE_WRITES_CONTENT
from penstock.secrecy import redact_cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.gateway.config import Log

ROOT = "penstock"
logging.addLevelName(TRACE, "TRACE")
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LONG = 2_000  # characters of a line that are shown; it is cut before it is redacted
_STACK = 40  # lines of a stack that are shown at its beginning, and at its end


class _Lines(logging.Formatter):
    """One line for each record, its stack below it."""

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        said = f"{_stamp(record.created)} {record.levelname.lower():<7} {record.name}: {record.getMessage()}"
        more = " ".join(f"{name}={value}" for name, value in _extra(record).items())
        lines = [f"{said} {more}".rstrip(), *self._stack(record)]
        return "\n".join(self.shown(line) for line in lines)

    def _stack(self, record: logging.LogRecord) -> list[str]:
        lines = self.formatException(record.exc_info).splitlines() if record.exc_info else []
        if len(lines) <= 2 * _STACK:
            return lines
        return [*lines[:_STACK], f"… [{len(lines) - 2 * _STACK} more lines]", *lines[-_STACK:]]

    def shown(self, text: str) -> str:
        return redact_cut(text, _LONG, self._secrets()).replace("\r", "␍").replace("\n", "⏎")


class _Objects(_Lines):
    """One JSON object for each record."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "time": _stamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.shown(record.getMessage()),
        }
        said |= {name: self.shown(str(value)) for name, value in _extra(record).items()}
        stack = self._stack(record)
        if stack:
            said["stack"] = [self.shown(line) for line in stack]
        return msgspec.json.encode(said).decode()


def setup(log: Log, secrets: Callable[[], Iterable[str]] = tuple, file: TextIO | None = None) -> None:
    """Send the logs of penstock to standard error; a second call replaces the first."""
    root = logging.getLogger(ROOT)
    for old in list(root.handlers):
        if isinstance(old.formatter, _Lines):
            root.removeHandler(old)
    made = logging.StreamHandler(file or sys.stderr)
    made.setFormatter(_Objects(secrets) if log.form == "json" else _Lines(secrets))
    root.addHandler(made)
    root.setLevel(log.level.upper())
    root.propagate = False
    if log.level == "trace":
        logging.getLogger(f"{ROOT}.trace").warning(TRACE_WRITES_CONTENT)


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    """What was said in `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _PLAIN}


def _stamp(at: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at % 1 * 1000):03}Z"
