"""Wire format of OpenAI Responses and Open Responses: event structs, event types, items of built-in tools.

Only fields that the decoder reads are declared. Items stay plain objects: there are thirty kinds, and most of them are
echoed unchanged. Older and newer spellings of an event share one struct; `STRUCTS` has a tagged subclass for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Union

import msgspec
from msgspec import Struct, field

from penstock import _lenient_fields as lenient
from penstock._jsontext import as_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.events import By, Extra

NAME = "responses"
Item: TypeAlias = dict[str, Any]


def wrap_extra(**fields: Any) -> Extra | None:
    """Returns extra data of this protocol without empty fields; None if nothing is left."""
    filled = {key: value for key, value in fields.items() if value not in (None, "")}
    return {NAME: filled} if filled else None


# ── events ────────────────────────────────────────────────────────────────────────────────────────


class ResponseObject(Struct):
    """The response: a snapshot in lifecycle events, or the body of a non-stream answer."""

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


class LifecycleEvent(Struct):
    response: ResponseObject = field(default_factory=ResponseObject)
    copilot_usage: dict[str, Any] | None = None


class ItemEvent(Struct):
    output_index: int | None = None
    item: dict[str, Any] | None = None


class ItemLocation(Struct, gc=False):
    """The item and part that an event belongs to. Any field may be missing, and ids may change between events."""

    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None


class ContentPartEvent(ItemLocation, gc=False):
    part: dict[str, Any] | None = None


class TextDeltaEvent(ItemLocation, gc=False):
    delta: str = ""
    logprobs: list[Any] | None = None


class DeltaEvent(ItemLocation, gc=False):
    delta: str | dict[str, Any] | None = None  # an object in early drafts of the reasoning events

    def get_text(self) -> str:
        return self.delta if isinstance(self.delta, str) else lenient.get_text(self.delta or {}, "text", "delta")


class DoneEvent(ItemLocation, gc=False):
    """The complete value of something that was streamed. Each event type has its own field for it."""

    text: str | None = None
    refusal: str | None = None
    arguments: str | dict[str, Any] | None = None
    name: str | None = None  # of the tool
    call_id: str | None = None
    input: str | None = None
    code: str | None = None
    diff: str | None = None


class AnnotationEvent(ItemLocation, gc=False):
    annotation: dict[str, Any] | None = None


class PartialImageEvent(ItemLocation, gc=False):
    partial_image_b64: str | None = None
    partial_image_index: int | None = None


class ShellCommandEvent(ItemLocation, gc=False):
    command: str | None = None
    command_index: int | None = None


class ShellOutputEvent(ItemLocation, gc=False):
    output: list[Any] | None = None


class ErrorEvent(Struct):
    """An error: flat as OpenAI documents it, nested as OpenAI sends it, or the body of a failed request."""

    code: str | int | None = None
    message: str | None = None
    param: str | None = None
    status: int | None = None
    error: dict[str, Any] | str | None = None
    headers: dict[str, Any] | None = None


class IgnoredEvent(Struct, gc=False):
    """Keep-alives and progress. The decoder ignores them: the finished item repeats what they say."""


class ResponseUsage(Struct, gc=False):
    """Token counts. `input_tokens` counts the complete prompt."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: TokenDetails | None = None
    output_tokens_details: TokenDetails | None = None


