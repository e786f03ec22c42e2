"""Canonical requests → Anthropic Messages: the messages. What providers of it differ in is a field of `Quirks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import request as rq
from penstock.markers import EMPTY, schema_of, stowed
from penstock.protocols.anthropic.request_read import TIERS, read_format, read_metadata, read_output, read_thinking
from penstock.protocols.anthropic.request_read_parts import NAME
from penstock.protocols.anthropic.request_write_parts import LACKS, LOSSES, Blocks, Quirks
from penstock.request_writer import RequestDraft, add_missing, drop_empty, split_extra

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.lenient_fields import Object

__all__ = ["LACKS", "LOSSES", "NAME", "Quirks", "Writer", "write_request"]
REMINDER = "<system-reminder>\n{}\n</system-reminder>"


class Writer(Blocks):
    """One request being written. State: the user message that collects the results of one round."""

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._results: Object | None = None

    def write(self, request: rq.Request) -> Object:
        own, marks = self.split_extra(request.extra)
        messages = stowed(request.messages, self.holds, self.report_carried, self.report_loss)
        first = _first(messages)
        body: Object = {"model": request.model} if request.model else {}
        system = self._system(messages[:first])
        if system:
            body["system"] = system
        made: list[Object] = []
        body["messages"] = made
        for message in messages[first:] if first else messages:
            if message.role == "tool":
                self._answers(message, made)
            else:
                self._message(message, made)
        write_tools(self, request.tools, body)
        write_choice(self, request, body)
        if request.stream:
            body["stream"] = True
        write_settings(self, request.settings, marks, body)
        if own:
            body.update(own)
        add_missing(body, marks.get("also"))
        return body

    def _system(self, messages: list[rq.Message]) -> str | list[Object]:
        if not messages:
            return ""
        parts = [part for message in messages for part in message.parts]
        for message in messages:
            if message.name:
                self.report_loss("name")
        listed = any("listed" in self.split_extra(message.extra)[1] for message in messages)
        return self.content(parts, listed=listed)

    def _answers(self, message: rq.Message, made: list[Object]) -> None:
        """All results of a round stand in one user message."""
        own = self.split_extra(message.extra)[0] if message.extra else None
        results: Object | None = self._results
        if results is None or own:
            blocks: list[Object] = []
            self._results = results = {"role": "user", "content": blocks, **(own or {})}
            made.append(results)
        results["content"] += self.blocks(message.parts)

    def _message(self, message: rq.Message, made: list[Object]) -> None:
        results, self._results = self._results, None
        extra, role, parts = message.extra, message.role, message.parts
        if extra is None and not message.name and role != "system":
            content = self.content(parts) or self._silence(role)
            if content:
                made.append({"role": role, "content": content})
            return
        if message.name:
            self.report_loss("name")
        own, marks = self.split_extra(extra)
        if results is not None and "joined" in marks:
            _join(results["content"], self.blocks(parts), marks.get("places"))
        elif role == "system" and self.quirks.mid_system == "user":
            self.report_loss("mid-system")
            reminded = [_reminder(part) for part in parts]
            made.append({"role": "user", "content": self.content(reminded), **own})
        else:
            self._said(message, own, marks, made)

    def _said(self, message: rq.Message, own: Object, marks: Object, made: list[Object]) -> None:
        content: Any = self.content(message.parts, listed="listed" in marks)
        if not message.parts and "also" in marks:
            content = marks["also"]["content"]
        elif not content and NAME not in (message.extra or ()):
            content = self._silence(message.role)
        if content or NAME in (message.extra or ()):
            made.append({"role": message.role, "content": content, **own})

    def _silence(self, role: str) -> str:
        """A message may not be empty here: only the user's keeps its place, because turns alternate around it."""
        if role == "user":
            self.report_carried("empty")
            return EMPTY
        self.report_loss("empty")
        return ""


def _first(messages: list[rq.Message]) -> int:
    """Where the conversation begins: behind the system messages that were not said inside of it."""
    for place, message in enumerate(messages):
        if message.role != "system" or "inside" in split_extra(message.extra, NAME)[1]:
            return place
    return len(messages)


def _join(content: list[Object], others: list[Object], places: list[int] | None) -> None:
    """What stood beside results goes behind them, or to where it was."""
    if places is None or len(places) != len(others):
        content += others
        return
    for place, block in zip(places, others, strict=True):
        content.insert(place, block)


