"""Canonical requests → Converse. The model is named in the URL; what models differ in is a field of `Quirks`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import request as rq
from penstock.markers import EMPTY, schema_of, stowed
from penstock.markers.marks import said_by_user
from penstock.protocols.bedrock.request_read import THOUGHTS, Wishes, wishes, write_format
from penstock.protocols.bedrock.request_write_parts import LOSSES, Blocks, Quirks, point
from penstock.request_writer import RequestDraft, add_missing, budget_within_limit, effort_for_budget, insert_lists

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.lenient_fields import Object

__all__ = ["LOSSES", "Quirks", "Writer", "write_request"]
_QUIET = frozenset({("tool", "tool"), ("tool", "user"), ("tool", "system"), ("user", "system"), ("system", "user")})

_SILENCE: Object = {"text": EMPTY}


class Writer(Blocks):
    """One request being written. State: who spoke last, because nobody may speak twice in a row.

    `_said` counts the blocks of the last message that are not results of tools.
    """

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._last = ""
        self._said = 0

    def write(self, request: rq.Request) -> Object:
        own, marks = self.split_extra(request.extra)
        messages = stowed(request.messages, self.holds, self.report_carried, self.report_loss)
        first = next((place for place, one in enumerate(messages) if one.role != "system"), len(messages))
        body: Object = {"modelId": request.model} if marks.get("model") else {}
        body["messages"] = self._messages(messages[first:])
        if first:
            body["system"] = self._system(messages[:first])
        config = self._tools(request)
        config.update(own.get("toolConfig", {}))
        if config:
            body["toolConfig"] = config
        write_settings(request.settings, marks, self, body, request.model)
        body.update({key: value for key, value in own.items() if key != "toolConfig"})
        add_missing(body, marks.get("also"))
        return body

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _system(self, messages: list[rq.Message]) -> list[Object]:
        if len(messages) > 1:
            self.report_loss("system-join")
        return self.blocks([part for message in messages for part in message.parts])

    def _messages(self, messages: Iterable[rq.Message]) -> list[Object]:
        made: list[Object] = []
        for message in messages:
            own, marks = self.split_extra(message.extra)
            if message.name:
                self.report_loss("name")
            parts = message.parts
            if message.role == "system":
                self.report_loss("mid-system")
                parts = said_by_user(parts)
            blocks = self.blocks(parts)
            if not blocks and message.role == "user" and self._may_be_silent(made):
                self.report_carried("empty")  # a user's keeps its place, because turns alternate around it
                blocks = [_SILENCE]
            if blocks:
                self._say(message.role, blocks, {**own}, marks.get("places"), made)
            else:
                self.report_loss("empty")
        return made

    def _say(self, role: str, blocks: list[Object], own: Object, places: list[int] | None, made: list[Object]) -> None:
        """Another message, or more of the last one."""
        speaker = "assistant" if role == "assistant" else "user"
        if made and made[-1]["role"] == speaker:
            if (self._last, role) not in _QUIET:
                self.report_loss("merge")
            content: list[Object] = made[-1]["content"]
            if content[-1] == _SILENCE:
                content.pop()
                self._said -= 1
            if places is not None and self._last == "tool" and len(places) == len(blocks):
                insert_lists(content, places, [[block] for block in blocks])
            else:
                content += blocks
        else:
            self._said = 0
            made.append({"role": speaker, "content": blocks, **own})
        self._said += sum("toolResult" not in block for block in blocks)
        self._last = role

    def _may_be_silent(self, made: list[Object]) -> bool:
        """Whether a user who says nothing has a place of their own: not where they have spoken already."""
        return not made or made[-1]["role"] == "assistant" or not self._said

    # ── tools ─────────────────────────────────────────────────────────────────────────────────────

    def _tools(self, request: rq.Request) -> Object:
        choice = request.choice
        if choice is not None and choice.mode == "none":
            self.report_loss("no-tools")
            if not any(type(part) is rq.Call for message in request.messages for part in message.parts):
                return {}
        made: list[Object] = []
        for tool in request.tools:
            made += self._tool(tool)
        config: Object = {"tools": made} if made else {}
        if choice is not None and choice.mode != "none":
            config["toolChoice"] = self._choice(choice)
        return config

    def _tool(self, tool: rq.Tool) -> list[Object]:
        own, marks = self.split_extra(tool.extra)
        if "tool" in own:
            made: Object = own["tool"]
        elif tool.kind in ("provider", "unknown"):
            self.report_loss("tool", tool.name)
            if tool.cache:
                self.report_loss("cache")
            return []
        else:
            more = {key: value for key, value in own.items() if key != "beside"}
            made = {"toolSpec": {**self._function(tool, marks), **more}, **own.get("beside", {})}
        return [made, point(tool.cache, marks)] if tool.cache else [made]

    def _function(self, tool: rq.Tool, marks: Object) -> Object:
        if tool.namespace:
            self.report_loss("namespace")
        made: Object = {"name": tool.name}
        if tool.description or marks.get("empty"):
            made["description"] = tool.description
        schema: Object | None = tool.schema
        if tool.kind == "custom":
            self.report_carried("free-text")
            schema = schema_of(tool)
        if schema is None:
            schema = {"type": "object", "properties": {}}
        made["inputSchema"] = {"json": schema if "type" in schema else {"type": "object", **schema}}
        if tool.strict is not None:
            made["strict"] = tool.strict
        return made

    def _choice(self, choice: rq.ToolChoice) -> Object:
        own, _ = self.split_extra(choice.extra)
        if "choice" in own:
            made: Object = own["choice"]
            return made
        if choice.mode == "tool":
            return {"tool": {"name": choice.names[0]}}
        if choice.names:
            self.report_loss("allowed")
        return {"auto" if choice.mode == "auto" else "any": {}}


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """A request as the body of a Converse call."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer


_UNSAID = (
    "seed", "frequency_penalty", "presence_penalty", "choices", "logprobs", "top_logprobs", "parallel_calls",
    "verbosity", "user", "cache_key", "store",
)  # fmt: skip
_NEAREST = {"minimal": "low", "xhigh": "high", "max": "high"}
_LEAST = 1024  # the smallest budget that is taken
# Additional fields of families whose field is not Claude's, by what stands in the ids of their models.
# https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html
# https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-openai.html
_FIELDS = (("nova-", "reasoningConfig"), ("gpt-oss", "reasoning_effort"), ("deepseek.v", "reasoning_effort"))


def write_settings(asked: rq.Settings, marks: Object, draft: Blocks, body: Object, model: str) -> None:
    """Put the settings into a body."""
    for name in _UNSAID:
        if getattr(asked, name) not in (None, ""):
            draft.report_loss("setting", name)
    said: Object = {
        marks.get("limit") or "maxTokens": asked.max_output, "temperature": asked.temperature, "topP": asked.top_p,
        "stopSequences": asked.stop or None,
    }  # fmt: skip
    config = {**{key: value for key, value in said.items() if value is not None}, **marks.get("config", {})}
    add_missing(config, marks.get("unsaid"))
    more = _more(asked, marks.get("more", {}), draft, model)
    if more is not marks.get("more"):
        _leave_out_refused(config, more, draft)
    made: Object = {
        "inferenceConfig": config, "additionalModelRequestFields": more,
        "outputConfig": _output(asked.format, marks.get("output"), draft), "requestMetadata": asked.metadata,
        "serviceTier": marks.get("tier") or ({"type": asked.tier} if asked.tier else None),
    }  # fmt: skip
    body.update({key: value for key, value in made.items() if value})


def _leave_out_refused(config: Object, more: Object, draft: Blocks) -> None:
    """Nova refuses an output limit, a temperature and a top_p beside the effort high.

    https://github.com/UKGovernmentBEIS/inspect_ai/issues/3767, https://github.com/promptfoo/promptfoo/pull/6531
    """
    if more.get("reasoningConfig", {}).get("maxReasoningEffort") != "high":
        return
    for key, name in (("maxTokens", "max_output"), ("temperature", "temperature"), ("topP", "top_p")):
        if config.pop(key, None) is not None:
            draft.report_loss("setting", name)


def _output(form: rq.Format | None, was: Object | None, draft: Blocks) -> Object | None:
    if form is None or form.kind == "text":
        return was
    if form.schema is None:
        draft.report_loss("any-json")
        return None
    if form.strict is not None:
        draft.report_loss("format")
    return was or write_format(form)


def _more(asked: rq.Settings, was: Object, draft: Blocks, model: str) -> Object:
    """The additional fields as they were said, or as this family of models says them."""
    wished = Wishes(asked.budget, asked.thoughts, asked.effort, asked.top_k)
    if wishes(was) == wished:
        return was
    made = {
        key: value for key, value in was.items() if key not in (*THOUGHTS, "output_config", "top_k", "reasoning_effort")
    }
    if asked.top_k is not None:
        made.update(_top_k(asked.top_k, draft))
    made.update(_thinking(asked, _field(draft, model)))
    if wishes(made) != Wishes(asked.budget, asked.thoughts, asked.effort, wishes(made).top_k):
        draft.report_loss("effort" if asked.effort else "budget")
    return made


def _top_k(top_k: int, draft: Blocks) -> Object:
    word = draft.quirks.top_k
    if not word:
        draft.report_loss("top-k")
        return {}
    return {"top_k": top_k} if word == "top_k" else {"inferenceConfig": {"topK": top_k}}


def _field(draft: Blocks, model: str) -> str:
    """The additional field that reasoning settings stand in."""
    word = draft.quirks.thinking
    return word if word != "auto" else next((field for part, field in _FIELDS if part in model), "thinking")


def _thinking(asked: rq.Settings, key: str) -> Object:
    budget, effort = asked.budget, _NEAREST.get(asked.effort, asked.effort)
    if (budget is None and not effort and asked.thoughts is None) or not key:
        return {}
    off = budget == 0 or effort == "none" or asked.thoughts is False
    word = effort or effort_for_budget(_LEAST if budget is None else budget)
    if key == "reasoning_effort":
        return {key: word}
    if off:
        return {key: {"type": "disabled"}}
    if key == "reasoningConfig":
        return {key: {"type": "enabled", "maxReasoningEffort": _NEAREST.get(word, word)}}
    return _claude(asked, key, effort)


def _claude(asked: rq.Settings, key: str, effort: str) -> Object:
    """Claude's fields: adaptive with an effort, or a budget."""
    budget = asked.budget
    if budget is None and not effort:
        return {key: {"type": "adaptive"}}
    if budget is None and asked.thinking == "adaptive":
        return {key: {"type": "adaptive"}, "output_config": {"effort": asked.effort}}
    budget = budget_within_limit(effort, asked.max_output, _LEAST) if budget is None else max(budget, _LEAST)
    return {key: {"type": "enabled", "budget_tokens": budget}} if budget else {}
