"""Tools from Python functions: the schema from signature and docstring, arguments that are validated, results as parts.

A function's signature gives names, types and defaults; its docstring (Google, NumPy or Sphinx style) or `Annotated`
gives the descriptions. Functions that are not async run in a thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from traceback import format_exception_only
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, cast, get_type_hints, overload

import msgspec

from penstock import request as rq
from penstock._client.docstrings import read_docstring
from penstock._client.value_types import InvalidValue, Schema, ValueType, is_pydantic_model, split_annotation
from penstock._input_limits import NestingError, decode_bounded
from penstock._lenient_json import replace_surrogates
from penstock.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")
NeedsApproval: TypeAlias = bool | Callable[[Mapping[str, Any]], bool]
_PART_TYPES = (rq.Text, rq.Json, rq.File, rq.Source, rq.Opaque)
_KINDS = inspect.Parameter


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
        self.function = function
        self.name: str = name or _function_name(function)
        self.timeout = timeout
        self.needs_approval = needs_approval
        documented = read_docstring(inspect.getdoc(function))
        self._parameters = FunctionParameters(function, self.name, documented.parameters)
        self.definition: rq.Tool = rq.Tool(
            self.name, description or documented.text, self._parameters.schema, "function"
        )

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
            result = await _call_in_thread(partial(function, *args, **kwargs))
            if inspect.isawaitable(result):
                result = await result
        return write_result(result)


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

    def __init__(self, function: Callable[..., Any], name: str, descriptions: Mapping[str, str]) -> None:
        self._name = name
        self._signature = _signature(function, name)
        self._types: dict[str, ValueType] = {}
        self._open = False  # takes any further keyword
        self.schema: Schema = {"type": "object", "properties": {}}
        required: list[str] = []
        hints = _type_hints(function, name)
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
    """Returns what a function returned as parts: text, JSON, files. Parts of `penstock.request` stay as they are."""
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
    return [rq.Json(msgspec.json.encode(value, enc_hook=_to_json_value).decode())]


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
    if is_pydantic_model(type(value)):
        return value.model_dump(mode="json")
    return str(value)


def _is_json_value(value: Any) -> bool:
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_async(function: Any) -> bool:
    method = type(function).__call__  # of an object with `async def __call__`
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(method)


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
    try:
        return get_type_hints(inner, include_extras=True)
    except NameError as error:
        raise InputError(f"tool {name!r}: {error}; types of parameters must be defined in the module") from None
