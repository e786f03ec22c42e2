"""Writes Anthropic Messages requests: messages, tools, settings. `Quirks` describes how providers differ.

A setting that came from this protocol and still has the same meaning is written as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import request as rq
from penstock._markers import EMPTY_MARK, free_text_schema
from penstock._markers.embed import embed_markers
from penstock._protocols.anthropic import request_read
from penstock._protocols.anthropic.request_write_parts import LACKS, LOSSES, BlockWriter, Quirks
from penstock._protocols.anthropic.wire import NAME
from penstock._request_writer import RequestDraft, add_missing, drop_empty, split_extra

if TYPE_CHECKING:
    from penstock._lenient_fields import Object

__all__ = ["LACKS", "LOSSES", "NAME", "AnthropicRequestWriter", "Quirks", "write_request"]
_REMINDER = "<system-reminder>\n{}\n</system-reminder>"
_LOST_SETTINGS = str.split(
    "seed frequency_penalty presence_penalty choices logprobs top_logprobs verbosity cache_key store"
)
_NEAREST_EFFORTS = {"minimal": "low", "none": ""}
_TIERS = {canonical: own for own, canonical in request_read.SERVICE_TIERS.items()} | {"auto": "auto"}
_MIN_BUDGET = 1024  # tokens


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """Writes a request as the body of a Messages call."""
    writer = AnthropicRequestWriter(quirks or Quirks())
    writer.body = writer.write(request)
    return writer


class AnthropicRequestWriter(BlockWriter):
    """Writes one request. State: the user message that collects the results of one round."""

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._results: Object | None = None

    def write(self, request: rq.Request) -> Object:
        own, marks = self.split_extra(request.extra)
        messages = embed_markers(request.messages, self.holds, self.report_carried, self.report_loss)
        first = _find_first_turn(messages)
        body: Object = {"model": request.model} if request.model else {}
        system = self._write_system(messages[:first])
        if system:
            body["system"] = system
        written: list[Object] = []
        body["messages"] = written
        for message in messages[first:] if first else messages:
            if message.role == "tool":
                self._write_results(message, written)
            else:
                self._write_message(message, written)
        tools = [tool for given in request.tools if (tool := self._build_tool(given)) is not None]
        if tools:
            body["tools"] = tools
        self._write_choice(request, body)
        if request.stream:
            body["stream"] = True
        self._write_settings(request.settings, marks, body)
        if own:
            body.update(own)
        add_missing(body, marks.get("also"))
        return body

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _write_system(self, messages: list[rq.Message]) -> str | list[Object]:
        if not messages:
            return ""
        parts = [part for message in messages for part in message.parts]
        for message in messages:
            if message.name:
                self.report_loss("name")
        listed = any("listed" in self.split_extra(message.extra)[1] for message in messages)
        return self.write_content(parts, listed=listed)

    def _write_results(self, message: rq.Message, written: list[Object]) -> None:
        """Writes all results of a round into one user message."""
        own = self.split_extra(message.extra)[0] if message.extra else None
        results: Object | None = self._results
        if results is None or own:
            blocks: list[Object] = []
            self._results = results = {"role": "user", "content": blocks, **(own or {})}
            written.append(results)
        results["content"] += self.write_blocks(message.parts)

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
        own, marks = self.split_extra(extra)
        if results is not None and "joined" in marks:
            _insert_blocks(results["content"], self.write_blocks(parts), marks.get("places"))
        elif role == "system" and self.quirks.mid_system == "user":
            self.report_loss("mid-system")
            content = self.write_content([_wrap_reminder(part) for part in parts])
            written.append({"role": "user", "content": content, **own})
        else:
            content = self.write_content(parts, listed="listed" in marks)
            if not parts and "also" in marks:
                content = marks["also"]["content"]
            elif not content and NAME not in (extra or ()):
                content = self._write_empty(role)
            if content or NAME in (extra or ()):
                written.append({"role": role, "content": content, **own})

    def _write_empty(self, role: str) -> str:
        """Writes a placeholder for an empty user message, because turns must alternate. Others are left out."""
        if role == "user":
            self.report_carried("empty")
            return EMPTY_MARK
        self.report_loss("empty")
        return ""

    # ── settings ──────────────────────────────────────────────────────────────────────────────────

    def _write_settings(self, settings: rq.Settings, marks: Object, body: Object) -> None:
        for name in _LOST_SETTINGS:
            if getattr(settings, name) not in (None, ""):
                self.report_loss("setting", name)
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
        given = marks.get("metadata", {}).get("as")
        if given is not None and request_read.read_metadata({"metadata": given}) == (settings.user, settings.metadata):
            body["metadata"] = given
            return
        if settings.metadata:
            self.report_loss("setting", "metadata")
        if settings.user:
            body["metadata"] = {"user_id": settings.user}

    def _write_thinking(self, settings: rq.Settings, marks: Object, body: Object) -> None:
        given = marks.get("thinking", {}).get("as")
        if given is not None and request_read.read_thinking(given, settings.effort) == (
            settings.budget,
            settings.thoughts,
        ):
            body["thinking"] = given
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
        given, old = marks.get("output", {}).get("as"), marks.get("form", {}).get("as")
        form, effort = settings.format, settings.effort
        if old is not None and form is not None and request_read.read_format(old) == form:
            body["output_format"], form = old, None
        if given is not None and request_read.read_output_config(given) == (effort, form):
            body["output_config"] = given
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
        own, marks = self.split_extra(tool.extra)
        if tool.namespace:
            self.report_loss("namespace", tool.namespace)
        if "tool" in own:
            written: Object = dict(own["tool"])
        elif tool.kind in ("provider", "unknown"):
            self.report_loss("tool", tool.name)
            return None
        else:
            written = {"name": tool.name}
            if tool.description:
                written["description"] = tool.description
            written["input_schema"] = self._build_schema(tool, marks)
            if tool.strict is not None:
                written["strict"] = tool.strict
            written.update(own)
            if "kind" in marks:
                written["type"] = marks["kind"]
        if tool.cache:
            self.write_cache_control(tool, written, marks)
        add_missing(written, marks.get("also"))
        return written

    def _build_schema(self, tool: rq.Tool, marks: Object) -> Object:
        if tool.kind == "custom":
            self.report_carried("free-text")
            return free_text_schema(tool)
        schema = tool.schema
        if schema is None:
            return {"type": "object", "properties": {}}
        return schema if "type" in schema or "untyped" in marks else {"type": "object", **schema}

    def _write_choice(self, request: rq.Request, body: Object) -> None:
        """Writes which tool may or must be called, and whether several calls are allowed at once."""
        choice, parallel = request.choice, request.settings.parallel_calls
        if choice is not None and "tools" not in body:
            self.report_loss("choice")
            choice = None
        if choice is None and parallel is None:
            return
        mode = "auto" if choice is None else choice.mode
        if parallel is not None and (mode == "none" or (choice is None and not body.get("tools"))):
            self.report_loss("setting", "parallel_calls")
            parallel = None
            if choice is None:
                return
        written: Object = {"type": "any" if mode == "required" else mode}
        if choice is not None and choice.names:
            if mode == "tool":
                written["name"] = choice.names[0]
            else:
                self.report_loss("allowed")
        if parallel is not None:
            written["disable_parallel_tool_use"] = not parallel
        if choice is not None:
            written.update(self.split_extra(choice.extra)[0])
        body["tool_choice"] = written


def _find_first_turn(messages: list[rq.Message]) -> int:
    """Returns the index of the first message that is not part of the system prompt."""
    for position, message in enumerate(messages):
        if message.role != "system" or "inside" in split_extra(message.extra, NAME)[1]:
            return position
    return len(messages)


def _insert_blocks(content: list[Object], blocks: list[Object], places: list[int] | None) -> None:
    """Adds blocks after the results, or at the positions that they had."""
    if places is None or len(places) != len(blocks):
        content += blocks
        return
    for position, block in zip(places, blocks, strict=True):
        content.insert(position, block)


def _wrap_reminder(part: rq.AnyPart) -> rq.AnyPart:
    return replace(part, text=_REMINDER.format(part.text)) if type(part) is rq.Text else part
