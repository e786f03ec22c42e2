"""OpenAI Responses and Open Responses as sent: a few shapes, and the many event types that have them.

Only what is read is declared. Items stay plain objects: there are thirty kinds, and most are echoed as they were.
Older and newer spellings of an event share its shape; `SHAPES` gives each spelling its own tagged Struct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Union

import msgspec
from msgspec import Struct, field

from penstock import lenient_fields as lenient
from penstock.jsontext import as_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.events import By, Extra


Item: TypeAlias = dict[str, Any]

NAME = "responses"


def own(**fields: Any) -> Extra | None:
    """Extra data of this protocol, without the fields that say nothing."""
    said = {key: value for key, value in fields.items() if value not in (None, "")}
    return {NAME: said} if said else None


class Response(Struct):
    """The response itself: a snapshot in lifecycle events, the whole body of a non-stream answer."""

    id: str | None = None
    model: str | None = None
    created_at: float | None = None
    completed_at: int | float | None = None
    status: str | None = None
    output: list[dict[str, Any]] | None = None
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None


class Lifecycle(Struct):
    response: Response = field(default_factory=Response)
    copilot_usage: dict[str, Any] | None = None


class ItemEvent(Struct):
    output_index: int | None = None
    item: dict[str, Any] | None = None


class Place(Struct, gc=False):
    """Where an event belongs. Any of these may be missing, and an id may differ from the one announced."""

    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None


class PartEvent(Place, gc=False):
    part: dict[str, Any] | None = None


class TextPiece(Place, gc=False):
    delta: str = ""
    logprobs: list[Any] | None = None


class Piece(Place, gc=False):
    delta: str | dict[str, Any] | None = None  # an object in the first drafts of the reasoning events


class Whole(Place, gc=False):
    """All of something that was streamed in pieces; each kind has its own word for it."""

    text: str | None = None
    refusal: str | None = None
    arguments: str | dict[str, Any] | None = None
    name: str | None = None  # of the tool
    call_id: str | None = None
    input: str | None = None
    code: str | None = None
    diff: str | None = None


class Note(Place, gc=False):
    annotation: dict[str, Any] | None = None


class Image(Place, gc=False):
    partial_image_b64: str | None = None
    partial_image_index: int | None = None


class Command(Place, gc=False):
    command: str | None = None
    command_index: int | None = None


class CommandOutput(Place, gc=False):
    output: list[Any] | None = None


class Error(Struct):
    """A fault: flat as OpenAI documents it, nested as it is sent, or the body of a failed request."""

    code: str | int | None = None
    message: str | None = None
    param: str | None = None
    status: int | None = None
    error: dict[str, Any] | str | None = None
    headers: dict[str, Any] | None = None


class Nothing(Struct, gc=False):
    """Signs of life and of progress: the item they speak of says all of it when it is done."""


class Usage(Struct, gc=False):
    """Token counts; `input_tokens` is the whole prompt."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: Details | None = None
    output_tokens_details: Details | None = None


