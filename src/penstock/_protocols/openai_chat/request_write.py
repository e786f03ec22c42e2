"""Canonical requests → Chat Completions: messages and settings. `Quirks` has the differences between providers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import _openai_requests as openai
from penstock import _request_writer as request_writer
from penstock import request as rq
from penstock._lenient_json import as_json
from penstock._markers.embed_unsupported import embed_markers
from penstock._protocols.openai_chat import request_read, request_write_parts
from penstock._protocols.openai_chat.request_read_parts import read_cache_hint
from penstock._protocols.openai_chat.request_write_parts import LACKS, LOSSES, ChatPartWriter, Quirks
from penstock._protocols.openai_chat.wire import NAME, merge_extra_content, remove_signature, write_signature
from penstock._request_writer import RequestDraft, add_missing, drop_empty, effort_for_budget, split_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._lenient_fields import Object

__all__ = ["LACKS", "LOSSES", "Quirks", "write_request"]
_EMPTY_KEYS = frozenset({"role", "content", "name"})
_PART_ORDER: dict[type, int] = {rq.Reasoning: 0, rq.Call: 2}  # everything else comes between them


class ChatRequestWriter(ChatPartWriter):
    """Writes one request."""

    def write(self, request: rq.Request) -> Object:
        extras, marks = self.split_extra(request.extra)
        messages: list[Object] = []
        for message in embed_markers(request.messages, self.native_support, self.report_carried, self.report_loss):
            self.role_writers[message.role](self, message, messages)
        body: Object = {"model": request.model} if request.model else {}
        body["messages"] = messages
        if request.stream:
            body["stream"] = True
        request_write_parts.write_tools(self, request.tools, body)
        request_write_parts.write_choice(self, request.choice, body)
        write_settings(self, request.settings, extras, marks, body)
        body.update({key: value for key, value in extras.items() if key not in request_read.KEPT_SETTINGS})
        if request.usage is not None:
            body["stream_options"] = {"include_usage": request.usage, **extras.get("stream_options", {})}
        add_missing(body, marks.get("also"))
        return body

    def _write_message(self, message: rq.Message, messages: list[Object]) -> None:
        """Writes a system or user message."""
        role: str = message.role
        if role == "system" and self.quirks.system:
            role = self.quirks.system
        if message.extra is None:
            body: Object = {"role": role, "content": self.write_content(message.parts) or ""}
        else:
            extras, marks = self.split_extra(message.extra)
            body = {"role": self.quirks.system or marks.get("role", role) if role == "system" else role}
            self._write_content(message.parts, marks, "", body)
            body.update(extras)
            self._write_message_fields(body, marks, message.parts)
        if message.name:
            body["name"] = message.name
        messages.append(body)

    def _write_content(self, parts: list[rq.AnyPart], marks: Object, default: Any, body: Object) -> None:
        hinted = _has_message_hint(parts, marks)
        content = self.write_content(parts, listed="listed" in marks, hinted=hinted) if parts else ""
        if content:
            body["content"] = content
        elif "bare" not in marks and "content" not in (marks.get("also") or ()):
            body["content"] = default

    def _write_message_fields(self, body: Object, marks: Object, parts: list[rq.AnyPart]) -> None:
        if _has_message_hint(parts, marks):
            body.update(marks["hint"])
        add_missing(body, marks.get("also"))

    def _write_assistant(self, message: rq.Message, messages: list[Object]) -> None:
        body: Object = {"role": "assistant"}
        content_parts: list[rq.AnyPart] = []
        last_order = 0
        state, parts = self._collect_signature(message)
        for part in parts:
            kind = type(part)
            if kind is rq.Call:
                self._write_call(part, body)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            elif kind is rq.Reasoning and not self.is_content_reasoning(part):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
                self.write_reasoning(part, body)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            else:
                content_parts.append(part)
            order = _PART_ORDER.get(kind, 1)
            if order < last_order and kind is not rq.Source:
                self.report_loss("order")
            last_order = order
        extras, marks = self.split_extra(message.extra)
        self._write_refusal(content_parts, body)
        self._write_content(content_parts, marks, None, body)
        body.update(merge_extra_content(extras, state))
        if message.name:
            body["name"] = message.name
        self._write_message_fields(body, marks, message.parts)
        if not body.get("content") and body.keys() <= _EMPTY_KEYS and NAME not in (message.extra or ()):
            self.report_loss("empty")  # nothing of it can be sent, and a message without content is refused
            return
        messages.append(body)

    def _collect_signature(self, message: rq.Message) -> tuple[Object, list[rq.AnyPart]]:
        """Returns the field for a text's thought signature, if it may be sent, and the parts without it."""
        if "signed" not in split_extra(message.extra, NAME)[1] and not self.quirks.signatures:
            return {}, message.parts
        signature_field: Object = {}
        for part in message.parts:
            signature_field = (write_signature(part.extra) if type(part) is rq.Text else None) or signature_field
        return signature_field, [_drop_signature(part) if type(part) is rq.Text else part for part in message.parts]

    def _write_refusal(self, content_parts: list[rq.AnyPart], body: Object) -> None:
        """Writes a refusal as a field if it stands alone or was one; else it stays a part."""
        for position in range(len(content_parts) - 1, -1, -1):
            part = content_parts[position]
            if type(part) is not rq.Text or not part.refusal:
                continue
            marks = self.split_extra(part.extra)[1]
            if "field" in marks or (len(content_parts) == 1 and NAME not in (part.extra or ())):
                body["refusal"] = part.text
                del content_parts[position]
                return

    def _write_call(self, call: rq.Call, body: Object) -> None:
        if call.cut:
            self.report_loss("cut-call")
            return
        text = call.form == "text"
        kind = "custom" if text else "function"
        definition: Object = {"name": call.name, "input" if text else "arguments": call.json}
        fields: Object = {"id": call.id, "type": kind, kind: definition}
        if call.extra is not None:
            signed = "signed" in split_extra(call.extra, NAME)[1] or self.quirks.signatures
            state = write_signature(call.extra) if signed else {}
            extras, marks = self.split_extra((_drop_signature(call) if state else call).extra)
            extras = merge_extra_content(extras, state)
            if "legacy" in marks:
                body["function_call"] = definition
                return
            self._write_unusual_call(fields, definition, extras, marks)
        if not call.json and not text and call.extra is None:
            definition["arguments"] = "{}"
        if call.cache:
            self.write_cache_hint(call, fields, self.split_extra(call.extra)[1])
        body.setdefault("tool_calls", []).append(fields)

    def _write_unusual_call(self, fields: Object, definition: Object, extras: Object, marks: Object) -> None:
        if "untyped" in marks:
            del fields["type"]
        if "unnamed" in marks and not fields["id"]:
            del fields["id"]
        original = marks.get("given", {}).get("as")
        if "given" in marks and definition["arguments"] == ("" if original is None else as_json(original)):
            definition["arguments"] = original
        fields.update({key: value for key, value in extras.items() if key != "function"})
        definition.update(extras.get("function", {}))

    def _write_tool_message(self, message: rq.Message, messages: list[Object]) -> None:
        for part in message.parts:
            if type(part) is rq.Result:
                messages.append(self._write_result(part))
            elif blocks := self.write_part(part):
                messages.append({"role": "user", "content": blocks})

    def _write_result(self, result: rq.Result) -> Object:
        if result.extra is None and not result.cache:
            content = self.write_result_content(result.content, listed=False)
            return {"role": "tool", "tool_call_id": result.call, "content": content}
        extras, marks = self.split_extra(result.extra)
        body: Object = {"role": marks.get("role", "tool")}
        if body["role"] == "tool" and "unnamed" not in marks:
            body["tool_call_id"] = result.call
        if "named" in marks:
            body["name"] = result.name
        if result.content or not ("content" in marks.get("also", ()) or "bare" in marks):
            body["content"] = self.write_result_content(result.content, listed="listed" in marks)
        body.update(extras)
        self._write_message_fields(body, marks, [result])
        if result.cache and not _has_message_hint([result], marks):
            self.write_cache_hint(result, body, extras)
        return body

    role_writers: dict[str, Callable[[Any, rq.Message, list[Object]], None]] = {  # noqa: RUF012 — a table
        **dict.fromkeys(("system", "user"), _write_message),
        "assistant": _write_assistant,
        "tool": _write_tool_message,
    }


