"""Writes Responses requests: messages as input items, tools, settings. `Quirks` describes how providers differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import _openai_requests as openai
from penstock import _request_writer as request_writer
from penstock import request as rq
from penstock._lenient_json import as_json
from penstock._markers.embed_unsupported import embed_markers
from penstock._protocols.responses import request_write_parts as parts
from penstock._protocols.responses.request_read import LOGPROBS, OPTIONAL_SETTINGS, read_format
from penstock._protocols.responses.request_write_parts import LACKS, LOSSES, AssistantWriter, Quirks
from penstock._protocols.responses.wire import NAME
from penstock._request_writer import RequestDraft, add_missing, drop_empty, restore_fields, split_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._lenient_fields import Object

__all__ = ["LACKS", "LOSSES", "NAME", "Quirks", "ResponsesRequestWriter", "write_request"]
_ENCRYPTED_REASONING = "reasoning.encrypted_content"
_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"})
_SETTING_FIELDS = openai.parse_field_names(
    "temperature top_p parallel_tool_calls=parallel_calls user prompt_cache_key=cache_key store top_logprobs"
)
_NO_INPUT: Object = {"type": "object", "properties": {}}  # the schema of a tool without parameters


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """Writes a request as the body of a Responses call."""
    writer = ResponsesRequestWriter(quirks or Quirks())
    writer.body = writer.write(request)
    return writer


class InputWriter(AssistantWriter):
    """Writes messages as input items."""

    def write_input(self, messages: Iterable[rq.Message]) -> list[Object]:
        before = ""
        for message in messages:
            if message.name:
                self.report_loss("name")
            if message.role == "assistant":
                self.start_message(split=before == "assistant" and not self.native)
            self.role_writers[message.role](self, message)
            before = message.role
        return self.items

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _write_message(self, message: rq.Message) -> None:
        """Writes a system or user message. Approvals and opaque items of this protocol become separate items."""
        extras, marks = self.split_extra(message.extra)
        inside: list[rq.AnyPart] = []
        for part in message.parts:
            if type(part) is rq.Ask:
                self._write_stored_item(part, 0)
            elif type(part) is rq.Opaque and part.protocol == NAME and not parts.is_content(part):
                self.add_item(part.data)
            else:
                inside.append(part)
        if not inside and message.parts:
            return
        item: Object = {} if "bare" in marks else {"type": "message"}
        item.update({key: marks[key] for key in ("id", "status") if key in marks})
        system = marks.get("role") or ("system" if self.native else self.quirks.system)
        item["role"] = "user" if message.role == "user" else system
        item["content"] = self.write_content(inside, listed="listed" in marks)
        restore_fields(item, extras, marks)
        self.add_item(item)

    def _write_assistant(self, message: rq.Message) -> None:
        if not message.parts:
            self.write_empty_message(message)
            return
        for position, part in enumerate(message.parts):
            self.assistant_writers[type(part)](self, part, position)

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _write_call(self, call: rq.Call, _: int) -> None:
        extras, marks = self.split_extra(call.extra)
        if "item" in extras:
            self.add_item(extras["item"] if call.by == "provider" else parts.build_call_item(call, extras["item"]))
        elif call.cut and "status" not in marks:
            self.report_loss("cut-call")
        elif call.by == "client":  # a provider's call is in the item of its result
            self.add_item(self._build_call(call, extras, marks))

    def _build_call(self, call: rq.Call, extras: Object, marks: Object) -> Object:
        is_text = call.form == "text"
        if is_text:
            self._text_calls.add(call.id)
        item: Object = {"type": "custom_tool_call" if is_text else "function_call"}
        if call.item and (self.native or NAME in (call.extra or ())):
            item["id"] = call.item
        elif self.starts_message:
            item["id"] = self.make_id("ctc" if is_text else "fc")
        if "loose" not in marks or call.id != call.item:
            item["call_id"] = call.id
        item["name"] = call.name
        item["input" if is_text else "arguments"] = call.json or ("" if is_text or marks else "{}")
        if "status" in marks:
            item["status"] = marks["status"]
        restore_fields(item, {key: value for key, value in extras.items() if key != "id"}, marks)
        self.write_cache_point(call, item, allowed=False)
        return item

    # ── results ───────────────────────────────────────────────────────────────────────────────────

    def _write_stored_item(self, part: rq.Ask | rq.Result, _: int) -> None:
        """Writes the item of an approval, or of a provider's call with its result. Partial results are left out."""
        item = self.split_extra(part.extra)[0].get("item")
        if item is None:
            self.report_loss("approval" if type(part) is rq.Ask else "provider-call")
        elif isinstance(part, rq.Ask) or not part.partial:
            self.add_item(item)

    def _write_results(self, message: rq.Message) -> None:
        self.split_extra(message.extra)
        for part in message.parts:
            if type(part) is rq.Result:
                self.add_item(self._build_output(part))
            elif content := self.write_part(part):
                self.add_item({"type": "message", "role": "user", "content": content})

    def _build_output(self, result: rq.Result) -> Object:
        extras, marks = self.split_extra(result.extra)
        if "item" in extras:
            return parts.build_output_item(result, extras["item"])
        is_text = result.form == "text" or result.call in self._text_calls or "kind" in marks
        item: Object = {"type": "custom_tool_call_output" if is_text else "function_call_output"}
        if result.call or "loose" not in marks:
            item["call_id"] = result.call
        item.update({key: marks[key] for key in ("id", "status") if key in marks})
        if "named" in marks:
            item["name"] = result.name
        item["output"] = self.write_content(result.content, listed="listed" in marks)
        restore_fields(item, extras, marks)
        self.write_cache_point(result, item, allowed=False)
        return item

    role_writers: ClassVar[Mapping[str, Callable[[Any, rq.Message], None]]] = {
        **dict.fromkeys(("system", "user"), _write_message),
        "assistant": _write_assistant,
        "tool": _write_results,
    }
    assistant_writers: ClassVar[Mapping[type, Callable[[Any, Any, int], None]]] = {
        rq.Text: AssistantWriter.write_text,
        rq.File: AssistantWriter.write_file,
        rq.Source: AssistantWriter.write_source,
        rq.Opaque: AssistantWriter.write_state,
        rq.Reasoning: AssistantWriter.write_reasoning,
        rq.Call: _write_call,
        **dict.fromkeys((rq.Result, rq.Ask), _write_stored_item),
    }


