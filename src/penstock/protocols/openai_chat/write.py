"""Canonical requests → Chat Completions. What the dialects differ in is a field of `Quirks`, not a branch on a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from penstock import request as rq
from penstock.writing import Draft, Losses, effort_of, said, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.pick import Object

NAME = "openai-chat"
LOSSES: Losses = {
    "provider-call": "a tool that another provider ran, and its result, are left out",
    "opaque": "state of another protocol is left out",
    "reasoning-state": "signed or encrypted reasoning of another protocol is left out",
    "result-file": "a file in a tool result is moved into a user message behind it",
    "assistant-file": "a file that the model made is moved into a user message behind it",
    "file-url": "a document by URL is sent as a line of text with its address",
    "tool": "a tool that another provider runs is left out",
    "budget": "a budget of reasoning tokens is sent as an effort",
    "top-k": "top_k is left out",
    "source": "a citation in an earlier answer is left out",
    "approval": "an approval is left out",
    "failed": "that a tool failed is said in its text",
}


class Quirks(msgspec.Struct, frozen=True):
    """What providers of this protocol differ in."""

    limit: Literal["max_tokens", "max_completion_tokens", ""] = ""  # which word for the output limit; "" as it was said
    system: Literal["system", "developer", ""] = ""
    reasoning: Literal["reasoning_content", "reasoning", "reasoning_details", ""] = "reasoning_content"
    result_files: bool = False  # images may stand in tool results
    top_k: bool = False
    cache: bool = False  # cache_control on parts is understood


class Writer(Draft):
    """One request being written."""

    protocol = NAME
    losses = LOSSES

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self._quirks = quirks

    def write(self, request: rq.Request) -> Object:
        own, marks = split(request.extra, NAME)
        body: Object = {"model": request.model, "messages": self._messages(request.messages)}
        if request.stream:
            body["stream"] = True
        tools = [made for tool in request.tools for made in self._tool(tool)]
        if tools:
            body["tools"] = tools
        if request.choice is not None:
            body["tool_choice"] = self._choice(request.choice)
        body.update(self._settings(request.settings, marks))
        body.update(own)
        if request.usage is not None:
            body["stream_options"] = {"include_usage": request.usage, **own.get("stream_options", {})}
        return body

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _messages(self, messages: Iterable[rq.Message]) -> list[Object]:
        made: list[Object] = []
        waiting: list[Object] = []  # files lifted out of results: they follow the last result of a row
        for message in messages:
            if waiting and message.role != "tool":
                made.append({"role": "user", "content": waiting})
                waiting = []
            lifted = self.roles[message.role](self, message, made)
            waiting += lifted
        if waiting:
            made.append({"role": "user", "content": waiting})
        return made

    def _plain(self, message: rq.Message, made: list[Object]) -> list[Object]:
        """A system or user message."""
        own, marks = split(message.extra, NAME)
        role = marks.get("role") or (self._quirks.system if message.role == "system" else "") or message.role
        body: Object = {"role": role, "content": self._content(message.parts, listed="listed" in marks), **own}
        if message.name:
            body["name"] = message.name
        made.append(body)
        return []

    def _content(self, parts: list[rq.AnyPart], *, listed: bool) -> str | list[Object]:
        if len(parts) == 1 and not listed:
            only = parts[0]
            if type(only) is rq.Text and not (only.cache and self._quirks.cache) and only.extra is None:
                return only.text
        if not parts and not listed:
            return ""
        return [made for part in parts for made in self._part(part)]

    def _part(self, part: rq.AnyPart | rq.ResultPart) -> list[Object]:
        made = self.kinds[type(part)](self, part)
        if made and part.cache and self._quirks.cache:
            made[-1]["cache_control"] = {"type": "ephemeral", **({"ttl": part.cache} if part.cache != "5m" else {})}
        return made

    def _text(self, part: rq.Text) -> list[Object]:
        if part.refusal:
            return [{"type": "refusal", "refusal": part.text}]
        return [{"type": "text", "text": part.text, **split(part.extra, NAME)[0]}]

    def _json(self, part: rq.Json) -> list[Object]:
        return [{"type": "text", "text": part.json}]

    def _file(self, part: rq.File) -> list[Object]:
        own, marks = split(part.extra, NAME)
        if part.media.startswith("image/"):
            url = part.url or f"data:{part.media};base64,{part.data}"
            return [{"type": "image_url", "image_url": url if marks.get("bare") else {"url": url, **own}}]
        if part.media.startswith("audio/") and part.data:
            sound = {"data": part.data, "format": part.media.removeprefix("audio/").replace("mpeg", "mp3")}
            return [{"type": "input_audio", "input_audio": sound}]
        if part.url:
            self.lose("file-url")
            return [{"type": "text", "text": f"[{part.name or part.media}]({part.url})"}]
        file: Object = {"file_id": part.id} if part.id else {"file_data": f"data:{part.media};base64,{part.data}"}
        if part.name or not part.id:
            file["filename"] = part.name or "file"
        return [{"type": "file", "file": {**file, **own}}]

    def _opaque(self, part: rq.Opaque) -> list[Object]:
        if part.protocol == NAME:
            return [part.data]
        self.lose("opaque")
        return []

    def _source(self, _: rq.Source) -> list[Object]:
        self.lose("source")
        return []

    def _ask(self, _: rq.Ask) -> list[Object]:
        self.lose("approval")
        return []

    def _upstream(self, _: Any) -> list[Object]:
        self.lose("provider-call")
        return []

    def _assistant(self, message: rq.Message, made: list[Object]) -> list[Object]:
        own, marks = split(message.extra, NAME)
        body: Object = {"role": "assistant"}
        said: list[rq.AnyPart] = []
        lifted: list[Object] = []
        for part in message.parts:
            kind = type(part)
            if kind is rq.Call:
                self._call(part, body)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            elif kind is rq.Reasoning:
                self._thought(part, body)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            elif kind is rq.File:
                self.lose("assistant-file")
                lifted += self._part(part)
            else:
                said.append(part)
        refusals = [part for part in said if type(part) is rq.Text and part.refusal]
        if refusals and len(refusals) == len(said):
            body["refusal"], said = "".join(part.text for part in refusals), []
        body["content"] = self._content(said, listed="listed" in marks) or None
        body.update(own)
        if message.name:
            body["name"] = message.name
        made.append(body)
        return lifted

    def _call(self, call: rq.Call, body: Object) -> None:
        if call.by == "provider":
            self.lose("provider-call")
            return
        own, marks = split(call.extra, NAME)
        if marks.get("legacy"):
            body["function_call"] = {"name": call.name, "arguments": call.json}
            return
        made: Object = {"id": call.id, "type": "custom" if call.form == "text" else "function", **own}
        if call.form == "text":
            made["custom"] = {"name": call.name, "input": call.json}
        else:
            made["function"] = {"name": call.name, "arguments": call.json or "{}"}
        body.setdefault("tool_calls", []).append(made)

    def _thought(self, part: rq.Reasoning, body: Object) -> None:
        own, marks = split(part.extra, NAME)
        field = marks.get("field") or self._quirks.reasoning
        if part.extra and NAME not in part.extra:
            self.lose("reasoning-state")
        body.update(own)
        if part.text and field in ("reasoning_content", "reasoning"):
            body[field] = body.get(field, "") + part.text

    def _tool_message(self, message: rq.Message, made: list[Object]) -> list[Object]:
        lifted: list[Object] = []
        for part in message.parts:
            if type(part) is rq.Result:
                lifted += self._result(part, message, made)
            else:
                lifted += self._part(part)
        return lifted

    def _result(self, result: rq.Result, message: rq.Message, made: list[Object]) -> list[Object]:
        own, marks = split(message.extra, NAME)
        listed = "listed" in split(result.extra, NAME)[1]
        files = [part for part in result.content if type(part) is rq.File]
        inside = [part for part in result.content if self._quirks.result_files or type(part) is not rq.File]
        body: Object = {"role": marks.get("role") or "tool", "tool_call_id": result.call}
        if body["role"] == "function":
            body = {"role": "function", "name": result.name}
        elif marks or message.name:
            body["name"] = message.name
        body["content"] = self._answer(inside, result, listed=listed, files=len(files))
        made.append({**body, **own})
        if self._quirks.result_files or not files:
            return []
        self.lose("result-file")
        return [made for file in files for made in self._part(file)]

    def _answer(self, content: list[rq.ResultPart], result: rq.Result, *, listed: bool, files: int) -> Any:
        if result.failed:
            self.lose("failed")
        if listed or any(type(part) is rq.File for part in content):
            return [made for part in content for made in self._part(part)]
        texts = [made.get("text", "") for part in content for made in self._part(part)]
        if not texts and files:
            return "The result is in the next message."
        return "\n".join(texts)

    # ── tools and settings ────────────────────────────────────────────────────────────────────────

    def _tool(self, tool: rq.Tool) -> list[Object]:
        own, _ = split(tool.extra, NAME)
        beside: Object = own.get("tool", {})
        if tool.kind in ("provider", "unknown"):
            if not beside:
                self.lose("tool")
            return [beside] if beside else []
        if tool.kind == "custom":
            custom = {**said(name=tool.name, description=tool.description), **own.get("custom", {})}
            return [{"type": "custom", "custom": custom, **beside}]
        function = said(name=tool.name, description=tool.description)
        if tool.schema is not None:
            function["parameters"] = tool.schema
        if tool.strict is not None:
            function["strict"] = tool.strict
        return [{"type": "function", "function": {**function, **own.get("function", {})}, **beside}]

    def _choice(self, choice: rq.ToolChoice) -> Any:
        own, marks = split(choice.extra, NAME)
        if "choice" in own:
            return own["choice"]
        if choice.mode == "tool":
            kind = marks.get("kind") or "function"
            return {"type": kind, kind: {"name": choice.names[0]}}
        if choice.names:
            tools = [{"type": "function", "function": {"name": name}} for name in choice.names]
            return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}
        return marks.get("word") or choice.mode

    def _settings(self, asked: rq.Settings, marks: Object) -> Object:
        limit = self._quirks.limit or marks.get("limit") or "max_tokens"
        if asked.top_k is not None and not self._quirks.top_k:
            self.lose("top-k")
        body: Object = {
            limit: asked.max_output, "temperature": asked.temperature, "top_p": asked.top_p,
            "top_k": asked.top_k if self._quirks.top_k else None, "stop": asked.stop or None, "seed": asked.seed,
            "frequency_penalty": asked.frequency_penalty, "presence_penalty": asked.presence_penalty,
            "n": asked.choices, "logprobs": asked.logprobs, "top_logprobs": asked.top_logprobs,
            "response_format": _format(asked.format), "parallel_tool_calls": asked.parallel_calls,
            "reasoning_effort": self._effort(asked), "verbosity": asked.verbosity or None,
            "service_tier": asked.tier or None, "user": asked.user or None, "metadata": asked.metadata,
            "prompt_cache_key": asked.cache_key or None, "store": asked.store,
        }  # fmt: skip
        return {key: value for key, value in body.items() if value is not None}

    def _effort(self, asked: rq.Settings) -> str | None:
        if asked.effort or asked.budget is None:
            return asked.effort or None
        self.lose("budget")
        return effort_of(asked.budget)

    roles: dict[str, Callable[[Any, rq.Message, list[Object]], list[Object]]] = {  # noqa: RUF012 — a table
        "system": _plain, "user": _plain, "assistant": _assistant, "tool": _tool_message,
    }  # fmt: skip
    kinds: dict[type, Callable[[Any, Any], list[Object]]] = {  # noqa: RUF012 — a table
        rq.Text: _text, rq.Json: _json, rq.File: _file, rq.Opaque: _opaque, rq.Source: _source, rq.Ask: _ask,
        rq.Result: _upstream, rq.Call: _upstream, rq.Reasoning: _upstream,
    }  # fmt: skip


def write_request(request: rq.Request, quirks: Quirks | None = None) -> Draft:
    """A request as the body of a Chat Completions call."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer


def _format(form: rq.Format | None) -> Object | None:
    if form is None:
        return None
    if form.kind != "schema":
        return {"type": "json_object" if form.kind == "json" else "text"}
    schema = said(name=form.name or "answer", schema=form.schema, description=form.description)
    return {
        "type": "json_schema",
        "json_schema": {**schema, **({} if form.strict is None else {"strict": form.strict})},
    }