class Details(Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


SPELLINGS: dict[type[Struct], tuple[str, ...]] = {
    Lifecycle: (
        "response", "response.created", "response.queued", "response.in_progress", "response.completed",
        "response.failed", "response.incomplete", "response.cancelled", "response.canceled",
    ),
    ItemEvent: ("response.output_item.added", "response.output_item.done"),
    PartEvent: (
        "response.content_part.added", "response.content_part.done",
        "response.reasoning_summary_part.added", "response.reasoning_summary_part.done",
    ),
    TextPiece: ("response.output_text.delta",),
    Piece: (
        "response.refusal.delta", "response.reasoning.delta", "response.reasoning_text.delta",
        "response.reasoning_summary.delta", "response.reasoning_summary_text.delta",
        "response.function_call_arguments.delta", "response.custom_tool_call_input.delta",
        "response.mcp_call_arguments.delta", "response.mcp_call.arguments.delta",
        "response.code_interpreter_call_code.delta", "response.code_interpreter_call.code.delta",
        "response.audio.delta", "response.audio.transcript.delta",
    ),
    Whole: (
        "response.output_text.done", "response.refusal.done", "response.reasoning.done",
        "response.reasoning_text.done", "response.reasoning_summary.done", "response.reasoning_summary_text.done",
        "response.function_call_arguments.done", "response.custom_tool_call_input.done",
        "response.mcp_call_arguments.done", "response.mcp_call.arguments.done",
        "response.code_interpreter_call_code.done", "response.code_interpreter_call.code.done",
        "response.apply_patch_call_operation_diff.done", "response.audio.done", "response.audio.transcript.done",
    ),
    Note: ("response.output_text.annotation.added", "response.output_text_annotation.added"),
    Image: ("response.image_generation_call.partial_image",),
    Command: ("response.shell_call_command.done",),
    CommandOutput: ("response.shell_call_output_content.done",),
    Error: ("error",),
    Nothing: (
        "response.web_search_call.in_progress", "response.web_search_call.searching",
        "response.web_search_call.completed", "response.web_search_call.failed",
        "response.file_search_call.in_progress", "response.file_search_call.searching",
        "response.file_search_call.completed", "response.file_search_call.failed",
        "response.code_interpreter_call.in_progress", "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed", "response.code_interpreter_call.failed",
        "response.image_generation_call.in_progress", "response.image_generation_call.generating",
        "response.image_generation_call.completed", "response.image_generation_call.failed",
        "response.mcp_call.in_progress", "response.mcp_call.completed", "response.mcp_call.failed",
        "response.mcp_list_tools.in_progress", "response.mcp_list_tools.completed",
        "response.mcp_list_tools.failed", "response.compaction.compacting",
        "response.shell_call_command.added", "response.shell_call_command.delta",
        "response.shell_call_output_content.delta", "response.apply_patch_call_operation_diff.delta",
        "keepalive", "ping", "response.rate_limits.updated", "codex.rate_limits",
    ),
}  # fmt: skip


def _tagged(tag: str, base: type[Struct]) -> type[Struct]:
    name = "".join(word.capitalize() for word in tag.replace("_", ".").split("."))
    return msgspec.defstruct(name, [], bases=(base,), tag_field="type", tag=tag, module=__name__)


def dispatch(handlers: Mapping[str, Any]) -> dict[type, Any]:
    """A table by type name as one by payload type; every spelling has its handler, or this raises."""
    return {shape: handlers[tag] for tag, shape in SHAPES.items()}


SHAPES: dict[str, type[Struct]] = {tag: _tagged(tag, base) for base, tags in SPELLINGS.items() for tag in tags}
Payload: Any = Union[tuple(SHAPES.values())]  # noqa: UP007  (made of a table: there is no other way to write it)


def as_text(value: Any) -> str:
    """Input as text: a string is its own, anything else is told in JSON."""
    return value if isinstance(value, str) else "" if value is None else as_json(value)


class Tool(NamedTuple):
    """A built-in: its name, who runs it, and which fields of its item are input and answer (one: its bare value)."""

    name: str
    by: By = "provider"
    input: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()


EARLY: dict[str, Tool] = {  # run by the provider: a call and its answer in one item
    "web_search_call": Tool("web_search", input=("action",), answer=("status", "sources")),
    "file_search_call": Tool("file_search", input=("queries",), answer=("results",)),
    "code_interpreter_call": Tool("code_interpreter", input=("code", "container_id"), answer=("outputs",)),
    "image_generation_call": Tool(
        "image_generation", input=("prompt",),
        answer=("status", "revised_prompt", "size", "quality", "background", "output_format", "error"),
    ),
    "mcp_list_tools": Tool("mcp_list_tools", input=("server_label",), answer=("tools",)),
}  # fmt: skip
LATE: dict[str, Tool] = {  # a call alone, known when it is done
    "local_shell_call": Tool("local_shell", "client", ("action",)),
    "shell_call": Tool("shell", "client", ("action",)),
    "apply_patch_call": Tool("apply_patch", "client", ("operation",)),
    "computer_call": Tool("computer", "client", ("action", "actions", "pending_safety_checks")),
    "tool_search_call": Tool("tool_search", "client", ("arguments",)),
    "x_search_call": Tool("x_search", "provider", ("arguments",)),
    "program": Tool("program", "provider", ("code",)),
}
ANSWERS: dict[str, Tool] = {  # an answer alone
    "shell_call_output": Tool("shell", answer=("output",)),
    "local_shell_call_output": Tool("local_shell", answer=("output",)),
    "apply_patch_call_output": Tool("apply_patch", answer=("output",)),
    "computer_call_output": Tool("computer", answer=("output",)),
    "function_call_output": Tool("", answer=("output",)),
    "custom_tool_call_output": Tool("", answer=("output",)),
    "tool_search_output": Tool("tool_search", answer=("tools",)),
    "program_output": Tool("program", answer=("result",)),
}
FAILED = ("failed", "incomplete")


def runner(item: Item, tool: Tool) -> By:
    """Who runs a call that either side might: a container or `execution: server` is the provider's."""
    if lenient.get_text(item, "execution") == "server" or lenient.get_text(
        lenient.get_object(item, "environment"), "type"
    ).startswith("container"):
        return "provider"
    return tool.by


def given(item: Item, tool: Tool) -> str:
    """A built-in's input, as JSON."""
    if tool.input == ("arguments",):
        return as_text(item.get("arguments") or {})
    said = {
        **item,
        "action": {key: value for key, value in lenient.get_object(item, "action").items() if key != "sources"},
    }
    return as_json({key: said[key] for key in tool.input if item.get(key) not in (None, [])})


def answered(item: Item, tool: Tool) -> Any:
    """What a built-in gave."""
    if len(tool.answer) == 1:
        return item.get(tool.answer[0])
    found = {**item, "sources": lenient.get_object(item, "action").get("sources")}
    return {key: found[key] for key in tool.answer if found.get(key) is not None}