class TokenDetails(Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


EVENT_TYPES: dict[type[Struct], list[str]] = {
    LifecycleEvent: str.split("""
        response response.created response.queued response.in_progress response.completed response.failed
        response.incomplete response.cancelled response.canceled
    """),
    ItemEvent: ["response.output_item.added", "response.output_item.done"],
    ContentPartEvent: str.split("""
        response.content_part.added response.content_part.done response.reasoning_summary_part.added
        response.reasoning_summary_part.done
    """),
    TextDeltaEvent: ["response.output_text.delta"],
    DeltaEvent: str.split("""
        response.refusal.delta response.reasoning.delta response.reasoning_text.delta response.reasoning_summary.delta
        response.reasoning_summary_text.delta response.function_call_arguments.delta
        response.custom_tool_call_input.delta response.mcp_call_arguments.delta response.mcp_call.arguments.delta
        response.code_interpreter_call_code.delta response.code_interpreter_call.code.delta response.audio.delta
        response.audio.transcript.delta
    """),
    DoneEvent: str.split("""
        response.output_text.done response.refusal.done response.reasoning.done response.reasoning_text.done
        response.reasoning_summary.done response.reasoning_summary_text.done response.function_call_arguments.done
        response.custom_tool_call_input.done response.mcp_call_arguments.done response.mcp_call.arguments.done
        response.code_interpreter_call_code.done response.code_interpreter_call.code.done
        response.apply_patch_call_operation_diff.done response.audio.done response.audio.transcript.done
    """),
    AnnotationEvent: ["response.output_text.annotation.added", "response.output_text_annotation.added"],
    PartialImageEvent: ["response.image_generation_call.partial_image"],
    ShellCommandEvent: ["response.shell_call_command.done"],
    ShellOutputEvent: ["response.shell_call_output_content.done"],
    ErrorEvent: ["error"],
    IgnoredEvent: str.split("""
        response.web_search_call.in_progress response.web_search_call.searching response.web_search_call.completed
        response.web_search_call.failed response.file_search_call.in_progress response.file_search_call.searching
        response.file_search_call.completed response.file_search_call.failed response.code_interpreter_call.in_progress
        response.code_interpreter_call.interpreting response.code_interpreter_call.completed
        response.code_interpreter_call.failed response.image_generation_call.in_progress
        response.image_generation_call.generating response.image_generation_call.completed
        response.image_generation_call.failed response.mcp_call.in_progress response.mcp_call.completed
        response.mcp_call.failed response.mcp_list_tools.in_progress response.mcp_list_tools.completed
        response.mcp_list_tools.failed response.compaction.compacting response.shell_call_command.added
        response.shell_call_command.delta response.shell_call_output_content.delta
        response.apply_patch_call_operation_diff.delta keepalive ping response.rate_limits.updated codex.rate_limits
    """),
}


def _define_struct(event_type: str, base: type[Struct]) -> type[Struct]:
    name = "".join(word.capitalize() for word in event_type.replace("_", ".").split("."))
    return msgspec.defstruct(name, [], bases=(base,), tag_field="type", tag=event_type, module=__name__)


STRUCTS: dict[str, type[Struct]] = {
    kind: _define_struct(kind, base) for base, row in EVENT_TYPES.items() for kind in row
}
Payload: Any = Union[tuple(STRUCTS.values())]  # noqa: UP007 — built from a table


def index_by_struct(handlers: Mapping[str, Any]) -> dict[type, Any]:
    """Returns the handlers by struct instead of event type. Raises KeyError if an event type has no handler."""
    return {struct: handlers[event_type] for event_type, struct in STRUCTS.items()}


def add_type(name: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Returns the payload with the type that it lacks."""
    if name in STRUCTS:
        return {**payload, "type": name}
    if payload.get("object") == "response":
        return {"type": "response", "response": payload}
    if payload.get("error") and "choices" not in payload:
        return {**payload, "type": "error"}
    if name == "error" or ("detail" in payload and "type" not in payload):
        return {"type": "error", "message": lenient.get_text(payload, "message", "detail")}
    return payload


# ── built-in tools ────────────────────────────────────────────────────────────────────────────────


class BuiltinTool(NamedTuple):
    """A built-in tool: its name, who runs it, and the item fields that hold input and output."""

    name: str
    by: By = "provider"
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()  # a single field stands for its bare value


_IMAGE_OUTPUT = ("status", "revised_prompt", "size", "quality", "background", "output_format", "error")
CALLS_WITH_OUTPUT = {  # run by the provider: one item holds the call and its output
    "web_search_call": BuiltinTool("web_search", input=("action",), output=("status", "sources")),
    "file_search_call": BuiltinTool("file_search", input=("queries",), output=("results",)),
    "code_interpreter_call": BuiltinTool("code_interpreter", input=("code", "container_id"), output=("outputs",)),
    "image_generation_call": BuiltinTool("image_generation", input=("prompt",), output=_IMAGE_OUTPUT),
    "mcp_list_tools": BuiltinTool("mcp_list_tools", input=("server_label",), output=("tools",)),
}
CALLS = {  # the call without its output, complete when the item is done
    "local_shell_call": BuiltinTool("local_shell", "client", ("action",)),
    "shell_call": BuiltinTool("shell", "client", ("action",)),
    "apply_patch_call": BuiltinTool("apply_patch", "client", ("operation",)),
    "computer_call": BuiltinTool("computer", "client", ("action", "actions", "pending_safety_checks")),
    "tool_search_call": BuiltinTool("tool_search", "client", ("arguments",)),
    "x_search_call": BuiltinTool("x_search", "provider", ("arguments",)),
    "program": BuiltinTool("program", "provider", ("code",)),
}
OUTPUTS = {  # the output without its call
    "shell_call_output": BuiltinTool("shell", output=("output",)),
    "local_shell_call_output": BuiltinTool("local_shell", output=("output",)),
    "apply_patch_call_output": BuiltinTool("apply_patch", output=("output",)),
    "computer_call_output": BuiltinTool("computer", output=("output",)),
    "function_call_output": BuiltinTool("", output=("output",)),
    "custom_tool_call_output": BuiltinTool("", output=("output",)),
    "tool_search_output": BuiltinTool("tool_search", output=("tools",)),
    "program_output": BuiltinTool("program", output=("result",)),
}


FAILED_STATUSES = ("failed", "incomplete")


def has_failed(item: Item) -> bool:
    """Returns True if the item reports an error or was not completed."""
    return bool(item.get("error")) or item.get("status") in FAILED_STATUSES


def to_text(value: Any) -> str:
    """Returns a string unchanged, None as the empty string, anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else as_json(value)


def get_runner(item: Item, tool: BuiltinTool) -> By:
    """Returns who runs a call. The provider runs calls in its container and those with `execution: server`."""
    contained = lenient.get_text(lenient.get_object(item, "environment"), "type").startswith("container")
    return "provider" if contained or lenient.get_text(item, "execution") == "server" else tool.by


def read_tool_input(item: Item, tool: BuiltinTool) -> str:
    """Returns a built-in tool's input as JSON."""
    if tool.input == ("arguments",):
        return to_text(item.get("arguments") or {})
    action = {key: value for key, value in lenient.get_object(item, "action").items() if key != "sources"}
    fields = {**item, "action": action}
    return as_json({key: fields[key] for key in tool.input if item.get(key) not in (None, [])})


def read_tool_output(item: Item, tool: BuiltinTool) -> Any:
    """Returns a built-in tool's output."""
    if len(tool.output) == 1:
        return item.get(tool.output[0])
    fields = {**item, "sources": lenient.get_object(item, "action").get("sources")}
    return {key: fields[key] for key in tool.output if fields.get(key) is not None}


# ── losses ────────────────────────────────────────────────────────────────────────────────────────
