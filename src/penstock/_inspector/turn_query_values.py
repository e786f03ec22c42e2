"""Values of the query language: amounts (`10k`), dollars, spans (`500ms`, `2m`) and moments (`1h`, `2026-11-17`).

Each function raises `ValueError` with a message that says what is expected.
"""

from __future__ import annotations

from datetime import datetime

AMOUNT_UNITS = {"k": 1e3, "m": 1e6, "g": 1e9}
SPAN_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
MAX_AMOUNT = 1e15
LEAST_EPOCH = 1e8  # a plain number from here on is a time since the epoch, not a span
_DIGITS = frozenset("0123456789.")


def _split_unit(text: str) -> tuple[float, str]:
    """Returns the number at the beginning, and what follows it in lower case."""
    end = next((place for place, character in enumerate(text) if character not in _DIGITS), len(text))
    number = float(text[:end])  # raises for "", "." and "1.2.3"
    if number > MAX_AMOUNT:
        raise ValueError(text)
    return number, text[end:].strip().lower()


def parse_amount(text: str) -> float:
    """Returns a count: `200`, `10k`, `1.5M`."""
    try:
        number, unit = _split_unit(text)
        return number * (AMOUNT_UNITS[unit.removesuffix("b") or "k"] if unit not in {"", "b"} else 1.0)
    except (ValueError, KeyError):
        raise ValueError(f"expected a number, such as 200, 10k or 1.5M; found {text[:40]!r}") from None


def parse_dollars(text: str) -> float:
    """Returns an amount of money: `0.1`, `$2`."""
    try:
        number, unit = _split_unit(text.removeprefix("$"))
        return number * {"": 1.0}[unit]
    except (ValueError, KeyError):
        raise ValueError(f"expected dollars, such as 0.1; found {text[:40]!r}") from None


def parse_seconds(text: str) -> float:
    """Returns a span of time in seconds: `2`, `500ms`, `1.5m`."""
    try:
        number, unit = _split_unit(text)
        return number * SPAN_UNITS[unit or "s"]
    except (ValueError, KeyError):
        raise ValueError(f"expected a time, such as 2, 500ms or 1m; found {text[:40]!r}") from None


def parse_moment(text: str, now: float) -> float:
    """Returns a time since the epoch: a span before now, a date, a date and time, or seconds since the epoch."""
    try:
        number, unit = _split_unit(text)
        if unit in SPAN_UNITS:
            return now - number * SPAN_UNITS[unit]
        if not unit and number >= LEAST_EPOCH:
            return number
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text.upper() if "t" in text else text).timestamp()
    except (ValueError, OverflowError, OSError):
        message = f"expected a span, such as 15m, 1h or 7d, or a date, such as 2026-11-17; found {text[:40]!r}"
        raise ValueError(message) from None
