"""Checks options: an unknown name or a value of the wrong kind raises an error with the nearest name.

Every function that takes `**options` or a mapping of options calls `check_options` first.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from penstock._input_limits import MAX_TOML_BYTES, MAX_TOML_KEY_PARTS
from penstock._lazy_patterns import lazy_pattern
from penstock.errors import InputError, closest_name

# Names that adapters and converters for the same hosts use in TypeScript, as snake case → the name here.
OTHER_NAMES: dict[str, str] = {
    "enable_reasoning": "reasoning",
    "on_unknown_chunk": "on_unknown",
    "image_in_non_user_message": "images",
    "max_input_tokens": "max_input",
    "max_output_tokens": "max_output",
    "max_tokens": "max_output",
}
_WORD = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])|[-\s]+")
_CHOICES = lazy_pattern(r"""["']([^"']*)["']""")
_SHOWN = 60  # characters of a wrong value in a message
_LOG_METHODS = ("trace", "debug", "info", "warning", "warn", "error")


class Option(NamedTuple):
    """The check of one option: a description, and the test. A value whose exact type is in `kinds` needs no test."""

    expected: str
    fits: Callable[[Any], bool]
    kinds: frozenset[type] = frozenset()


# ── option kinds ───────────────────────────────────────────────────────────────────────────────────


def one_of(values: Iterable[str | None]) -> Option:
    """Returns the check for one of these values."""
    words = tuple(values)

    def fits(value: Any) -> bool:
        return (value is None or isinstance(value, str)) and value in words

    return Option(f"one of {', '.join(map(str, words))}", fits)


def some_of(words: Collection[str]) -> Option:
    """Returns the check for a collection of these words. A single string is refused."""

    def fits(value: Any) -> bool:
        if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping):
            return False
        given: Collection[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return all(isinstance(one, str) and one in words for one in given)

    return Option(f"a collection of any of {', '.join(sorted(words))}", fits)


def instance_of(expected: str, *kinds: type) -> Option:
    """Returns the check for an instance of these classes. A bool does not count as a whole number."""

    def fits(value: Any) -> bool:
        return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))

    return Option(expected, fits, frozenset(kinds))


def object_with(*methods: str) -> Option:
    """Returns the check for an object with all of these methods."""

    def fits(value: Any) -> bool:
        return all(callable(getattr(value, name, None)) for name in methods)

    return Option(f"an object with {' and '.join(methods)}", fits)


def optional(option: Option) -> Option:
    """Returns a check that also accepts None."""

    def fits(value: Any) -> bool:
        return value is None or option.fits(value)

    return Option(f"{option.expected} or None", fits, option.kinds | {type(None)})


def _is_count(value: Any) -> bool:
    return NUMBER.fits(value) and value >= 0


def _is_logger(value: Any) -> bool:
    return any(callable(getattr(value, name, None)) for name in _LOG_METHODS)


def _are_stages(value: Any) -> bool:
    stages: Any = value
    return isinstance(value, tuple | list) and all(map(object_with("feed", "finish").fits, stages))


def _is_iterable(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str)


def _is_anything(_: Any) -> bool:
    return True


TEXT = instance_of("a string", str)
FLAG = instance_of("True or False", bool)
NUMBER = instance_of("a whole number", int)
TEXT_OR_NONE, NUMBER_OR_NONE = optional(TEXT), optional(NUMBER)
COUNT_OR_NONE = optional(Option("a whole number of at least 0", _is_count))
FUNCTION = Option("a function", callable)
FUNCTION_OR_NONE = optional(FUNCTION)
MAPPING_OR_NONE = optional(instance_of("a mapping", Mapping))
ITERABLE = Option("an iterable of objects", _is_iterable)
ANYTHING = Option("anything", _is_anything)
LOGGER = optional(Option(f"an object with one of the methods {', '.join(_LOG_METHODS)}", _is_logger))
STAGES = Option("a tuple of stages, which have feed and finish", _are_stages)


# ── the check ─────────────────────────────────────────────────────────────────────────────────────


def check_options(owner: str, given: Mapping[str, Any], known: Mapping[str, Option]) -> None:
    """Raises an `InputError` for the first option that is unknown or has a value of the wrong kind."""
    for name, value in given.items():
        option = known.get(name)
        if option is not None and type(value) in option.kinds:
            continue
        if option is None:
            raise InputError(f"{owner} has no option {name!r}{_hint(name, known)}")
        if not option.fits(value):
            raise InputError(f"{owner}: {name} must be {option.expected}; found {describe_value(value)}")


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Returns the known name that is nearest, or an empty string. `onUnknownChunk` is read as `on_unknown_chunk`."""
    names = list(known)
    snake = _WORD.sub("_", name).lower()
    for meant in (snake, OTHER_NAMES.get(snake, "")):
        if meant in names:
            return meant
    return closest_name(snake, names)


