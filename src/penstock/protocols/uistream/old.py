"""Version 4's messages as later versions would have them: tool invocations, reasoning in details, attachments.

Version 4 marks no steps: one ends where text follows an invocation, and where an invocation counts another step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import pick, reading
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.pick import Object

KINDS = frozenset({"tool-invocation", "source"})
STEP: Object = {"type": "step-start"}
_STATES = {"partial-call": "input-streaming", "call": "input-available", "result": "output-available"}


def is_old(message: Object) -> bool:
    """Whether only version 4 would have written it so."""
    if not isinstance(message.get("parts"), list) or message.get("experimental_attachments"):
        return True
    return any(_is_old(part) for part in pick.rows(message, "parts"))


def _is_old(part: Object) -> bool:
    kind = pick.text(part, "type")
    return kind in KINDS or (kind == "reasoning" and "details" in part) or (kind == "file" and "data" in part)


def parts_of(message: Object, *, last: bool) -> list[Object]:
    """The parts of a message. `last`: it is the last of all, whose words come before its calls."""
    attached = reading.rows(message, "experimental_attachments", _attachment)
    if message.get("parts") is not None:
        return [*_steps(reading.rows(message, "parts", _part)), *attached]
    content = message.get("content")
    if not isinstance(content, str | None):
        raise BadRequest("a string", content, "content")
    text: list[Object] = [{"type": "text", "text": content}] if content else []
    calls = [part for row in reading.rows(message, "toolInvocations", _invocation) for part in row]
    return [*text, *_steps([calls]), *attached] if last or not calls else [*_steps([calls]), STEP, *text, *attached]


def _steps(rows: Iterable[list[Object]]) -> list[Object]:
    """The parts with their steps marked."""
    made: list[Object] = []
    step, called = 0, False
    for part in (part for row in rows for part in row):
        tool = "toolCallId" in part
        given = part.get("step", step)  # parts of the newer form have none
        at = given if isinstance(given, int) else step
        if (tool and at != step) or (called and part.get("type") == "text"):
            made.append(STEP)
            called = False
            step = at if tool else step + 1
        called = called or tool
        made.append(reading.rest(part, {"step"}) if tool else part)
    return made


def _part(part: Object) -> list[Object]:
    kind = part.get("type")
    if kind == "tool-invocation":
        return reading.inside(part, "toolInvocation", _invocation)
    if kind == "reasoning" and "details" in part:
        return reading.rows(part, "details", _detail)
    if kind == "source":
        source = reading.table(part, "source")
        known = {"sourceType", "id", "url", "title", "providerMetadata"}
        beside = {key: source[key] for key in ("title", "providerMetadata") if key in source} | reading.rest(
            source, known
        )
        return [{"type": "source-url", "sourceId": source.get("id"), "url": source.get("url"), **beside}]
    if kind == "file" and "data" in part:
        media = reading.text(part, "mimeType")
        return [{"type": "file", "mediaType": media, "url": f"data:{media};base64,{reading.needed(part, 'data')}"}]
    return [part]


def _invocation(given: Object) -> list[Object]:
    state = _STATES.get(reading.text(given, "state"), "output-available" if "result" in given else "input-available")
    part: Object = {
        "type": f"tool-{reading.needed(given, 'toolName')}", "toolCallId": reading.needed(given, "toolCallId"),
        "state": state, "step": reading.whole(given, "step") or 0,
        **({"input": given["args"]} if "args" in given else {}),
    }  # fmt: skip
    return [{**part, "output": given.get("result")} if state == "output-available" else part]


def _detail(detail: Object) -> Object:
    if detail.get("type") == "redacted":
        state: Object = {"redactedData": reading.needed(detail, "data")}
    else:
        signature = reading.text(detail, "signature")
        state = {"signature": signature} if signature else {}
    metadata = {"providerMetadata": {"anthropic": state}} if state else {}
    return {"type": "reasoning", "text": reading.text(detail, "text"), **metadata}


def _attachment(given: Object) -> Object:
    media = reading.text(given, "contentType")
    name = {"filename": given["name"]} if given.get("name") else {}
    return {"type": "file", "url": reading.needed(given, "url"), **({"mediaType": media} if media else {}), **name}
