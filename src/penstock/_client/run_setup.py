"""Creates a run from the arguments of `client.run`: tools of any kind, messages of any kind, the type of the output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast, get_args, get_origin

from penstock._aisdk import UI_STREAM
from penstock._client.parameter_values import check_value
from penstock._client.run import Run, RunPlan
from penstock._client.structured_output import OutputPlan, OutputType
from penstock._client.value_types import OutputOf
from penstock._messages.request_codecs import reader
from penstock._providers.output_formats import output_format
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock import request as rq
    from penstock._client.results import Stream
    from penstock._client.run import StopWhen
    from penstock._client.run_tools import Approve, ToolSet
    from penstock._client.spans import ToolSpanFactory
    from penstock._engines.model_resolution import Target


class RunSettings(TypedDict):
    """The arguments of `client.run` beside model, messages and output."""

    tools: Sequence[Any]
    max_steps: int
    stop_when: StopWhen
    approve: Approve | None
    parallel: int
    tool_timeout: float | None
    retries: int
    tool_span: ToolSpanFactory


def create_run(
    request: rq.Request,
    send: Callable[[rq.Request], Stream],
    resolve: Callable[[str], Sequence[Target]],
    output: Any,
    **settings: Unpack[RunSettings],
) -> Run[Any]:
    """Returns a run. `send` opens one call of the model; `resolve` returns the targets of a model's name."""
    _check_settings(settings)
    if get_origin(output) is OutputOf:
        (output,) = get_args(output)
    kind = None if output is None or output is str else OutputType(output)

    def plan_output(found: ToolSet) -> OutputPlan | None:
        if kind is None:
            return None
        target = resolve(request.model)[0]
        row = output_format(target.provider, target.model)
        return OutputPlan(kind, row, target.model, tools={tool.name: tool for tool in found.definitions})

    return Run(RunPlan(request=request, send=send, output=plan_output, **settings))


def _check_settings(settings: RunSettings) -> None:
    for name, least in (("max_steps", 1), ("parallel", 1), ("retries", 0)):
        number: Any = settings.get(name)
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise InputError(f"{name}: expected a whole number of at least {least}, found {number!r}")
    check_value("tool_timeout", settings["tool_timeout"])
    approve: Any = settings["approve"]
    if approve is not None and not callable(approve):
        raise InputError(f"approve: expected a function, found {approve!r}")
    if not callable(settings["stop_when"]) and not _are_names(settings["stop_when"]):
        raise InputError(f"stop_when: expected a tool's name, several, or a function, found {settings['stop_when']!r}")


def _are_names(value: Any) -> bool:
    if not isinstance(value, list | tuple):
        return isinstance(value, str)
    return all(isinstance(one, str) for one in cast("list[Any]", value))


def split_tools(tools: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Returns the tools as JSON, which are part of the request, and all others."""
    if not isinstance(tools, list | tuple):
        raise InputError(f"tools: expected a list, found {type(tools).__name__}")
    described: list[Any] = [tool for tool in tools if isinstance(tool, Mapping)]
    return described, [tool for tool in tools if not isinstance(tool, Mapping)]


def convert_ui_messages(messages: Any) -> Any:
    """Returns the messages with those of `useChat` as canonical ones; all others unchanged.

    A page is not trusted with the system prompt: its system messages are refused.
    """
    if not isinstance(messages, list | tuple):
        return messages
    rows: list[Any] = []
    for message in cast("list[Any]", messages):
        if isinstance(message, Mapping) and "parts" in message and "content" not in message:
            if cast("Mapping[str, Any]", message).get("role") == "system":
                raise InputError("messages: a page may not send system messages; read_ui_messages(…, system=True) can")
            rows += reader(UI_STREAM)({"messages": [message]}).messages
        else:
            rows.append(message)
    return rows
