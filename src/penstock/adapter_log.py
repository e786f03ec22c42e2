"""The logger that a caller gives to the stream adapter: any object with some of the usual methods.

A level that it has no method for goes to the next louder one, so `warn` alone is enough for warnings and errors.
`trace` writes content and has no louder one. A logger of the standard library is asked whether level 5 is enabled.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from penstock.secrecy import redact_cut

Level: TypeAlias = Literal["trace", "debug", "warning", "error"]
TRACE = 5  # below DEBUG (10) of the standard library
METHODS: dict[Level, tuple[str, ...]] = {
    "trace": ("trace",), "debug": ("debug",), "warning": ("warning", "warn", "error"),
    "error": ("error", "warning", "warn"),
}  # fmt: skip
WRITES_CONTENT = "penstock: trace is on: the log holds the content of streams; secrets of known forms are removed"
LINE = 2_000  # characters of a line


class AdapterLog:
    """Writes lines to a caller's logger, secrets removed. `traces`: whether it wants lines of level trace."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self.traces = callable(getattr(logger, "trace", None)) or self._standard_trace()

    def __bool__(self) -> bool:
        return self._logger is not None

    def write(self, level: Level, message: str) -> None:
        """One line."""
        text = redact_cut(message, LINE)
        method = next((found for name in METHODS[level] if callable(found := getattr(self._logger, name, None))), None)
        if method is not None:
            method(text)
        elif level == "trace" and self.traces:
            self._logger.log(TRACE, text)

    def announce_content(self) -> None:
        """Say that content is written, where it is."""
        if self.traces:
            self.write("warning", WRITES_CONTENT)

    def _standard_trace(self) -> bool:
        enabled = getattr(self._logger, "isEnabledFor", None)
        return callable(enabled) and callable(getattr(self._logger, "log", None)) and bool(enabled(TRACE))


def describe(item: Any) -> str:
    """A frame, event or part as one line of JSON."""
    try:
        return msgspec.json.encode(item, enc_hook=repr).decode()
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        return ascii(item)
