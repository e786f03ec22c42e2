"""Reads fields of a request's JSON: a value of the wrong type is an error with the path of the field.

The counterpart of `lenient_fields`, which reads what providers send. Paths are built only when something is wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from penstock import request as rq
from penstock._input_limits import NestingError, decode_bounded, decode_deep, holds_raw
from penstock._lenient_fields import Object
from penstock._lenient_fields import as_object as lenient_object
from penstock._lenient_json import parse_lenient_bounded, replace_surrogates
from penstock._markers import parse_free_text_schema
from penstock.errors import BadRequest, TooDeep

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from penstock.events import Extra

T = TypeVar("T")
_FUNCTION = frozenset({"name", "description", "parameters"})


def parse_object(data: bytes) -> Object:
    """Returns the object in a body. Lone surrogates and control characters are repaired; other errors are refused."""
    return as_object(parse_value(data)[0])


def parse_value(data: bytes | bytearray | str) -> tuple[Any, bool]:
    """Returns the JSON value of a body, and whether it was strict JSON. Refuses other text and too deep values."""
    try:
        try:
            return decode_bounded(data), True
        except (msgspec.DecodeError, UnicodeError):
            raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)
            value = replace_surrogates(parse_lenient_bounded(raw))
    except NestingError as error:
        raise TooDeep(error.path) from None
    if value is None:
        raise BadRequest("JSON", data)
    return value, False


def read_deep_body(data: bytes | str, read: Callable[[Object], T], error: TooDeep) -> T:
    """Read a body that is too deep only inside the inputs of tool calls, which become text; else raise the error.

    A model may once have written such an input. The conversation must stay sendable.
    """
    try:
        try:
            made = read(as_object(decode_deep(data.encode() if isinstance(data, str) else data)))
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError, msgspec.DecodeError):
            raise error from None  # the depth is the first error; a value that is kept as text may not fit its field
        if holds_raw(made):
            raise error
        return made
    finally:
        del error  # its traceback refers to this frame: a cycle


def to_json_values(item: Any) -> Any:
    """Returns an object as JSON values: the fields of an object become a dict, bytes become base64."""
    if item is None or isinstance(item, str | int | float):
        return item
    if isinstance(item, Mapping):
        return {key: to_json_values(value) for key, value in item.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(item, bytes | bytearray | memoryview | msgspec.Struct):
        return msgspec.to_builtins(item)
    if hasattr(item, "__dict__") and not isinstance(item, list | tuple | type):
        return to_json_values(vars(item))
    if isinstance(item, Iterable):
        return [to_json_values(value) for value in item]  # pyright: ignore[reportUnknownVariableType]
    raise BadRequest("JSON, or an object of its shape", item)


def as_object(value: Any, step: str = "") -> Object:
    """Returns the value, which must be an object."""
    if not isinstance(value, dict):
        raise BadRequest("an object", value, step)
    return cast("Object", value)


def get_text(source: Object, key: str) -> str:
    """Returns the string under a key; absent and null are empty."""
    return "" if source.get(key) is None else require_text(source, key)


def require_text(source: Object, key: str) -> str:
    """Returns the required string under a key."""
    value = source.get(key)
    if not isinstance(value, str):
        raise BadRequest("a string", value, key)
    return value


def get_choice(source: Object, key: str, known: Mapping[str, T]) -> T:
    """Returns what the string under a key stands for."""
    value = source.get(key)
    if not isinstance(value, str) or value not in known:
        raise BadRequest(f"one of {', '.join(known)}", value, key)
    return known[value]


def get_strings(source: Object, key: str) -> list[str]:
    """The strings in the list under a key; one string is a list of one."""
    value = source.get(key)
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise BadRequest("a string or a list of strings", value, key)
    items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
    for place, item in enumerate(items):
        if not isinstance(item, str):
            raise BadRequest("a string", item).at(place).at(key)
    return list(items)


def get_integer(source: Object, key: str) -> int | None:
    """The integer under a key, also when written as 1.0."""
    value = source.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value % 1:  # NaN and infinity have a rest too
        raise BadRequest("a whole number", value, key)
    return int(value)


def get_number(source: Object, key: str) -> float | None:
    """The number under a key."""
    value = source.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequest("a number", value, key)
    return value


def get_flag(source: Object, key: str) -> bool | None:
    """The boolean under a key."""
    value = source.get(key)
    if value is not None and not isinstance(value, bool):
        raise BadRequest("true or false", value, key)
    return value


def get_object(source: Object, key: str) -> Object:
    """The object under a key; absent and null are empty."""
    value = source.get(key)
    return {} if value is None else as_object(value, key)


def read_object(source: Object, key: str, read: Callable[[Object], T]) -> T:
    """Calls `read` with the required object under a key. Its errors get the key as path."""
    try:
        return read(as_object(source.get(key)))
    except BadRequest as error:
        raise error.at(key) from None


def read_optional(source: Object, key: str, read: Callable[[Object], T]) -> T | None:
    """Returns the same; None if the key is absent or null."""
    return None if source.get(key) is None else read_object(source, key, read)


def read_objects(source: Object, key: str, read: Callable[[Object], T], *, need: bool = False) -> list[T]:
    """Calls `read` with each object in the list under a key."""
    value = source.get(key)
    if value is None and not need:
        return []
    if not isinstance(value, list):
        raise BadRequest("a list", value, key)
    return read_each(value, read, key)  # pyright: ignore[reportUnknownArgumentType]


def read_each(items: Iterable[Any], read: Callable[[Object], T], key: str) -> list[T]:
    """Calls `read` with each object. Its errors get the key and the position as path."""
    made: list[T] = []
    try:
        for item in items:
            if not isinstance(item, dict):
                raise BadRequest("an object", item)  # noqa: TRY301 — it gets its path below, like any other
            made.append(read(item))  # pyright: ignore[reportUnknownArgumentType]
    except BadRequest as error:
        raise error.at(len(made)).at(key) from None
    return made


_SETTING_READERS: dict[str, Callable[[Object, str], Any]] = {
    **dict.fromkeys("max_output top_k seed choices top_logprobs".split(), get_integer),
    **dict.fromkeys("temperature top_p frequency_penalty presence_penalty".split(), get_number),
    **dict.fromkeys("logprobs parallel_calls thoughts store".split(), get_flag),
    "stop": get_strings,
}


def read_settings(source: Object, names: Mapping[str, str]) -> Object:
    """Returns fields of `Settings` by name. `names` maps a key of the source to the name of such a field."""
    return {name: _SETTING_READERS[name](source, key) for key, name in names.items()}


def split_results(parts: list[rq.AnyPart]) -> tuple[list[rq.AnyPart], list[rq.AnyPart], list[int] | None]:
    """Splits a user message into tool results and other parts. Returns also the positions of the other parts, unless
    they follow the results.
    """
    results: list[rq.AnyPart] = [part for part in parts if type(part) is rq.Result]
    if len(results) == len(parts):
        return results, [], None
    positions = [position for position, part in enumerate(parts) if type(part) is not rq.Result]
    others = [parts[position] for position in positions]
    return results, others, positions if positions[0] < len(results) else None


def unknown_fields(source: Object, known: AbstractSet[str]) -> Object:
    """Returns the fields that a reader does not know."""
    return {key: value for key, value in source.items() if key not in known}


def empty_fields(source: Object, known: AbstractSet[str]) -> Object:
    """Returns known fields that are null or empty, which canonical values do not distinguish."""
    return {
        key: value for key, value in source.items() if not value and key in known and value is not False and value != 0
    }


def build_extra(protocol: str, fields: Object, **spelled: Any) -> Extra | None:
    """Returns extra data of a protocol: unknown fields, and under `_` marks of how something was spelled."""
    marks = {key: value for key, value in spelled.items() if value}
    if marks:
        return {protocol: {**fields, "_": marks}}
    return {protocol: fields} if fields else None


def add_marks(extra: Extra | None, protocol: str, **marks: Any) -> Extra:
    """Returns a protocol's extra data with more marks of how something was written."""
    own = (extra or {}).get(protocol, {})
    return {protocol: {**own, "_": {**own.get("_", {}), **marks}}}


