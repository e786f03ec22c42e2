"""A whole answer as the chunks it would have been streamed in: a UI message, the result of `generateText`, an error.

Gives plain objects, which the decoder then reads like any others, so that stream and body cannot disagree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import pick
from penstock.jsontext import as_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.pick import Object


def chunks(said: Object) -> list[Object]:
    """The chunks of a whole answer; none if it is nothing of the kind."""
    if isinstance(said.get("parts"), list):
        return list(_message(said))
    if isinstance(said.get("content"), list):
        return list(_generated(said))
    if "error" in said or "errorText" in said:
        return [{"type": "error", "error": said.get("error"), "errorText": pick.text(said, "errorText") or None}]
    return []


def _message(said: Object) -> Iterator[Object]:
    metadata = pick.table(said, "metadata")
    known = {key: metadata[key] for key in ("model", "createdAt") if key in metadata}
    yield {"type": "start", "messageId": pick.text(said, "id") or None, "messageMetadata": known or None}
    for place, part in enumerate(pick.rows(said, "parts")):
        kind = pick.text(part, "type")
        if kind in ("text", "reasoning"):
            yield from _spoken(kind, str(place), part)
        elif kind == "dynamic-tool" or kind.startswith("tool-"):
            yield from _tool(kind, part)
        elif kind == "step-start":
            yield {"type": "start-step"}
        else:
            yield part
    yield {"type": "finish", "finishReason": metadata.get("finishReason"), "messageMetadata": metadata or None}


def _spoken(kind: str, id: str, part: Object) -> Iterator[Object]:
    metadata = part.get("providerMetadata")
    yield {"type": f"{kind}-start", "id": id, "providerMetadata": metadata}
    yield {"type": f"{kind}-delta", "id": id, "text": pick.text(part, "text")}
    yield {"type": f"{kind}-end", "id": id, "citations": part.get("citations")}


def _tool(kind: str, part: Object) -> Iterator[Object]:
    """A tool part has been through states; its last one tells which chunks it took."""
    state = pick.text(part, "state")
    keys = ("toolCallId", "providerExecuted", "title", "toolMetadata")
    head: Object = {key: part[key] for key in keys if part.get(key) is not None}
    head["toolName"] = pick.text(part, "toolName") or kind.removeprefix("tool-")
    head["dynamic"] = kind == "dynamic-tool"
    if state == "input-streaming":
        yield {**head, "type": "tool-input-start"}
        yield {**head, "type": "tool-input-delta", "inputTextDelta": pick.text(part, "rawInput")}
        return
    refused = state == "output-error" and part.get("input") is None
    call = {**head, "input": _given(part), "providerMetadata": part.get("callProviderMetadata")}
    if refused:
        said: Any = part.get("rawInput")
        yield {**call, "type": "tool-input-error", "input": said, "errorText": pick.text(part, "errorText")}
        return
    yield {**call, "type": "tool-input-available"}
    approval = pick.table(part, "approval")
    if "id" in approval:
        yield {"type": "tool-approval-request", "toolCallId": head.get("toolCallId"), "approvalId": approval["id"]}
    answer = {**head, "providerMetadata": part.get("resultProviderMetadata")}
    if state == "output-available":
        preliminary = part.get("preliminary")
        yield {**answer, "type": "tool-output-available", "output": part.get("output"), "preliminary": preliminary}
    elif state == "output-error":
        yield {**answer, "type": "tool-output-error", "errorText": pick.text(part, "errorText")}


def _given(part: Object) -> Any:
    """A call's input. Here it is a value, so that a string is free text, not JSON."""
    given = part.get("input")
    return as_json(given) if isinstance(given, str) else given


def _generated(said: Object) -> Iterator[Object]:
    response = pick.table(said, "response")
    yield {"type": "response-metadata", "id": response.get("id"), "modelId": response.get("modelId"),
           "timestamp": response.get("timestamp")}  # fmt: skip
    for place, part in enumerate(pick.rows(said, "content")):
        kind = pick.text(part, "type")
        if kind in ("text", "reasoning"):
            yield from _spoken(kind, str(place), part)
        else:
            yield {**part, "input": _given(part)} if kind == "tool-call" and "input" in part else part
    keys = ("finishReason", "rawFinishReason", "usage", "totalUsage", "providerMetadata")
    yield {"type": "finish", **{key: said[key] for key in keys if said.get(key) is not None}}
