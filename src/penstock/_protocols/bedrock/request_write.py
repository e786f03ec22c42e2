"""Writes Converse requests: messages, tools, settings. `Quirks` describes how models differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import _request_writer as request_writer
from penstock import request as rq
from penstock._markers import EMPTY_MARK, wrap_system_parts
from penstock._markers.embed_unsupported import embed_markers
from penstock._protocols.bedrock import request_read
from penstock._protocols.bedrock.request_parts import LOSSES, ConverseBlockWriter, Quirks, build_cache_point

if TYPE_CHECKING:
    from penstock._lenient_fields import Object

__all__ = ["LOSSES", "BedrockRequestWriter", "Quirks", "write_request"]
# Roles of neighbours that join one message without a loss: (last, next).
_JOINED_ROLES = {*(("tool", role) for role in ("tool", "user", "system")), ("user", "system"), ("system", "user")}
_EMPTY_BLOCK: Object = {"text": EMPTY_MARK}
_LOST_NAMES = """seed frequency_penalty presence_penalty choices logprobs top_logprobs parallel_calls verbosity user
    cache_key store"""
_LOST_SETTINGS = _LOST_NAMES.split()
_NEAREST_EFFORTS = {"minimal": "low", "xhigh": "high", "max": "high"}
_MIN_BUDGET = 1024  # the smallest accepted budget
# Additional fields of model families that do not use Claude's field, by a part of the model id.
# https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html
# https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-openai.html
_FAMILY_FIELDS = (("nova-", "reasoningConfig"), ("gpt-oss", "reasoning_effort"), ("deepseek.v", "reasoning_effort"))


def write_request(request: rq.Request, quirks: Quirks | None = None) -> request_writer.RequestDraft:
    """Writes a request as the body of a Converse call."""
    return BedrockRequestWriter(quirks or Quirks()).write_body(request)


class BedrockRequestWriter(ConverseBlockWriter):
    """Writes one request. State: the last role, because roles must alternate.

    `_other_blocks` counts the blocks of the last message that are not tool results.
    """

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._last_role = ""
        self._other_blocks = 0

    def write(self, request: rq.Request) -> Object:
        native, marks = self.split_extra(request.extra)
        messages = embed_markers(request.messages, self.holds, self.report_carried, self.report_loss)
        first = next((position for position, message in enumerate(messages) if message.role != "system"), len(messages))
        body: Object = {"modelId": request.model} if marks.get("model") else {}
        body["messages"] = self._write_messages(messages[first:])
        if first > 1:
            self.report_loss("system-join")
        if first:
            body["system"] = self.write_blocks([part for message in messages[:first] for part in message.parts])
        config = self._build_tool_config(request) | native.get("toolConfig", {})
        body |= request_writer.drop_empty(toolConfig=config)
        self._write_settings(request.settings, marks, body, request.model)
        body.update({key: value for key, value in native.items() if key != "toolConfig"})
        request_writer.add_missing(body, marks.get("also"))
        return body

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _write_messages(self, messages: list[rq.Message]) -> list[Object]:
        written: list[Object] = []
        for message in messages:
            native, marks = self.split_extra(message.extra)
            if message.name:
                self.report_loss("name")
            parts = message.parts
            if message.role == "system":
                self.report_loss("mid-system")
                parts = wrap_system_parts(parts)
            blocks = self.write_blocks(parts)
            if not blocks and message.role == "user" and self._needs_placeholder(written):
                self.report_carried("empty")  # an empty user message keeps its place, because roles alternate
                blocks = [_EMPTY_BLOCK]
            if blocks:
                self._add_blocks(message.role, blocks, {**native}, marks.get("places"), written)
            else:
                self.report_loss("empty")
        return written

    def _add_blocks(
        self, role: str, blocks: list[Object], native: Object, positions: list[int] | None, written: list[Object]
    ) -> None:
        """Adds a message, or joins the blocks with the last one."""
        wire_role = "assistant" if role == "assistant" else "user"
        if written and written[-1]["role"] == wire_role:
            if (self._last_role, role) not in _JOINED_ROLES:
                self.report_loss("merge")
            content: list[Object] = written[-1]["content"]
            if content[-1] == _EMPTY_BLOCK:
                content.pop()
                self._other_blocks -= 1
            if positions is not None and self._last_role == "tool" and len(positions) == len(blocks):
                request_writer.insert_lists(content, positions, [[block] for block in blocks])
            else:
                content += blocks
        else:
            self._other_blocks = 0
            written.append({"role": wire_role, "content": blocks, **native})
        self._other_blocks += sum("toolResult" not in block for block in blocks)
        self._last_role = role

    def _needs_placeholder(self, written: list[Object]) -> bool:
        """Returns True if an empty user message needs a block: the user has no other content in this turn."""
        return not written or written[-1]["role"] == "assistant" or not self._other_blocks

    # ── tools ─────────────────────────────────────────────────────────────────────────────────────

    def _build_tool_config(self, request: rq.Request) -> Object:
        choice = request.choice
        if choice is not None and choice.mode == "none":
            self.report_loss("no-tools")
            if not any(type(part) is rq.Call for message in request.messages for part in message.parts):
                return {}
        config = request_writer.drop_empty(tools=[row for tool in request.tools for row in self._write_tool(tool)])
        if choice is not None and choice.mode != "none":
            config["toolChoice"] = self._build_choice(choice)
        return config

    def _write_tool(self, tool: rq.Tool) -> list[Object]:
        native, marks = self.split_extra(tool.extra)
        if "tool" in native:
            written: Object = native["tool"]
        elif tool.kind in ("provider", "unknown"):
            self.report_loss("tool", tool.name)
            if tool.cache:
                self.report_loss("cache")
            return []
        else:
            more = {key: value for key, value in native.items() if key != "beside"}
            written = {"toolSpec": {**self._build_function(tool, marks), **more}, **native.get("beside", {})}
        return [written, build_cache_point(tool.cache, marks)] if tool.cache else [written]

    def _build_function(self, tool: rq.Tool, marks: Object) -> Object:
        if tool.namespace:
            self.report_loss("namespace")
        spec: Object = {"name": tool.name}
        if tool.description or marks.get("empty"):
            spec["description"] = tool.description
        spec["inputSchema"] = {"json": self.write_object_schema(tool)}
        if tool.strict is not None:
            spec["strict"] = tool.strict
        return spec

    def _build_choice(self, choice: rq.ToolChoice) -> Object:
        native: dict[str, Object] = self.split_extra(choice.extra)[0]
        if "choice" in native:
            return native["choice"]
        if choice.mode == "tool":
            return {"tool": {"name": choice.names[0]}}
        if choice.names:
            self.report_loss("allowed")
        return {"auto" if choice.mode == "auto" else "any": {}}

    # ── settings ──────────────────────────────────────────────────────────────────────────────────

    def _write_settings(self, settings: rq.Settings, marks: Object, body: Object, model: str) -> None:
        self.report_settings(settings, _LOST_SETTINGS)
        names = {marks.get("limit") or "maxTokens": "max_output", **request_read.SETTINGS}
        config = {**request_writer.write_settings(settings, names), **marks.get("config", {})}
        request_writer.add_missing(config, marks.get("unsaid"))
        more = self._build_model_fields(settings, marks.get("more", {}), model)
        if more is not marks.get("more"):
            self._drop_rejected_settings(config, more)
        fields: Object = {
            "inferenceConfig": config,
            "additionalModelRequestFields": more,
            "outputConfig": self._build_output_config(settings.format, marks.get("output")),
            "requestMetadata": settings.metadata,
            "serviceTier": marks.get("tier") or ({"type": settings.tier} if settings.tier else None),
        }
        body.update({key: value for key, value in fields.items() if value})

    def _drop_rejected_settings(self, config: Object, more: Object) -> None:
        """Drops settings that Nova rejects together with the effort `high`: output limit, temperature and top_p.

        https://github.com/UKGovernmentBEIS/inspect_ai/issues/3767, https://github.com/promptfoo/promptfoo/pull/6531
        """
        if more.get("reasoningConfig", {}).get("maxReasoningEffort") != "high":
            return
        for key, name in (("maxTokens", "max_output"), ("temperature", "temperature"), ("topP", "top_p")):
            if config.pop(key, None) is not None:
                self.report_loss("setting", name)

    def _build_output_config(self, form: rq.Format | None, original: Object | None) -> Object | None:
        if form is None or form.kind == "text":
            return original
        if form.schema is None:
            self.report_loss("any-json")
            return None
        if form.strict is not None:
            self.report_loss("format")
        return original or request_read.build_output_config(form)

    def _build_model_fields(self, settings: rq.Settings, original: Object, model: str) -> Object:
        """Returns the additional fields: unchanged if they mean the same, else in the form of the model's family."""
        wanted = request_read.ModelFields(settings.budget, settings.thoughts, settings.effort, settings.top_k)
        if request_read.read_model_fields(original) == wanted:
            return original
        replaced = (*request_read.THINKING_FIELDS, "output_config", "top_k", "reasoning_effort")
        fields = {key: value for key, value in original.items() if key not in replaced}
        if settings.top_k is not None:
            fields |= self._build_top_k(settings.top_k)
        key: str = self.quirks.thinking
        if key == "auto":
            key = next((field for part, field in _FAMILY_FIELDS if part in model), "thinking")
        fields.update(_build_thinking(settings, key))
        sent = request_read.read_model_fields(fields)
        if (sent.budget, sent.thoughts, sent.effort) != (settings.budget, settings.thoughts, settings.effort):
            self.report_loss("effort" if settings.effort else "budget")
        return fields

    def _build_top_k(self, top_k: int) -> Object:
        field = self.quirks.top_k
        if not field:
            self.report_loss("top-k")
            return {}
        return {"top_k": top_k} if field == "top_k" else {"inferenceConfig": {"topK": top_k}}


