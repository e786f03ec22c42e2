"""Canonical requests that were read from the Interactions API → the same again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import request as rq
from penstock.carrying import input_of
from penstock.jsontext import plain_or_raw
from penstock.protocols.gemini.own import NAME
from penstock.protocols.gemini.request_interactions import MODES, SUMMARIES
from penstock.writing import add, split

if TYPE_CHECKING:
    from penstock.pick import Object
    from penstock.protocols.gemini.write_parts import PartWriter

_WORDS = {mode: word for word, mode in reversed(MODES.items())}


def write_interaction(request: rq.Request, draft: PartWriter) -> Object:
    """A body of the Interactions API."""
    own, marks = split(request.extra, NAME)
    body: Object = {"model": request.model} if request.model else {}
    messages = list(request.messages)
    if messages and messages[0].role == "system":
        body["system_instruction"] = "\n".join(part.text for part in messages.pop(0).parts if isinstance(part, rq.Text))
    body["input"] = _input(messages, marks["interaction"], draft)
    tools = [made for tool in request.tools for made in _tool(tool, draft)]
    if tools:
        body["tools"] = tools
    config = {**_config(request), **own.get("generation_config", {})}
    if config:
        body["generation_config"] = config
    if request.stream:
        body["stream"] = True
    if request.settings.store is not None:
        body["store"] = request.settings.store
    body.update({key: value for key, value in own.items() if key != "generation_config"})
    add(body, marks.get("also"))
    return body


def _config(request: rq.Request) -> Object:
    asked, choice = request.settings, request.choice
    words = {known: word for word, known in SUMMARIES.items()}
    word = None if choice is None else split(choice.extra, NAME)[1].get("word") or _WORDS.get(choice.mode)
    said: Object = {
        "temperature": asked.temperature, "top_p": asked.top_p, "seed": asked.seed,
        "stop_sequences": asked.stop or None, "max_output_tokens": asked.max_output,
        "thinking_level": asked.effort or None, "tool_choice": word,
        "thinking_summaries": None if asked.thoughts is None else words[asked.thoughts],
    }  # fmt: skip
    return {key: value for key, value in said.items() if value is not None}


def _tool(tool: rq.Tool, draft: PartWriter) -> list[Object]:
    own, _ = draft.own(tool.extra)
    if "tool" in own:
        return [own["tool"]]
    made: Object = {"type": "function", "name": tool.name}
    if tool.description:
        made["description"] = tool.description
    if tool.schema is not None:
        made["parameters"] = tool.schema
    return [{**made, **own}]


def _input(messages: list[rq.Message], shape: str, draft: PartWriter) -> Any:
    if len(messages) == 1 and messages[0].role == "user":
        parts = messages[0].parts
        if shape == "text" and len(parts) == 1 and isinstance(parts[0], rq.Text):
            return parts[0].text
        if shape == "contents":
            return [_content(part, draft) for part in parts]
    return [step for message in messages for step in _steps(message, draft)]


def _steps(message: rq.Message, draft: PartWriter) -> list[Object]:
    made: list[Object] = []
    user = message.role != "assistant"
    for part in message.parts:
        own, marks = draft.own(getattr(part, "extra", None))
        write = _STEPS.get(type(part))
        if write is not None:
            made.append(write(part, own, marks, draft))
        elif isinstance(part, rq.Opaque) and not user:
            made.append(part.data)
        elif "turn" in marks:
            _turn(part, marks["turn"], user=user, made=made, draft=draft)
        elif made and "content" in made[-1] and "step" not in marks:
            made[-1]["content"].append(_content(part, draft))
        else:
            made.append({"type": "user_input" if user else "model_output", "content": [_content(part, draft)]})
    return made


def _turn(part: Any, form: str, *, user: bool, made: list[Object], draft: PartWriter) -> None:
    if form == "text":
        made.append({"role": "user" if user else "model", "content": part.text})
    elif made:
        made[-1]["content"].append(_content(part, draft))
    else:
        made.append({"role": "user" if user else "model", "content": [_content(part, draft)]})


def _thought(_part: rq.Reasoning, own: Object, marks: Object, _: PartWriter) -> Object:
    pieces = {"summary": marks["pieces"]} if "pieces" in marks else {}
    return {"type": "thought", **pieces, **own}


def _call(call: rq.Call, own: Object, _marks: Object, _: PartWriter) -> Object:
    return {"type": "function_call", "id": call.id, "name": call.name, "arguments": input_of(call)[0], **own}


def _result(result: rq.Result, own: Object, marks: Object, draft: PartWriter) -> Object:
    made: Object = {"type": "function_result", "call_id": result.call}
    if result.name:
        made["name"] = result.name
    only = result.content[0] if len(result.content) == 1 and not marks.get("listed") else None
    if isinstance(only, rq.Json):
        made["result"] = plain_or_raw(only.json)
    elif isinstance(only, rq.Text):
        made["result"] = only.text
    elif result.content or marks.get("listed"):
        made["result"] = [_content(part, draft) for part in result.content]
    if result.failed or marks.get("said"):
        made["is_error"] = result.failed
    return {**made, **own}


def _content(part: Any, draft: PartWriter) -> Object:
    if isinstance(part, rq.Opaque):
        return part.data if part.protocol == NAME else {"type": "text", "text": ""}
    own, marks = draft.own(part.extra)
    if not isinstance(part, rq.File):
        return {"type": "text", "text": part.text if isinstance(part, rq.Text) else part.json, **own}
    kind = part.media.partition("/")[0]
    kind = marks.get("kind") or (kind if kind in ("image", "audio", "video") else "document")
    where: Object = {"uri": part.url} if part.url else {"data": part.data}
    media = {} if part.media.endswith("/*") else {"mime_type": part.media}
    return {"type": kind, **where, **media, **own}


_STEPS: dict[type, Any] = {rq.Reasoning: _thought, rq.Call: _call, rq.Result: _result}
