"""Tools from Python functions: the schema from signature and docstring, arguments that are validated, results as parts.

A function's signature gives names, types and defaults; its docstring (Google, NumPy or Sphinx style) or `Annotated`
gives the descriptions. Functions that are not async run in a thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import operator
import sys
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from math import isfinite
from traceback import format_exception_only
from types import FunctionType, SimpleNamespace
from typing import Any, Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar, cast, get_type_hints, overload
from weakref import WeakKeyDictionary

import msgspec

from penstock import request as rq
from penstock._client.docstrings import read_docstring
from penstock._client.parameter_values import SECONDS, check_value, check_values
from penstock._client.value_types import InvalidValue, Schema, ValueType, is_pydantic_model, split_annotation
from penstock._input_limits import NestingError, decode_bounded
from penstock._lenient_json import replace_surrogates
from penstock.errors import InputError, ToolError

P = ParamSpec("P")
R = TypeVar("R")
NeedsApproval: TypeAlias = bool | Callable[[Mapping[str, Any]], bool]
_PART_TYPES = (rq.Text, rq.Json, rq.File, rq.Source, rq.Opaque)
_KINDS = inspect.Parameter
MAX_ITEMS = 10_000  # that a tool may yield


class FunctionTool(Generic[P, R]):
    """A Python function as a tool. It can still be called like the function.

    `timeout`: seconds that a call may take. `needs_approval`: True, or a function of the arguments that returns it.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str = "",
        description: str = "",
        timeout: float | None = None,
        needs_approval: NeedsApproval = False,
    ) -> None:
        if not callable(function):
            raise InputError(f"tool: expected a function, found {type(function).__name__}")
        check_values({"name": name, "description": description, "needs_approval": needs_approval})
        check_value("timeout", timeout, SECONDS)
        self.function = function
        self.name: str = name or _function_name(function)
        self.timeout = timeout
        self.needs_approval = needs_approval
        described = describe_function(function, self.name)
        self._parameters, text = described.parameters, description or described.text
        self.definition: rq.Tool = rq.Tool(self.name, text, self._parameters.schema, "function")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<FunctionTool {self.name}>"

    def read_arguments(self, json: str) -> dict[str, Any]:
        """Returns the arguments of a call as the function takes them. Raises `InvalidValue`."""
        return self._parameters.convert(read_json_object(json))

    async def run(self, arguments: Mapping[str, Any]) -> list[rq.ResultPart]:
        """Calls the function with arguments that were read. Returns its result as parts."""
        args, kwargs = self._parameters.bind(arguments)
        function: Any = self.function
        if _is_async(function):
            result: Any = await function(*args, **kwargs)
        else:
            result = await _call_in_thread(partial(_call_and_list, function, args, kwargs))
            if inspect.isawaitable(result):
                result = await result
        return write_result(await _list_async(result) if isinstance(result, AsyncIterator) else result)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *, name: str = "", description: str = "", timeout: float | None = None, needs_approval: NeedsApproval = False
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    timeout: float | None = None,
    needs_approval: NeedsApproval = False,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Makes a function a tool with settings: `@tool(timeout=10, needs_approval=True)`. `@tool` alone works, too."""

    def decorate(one: Callable[P, R]) -> FunctionTool[P, R]:
        return FunctionTool(one, name=name, description=description, timeout=timeout, needs_approval=needs_approval)

    return decorate if function is None else decorate(function)


class FunctionParameters:
    """The parameters of a function: their JSON Schema, and the conversion of arguments."""

    def __init__(
        self, function: Callable[..., Any], name: str, hints: Mapping[str, Any], descriptions: Mapping[str, str]
    ) -> None:
        self._name = name
        self._signature = _signature(function, name)
        self._types: dict[str, ValueType] = {}
        self._open = False  # takes any further keyword
        self.schema: Schema = {"type": "object", "properties": {}}
        required: list[str] = []
        for parameter in self._signature.parameters.values():
            if parameter.kind is _KINDS.VAR_KEYWORD:
                self._open = True
            elif parameter.kind is _KINDS.VAR_POSITIONAL:
                raise InputError(f"tool {name!r}: *{parameter.name} cannot be described; name each parameter")
            else:
                self._add(parameter, hints.get(parameter.name, Any), descriptions)
                if parameter.default is _KINDS.empty:
                    required.append(parameter.name)
        if required:
            self.schema["required"] = required
        self.schema["additionalProperties"] = self._open

    def _add(self, parameter: inspect.Parameter, annotation: Any, descriptions: Mapping[str, str]) -> None:
        kind, text = split_annotation(annotation)
        found = self._types[parameter.name] = ValueType(kind, f"tool {self._name!r}, parameter {parameter.name!r}")
        schema = dict(found.schema)
        for name, definition in schema.pop("$defs", {}).items():
            known = self.schema.setdefault("$defs", {}).setdefault(name, definition)
            if known != definition:
                raise InputError(f"tool {self._name!r}: two types have the name {name!r}; rename one")
        text = text or descriptions.get(parameter.name, "")
        if text:
            schema["description"] = text
        if parameter.default is not _KINDS.empty and _is_json_value(parameter.default):
            schema["default"] = msgspec.to_builtins(parameter.default)
        self.schema["properties"][parameter.name] = schema

    def convert(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments as the function's types. Raises `InvalidValue` that names every wrong place."""
        converted: dict[str, Any] = {}
        wrong: list[str] = []
        for name, value in arguments.items():
            kind = self._types.get(name)
            if kind is None and not self._open:
                wrong.append(f"{name}: there is no such argument")
                continue
            try:
                converted[name] = value if kind is None else kind.convert(value, name)
            except InvalidValue as error:
                wrong.append(str(error))
        missing = [name for name in self.schema.get("required", ()) if name not in arguments]
        wrong += [f"{name}: it is required, and missing" for name in missing]
        if wrong:
            raise InvalidValue("; ".join(wrong))
        return converted

    def bind(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Returns positional and keyword arguments."""
        rest = dict(arguments)
        positional: list[Any] = []
        for parameter in self._signature.parameters.values():
            if parameter.kind is _KINDS.POSITIONAL_ONLY:
                if parameter.name not in rest:
                    break
                positional.append(rest.pop(parameter.name))
        return positional, rest


class ToolDescription(NamedTuple):
    """What a function's docstring and signature say, and what they were read from."""

    source: tuple[Any, ...]
    hints: dict[str, Any]
    text: str
    parameters: FunctionParameters


_MAX_DESCRIPTIONS = 1000
_DESCRIPTIONS: WeakKeyDictionary[FunctionType, ToolDescription] = WeakKeyDictionary()


def describe_function(function: Callable[..., Any], name: str) -> ToolDescription:
    """Returns the description of a function. A later run with the same function finds it made."""
    source, hints = _description_source(function, name), _type_hints(function, name)
    known = _DESCRIPTIONS.get(cast("FunctionType", function)) if source else None
    if known is not None and known.hints == hints and all(map(operator.is_, known.source, source)):
        return known
    documented = read_docstring(inspect.getdoc(function))
    parameters = FunctionParameters(function, name, hints, documented.parameters)
    described = ToolDescription(source, hints, documented.text, parameters)
    if len(_DESCRIPTIONS) >= _MAX_DESCRIPTIONS:
        _DESCRIPTIONS.clear()
    if source:
        _DESCRIPTIONS[cast("FunctionType", function)] = described
    return described


def _description_source(function: Any, name: str) -> tuple[Any, ...]:
    """Returns the objects that a description is read from; nothing if it cannot be kept.

    A default that refers to the function would keep it alive. `functools.wraps` changes signatures by attributes.
    """
    if not isinstance(function, FunctionType) or vars(function):
        return ()
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if not all(one is None or isinstance(one, str | int | float) for one in defaults):
        return ()
    return (sys.intern(name), function.__code__, function.__doc__, function.__defaults__, *defaults)


def read_json_object(json: str) -> dict[str, Any]:
    """Returns the input of a call. Raises `InvalidValue` if it is not a JSON object."""
    try:
        value: Any = decode_bounded(json.encode()) if json.strip() else {}
    except (msgspec.DecodeError, NestingError, UnicodeError, RecursionError) as error:
        raise InvalidValue(f"the arguments are not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidValue("the arguments are not a JSON object")
    return cast("dict[str, Any]", value)


def write_result(value: Any) -> list[rq.ResultPart]:
    """Returns what a function returned as parts: text, JSON, files. Parts of `penstock.request` stay as they are.

    Raises `ToolError` if the value has no JSON.
    """
    if isinstance(value, str):
        return [rq.Text(replace_surrogates(value))]
    if isinstance(value, _PART_TYPES):
        return [value]
    if isinstance(value, bytes | bytearray):
        return [rq.File("application/octet-stream", data=b64encode(value).decode())]
    if isinstance(value, list | tuple):
        rows: list[Any] = list(cast("Any", value))
        if any(isinstance(one, (*_PART_TYPES, bytes)) for one in rows):
            return [part for one in rows for part in write_result(one)]
    return [rq.Json(_encode_result(value))]


def _encode_result(value: Any) -> str:
    """Returns the JSON of a result. NaN and Infinity are refused: msgspec writes null for them."""
    try:
        data = msgspec.json.encode(value, enc_hook=_to_json_value)
        is_finite = b"null" not in data or _is_finite(msgspec.to_builtins(value, enc_hook=_to_json_value))
    except RecursionError:
        raise ToolError("The result of the tool has no JSON: it is nested too deep, or holds itself.") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise ToolError(f"The result of the tool has no JSON: {error}") from None
    if not is_finite:
        raise ToolError("The result of the tool has no JSON: it holds NaN or Infinity.")
    return data.decode()


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    rows: Any = value
    if isinstance(value, dict):
        return all(map(_is_finite, rows.values()))
    return not isinstance(value, list | tuple) or all(map(_is_finite, rows))


def _call_and_list(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Calls a function. What a generator or another iterator yields becomes a list, in the same thread."""
    result = function(*args, **kwargs)
    return _list_items(result) if isinstance(result, Iterator) else result


def _list_items(items: Any) -> list[Any]:
    return _check_length(list(islice(items, MAX_ITEMS + 1)))


async def _list_async(items: Any) -> list[Any]:
    found: list[Any] = []
    try:
        async for item in items:
            found.append(item)
            if len(found) > MAX_ITEMS:
                break
    finally:
        if hasattr(items, "aclose"):
            await items.aclose()
    return _check_length(found)


def _check_length(items: list[Any]) -> list[Any]:
    if len(items) > MAX_ITEMS:
        raise ToolError(f"The tool yielded more than {MAX_ITEMS} items; it must yield fewer.")
    return items


async def _call_in_thread(function: Callable[[], Any]) -> Any:
    """Calls a function in a thread of its own.

    The threads of `asyncio.to_thread` are few and shared: tools that hang would keep them from everybody, and the
    program would wait for them at its end. Whatever the function raises is an error of the tool.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def set_outcome(result: Any, error: BaseException | None) -> None:
        if future.done():  # nobody waits any more
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            future.set_exception(error)
        else:  # a future cannot hold StopIteration, and SystemExit must not end the program
            future.set_exception(RuntimeError("".join(format_exception_only(error)).strip()))

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(function)
        except BaseException as caught:  # noqa: BLE001 — the thread must always answer
            error = caught
        with suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(set_outcome, result, error)

    threading.Thread(target=work, name="penstock-tool", daemon=True).start()
    return await future


def _to_json_value(value: Any) -> Any:
    """Returns an object of another library, or of the program, as msgspec can write it."""
    given: Any = value
    kind: Any = value.__class__
    if is_pydantic_model(kind):
        return value.model_dump(mode="json")
    if callable(getattr(kind, "tolist", None)):  # arrays and numbers of numpy and its relatives
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(given)
    if kind.__str__ is not object.__str__ and not isinstance(value, BaseException):  # a path, an address, a fraction
        return str(value)
    if isinstance(value, Iterable):
        return _list_items(given)
    raise TypeError(f"found an object of type {kind.__name__}; return text, a dict, a list, a dataclass or a model")


def _is_json_value(value: Any) -> bool:
    with suppress(TypeError, ValueError, RecursionError):
        msgspec.json.encode(value)
        return True
    return False


def _is_async(function: Any) -> bool:
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def _function_name(function: Any) -> str:
    inner = getattr(function, "func", function)  # of a partial
    name: str = getattr(inner, "__name__", "") or type(inner).__name__
    if not name.isidentifier():
        raise InputError(f"{function!r} needs a name: tool(name=…)")
    return name


def _signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise InputError(f"tool {name!r}: its signature cannot be read") from None


def _type_hints(function: Any, name: str) -> dict[str, Any]:
    inner = getattr(function, "func", function)
    if not inspect.isroutine(inner):
        inner = inner.__call__
    try:  # without the type of the result, which nobody needs and which may be known to type checkers only
        rows = {one: kind for one, kind in inner.__annotations__.items() if one != "return"}
        names: dict[str, Any] = getattr(inspect.unwrap(inner), "__globals__", {})
        return get_type_hints(SimpleNamespace(__annotations__=rows), names, include_extras=True)
    except AttributeError:  # a function without annotations, written in C
        return {}
    except NameError as error:
        raise InputError(f"tool {name!r}: {error}; types of parameters must be defined in the module") from None