def read_function_tool(tool: Object, protocol: str, **marks: Any) -> rq.Tool:
    """Reads a tool of the form `{"type": "function", "function": {…}}`. A tool of another type is kept unchanged."""
    if tool.get("type", "function") != "function":
        return rq.Tool(str(tool.get("name") or tool.get("type")), kind="unknown", extra={protocol: {"tool": tool}})

    def read(function: Object) -> rq.Tool:
        schema = get_object(function, "parameters") if function.get("parameters") is not None else None
        grammar = None if schema is None else parse_free_text_schema(schema)
        unknown, beside = unknown_fields(function, _FUNCTION), unknown_fields(tool, {"type", "function"})
        fields = {**unknown, **({"beside": beside} if beside else {})}
        extra = build_extra(protocol, fields, also=empty_fields(function, _FUNCTION), **marks)
        name, description = require_text(function, "name"), get_text(function, "description")
        if grammar is not None:
            return rq.Tool(name, description, grammar or None, kind="custom", extra=extra)
        return rq.Tool(name, description, schema, extra=extra)

    return read_object(tool, "function", read)


# fields of providers' state and their types; clients may send others, which are ignored
PROVIDER_STATE: dict[str, type] = {
    "caller": dict, "encrypted_content": str, "id": str, "is_error": bool, "minted": bool, "namespace": str,
    "reasoning_details": list, "redacted": str, "redactedContent": str, "server_name": str, "signature": str,
    "thought": bool, "thoughtSignature": str, "toolType": str, "tool_use_id": str, "type": str,
}  # fmt: skip


def pick_provider_state(given: Object) -> Extra:
    """Returns the extra data of a client that is known to be state of a provider, by protocol."""
    return {protocol: state for protocol, fields in given.items() if (state := _known_state(lenient_object(fields)))}


def _known_state(fields: Object) -> Object:
    kinds = PROVIDER_STATE
    return {key: value for key, value in fields.items() if key in kinds and isinstance(value, kinds[key])}


class ResultMatcher:
    """Finds the calls of results without ids: by name and in order, among the calls of the last round.

    Gets every call and result in their order. A minted id was made up by the reader.
    """

    def __init__(self) -> None:
        self._open: set[str] = set()  # calls without a result
        self._round: dict[tuple[str, bool], deque[str]] = {}  # by name or under none; all, and minted ones alone

    def begin(self) -> None:
        """Begins another round of calls: open calls of earlier rounds can only be answered by their id."""
        self._round = {}

    def call(self, given: str, name: str, minted: str) -> str:
        """Adds a call and returns its id."""
        id = given or minted  # noqa: A001 — as the part calls it
        self._open.add(id)
        for row in (name, ""):
            self._round.setdefault((row, False), deque()).append(id)
            if not given:
                self._round.setdefault((row, True), deque()).append(id)
        return id

    def result(self, given: str, name: str) -> str:
        """Returns the id of the call that a result answers, or an empty string."""
        if given in self._open:
            self._open.remove(given)
            return given
        row = self._round.get((name, bool(given)))
        while row:
            id = row.popleft()  # noqa: A001 — as the part calls it
            if id in self._open:
                self._open.remove(id)
                return id
        return ""