def _build_thinking(settings: rq.Settings, key: str) -> Object:
    budget, effort = settings.budget, _NEAREST_EFFORTS.get(settings.effort, settings.effort)
    if (budget is None and not effort and settings.thoughts is None) or not key:
        return {}
    level = effort or request_writer.effort_for_budget(_MIN_BUDGET if budget is None else budget)
    if key == "reasoning_effort":
        return {key: level}
    if budget == 0 or effort == "none" or settings.thoughts is False:
        return {key: {"type": "disabled"}}
    if key == "reasoningConfig":
        return {key: {"type": "enabled", "maxReasoningEffort": _NEAREST_EFFORTS.get(level, level)}}
    return _build_claude_thinking(settings, key, effort)


def _build_claude_thinking(settings: rq.Settings, key: str, effort: str) -> Object:
    """Returns Claude's fields: adaptive thinking with an effort, or a budget."""
    budget = settings.budget
    if budget is None and not effort:
        return {key: {"type": "adaptive"}}
    if budget is None and settings.thinking == "adaptive":
        return {key: {"type": "adaptive"}, "output_config": {"effort": settings.effort}}
    budget = (
        request_writer.budget_within_limit(effort, settings.max_output, _MIN_BUDGET)
        if budget is None
        else max(budget, _MIN_BUDGET)
    )
    return {key: {"type": "enabled", "budget_tokens": budget}} if budget else {}
