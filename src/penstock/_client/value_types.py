"""JSON Schemas of Python types, and JSON values that are validated and converted to a type.

msgspec handles dataclasses, Structs, TypedDicts, enums and the standard types. Types that hold a pydantic model are
left to pydantic, which is imported only then.
"""

from __future__ import annotations

import inspect
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeAlias, TypeVar, cast, get_args, get_origin

import msgspec

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

Schema: TypeAlias = dict[str, Any]
DEFS = "#/$defs/{name}"
_PYDANTIC_DEFS = "#/$defs/{model}"
_PATH = re.compile(r" - at `(?:key in )?\$?([^`]*)`$")
_MESSAGE_CHARACTERS = 500  # characters of a foreign error message
_TYPE_DEPTH = 8


class InvalidValue(Exception):  # noqa: N818 — it says what is wrong with a value; it is caught inside the package
    """A value does not fit a type. The message names each place that is wrong."""


T = TypeVar("T")


class OutputOf(Generic[T]):
    """A type that is not a class, for `output=`: `OutputOf[Literal["yes", "no"]]`, `OutputOf[int | None]`.

    Type checkers know `run.output` then. They cannot tell the type of a bare `Literal[…]` or union: it is `Any`.
    """


class ValueType:
    """A Python type: its JSON Schema, and the conversion of JSON values to it. `where` is named in errors."""

    def __init__(self, annotation: Any, where: str) -> None:
        self._type = Any if annotation is inspect.Parameter.empty else annotation
        self._adapter: Any = _pydantic_adapter(self._type, where) if _mentions_pydantic(self._type) else None
        self.schema: Schema = self._build_schema(where)

    def convert(self, value: Any, place: str = "") -> Any:
        """Returns the value as the type. Raises `InvalidValue` with the places that are wrong, below `place`."""
        if self._adapter is not None:
            return self._validate_with_pydantic(value, place)
        try:
            return msgspec.convert(value, self._type)
        except msgspec.ValidationError as error:
            message = str(error)
        try:  # models write "3" for 3: text that means the value is accepted
            return msgspec.convert(value, self._type, strict=False)
        except msgspec.ValidationError:
            raise InvalidValue(_with_place(message, place)) from None

    def _validate_with_pydantic(self, value: Any, place: str) -> Any:
        try:
            return self._adapter.validate_python(value)
        except ValueError as error:
            rows: list[Any] = getattr(error, "errors", list)()
            found = [f"{_join_path(place, row['loc'])}: {row['msg']}" for row in rows]
            raise InvalidValue("; ".join(found) or f"{place}: {error}"[:_MESSAGE_CHARACTERS]) from None

    def _build_schema(self, where: str) -> Schema:
        if self._adapter is None:
            try:
                (schema,), components = msgspec.json.schema_components([self._type], ref_template=DEFS)
            except (TypeError, NameError) as error:
                self._adapter = _pydantic_adapter(self._type, where) if "pydantic" in sys.modules else None
                if self._adapter is None:
                    raise InputError(f"{where}: no JSON Schema is known for {self._type!r}: {error}") from None
            else:
                return {**_inline_root(schema, components), **({"$defs": components} if components else {})}
        try:
            return dict(self._adapter.json_schema(ref_template=_PYDANTIC_DEFS))
        except Exception as error:
            raise InputError(f"{where}: pydantic has no JSON Schema for {self._type!r}: {error}") from error


def as_list(value: Any) -> list[Any]:
    """Returns the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def split_annotation(annotation: Any) -> tuple[Any, str]:
    """Returns a parameter's type without its description, and the description: `Annotated[int, "how many"]`."""
    if get_origin(annotation) is not Annotated:
        return annotation, ""
    inner, *metadata = get_args(annotation)
    texts = [one if isinstance(one, str) else getattr(one, "documentation", None) for one in metadata]
    kept = [one for one, text in zip(metadata, texts, strict=True) if not isinstance(text, str)]
    text = next((text for text in texts if isinstance(text, str)), "")
    return (Annotated[(inner, *kept)] if kept else inner), text


def is_pydantic_model(kind: Any) -> bool:
    """True for a class that pydantic validates. Imports nothing."""
    return isinstance(kind, type) and "__pydantic_validator__" in dir(kind)


def is_data_class(kind: Any) -> bool:
    """True for a class that only holds data: a pydantic model, a dataclass, a Struct, a TypedDict."""
    marks = ("__required_keys__", "__struct_fields__", "__dataclass_fields__")
    return is_pydantic_model(kind) or (isinstance(kind, type) and any(name in dir(kind) for name in marks))


def _mentions_pydantic(annotation: Any) -> bool:
    """True if a type is, or holds, a pydantic model or a pydantic constraint."""
    return any(
        is_pydantic_model(one) or type(one).__module__.partition(".")[0] in ("pydantic", "annotated_types")
        for one in _type_tree(annotation, _TYPE_DEPTH)
    )


def _type_tree(annotation: Any, depth: int) -> Iterator[Any]:
    yield annotation
    for one in get_args(annotation) if depth else ():
        yield from _type_tree(one, depth - 1)
    fields: dict[str, Any] = getattr(annotation, "__annotations__", {}) if is_data_class(annotation) else {}
    for one in fields.values() if depth else ():
        yield from _type_tree(one, depth - 1)


def _pydantic_adapter(annotation: Any, where: str) -> Any:
    try:
        from pydantic import TypeAdapter  # noqa: PLC0415 — optional, and slow to import
    except ImportError:
        return None
    try:
        return TypeAdapter(annotation)
    except (TypeError, RuntimeError) as error:  # pydantic's errors about types
        reason = str(error).partition("\n")[0]
        raise InputError(f"{where}: no JSON Schema is known for {annotation!r}: {reason}") from None


def _inline_root(schema: Schema, components: dict[str, Any]) -> Schema:
    """Replaces a reference at the root by what it refers to: vendors want an object there."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if name not in components:
        return schema
    is_recursive = _refers_to(name, components)
    root: Schema = components[name] if is_recursive else components.pop(name)
    return {**root, **{key: value for key, value in schema.items() if key != "$ref"}}


def _refers_to(name: str, value: Any) -> bool:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return fields.get("$ref") == DEFS.format(name=name) or any(_refers_to(name, one) for one in fields.values())
    return any(_refers_to(name, one) for one in as_list(value))


def _with_place(message: str, place: str) -> str:
    """Moves the path of msgspec's message to its front."""
    found = _PATH.search(message)
    inner = found[1] if found else ""
    path = place + inner if place else inner.lstrip(".")
    text = message[: found.start()] if found else message
    return f"{path}: {text}" if path else text


def _join_path(place: str, steps: tuple[Any, ...]) -> str:
    path = place
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path or "the value"