class ResponsesRequestWriter(InputWriter):
    """Writes one request."""

    def write(self, request: rq.Request) -> Object:
        extras, marks = self.split_extra(request.extra)
        self.native = "read" in marks
        body: Object = {"model": request.model} if request.model else {}
        messages = embed_markers(
            parts.drop_generated_images(request.messages), parts.NATIVE_SUPPORT, self.report_carried, self.report_loss
        )
        self._write_messages(self._write_instructions(messages, body), marks, body)
        body.update(drop_empty(tools=self._write_tools(request.tools)))
        if request.choice is not None:
            body["tool_choice"] = self._build_choice(request.choice, request.tools)
        if request.stream:
            body["stream"] = True
        body.update({key: value for key, value in extras.items() if key not in ("reasoning", "text")})
        self._write_settings(request.settings, marks, body)
        self._write_reasoning_settings(request.settings, extras, marks, body)
        self._write_text_settings(request.settings, extras, marks, body)
        self._write_include(request.settings, body)
        add_missing(body, marks.get("also"))
        return body

    def _write_instructions(self, messages: list[rq.Message], body: Object) -> list[rq.Message]:
        """Writes the system prompt as `instructions` if possible. Returns the other messages."""
        first = messages[0] if messages else None
        if first is None or first.role != "system" or len(first.parts) != 1:
            return messages
        only, marks = first.parts[0], split_extra(first.extra, NAME)[1]
        wanted = "top" in marks or (not self.native and self.quirks.instructions)
        if type(only) is not rq.Text or only.cache or not only.text or not wanted:
            return messages
        self.split_extra(first.extra)
        self.split_extra(only.extra)
        if first.name:
            self.report_loss("name")
        body["instructions"] = only.text
        return messages[1:]

    def _write_messages(self, messages: list[rq.Message], marks: Object, body: Object) -> None:
        only = messages[0] if len(messages) == 1 else None
        if only is not None and "string" in split_extra(only.extra, NAME)[1]:
            content = self.write_content(only.parts, listed=False)
            if isinstance(content, str):
                body["input"] = content
                return
        if messages or not self.native:
            body["input"] = self.write_input(messages)
        elif "input" in marks:
            body["input"] = []

    # ── settings ──────────────────────────────────────────────────────────────────────────────────

    def _write_settings(self, settings: rq.Settings, marks: Object, body: Object) -> None:
        openai.write_fields(settings, _SETTING_FIELDS, body)
        if settings.max_output is not None:
            if settings.max_output < (least := self.quirks.min_output):
                self.report_loss("max-output", f"{settings.max_output} is sent as {least}")
            body["max_output_tokens"] = max(settings.max_output, least)
        self._write_optional_settings(settings, marks, body)
        if settings.tier in _TIERS or (settings.tier and self.native):
            body["service_tier"] = settings.tier
        if settings.metadata is not None:
            body["metadata"] = settings.metadata if self.native else self._build_metadata(settings.metadata)
        lost = {
            "choices": settings.choices is not None,
            "tier": settings.tier and "service_tier" not in body,
            "logprobs": settings.logprobs is False,
            "thoughts": settings.thoughts is False,
        }
        for name in (name for name, is_lost in lost.items() if is_lost):
            self.report_loss("setting", name)

    def _write_optional_settings(self, settings: rq.Settings, marks: Object, body: Object) -> None:
        for key in OPTIONAL_SETTINGS:
            value = getattr(settings, key)
            if value is None or value == []:
                continue
            if key in self.quirks.more or key in marks.get("more", ()):
                body[key] = value[0] if key == "stop" and "stop" in marks and len(value) == 1 else value
            else:
                self.report_loss("setting", key)

    def _build_metadata(self, metadata: Object) -> Object:
        """Returns metadata with string values, which this protocol requires."""
        if all(isinstance(value, str) for value in metadata.values()):
            return metadata
        self.report_loss("metadata")
        return {key: value if isinstance(value, str) else as_json(value) for key, value in metadata.items()}

    def _write_reasoning_settings(self, settings: rq.Settings, extras: Object, marks: Object, body: Object) -> None:
        reasoning: Object = dict(extras.get("reasoning", {}))
        effort = settings.effort
        if settings.budget is not None:
            self.report_loss("budget")
            effort = effort if effort and settings.budget else request_writer.effort_for_budget(settings.budget)
        if effort:
            reasoning["effort"] = self._choose_effort(effort)
        if settings.thoughts:
            reasoning["summary"] = marks.get("summary") or "auto"
        add_missing(reasoning, marks.get("thinking"))
        body.update(drop_empty(reasoning=reasoning))

    def _choose_effort(self, effort: str) -> str:
        """Returns the effort that the provider has, or the nearest one."""
        known = self.quirks.efforts
        if not known or effort in known:
            return effort
        self.report_loss("effort", effort)
        wanted = request_writer.budget_for_effort(effort)
        return min(known, key=lambda level: (level == "none", abs(request_writer.budget_for_effort(level) - wanted)))

    def _write_text_settings(self, settings: rq.Settings, extras: Object, marks: Object, body: Object) -> None:
        text: Object = dict(extras.get("text", {}))
        unusual, form = marks.get("format"), settings.format
        if unusual is not None and read_format(unusual) == form:
            text["format"] = unusual
        elif form is not None and form.kind == "json" and not self.quirks.any_json:
            self.report_loss("any-json")
        elif form is not None:
            text["format"] = self._build_format(form)
        text.update(drop_empty(verbosity=settings.verbosity))
        add_missing(text, marks.get("texts"))
        body.update(drop_empty(text=text))

    def _build_format(self, form: rq.Format) -> Object:
        if form.kind != "schema":
            return {"type": "json_object" if form.kind == "json" else "text"}
        if not form.name:
            self.report_loss("format")
        schema = {"schema": form.schema or {"type": "object"}, "strict": form.strict}
        return drop_empty(type="json_schema", name=form.name or "answer", description=form.description, **schema)

    def _write_include(self, settings: rq.Settings, body: Object) -> None:
        wanted = ((LOGPROBS, settings.logprobs), (_ENCRYPTED_REASONING, self.quirks.sealed))
        included = body.get("include", ())
        missing = [value for value, needed in wanted if needed and value not in included]
        if missing:
            body["include"] = [*included, *missing]

    # ── tools ─────────────────────────────────────────────────────────────────────────────────────

    def _write_tools(self, tools: Iterable[rq.Tool]) -> list[Object]:
        """Writes all tools. Tools in a row with the same namespace form one group."""
        written: list[Object] = []
        group: Object = {}
        for tool in tools:
            extras, marks = self.split_extra(tool.extra)
            item = None if "elsewhere" in marks else self._build_tool(tool, extras, marks)
            if item is None:
                continue
            if not tool.namespace:
                written.append(item)
                group = {}
            elif group.get("name") == tool.namespace and "space" not in marks:
                group["tools"].append(item)
            else:
                fields = marks.get("space", {"description": ""})
                group = {"type": "namespace", **fields, "name": tool.namespace, "tools": [item]}
                written.append(group)
        return written

    def _build_tool(self, tool: rq.Tool, extras: Object, marks: Object) -> Object | None:
        if "tool" in extras:
            return extras["tool"]  # type: ignore[no-any-return]
        if tool.kind in ("provider", "unknown"):
            self.report_loss("tool", tool.name)
            self.write_cache_point(tool, {}, allowed=False)
            return None
        if tool.kind == "custom":
            written = {"type": "custom", **drop_empty(name=tool.name, description=tool.description, format=tool.schema)}
        else:
            written = self._build_function(tool)
        if "nested" in marks:
            inner = {key: value for key, value in written.items() if key != "type"}
            add_missing(inner, marks.get("also"))
            return {"type": "function", "function": {**inner, **marks.get("inner", {})}, **extras}
        if "untyped" in marks:
            del written["type"]
        restore_fields(written, extras, marks)
        self.write_cache_point(tool, written, allowed=False)
        return written

    def _build_function(self, tool: rq.Tool) -> Object:
        written: Object = {"type": "function", "name": tool.name, **drop_empty(description=tool.description)}
        if tool.schema is not None or not self.native:
            written["parameters"] = _NO_INPUT if tool.schema is None else tool.schema
        if tool.strict is not None or not self.native:
            written["strict"] = bool(tool.strict)  # unlike in other protocols, a tool without `strict` is strict
        return written

    def _build_choice(self, choice: rq.ToolChoice, tools: Iterable[rq.Tool]) -> Any:
        marks = self.split_extra(choice.extra)[1]
        if "choice" in marks:
            return marks["choice"]
        if choice.mode == "none" or not choice.names:
            return "required" if choice.mode == "tool" else choice.mode
        custom = {tool.name for tool in tools if tool.kind == "custom"}
        rows = [{"type": "custom" if name in custom else "function", "name": name} for name in choice.names]
        return rows[0] if choice.mode == "tool" else {"type": "allowed_tools", "mode": choice.mode, "tools": rows}
