"""Writes Anthropic Messages requests: messages, tools, settings. `Quirks` describes how providers differ.

A setting that came from this protocol and still has the same meaning is written as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import request as rq
from penstock._markers import EMPTY_MARK
from penstock._markers.embed_unsupported import embed_markers
from penstock._protocols.anthropic import request_read
from penstock._protocols.anthropic.request_write_parts import LACKS, LOSSES, BlockWriter, Quirks
from penstock._protocols.anthropic.wire import NAME
from penstock._request_writer import RequestDraft, add_missing, drop_empty, insert_lists, split_extra

if TYPE_CHECKING:
    from penstock._lenient_fields import Object

__all__ = ["LACKS", "LOSSES", "NAME", "AnthropicRequestWriter", "Quirks", "write_request"]
_REMINDER = "<system-reminder>\n{}\n</system-reminder>"
_LOST_NAMES = "seed frequency_penalty presence_penalty choices logprobs top_logprobs verbosity cache_key store"
_LOST_SETTINGS = _LOST_NAMES.split()
_NEAREST_EFFORTS = {"minimal": "low", "none": ""}
_TIERS = {canonical: native for native, canonical in request_read.SERVICE_TIERS.items()} | {"auto": "auto"}
_MIN_BUDGET = 1024  # tokens


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """Writes a request as the body of a Messages call."""
    return AnthropicRequestWriter(quirks or Quirks()).write_body(request)


class AnthropicRequestWriter(BlockWriter):
    """Writes one request. State: the user message that collects the results of one round."""

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._results: Object | None = None

    def write(self, request: rq.Request) -> Object:
        native, marks = self.split_extra(request.extra)
        messages = embed_markers(request.messages, self.holds, self.report_carried, self.report_loss)
        first = next((position for position, message in enumerate(messages) if _is_turn(message)), len(messages))
        body = drop_empty(model=request.model, system=self._write_system(messages[:first]) if first else "")
        written: list[Object] = []
        body["messages"] = written
        for message in messages[first:]:
            if message.role == "tool":
                self._write_results(message, written)
            else:
                self._write_message(message, written)
        tools = [tool for original in request.tools if (tool := self._build_tool(original)) is not None]
        if tools:
            body["tools"] = tools
        self._write_choice(request, body)
        if request.stream:
            body["stream"] = True
        self._write_settings(request.settings, marks, body)
        body.update(native)
        add_missing(body, marks.get("also"))
        return body

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _write_system(self, messages: list[rq.Message]) -> str | list[Object]:
        parts = [part for message in messages for part in message.parts]
        for message in messages:
            if message.name:
                self.report_loss("name")
        listed = any("listed" in self.split_extra(message.extra)[1] for message in messages)
        return self.write_content(parts, listed=listed)

    def _write_results(self, message: rq.Message, written: list[Object]) -> None:
        """Writes all results of a round into one user message."""
        native = self.split_extra(message.extra)[0] if message.extra else {}
        if self._results is None or native:
            self._results = {"role": "user", "content": [], **native}
            written.append(self._results)
        self._results["content"] += self.write_blocks(message.parts)

    def _write_message(self, message: rq.Message, written: list[Object]) -> None:
        results, self._results = self._results, None
        extra, role, parts = message.extra, message.role, message.parts
        if extra is None and not message.name and role != "system":
            content: Any = self.write_content(parts) or self._write_empty(role)
            if content:
                written.append({"role": role, "content": content})
            return
        if message.name:
            self.report_loss("name")
        native, marks = self.split_extra(extra)
        if results is not None and "joined" in marks:
            blocks, positions = self.write_blocks(parts), marks.get("places")
            if positions is None or len(positions) != len(blocks):
                results["content"] += blocks
            else:
                insert_lists(results["content"], positions, [[block] for block in blocks])
        elif role == "system" and self.quirks.mid_system == "user":
            self.report_loss("mid-system")
            content = self.write_content([_wrap_reminder(part) for part in parts])
            written.append({"role": "user", "content": content, **native})
        else:
            content = self.write_content(parts, listed="listed" in marks)
            if not parts and "also" in marks:
                content = marks["also"]["content"]
            elif not content and NAME not in (extra or ()):
                content = self._write_empty(role)
            if content or NAME in (extra or ()):
                written.append({"role": role, "content": content, **native})

    def _write_empty(self, role: str) -> str:
        """Writes a placeholder for an empty user message, because turns must alternate. Others are left out."""
        if role == "user":
            self.report_carried("empty")
            return EMPTY_MARK
        self.report_loss("empty")
        return ""

    # ── settings ──────────────────────────────────────────────────────────────────────────────────

    def _write_settings(self, settings: rq.Settings, marks: Object, body: Object) -> None:
        self.report_settings(settings, _LOST_SETTINGS)
        if settings.max_output is not None:
            body["max_tokens"] = settings.max_output
        elif "unlimited" not in marks:
            limit = self.quirks.max_output + (settings.budget or 0)  # reasoning counts against the limit
            self.report_loss("max-output", str(limit))
            body["max_tokens"] = limit
        if settings.temperature is not None:
            if settings.temperature > 1:
                self.report_loss("temperature")
            body["temperature"] = min(settings.temperature, 1)
        body.update(drop_empty(top_p=settings.top_p, top_k=settings.top_k, stop_sequences=settings.stop))
        if settings.tier in _TIERS:
            body["service_tier"] = _TIERS[settings.tier]
        elif settings.tier:
            self.report_loss("setting", "tier")
        self._write_metadata(settings, marks, body)
        self._write_thinking(settings, marks, body)
        self._write_output_config(settings, marks, body)

    def _write_metadata(self, settings: rq.Settings, marks: Object, body: Object) -> None:
        """Writes the user's id. Anthropic allows no other metadata, so others are kept only if they came from it."""
        original = marks.get("metadata", {}).get("as")
        wanted = (settings.user, settings.metadata)
        if original is not None and request_read.read_metadata({"metadata": original}) == wanted:
            body["metadata"] = original
            return
        if settings.metadata:
            self.report_loss("setting", "metadata")
        if settings.user:
            body["metadata"] = {"user_id": settings.user}

    def _write_thinking(self, settings: rq.Settings, marks: Object, body: Object) -> None:
        original, wanted = marks.get("thinking", {}).get("as"), (settings.budget, settings.thoughts)
        if original is not None and request_read.read_thinking(original, settings.effort) == wanted:
            body["thinking"] = original
        elif "unthinking" not in marks and (thinking := self._build_thinking(settings)):
            body["thinking"] = thinking

    def _build_thinking(self, settings: rq.Settings) -> Object | None:
        display = {} if settings.thoughts is None else {"display": "summarized" if settings.thoughts else "omitted"}
        if settings.budget == 0 or settings.effort == "none":
            return {"type": "disabled"}
        if settings.budget is not None:
            if settings.budget < _MIN_BUDGET:
                self.report_loss("budget")
            return {"type": "enabled", "budget_tokens": max(settings.budget, _MIN_BUDGET), **display}
        if not settings.effort and settings.thoughts is None:
            return None
        # From Opus 4.7 on, thinking is omitted unless `display` asks for it:
        # https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-7#thinking-content-omitted-by-default
        return {"type": "adaptive", **display}

    def _write_output_config(self, settings: rq.Settings, marks: Object, body: Object) -> None:
        original, old = marks.get("output", {}).get("as"), marks.get("form", {}).get("as")
        form, effort = settings.format, settings.effort
        if old is not None and form is not None and request_read.read_format(old) == form:
            body["output_format"], form = old, None
        if original is not None and request_read.read_output_config(original) == (effort, form):
            body["output_config"] = original
            return
        if effort in _NEAREST_EFFORTS:
            self.report_loss("effort", effort)
            effort = _NEAREST_EFFORTS[effort]
        if config := drop_empty(effort=effort, format=self._build_format(form)):
            body["output_config"] = config

    def _build_format(self, form: rq.Format | None) -> Object | None:
        if form is None or form.kind == "text":
            return None
        if form.kind == "json" or form.schema is None:
            self.report_loss("any-json")
            return None
        if form.name or form.description or form.strict is not None:
            self.report_loss("format")
        return {"type": "json_schema", "schema": form.schema}

    # ── tools ─────────────────────────────────────────────────────────────────────────────────────

    def _build_tool(self, tool: rq.Tool) -> Object | None:
        native, marks = self.split_extra(tool.extra)
        if tool.namespace:
            self.report_loss("namespace", tool.namespace)
        if "tool" in native:
            written: Object = dict(native["tool"])
        elif tool.kind in ("provider", "unknown"):
            self.report_loss("tool", tool.name)
            return None
        else:
            written = {"name": tool.name}
            if tool.description:
                written["description"] = tool.description
            is_untyped = "untyped" in marks and tool.schema is not None
            written["input_schema"] = tool.schema if is_untyped else self.write_object_schema(tool)
            if tool.strict is not None:
                written["strict"] = tool.strict
            written.update(native)
            if "kind" in marks:
                written["type"] = marks["kind"]
        if tool.cache:
            self.write_cache_control(tool, written, marks)
        add_missing(written, marks.get("also"))
        return written

    def _write_choice(self, request: rq.Request, body: Object) -> None:
        """Writes which tool may or must be called, and whether several calls are allowed at once."""
        choice, parallel = request.choice, request.settings.parallel_calls
        if choice is not None and "tools" not in body:
            self.report_loss("choice")
            choice = None
        if parallel is not None and ("tools" not in body or (choice is not None and choice.mode == "none")):
            self.report_loss("setting", "parallel_calls")
            parallel = None
        if choice is None and parallel is None:
            return
        choice = choice or rq.ToolChoice("auto")
        written: Object = {"type": "any" if choice.mode == "required" else choice.mode}
        if choice.names and choice.mode == "tool":
            written["name"] = choice.names[0]
        elif choice.names:
            self.report_loss("allowed")
        if parallel is not None:
            written["disable_parallel_tool_use"] = not parallel
        body["tool_choice"] = {**written, **self.split_extra(choice.extra)[0]}


def _is_turn(message: rq.Message) -> bool:
    """Returns True for a message that is not part of the system prompt."""
    return message.role != "system" or "inside" in split_extra(message.extra, NAME)[1]


def _wrap_reminder(part: rq.AnyPart) -> rq.AnyPart:
    return replace(part, text=_REMINDER.format(part.text)) if type(part) is rq.Text else part