def _drop_signature(part: Any) -> Any:
    """Returns a part without its thought signature."""
    return replace(part, extra=remove_signature(part.extra)) if write_signature(part.extra) else part


def _has_message_hint(parts: Sequence[rq.Part], marks: Object) -> bool:
    """True if the cache point of the last part was written on the message."""
    return "hint" in marks and bool(parts) and read_cache_hint(marks["hint"]) == parts[-1].cache


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """Writes a request as the body of a Chat Completions call."""
    writer = ChatRequestWriter(quirks or Quirks())
    writer.body = writer.write(request)
    return writer


_SETTING_FIELDS = openai.parse_field_names(
    "temperature top_p frequency_penalty presence_penalty n=choices logprobs top_logprobs "
    "parallel_tool_calls=parallel_calls verbosity service_tier=tier user metadata prompt_cache_key=cache_key store"
)


def write_settings(writer: ChatPartWriter, settings: rq.Settings, extras: Object, marks: Object, body: Object) -> None:
    """Writes all settings that have a value."""
    openai.write_fields(settings, _SETTING_FIELDS, body)
    if settings.max_output is not None:
        body[writer.quirks.limit or marks.get("limit") or "max_tokens"] = settings.max_output
        long_limit, short_limit = marks.get("limits", (None, None))
        if long_limit == settings.max_output and not writer.quirks.limit:
            body["max_tokens"] = short_limit
    if settings.seed is not None:
        body[marks.get("seed") or writer.quirks.seed] = settings.seed
    if settings.stop:
        body["stop"] = settings.stop[0] if "stop" in marks and len(settings.stop) == 1 else settings.stop
    _write_format(settings.format, marks, body)
    if settings.top_k is not None and (writer.quirks.top_k or "top_k" in marks):
        body["top_k"] = settings.top_k
    elif settings.top_k is not None:
        writer.report_loss("setting", "top_k")
    kept_fields = {key: extras[key] for key in request_read.KEPT_SETTINGS if key in extras}
    if kept_fields and request_read.read_effort(kept_fields)[1] == settings.budget:
        body.update(drop_empty(reasoning_effort=settings.effort), **kept_fields)
    else:
        _write_thinking(writer, settings, marks, body)