def options_of(shape: Any, checks: Mapping[str, Option]) -> dict[str, Option]:
    """Returns the checks of a TypedDict's options. Options without a check accept any value."""
    return {name: checks.get(name, ANYTHING) for name in (*shape.__required_keys__, *shape.__optional_keys__)}


@lru_cache(maxsize=64)
def keywords_of(function: Callable[..., Any]) -> Mapping[str, Option]:
    """Returns the checks of a function's keyword parameters, by their annotations."""
    rows = inspect.signature(function).parameters.values()
    return {row.name: _annotated(str(row.annotation)) for row in rows if row.kind is row.KEYWORD_ONLY}


_KINDS: dict[str, Option] = {
    "str": TEXT, "str | None": TEXT_OR_NONE, "bool": FLAG, "int": NUMBER, "int | None": NUMBER_OR_NONE,
    "Mapping": MAPPING_OR_NONE, "Callable": FUNCTION_OR_NONE,
}  # fmt: skip


def _annotated(annotation: str) -> Option:
    if annotation.startswith("Literal["):
        return one_of(_CHOICES.findall(annotation))
    return _KINDS.get(annotation) or _KINDS.get(annotation.partition("[")[0], ANYTHING)


def _hint(name: str, known: Mapping[str, Option]) -> str:
    near = nearest_name(name, known)
    if near:
        return f"; did you mean {near!r} ({known[near].expected})?"
    return f"; there are: {', '.join(known)}" if known else "; it has none"


def describe_value(value: Any) -> str:
    """Returns a value for a message. Objects are shown by type only, because their repr may hold a secret."""
    if value is None or isinstance(value, str | int | float | bool):
        return repr(value)[:_SHOWN]
    if isinstance(value, list | tuple | set | frozenset):
        return f"{type(value).__name__} {sorted(map(str, value))!r}"[:_SHOWN]  # pyright: ignore[reportUnknownArgumentType]
    return f"an object of type {type(value).__name__}"


# The tokens of a line. An unclosed quote extends to the end of the line.
_TOKEN = lazy_pattern(
    r"""(?P<part>[\w-]++|"[^"\\]*+(?:\\.[^"\\]*+)*"?|'[^']*+'?)|(?P<dot>\.)|(?P<space>[ \t]++)|(?P<other>.)""",
    re.DOTALL,
)


def read_toml(data: bytes, where: str) -> tuple[str, dict[str, Any]]:
    """Returns the text of a TOML file and its tables. Raises `InputError`, or what `tomllib` raises."""
    import tomllib  # noqa: PLC0415 — most clients have no file

    if len(data) > MAX_TOML_BYTES:
        raise InputError(f"{where}: the file has {len(data)} bytes; at most {MAX_TOML_BYTES} are read. Make it shorter")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not TOML: byte {error.start} is not UTF-8") from None
    line = next((number for number, row in enumerate(text.split("\n"), 1) if _has_long_key(row)), 0)
    if line:
        said = f"a key of more than {MAX_TOML_KEY_PARTS} dotted parts: remove it, no setting has so many"
        raise InputError(f"{where}:{line}: not a configuration: {said}")
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise InputError(f"{where}: not a configuration: it nests too deep") from None
    except ValueError:  # Python reads integers of up to 4300 digits
        raise InputError(f"{where}: not a configuration: an integer has too many digits") from None


def _has_long_key(line: str) -> bool:
    """True if a line has a key of too many dotted parts. Takes linear time."""
    if line.count(".") < MAX_TOML_KEY_PARTS:
        return False
    dots = 0
    for token in _TOKEN.finditer(line):
        if token.lastgroup == "dot":
            dots += 1
            if dots >= MAX_TOML_KEY_PARTS:
                return True
        elif token.lastgroup == "other":
            if token[0] == "#":
                return False
            dots = 0
    return False
