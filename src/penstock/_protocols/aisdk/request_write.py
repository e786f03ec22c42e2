"""Canonical requests → an AI SDK call with model messages. `Quirks.version` selects the version.

Fields that the SDK does not have travel under our key in the provider options. The SDK passes them on unchanged, and
our reader restores them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock._aisdk import provider_options, request_parts, request_settings
from penstock._aisdk.provider_options import report_foreign_fields, write_extra_fields
from penstock._diagnostics import read_losses
from penstock._protocols.aisdk.request_read import NAME, SYSTEM_SEPARATOR
from penstock._request_writer import RequestDraft, drop_empty, omit_with_loss, split_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._lenient_fields import Object

LOSSES = read_losses(__name__, "requests")
_OUTPUT, _APPROVAL, _CUSTOM = 5, 6, 7  # the first version with tool outputs, approvals, custom parts


class Quirks(msgspec.Struct, frozen=True):
    """The version that reads the request. Version 4 has other names for inputs, results and media types."""

    version: int = 7


class AisdkRequestWriter(RequestDraft):
    """Writes one request. State: the free-text tools, and the tool name of each call."""

    protocol = NAME
    losses = LOSSES

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self._version = quirks.version
        self._custom: frozenset[str] = frozenset()
        self._names: dict[str, str] = {}

    def write(self, request: rq.Request) -> Object:
        own, marks = split_extra(request.extra, NAME)
        self._custom = frozenset(tool.name for tool in request.tools if tool.kind == "custom")
        body: Object = {**own.get("rest", {}), **drop_empty(model=request.model)}
        messages = [row for message in request.messages for row in request_parts.split_sdk_runs(message)]
        body.update(self._write_prompt(messages, marks))
        with_stream = bool(request.stream or marks.get("still"))
        return {**body, **request_settings.write_request_fields(request, self, marks, with_stream=with_stream)}

    def _write_prompt(self, messages: list[rq.Message], marks: Object) -> Object:
        """Writes the system prompt and the messages."""
        key, form, count = marks.get("system") or ("system", "", 0 if marks.get("read") else len(messages))
        positions = (at for at, message in enumerate(messages) if message.role != "system")
        system_count = min(next(positions, len(messages)), count)
        system, written = self._write_messages(messages[:system_count]), self._write_messages(messages[system_count:])
        body: Object = {}
        if system and form in ("", "text") and len(system) == 1 and system[0].keys() == {"role", "content"}:
            body[key] = system[0]["content"]
        elif system or form == "list":
            body[key] = system[0] if form == "message" and len(system) == 1 else system
        if marks.get("prompt") == "text" and written and isinstance(written[0]["content"], str):
            body["prompt"] = written.pop(0)["content"]
        key = "prompt" if marks.get("prompt") == "list" else "messages"
        return {**body, **({key: written} if written or "prompt" not in body else {})}

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _write_messages(self, messages: list[rq.Message]) -> list[Object]:
        written: list[Object] = []
        for message in messages:
            _, marks = split_extra(message.extra, NAME)
            if message.role == "system":
                written.append(self._write_system(message, marks))
            elif written and (positions := self._joined_positions(message, marks, written[-1])):
                for position, part in zip(positions, message.parts, strict=False):
                    written[-1]["content"][position:position] = self._write_part(part)
            else:
                written += self._write_message(message, marks)
        return written

    def _joined_positions(self, message: rq.Message, marks: Object, before: Object) -> list[int]:
        """Returns the positions of a message's parts in the message before; nothing if they do not belong there."""
        if not isinstance(before["content"], list):
            return []
        joined = marks.get("joined")
        if isinstance(joined, list):
            return joined  # pyright: ignore[reportUnknownVariableType]
        answers = message.role == "user" and all(type(part) is rq.Ask for part in message.parts)
        # the SDK looks for approvals only in the last message, before its results
        return list(range(len(message.parts))) if answers and before["role"] == "tool" else []

    def _write_system(self, message: rq.Message, marks: Object) -> Object:
        parts, opaques = _split_opaque(message.parts)
        texts = [part.text for part in parts if type(part) is rq.Text]
        if len(texts) < len(parts):
            self.report_loss("system-part")
        if any(part.cache for part in parts[:-1]):
            self.report_loss("cache")
        cache = parts[-1].cache if parts else ""
        sizes = [len(text) for text in texts] if len(texts) > 1 else []
        rest_fields = self._message_fields(message, marks, cache, sizes=sizes, opaques=opaques)
        return {"role": "system", "content": SYSTEM_SEPARATOR.join(texts), **rest_fields}

    def _message_fields(self, message: rq.Message, marks: Object, cache: str, **ours: Any) -> Object:
        report_foreign_fields(self, message.extra)
        options = provider_options.write_options(message.extra, marks, cache=cache, name=message.name, **ours)
        return {**split_extra(message.extra, NAME)[0].get("rest", {}), **options}

    def _write_message(self, message: rq.Message, marks: Object) -> list[Object]:
        role = marks.get("role") or message.role
        keeps_opaque = role == "assistant" and self._version >= _CUSTOM
        parts, opaques = (message.parts, []) if keeps_opaque else _split_opaque(message.parts)
        answers: list[rq.AnyPart] = [part for part in parts if type(part) is rq.Ask] if role == "user" else []
        written: list[Object] = []
        if answers:  # approvals are answered where results are given
            content = [element for part in answers for element in self._write_part(part)]
            written.append({"role": "tool", "content": content})
            parts = [part for part in parts if type(part) is not rq.Ask]
        if parts or not answers:
            cache = ""
            if marks.get("cached") and parts:
                cache, parts = parts[-1].cache, [*parts[:-1], replace(parts[-1], cache="")]
            rest = self._write_content(parts, is_list=role == "tool" or "listed" in marks)
            rest_fields = self._message_fields(message, marks, cache, opaques=opaques)
            written.append({"role": role, "content": rest, **rest_fields})
        return [element for element in written if element["role"] != "tool" or element["content"]]

    def _write_content(self, parts: list[rq.AnyPart], *, is_list: bool) -> str | list[Object]:
        if not is_list and not parts:
            return ""
        elements = [element for part in parts for element in self._write_part(part)]
        first = elements[0] if len(elements) == 1 and not is_list else {}
        return str(first["text"]) if first.keys() == {"type", "text"} and first["type"] == "text" else elements

    def _write_part(self, part: rq.AnyPart) -> list[Object]:
        if not isinstance(part, rq.Opaque) and part.extra is not None:
            report_foreign_fields(self, part.extra)
        return self.kinds[type(part)](self, part)

    def _write_text(self, part: rq.Text) -> list[Object]:
        if part.refusal:
            self.report_loss("refusal")
        return [{"type": "text", "text": part.text, **write_extra_fields(part, refusal=part.refusal)[0]}]

    def _write_reasoning(self, part: rq.Reasoning) -> list[Object]:
        marks = split_extra(part.extra, NAME)[1]
        state = (part.extra or {}).get("anthropic", {})
        is_v4 = bool(marks.get("signed") or marks.get("kind"))
        others = {key: own for key, own in (part.extra or {}).items() if key != "anthropic"}
        reasoning = replace(part, extra=others) if is_v4 else part
        rest = write_extra_fields(reasoning, **request_parts.reasoning_fields(part))[0]
        if marks.get("kind"):
            return [{**rest, "type": "redacted-reasoning", "data": state.get("redacted", "")}]
        signature = {"signature": state.get("signature", "")} if is_v4 else {}
        return [{**rest, "type": "reasoning", "text": part.text, **signature}]

    def _write_call(self, call: rq.Call) -> list[Object]:
        self._names[call.id] = call.name
        if call.cut:
            self.report_loss("cut-call")
            return []
        is_free_text = call.form == "text" and call.name not in self._custom
        rest, _, marks = write_extra_fields(call, form="text" if is_free_text else "")
        fields: Object = {"type": "tool-call", "toolCallId": call.id, "toolName": call.name}
        if call.json or not marks.get("silent"):
            input_key = "args" if marks.get("old") or self._version < _OUTPUT else "input"
            fields[input_key] = request_parts.call_input_value(call, marks)
        if call.by == "provider" or marks.get("unrun"):
            fields["providerExecuted"] = call.by == "provider"
        return [{**rest, **fields}]

    def _write_result(self, result: rq.Result) -> list[Object]:
        own, marks = split_extra(result.extra, NAME)
        failed = result.failed and request_parts.single_value(result) is None and not own.get("denied")
        ran = result.by == "provider" and result.call not in self._names
        rest = write_extra_fields(result, failed=failed, partial=result.partial, ran=ran)[0]
        name = result.name or self._names.get(result.call, "")
        fields = {**rest, "type": "tool-result", "toolCallId": result.call, "toolName": name}
        if marks.get("old") or self._version < _OUTPUT:
            return [{**fields, **self._write_v4_output(result, marks)}]
        return [{**fields, "output": request_parts.write_output(result, self, self._version)}]

    def _write_v4_output(self, result: rq.Result, marks: Object) -> Object:
        value = result.content[0] if len(result.content) == 1 else None
        failed = {"isError": result.failed} if result.failed or marks.get("unfailed") else {}
        if type(value) is rq.Text and "result" not in marks:
            return {"result": value.text, **failed}
        if type(value) is rq.Json:
            return {"result": request_parts.parse_json_or_text(value.json), **failed}
        content = request_parts.write_content(result.content, self, self._version)
        result_value: Any = marks["result"]["value"] if "result" in marks else content
        return {"result": result_value, "experimental_content": content, **failed}

    def _write_file(self, file: rq.File) -> list[Object]:
        if file.id and not file.url and not file.data and not split_extra(file.extra, NAME)[1].get("reference"):
            self.report_loss("file-id")
        fields = request_parts.write_file(file, "data")
        if fields["type"] == "reasoning-file" and self._version < _CUSTOM:
            fields["type"] = "file"
        return [fields]

    def _write_opaque(self, part: rq.Opaque) -> list[Object]:
        if part.protocol == NAME and part.kind != "custom":
            return [part.data]
        if self._version >= _CUSTOM:
            return [request_parts.write_custom(part)]
        self.report_loss("opaque")  # a custom part of the SDK
        return []

    def _write_ask(self, ask: rq.Ask) -> list[Object]:
        if self._version < _APPROVAL:
            self.report_loss("approval")
            return []
        rest = write_extra_fields(ask)[0]
        if ask.approved is None:
            return [{**rest, "type": "tool-approval-request", "approvalId": ask.id, "toolCallId": ask.call}]
        return [{**rest, "type": "tool-approval-response", "approvalId": ask.id, "approved": ask.approved}]

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _write_text,
        rq.Reasoning: _write_reasoning,
        rq.Call: _write_call,
        rq.Result: _write_result,
        rq.File: _write_file,
        rq.Ask: _write_ask,
        rq.Opaque: _write_opaque,
        rq.Source: omit_with_loss("source"),
    }


def _split_opaque(parts: list[rq.AnyPart]) -> tuple[list[rq.AnyPart], list[Any]]:
    """Splits off opaque state of other protocols; returns it with its positions."""
    moved = [position for position, part in enumerate(parts) if type(part) is rq.Opaque and part.protocol != NAME]
    if not moved:
        return parts, []
    others = [part for position, part in enumerate(parts) if position not in moved]
    return others, [[position, msgspec.to_builtins(parts[position])] for position in moved]


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """Writes a request as the options of an AI SDK call, in JSON."""
    writer = AisdkRequestWriter(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