def _write_format(form: rq.Format | None, marks: Object, body: Object) -> None:
    original = marks.get("format", {}).get("as")
    if original is not None and request_read.read_format({"response_format": original}) == form:
        body["response_format"] = original
    elif form is not None:
        body["response_format"] = _build_format(form)


def _write_thinking(writer: ChatPartWriter, settings: rq.Settings, marks: Object, body: Object) -> None:
    """Writes effort and budget in the provider's field."""
    field = writer.quirks.effort
    if "reasoning" in marks:
        original = marks["reasoning"]["as"]
        if request_read.read_reasoning(original) == (settings.effort, settings.budget, settings.thoughts):
            body["reasoning"] = original
            return
        field = "reasoning"
    if field == "reasoning":
        _write_reasoning_object(settings, body)
        return
    if field in _THINKING_FIELDS:
        body.update(_THINKING_FIELDS[field](settings, writer.quirks))
        return
    if settings.thoughts is not None:
        writer.report_loss("setting", "thoughts")
    effort = settings.effort
    if settings.budget is not None:
        writer.report_loss("budget")
        effort = effort_for_budget(settings.budget) if not effort or not settings.budget else effort
    if effort and field:
        body[field] = effort
    elif effort:
        writer.report_loss("setting", "effort")


def _build_thinking_object(settings: rq.Settings, quirks: Quirks) -> Object:
    """Returns `thinking` (on or off), and `reasoning_effort` if the model takes one.

    https://api-docs.deepseek.com/guides/thinking_mode, https://docs.z.ai/guides/capabilities/thinking-mode
    """
    if settings.budget == 0 or settings.effort == "none":
        return {"thinking": {"type": "disabled"}}
    if settings.thinking == "none" or (not settings.effort and settings.budget is None and not settings.thoughts):
        return {}
    fields: Object = {"thinking": {"type": quirks.switched_on}}
    effort = settings.effort or (effort_for_budget(settings.budget) if settings.budget is not None else "")
    return {**fields, "reasoning_effort": effort} if effort else fields


def _build_thinking_switch(settings: rq.Settings, _quirks: Quirks) -> Object:
    """Returns Qwen's switch and budget. https://www.alibabacloud.com/help/en/model-studio/deep-thinking"""
    if settings.budget == 0 or settings.effort == "none":
        return {"enable_thinking": False}
    if settings.budget is None and not settings.effort:
        return {"enable_thinking": True} if settings.thoughts else {}
    return {
        "enable_thinking": True,
        "thinking_budget": settings.budget or request_writer.budget_for_effort(settings.effort),
    }


_THINKING_FIELDS = {"thinking": _build_thinking_object, "enable_thinking": _build_thinking_switch}


def _write_reasoning_object(settings: rq.Settings, body: Object) -> None:
    hidden = None if settings.thoughts is None else not settings.thoughts
    off = settings.budget == 0
    fields = drop_empty(effort=settings.effort, max_tokens=None if off else settings.budget, exclude=hidden)
    body.update(drop_empty(reasoning={**fields, "enabled": False} if off else fields))


def _build_format(form: rq.Format) -> Object:
    if form.kind != "schema":
        return {"type": "json_object" if form.kind == "json" else "text"}
    about = {"description": form.description, "strict": form.strict}
    schema = drop_empty(name=form.name or "answer", schema=form.schema, **about)
    return {"type": "json_schema", "json_schema": schema}
