"""Canonical requests → Cohere Chat requests. Requests that were read as version 1 are written in `request_v1`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
from msgspec.structs import replace

from penstock import _request_writer as request_writer
from penstock import request as rq
from penstock._diagnostics import read_losses
from penstock._lenient_json import as_json, is_object, try_decode
from penstock._markers import EMPTY_MARK, NativeSupport, input_as_object
from penstock._markers.embed_unsupported import embed_markers
from penstock._protocols.cohere.request_read import split_documents
from penstock._protocols.cohere.request_v1 import write_settings, write_v1_request
from penstock._protocols.cohere.wire import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._lenient_fields import Object

LOSSES = read_losses(__name__, "requests")
HOLDS = NativeSupport(NAME, failed=False, refusals=False, result_files=False, assistant_files=False)
_CHOICES = {"required": "REQUIRED", "tool": "REQUIRED", "none": "NONE"}


class Quirks(msgspec.Struct, frozen=True):
    """Differences between APIs of this protocol."""

    version: Literal[0, 1, 2] = 0  # the version to write; 0 is the one that was read, else version 2


class CohereRequestWriter(request_writer.RequestDraft):
    """Writes one request."""

    protocol = NAME
    losses = LOSSES

    def write(self, request: rq.Request, quirks: Quirks) -> Object:
        own, marks = self.split_extra(request.extra)
        messages, documents = split_documents(request.messages)
        described = [self._describe_files(message) for message in messages]
        messages = embed_markers(described, HOLDS, self.report_carried, self.report_loss)
        if (quirks.version or marks.get("version")) == 1:
            return {**write_v1_request(request, messages, self), **request_writer.drop_empty(documents=documents)}
        body: Object = {"model": request.model} if request.model else {}
        body["messages"] = [one for message in messages for one in self._write_message(message)]
        if request.stream:
            body["stream"] = True
        tools = [one for tool in request.tools for one in self.write_function_tool(tool)]
        if tools:
            body["tools"] = tools
        if request.choice is not None:
            self._write_choice(request.choice, body)
        write_settings(request.settings, marks, self, body)
        body.update(request_writer.drop_empty(documents=documents), **own)
        request_writer.add_missing(body, marks.get("also"))
        return body

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _describe_files(self, message: rq.Message) -> rq.Message:
        """Replaces files that cannot be sent by a line of text, before other parts are moved."""
        if message.role == "tool":
            return replace(message, parts=[self._describe_result_files(part) for part in message.parts])
        if message.role == "assistant" and _has_unsendable_file(message.parts):
            return replace(message, parts=[self._describe_file(part) for part in message.parts])
        return message

    def _describe_result_files(self, part: rq.AnyPart) -> rq.AnyPart:
        if type(part) is not rq.Result or not _has_unsendable_file(part.content):
            return part
        return replace(part, content=[self._describe_file(one) for one in part.content])

    def _describe_file(self, part: Any) -> Any:
        if type(part) is not rq.File or _is_image(part):
            return part
        self.report_loss("file", part.media)
        return rq.Text(request_writer.describe_file(part))

    def _write_message(self, message: rq.Message) -> list[Object]:
        own, marks = self.split_extra(message.extra)
        if message.name:
            self.report_loss("name")
        if message.role == "tool":
            messages = [{**self._write_result(part), **own} for part in message.parts if type(part) is rq.Result]
        elif message.role == "assistant":
            answer = {**self._write_answer(message.parts, marks), **own}
            messages = [answer] if len(answer) > 1 or marks else []
            if not messages:
                self.report_loss("empty")
        else:
            content = self._write_content(message.parts, listed=bool(marks.get("listed")))
            content = content or self._write_empty(message)
            messages = [{"role": message.role, "content": content, **own}] if content else []
        for one in messages:
            request_writer.add_missing(one, marks.get("also"))
        return messages

    def _write_empty(self, message: rq.Message) -> str:
        """An empty user message stays, because turns must alternate."""
        if message.role == "user":
            self.report_carried("empty")
            return EMPTY_MARK
        self.report_loss("empty")
        return ""

    def _write_answer(self, parts: list[rq.AnyPart], marks: Object) -> Object:
        answer: Object = {"role": "assistant"}
        others: list[rq.AnyPart] = []
        for part in parts:
            if type(part) is rq.Call:
                self._write_call(part, answer)
            elif type(part) is rq.Reasoning and (part.extra or {}).get(NAME, {}).get("kind") == "tool_plan":
                answer["tool_plan"] = answer.get("tool_plan", "") + part.text
            else:
                if "tool_calls" in answer:
                    self.report_loss("order")
                others.append(part)
        content = self._write_content(others, listed=bool(marks.get("listed")))
        if content:
            answer["content"] = content
        return answer

    def _write_content(self, parts: Sequence[rq.AnyPart | rq.ResultPart], *, listed: bool) -> str | list[Object]:
        if len(parts) == 1 and not listed:
            only = parts[0]
            if type(only) is rq.Text and not only.cache and (only.extra is None or self.is_foreign(only.extra)):
                return only.text
        content: list[Object] = []
        for part in parts:
            if part.cache:
                self.report_loss("cache")
            content += self.kinds[type(part)](self, part)
        return content

    def _write_call(self, call: rq.Call, answer: Object) -> None:
        own, marks = self.split_extra(call.extra)
        if call.cut:
            self.report_loss("cut-call")
            return
        args, carried = input_as_object(call)
        if carried:
            self.report_carried(carried)
        json = as_json(args) if carried or not call.json else call.json
        function = {"name": call.name, "arguments": json, **own.get("function", {})}
        kind = {} if marks.get("untyped") else {"type": "function"}
        others = {key: value for key, value in own.items() if key != "function"}
        answer.setdefault("tool_calls", []).append({"id": call.id, **kind, "function": function, **others})

    def _write_result(self, result: rq.Result) -> Object:
        _, marks = self.split_extra(result.extra)
        if result.cache:
            self.report_loss("cache")
        content = self._write_content(result.content, listed=bool(marks.get("listed")))
        return {"role": "tool", "tool_call_id": result.call, "content": content or ""}

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _text(self, part: rq.Text) -> list[Object]:
        own, marks = self.split_extra(part.extra)
        if marks.get("is_document"):
            return [{"type": "document", "document": {**marks.get("document", {}), "data": part.text}}]
        if not part.text and not marks.get("empty"):
            self.report_loss("empty")
            return []
        return [{"type": "text", "text": part.text, **own}]

    def _json(self, part: rq.Json) -> list[Object]:
        """Writes an object as a document, which the answer can cite."""
        own, marks = self.split_extra(part.extra)
        value = try_decode(part.json)
        if is_object(value) or marks.get("is_document"):
            return [{"type": "document", "document": {**marks.get("document", {}), "data": value}, **own}]
        self.report_loss("json-result")
        return [{"type": "text", "text": part.json}]

    def _reasoning(self, part: rq.Reasoning) -> list[Object]:
        own, _ = self.split_extra(part.extra)
        self.report_reasoning(part)
        return [{"type": "thinking", "thinking": part.text, **own}] if part.text or own else []

    def _file(self, part: rq.File) -> list[Object]:
        own, marks = self.split_extra(part.extra)
        if not _is_image(part):
            self.report_loss("file", part.media)
            return [{"type": "text", "text": request_writer.describe_file(part)}]
        url = part.url or f"data:{part.media};base64,{part.data}"
        is_bare = marks.get("bare") and not part.detail
        image = url if is_bare else {"url": url, **request_writer.drop_empty(detail=part.detail), **own}
        return [{"type": "image_url", "image_url": image}]

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _text,
        rq.Json: _json,
        rq.Reasoning: _reasoning,
        rq.File: _file,
        rq.Opaque: request_writer.write_foreign_state(type="text"),
        rq.Source: request_writer.omit_with_loss("source"),
        rq.Ask: request_writer.omit_with_loss("approval"),
        rq.Call: request_writer.omit_with_loss("opaque"),  # a call or result in a message of the wrong role
        rq.Result: request_writer.omit_with_loss("opaque"),
    }

    # ── tools ─────────────────────────────────────────────────────────────────────────────────────

    def _write_choice(self, choice: rq.ToolChoice, body: Object) -> None:
        self.split_extra(choice.extra)
        if choice.names:
            self.report_loss("allowed")
        if choice.mode == "auto":
            self.report_loss("auto")
        else:
            body["tool_choice"] = _CHOICES[choice.mode]


def _is_image(file: rq.File) -> bool:
    return file.media.startswith("image/") and bool(file.url or file.data)


def _has_unsendable_file(parts: Sequence[rq.AnyPart | rq.ResultPart]) -> bool:
    return any(type(part) is rq.File and not _is_image(part) for part in parts)


def write_request(request: rq.Request, quirks: Quirks | None = None) -> request_writer.RequestDraft:
    """Writes a request as the body of a Chat call."""
    writer = CohereRequestWriter()
    writer.body = writer.write(request, quirks or Quirks())
    return writer
