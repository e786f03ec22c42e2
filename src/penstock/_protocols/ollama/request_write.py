"""Canonical requests → Ollama's `/api/chat`, or `/api/generate` if the request was read from there and still fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _request_writer as request_writer
from penstock import request as rq
from penstock._diagnostics import read_losses
from penstock._markers import NativeSupport
from penstock._markers.embed_unsupported import embed_markers
from penstock._media import sniff_media_type
from penstock._protocols.ollama.request_read import NAME, OPTIONS, read_think

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._lenient_fields import Object

LOSSES = read_losses(__name__, "requests")
HOLDS = NativeSupport(NAME, failed=False, refusals=False)
_ORDER: dict[type, int] = {rq.Reasoning: 0, rq.Text: 1, rq.Json: 1, rq.File: 2, rq.Call: 3}
_UNSUPPORTED = "choices parallel_calls verbosity tier user metadata cache_key store"
_NEAREST_LEVELS = {"minimal": "low", "xhigh": "high", "max": "high"}


class Quirks(msgspec.Struct, frozen=True):
    """Differences between servers and models of this protocol."""

    ids: bool = True  # calls and results may have an id
    levels: bool = False  # `think` may be an effort; otherwise it is true or false


class OllamaRequestWriter(request_writer.RequestDraft):
    """State: the names of calls by id."""

    protocol = NAME
    losses = LOSSES

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self._quirks = quirks
        self._call_names: dict[str, str] = {}

    def write(self, request: rq.Request) -> Object:
        own, marks = self.split_extra(request.extra)
        body: Object = {"model": request.model} if request.model else {}
        given = embed_markers(request.messages, HOLDS, self.report_carried, self.report_loss)
        messages = [one for message in given for one in self._write_message(message)]
        body.update((marks.get("generate") and _write_prompt(messages)) or {"messages": messages})
        tools = [one for tool in request.tools for one in self.write_function_tool(tool)]
        if tools:
            body["tools"] = tools
        if request.choice is not None and (request.choice.mode != "auto" or request.choice.names):
            self.report_loss("choice")
        if not marks.get("silent") or not request.stream:
            body["stream"] = request.stream
        self._write_settings(request.settings, marks, body)
        body.update(own)
        request_writer.add_missing(body, marks.get("also"))
        return body

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _write_message(self, message: rq.Message) -> list[Object]:
        own, marks = self.split_extra(message.extra)
        if message.name:
            self.report_loss("name")
        if message.role == "tool":
            messages = [self._write_result(part) for part in message.parts if type(part) is rq.Result]
        else:
            messages = [{"role": message.role, **self._write_parts(message.parts)}]
        for one in messages:
            one.update(own)
            request_writer.add_missing(one, marks.get("also"))
        return messages

    def _write_result(self, result: rq.Result) -> Object:
        _, marks = self.split_extra(result.extra)
        if result.cache:
            self.report_loss("cache")
        name = result.name or self._call_names.get(result.call, "")
        message: Object = {"role": "tool", **self._write_parts(result.content)}
        if name and not marks.get("nameless"):
            message["tool_name"] = name
        if self._quirks.ids and not marks.get("minted"):
            message["tool_call_id"] = result.call
        return message

    def _write_parts(self, parts: Sequence[rq.AnyPart | rq.ResultPart]) -> Object:
        """Writes content, images, thinking and calls of a message."""
        texts: list[str] = []
        message: Object = {}
        last = 0
        for part in parts:
            order = _ORDER.get(type(part), 1)
            if order < last or (order == last == 0 and "thinking" in message):
                self.report_loss("order")
            last = max(order, last)
            if part.cache:
                self.report_loss("cache")
            texts += self._write_part(part, message)
        if len(texts) > 1:
            self.report_loss("order")
        return {"content": "\n".join(texts), **message}

    def _write_part(self, part: Any, message: Object) -> list[str]:
        """Writes a part into a message. Returns the texts for its content."""
        if type(part) is rq.Text:
            self.split_extra(part.extra)
            return [part.text] if part.text else []
        if type(part) is rq.Json:
            self.report_loss("json-result")
            return [part.json]
        if type(part) is rq.Reasoning:
            self._write_thinking(part, message)
        elif type(part) is rq.Call:
            self._write_call(part, message)
        elif type(part) is rq.File:
            return self._write_file(part, message)
        elif type(part) is rq.Opaque:
            self.report_loss("opaque")
            return [text for text in (request_writer.collect_text(part.data),) if text]
        else:
            self.report_loss("approval" if type(part) is rq.Ask else "source")
        return []

    def _write_thinking(self, part: rq.Reasoning, message: Object) -> None:
        self.split_extra(part.extra)
        self.report_reasoning(part)
        if part.text:
            message["thinking"] = f"{message['thinking']}\n{part.text}" if "thinking" in message else part.text

    def _write_file(self, part: rq.File, message: Object) -> list[str]:
        self.report_image_detail(part)
        _, marks = self.split_extra(part.extra)
        image = part.url if marks.get("url") else ""
        if part.media.startswith("image/") and part.data:
            if not marks.get("url") and (part.name or sniff_media_type(part.data) != part.media):
                self.report_loss("media", part.media)
            image = f"data:{part.media};base64,{part.data}" if marks.get("url") else part.data
        if image:
            message.setdefault("images", []).append(image)
            return []
        self.report_loss("file", part.media)
        return [request_writer.describe_file(part)]

    def _write_call(self, call: rq.Call, message: Object) -> None:
        own, marks = self.split_extra(call.extra)
        args = self.write_call_input(call)
        if args is None:
            return
        self._call_names[call.id] = call.name
        function: Object = {"name": call.name}
        if args or not marks.get("bare"):
            function["arguments"] = args
        function.update(own.get("function", {}))
        written: Object = {"id": call.id} if self._quirks.ids and not marks.get("minted") else {}
        if marks.get("typed") or not marks:
            written["type"] = "function"
        others = {key: value for key, value in own.items() if key != "function"}
        message.setdefault("tool_calls", []).append({**written, "function": function, **others})

    # ── tools and settings ────────────────────────────────────────────────────────────────────────

    def _write_settings(self, settings: rq.Settings, marks: Object, body: Object) -> None:
        self.report_settings(settings, _UNSUPPORTED.split())
        values: Object = {key: getattr(settings, name) for key, name, _ in OPTIONS}
        if marks.get("single") and len(settings.stop) == 1:
            values["stop"] = settings.stop[0]
        options = {key: value for key, value in values.items() if value is not None and value != []}
        options.update(marks.get("options", {}))
        request_writer.add_missing(options, marks.get("unsaid"))
        if options:
            body["options"] = options
        if settings.format is not None:
            self._write_format(settings.format, body)
        think = self._write_think(settings, marks.get("think") or [None])
        for key, value in (("think", think), ("logprobs", settings.logprobs), ("top_logprobs", settings.top_logprobs)):
            if value is not None:
                body[key] = value

    def _write_format(self, format_: rq.Format, body: Object) -> None:
        if format_.name or format_.description or format_.strict is not None:
            self.report_loss("format")
        if format_.kind != "text":
            body["format"] = "json" if format_.schema is None else format_.schema

    def _write_think(self, settings: rq.Settings, original: list[Any]) -> bool | str | None:
        """Returns whether to think, or the effort if the model knows efforts."""
        effort, budget, thoughts = settings.effort, settings.budget, settings.thoughts
        if read_think(original[0]) == (effort, budget, thoughts):
            unchanged: bool | str | None = original[0]
            return unchanged
        if not effort and budget is None:
            return thoughts
        if budget == 0 or effort == "none":
            if effort:
                self.report_loss("effort")
            return False
        has_levels = self._quirks.levels or settings.thinking == "effort"
        level = _NEAREST_LEVELS.get(effort, effort) or request_writer.effort_for_budget(budget or 0)
        if level != effort or not has_levels:
            self.report_loss("effort")
        return level if has_levels else True


def _write_prompt(messages: list[Object]) -> Object | None:
    """Writes one user message, with an optional system message before it, as a prompt; None for other messages."""
    system, *rows = messages if len(messages) > 1 and messages[0]["role"] == "system" else ({}, *messages)
    if len(rows) != 1 or rows[0]["role"] != "user" or "images" in system:
        return None
    body: Object = {"prompt": rows[0]["content"]}
    if system:
        body["system"] = system["content"]
    if "images" in rows[0]:
        body["images"] = rows[0]["images"]
    return body


def write_request(request: rq.Request, quirks: Quirks | None = None) -> request_writer.RequestDraft:
    """Writes a request as the body of a chat call."""
    writer = OllamaRequestWriter(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