def _reminder(part: rq.AnyPart) -> rq.AnyPart:
    return replace(part, text=REMINDER.format(part.text)) if type(part) is rq.Text else part


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """A request as the body of a Messages call."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer


_UNSAID = (
    "seed", "frequency_penalty", "presence_penalty", "choices", "logprobs", "top_logprobs", "verbosity", "cache_key",
    "store",
)  # fmt: skip
_EFFORTS = {"minimal": "low", "none": ""}
_TIERS = {word: own for own, word in TIERS.items()} | {"auto": "auto"}
_LEAST = 1024  # tokens of a budget


def write_settings(draft: Blocks, asked: rq.Settings, marks: Object, body: Object) -> None:
    """All settings that say something."""
    for name in _UNSAID:
        if getattr(asked, name) not in (None, ""):
            draft.report_loss("setting", name)
    if asked.max_output is not None:
        body["max_tokens"] = asked.max_output
    elif "unlimited" not in marks:
        limit = draft.quirks.max_output + (asked.budget or 0)  # reasoning counts against it
        draft.report_loss("max-output", str(limit))
        body["max_tokens"] = limit
    if asked.temperature is not None:
        if asked.temperature > 1:
            draft.report_loss("temperature")
        body["temperature"] = min(asked.temperature, 1)
    body.update(drop_empty(top_p=asked.top_p, top_k=asked.top_k, stop_sequences=asked.stop))
    if asked.tier:
        _tier(draft, asked.tier, body)
    _about(draft, asked, marks, body)
    _thinking(draft, asked, marks, body)
    _output(draft, asked, marks, body)


def _tier(draft: Blocks, tier: str, body: Object) -> None:
    if tier in _TIERS:
        body["service_tier"] = _TIERS[tier]
    else:
        draft.report_loss("setting", "tier")


def _about(draft: Blocks, asked: rq.Settings, marks: Object, body: Object) -> None:
    """Who asks; nothing else may be noted here, unless it came from here."""
    given = marks.get("metadata", {}).get("as")
    if given is not None and read_metadata({"metadata": given}) == (asked.user, asked.metadata):
        body["metadata"] = given
        return
    if asked.metadata:
        draft.report_loss("setting", "metadata")
    if asked.user:
        body["metadata"] = {"user_id": asked.user}


def _thinking(draft: Blocks, asked: rq.Settings, marks: Object, body: Object) -> None:
    given = marks.get("thinking", {}).get("as")
    if given is not None and read_thinking(given, asked.effort) == (asked.budget, asked.thoughts):
        body["thinking"] = given
    elif "unthinking" not in marks:
        made = _thought(draft, asked)
        if made:
            body["thinking"] = made


def _thought(draft: Blocks, asked: rq.Settings) -> Object | None:
    display = {} if asked.thoughts is None else {"display": "summarized" if asked.thoughts else "omitted"}
    if asked.budget == 0 or asked.effort == "none":
        return {"type": "disabled"}
    if asked.budget is not None:
        if asked.budget < _LEAST:
            draft.report_loss("budget")
        return {"type": "enabled", "budget_tokens": max(asked.budget, _LEAST), **display}
    if not asked.effort and asked.thoughts is None:
        return None
    # From Opus 4.7 on, thoughts that are not asked for by `display` are left out:
    # https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-7#thinking-content-omitted-by-default
    return {"type": "adaptive", **display}


def _output(draft: Blocks, asked: rq.Settings, marks: Object, body: Object) -> None:
    given, old = marks.get("output", {}).get("as"), marks.get("form", {}).get("as")
    form = asked.format
    if old is not None and form is not None and read_format(old) == form:
        body["output_format"], form = old, None
    if given is not None and read_output(given) == (asked.effort, form):
        body["output_config"] = given
        return
    made = drop_empty(effort=_effort(draft, asked), format=_format(draft, form))
    if made:
        body["output_config"] = made


def _effort(draft: Blocks, asked: rq.Settings) -> str:
    effort = asked.effort
    if effort in _EFFORTS:
        effort = _EFFORTS[effort]
        draft.report_loss("effort", asked.effort)
    return effort


def _format(draft: Blocks, form: rq.Format | None) -> Object | None:
    if form is None or form.kind == "text":
        return None
    if form.kind == "json" or form.schema is None:
        draft.report_loss("any-json")
        return None
    if form.name or form.description or form.strict is not None:
        draft.report_loss("format")
    return {"type": "json_schema", "schema": form.schema}


def write_tools(draft: Blocks, tools: Iterable[rq.Tool], body: Object) -> None:
    """All tools that have a place here."""
    made = [written for tool in tools if (written := _tool(draft, tool)) is not None]
    if made:
        body["tools"] = made


def _tool(draft: Blocks, tool: rq.Tool) -> Object | None:
    own, marks = draft.split_extra(tool.extra)
    if tool.namespace:
        draft.report_loss("namespace", tool.namespace)
    if "tool" in own:
        made: Object = dict(own["tool"])
    elif tool.kind in ("provider", "unknown"):
        draft.report_loss("tool", tool.name)
        return None
    else:
        made = {"name": tool.name}
        if tool.description:
            made["description"] = tool.description
        made["input_schema"] = _schema(draft, tool, marks)
        if tool.strict is not None:
            made["strict"] = tool.strict
        if own or marks:
            made.update(own)
            if "kind" in marks:
                made["type"] = marks["kind"]
    if tool.cache:
        draft.hint(tool, made, marks)
    add_missing(made, marks.get("also"))
    return made


def _schema(draft: Blocks, tool: rq.Tool, marks: Object) -> Object:
    if tool.kind == "custom":
        draft.report_carried("free-text")
        return schema_of(tool)
    schema = tool.schema
    if schema is None:
        return {"type": "object", "properties": {}}
    return schema if "type" in schema or "untyped" in marks else {"type": "object", **schema}


def write_choice(draft: Blocks, request: rq.Request, body: Object) -> None:
    """Which tool may or must be called, and whether several may be at once."""
    choice, parallel = request.choice, request.settings.parallel_calls
    if choice is not None and "tools" not in body:
        draft.report_loss("choice")
        choice = None
    if choice is None and parallel is None:
        return
    mode = "auto" if choice is None else choice.mode
    if parallel is not None and (mode == "none" or (choice is None and not body.get("tools"))):
        draft.report_loss("setting", "parallel_calls")
        parallel = None
        if choice is None:
            return
    made: Object = {"type": "any" if mode == "required" else mode}
    if choice is not None and choice.names:
        if mode == "tool":
            made["name"] = choice.names[0]
        else:
            draft.report_loss("allowed")
    if parallel is not None:
        made["disable_parallel_tool_use"] = not parallel
    if choice is not None:
        made.update(draft.split_extra(choice.extra)[0])
    body["tool_choice"] = made
