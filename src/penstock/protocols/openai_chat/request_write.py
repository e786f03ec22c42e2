"""Canonical requests → Chat Completions: the messages. What the dialects differ in is a field of `Quirks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import request as rq
from penstock.jsontext import as_json
from penstock.markers import stowed
from penstock.protocols.openai_chat.request_read import MARKED, read_effort, read_format, read_reasoning
from penstock.protocols.openai_chat.request_read_parts import cached
from penstock.protocols.openai_chat.request_write_parts import LACKS, LOSSES, Parts, Quirks, write_choice, write_tools
from penstock.protocols.openai_chat.wire import NAME, merged_content, without_state, write_state
from penstock.request_writer import (
    RequestDraft,
    add_missing,
    budget_for_effort,
    drop_empty,
    effort_for_budget,
    split_extra,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.lenient_fields import Object

__all__ = ["LACKS", "LOSSES", "NAME", "Quirks", "Writer", "write_request"]
_SILENT = frozenset({"role", "content", "name"})
_RANKS: dict[type, int] = {rq.Reasoning: 0, rq.Call: 2}  # text and all else stand between them


class Writer(Parts):
    """One request being written."""

    def write(self, request: rq.Request) -> Object:
        own, marks = self.split_extra(request.extra)
        made: list[Object] = []
        for message in stowed(request.messages, self.holds, self.report_carried, self.report_loss):
            self.roles[message.role](self, message, made)
        body: Object = {"model": request.model} if request.model else {}
        body["messages"] = made
        if request.stream:
            body["stream"] = True
        write_tools(self, request.tools, body)
        write_choice(self, request.choice, body)
        write_settings(self, request.settings, own, marks, body)
        body.update({key: value for key, value in own.items() if key not in MARKED})
        if request.usage is not None:
            body["stream_options"] = {"include_usage": request.usage, **own.get("stream_options", {})}
        add_missing(body, marks.get("also"))
        return body

    def _plain(self, message: rq.Message, made: list[Object]) -> None:
        """A system or user message."""
        role: str = message.role
        if role == "system" and self.quirks.system:
            role = self.quirks.system
        if message.extra is None:
            body: Object = {"role": role, "content": self.content(message.parts) or ""}
        else:
            own, marks = self.split_extra(message.extra)
            body = {"role": self.quirks.system or marks.get("role", role) if role == "system" else role}
            self._content(message.parts, marks, "", body)
            body.update(own)
            self._about(body, marks, message.parts)
        if message.name:
            body["name"] = message.name
        made.append(body)

    def _content(self, parts: list[rq.AnyPart], marks: Object, default: Any, body: Object) -> None:
        content = self.content(parts, listed="listed" in marks, hinted=_hinted(parts, marks)) if parts else ""
        if content:
            body["content"] = content
        elif "bare" not in marks and "content" not in (marks.get("also") or ()):
            body["content"] = default

    def _about(self, body: Object, marks: Object, parts: list[rq.AnyPart]) -> None:
        if _hinted(parts, marks):
            body.update(marks["hint"])
        add_missing(body, marks.get("also"))

    # ── the model ─────────────────────────────────────────────────────────────────────────────────

    def _assistant(self, message: rq.Message, made: list[Object]) -> None:
        body: Object = {"role": "assistant"}
        said: list[rq.AnyPart] = []
        rank = 0
        state, parts = self._state(message)
        for part in parts:
            kind = type(part)
            if kind is rq.Call:
                self._call(part, body)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            elif kind is rq.Reasoning and not self.spoken(part):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
                self.thought(part, body)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            else:
                said.append(part)
            now = _RANKS.get(kind, 1)
            if now < rank and kind is not rq.Source:
                self.report_loss("order")
            rank = now
        own, marks = self.split_extra(message.extra)
        self._declined(said, body)
        self._content(said, marks, None, body)
        body.update(merged_content(own, state))
        if message.name:
            body["name"] = message.name
        self._about(body, marks, message.parts)
        if not body.get("content") and body.keys() <= _SILENT and NAME not in (message.extra or ()):
            self.report_loss("empty")  # what it said has no place here, and a message without content is refused
            return
        made.append(body)

    def _state(self, message: rq.Message) -> tuple[Object, list[rq.AnyPart]]:
        """The field for a text's thought signature, where it may be sent, and the parts without it."""
        if "signed" not in split_extra(message.extra, NAME)[1] and not self.quirks.signatures:
            return {}, message.parts
        found: Object = {}
        for part in message.parts:
            found = (write_state(part.extra) if type(part) is rq.Text else None) or found
        return found, [_unsigned(part) if type(part) is rq.Text else part for part in message.parts]

    def _declined(self, said: list[rq.AnyPart], body: Object) -> None:
        """A refusal is a field where there is nothing else, or where it was one; else a part like the others."""
        for place in range(len(said) - 1, -1, -1):
            part = said[place]
            if type(part) is not rq.Text or not part.refusal:
                continue
            marks = self.split_extra(part.extra)[1]
            if "field" in marks or (len(said) == 1 and NAME not in (part.extra or ())):
                body["refusal"] = part.text
                del said[place]
                return

    def _call(self, call: rq.Call, body: Object) -> None:
        if call.cut:
            self.report_loss("cut-call")
            return
        text = call.form == "text"
        kind = "custom" if text else "function"
        said: Object = {"name": call.name, "input" if text else "arguments": call.json}
        made: Object = {"id": call.id, "type": kind, kind: said}
        if call.extra is not None:
            signed = "signed" in split_extra(call.extra, NAME)[1] or self.quirks.signatures
            state = write_state(call.extra) if signed else {}
            own, marks = self.split_extra((_unsigned(call) if state else call).extra)
            own = merged_content(own, state)
            if "legacy" in marks:
                body["function_call"] = said
                return
            self._odd_call(made, said, own, marks)
        if not call.json and not text and call.extra is None:
            said["arguments"] = "{}"
        if call.cache:
            self.hint(call, made, self.split_extra(call.extra)[1])
        body.setdefault("tool_calls", []).append(made)

    def _odd_call(self, made: Object, said: Object, own: Object, marks: Object) -> None:
        if "untyped" in marks:
            del made["type"]
        if "unnamed" in marks and not made["id"]:
            del made["id"]
        given = marks.get("given", {}).get("as")
        if "given" in marks and said["arguments"] == ("" if given is None else as_json(given)):
            said["arguments"] = given
        made.update({key: value for key, value in own.items() if key != "function"})
        said.update(own.get("function", {}))

    # ── tools ─────────────────────────────────────────────────────────────────────────────────────

    def _tool(self, message: rq.Message, made: list[Object]) -> None:
        for part in message.parts:
            if type(part) is rq.Result:
                made.append(self._result(part))
            elif blocks := self.part(part):
                made.append({"role": "user", "content": blocks})

    def _result(self, result: rq.Result) -> Object:
        if result.extra is None and not result.cache:
            return {"role": "tool", "tool_call_id": result.call, "content": self.answer(result.content, listed=False)}
        own, marks = self.split_extra(result.extra)
        body: Object = {"role": marks.get("role", "tool")}
        if body["role"] == "tool" and "unnamed" not in marks:
            body["tool_call_id"] = result.call
        if "named" in marks:
            body["name"] = result.name
        if result.content or not ("content" in marks.get("also", ()) or "bare" in marks):
            body["content"] = self.answer(result.content, listed="listed" in marks)
        body.update(own)
        self._about(body, marks, [result])
        if result.cache and not _hinted([result], marks):
            self.hint(result, body, own)
        return body

    roles: dict[str, Callable[[Any, rq.Message, list[Object]], None]] = {  # noqa: RUF012 — a table
        "system": _plain, "user": _plain, "assistant": _assistant, "tool": _tool,
    }  # fmt: skip


def _unsigned(part: Any) -> Any:
    """A part without its thought signature."""
    return replace(part, extra=without_state(part.extra)) if write_state(part.extra) else part


def _hinted(parts: Sequence[rq.Part], marks: Object) -> bool:
    """Whether the cache point behind the last part is the message's own."""
    return "hint" in marks and bool(parts) and cached(marks["hint"]) == parts[-1].cache


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """A request as the body of a Chat Completions call."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer


_PLAIN = (
    ("temperature", "temperature"), ("top_p", "top_p"), ("frequency_penalty", "frequency_penalty"),
    ("presence_penalty", "presence_penalty"), ("n", "choices"), ("logprobs", "logprobs"),
    ("top_logprobs", "top_logprobs"), ("parallel_tool_calls", "parallel_calls"), ("verbosity", "verbosity"),
    ("service_tier", "tier"), ("user", "user"), ("metadata", "metadata"), ("prompt_cache_key", "cache_key"),
    ("store", "store"),
)  # fmt: skip


def write_settings(draft: Parts, asked: rq.Settings, own: Object, marks: Object, body: Object) -> None:
    """All settings that say something."""
    for key, name in _PLAIN:
        value = getattr(asked, name)
        if value is not None and value != "":
            body[key] = value
    if asked.max_output is not None:
        _limit(draft, asked.max_output, marks, body)
    if asked.seed is not None:
        body[marks.get("seed") or draft.quirks.seed] = asked.seed
    if asked.stop:
        body["stop"] = asked.stop[0] if "stop" in marks and len(asked.stop) == 1 else asked.stop
    if asked.format is not None or "format" in marks:
        _formed(asked.format, marks, body)
    if asked.top_k is not None:
        _top_k(draft, asked.top_k, marks, body)
    kept = {key: own[key] for key in MARKED if key in own}
    if kept and read_effort(kept)[1] == asked.budget:
        body.update(drop_empty(reasoning_effort=asked.effort), **kept)
    else:
        _thinking(draft, asked, marks, body)


def _limit(draft: Parts, most: int, marks: Object, body: Object) -> None:
    body[draft.quirks.limit or marks.get("limit") or "max_tokens"] = most
    long, short = marks.get("limits", (None, None))
    if long == most and not draft.quirks.limit:
        body["max_tokens"] = short


def _formed(form: rq.Format | None, marks: Object, body: Object) -> None:
    given = marks.get("format", {}).get("as")
    if given is not None and read_format({"response_format": given}) == form:
        body["response_format"] = given
    elif form is not None:
        body["response_format"] = _format(form)


def _top_k(draft: Parts, top_k: int, marks: Object, body: Object) -> None:
    if draft.quirks.top_k or "top_k" in marks:
        body["top_k"] = top_k
    else:
        draft.report_loss("setting", "top_k")


def _thinking(draft: Parts, asked: rq.Settings, marks: Object, body: Object) -> None:
    """How much to think, in the field that the provider has for it."""
    word = draft.quirks.effort
    if "reasoning" in marks:
        given = marks["reasoning"]["as"]
        if read_reasoning(given) == (asked.effort, asked.budget, asked.thoughts):
            body["reasoning"] = given
            return
        word = "reasoning"
    if word == "reasoning":
        _reasoning(asked, body)
        return
    if word in _SWITCHES:
        body.update(_SWITCHES[word](asked, draft.quirks))
        return
    if asked.thoughts is not None:
        draft.report_loss("setting", "thoughts")
    effort = asked.effort
    if asked.budget is not None:
        draft.report_loss("budget")
        effort = effort_for_budget(asked.budget) if not effort or not asked.budget else effort
    if effort and word:
        body[word] = effort
    elif effort:
        draft.report_loss("setting", "effort")


def _typed(asked: rq.Settings, quirks: Quirks) -> Object:
    """`thinking` says whether, `reasoning_effort` how hard where the model takes a word.

    https://api-docs.deepseek.com/guides/thinking_mode, https://docs.z.ai/guides/capabilities/thinking-mode
    """
    if asked.budget == 0 or asked.effort == "none":
        return {"thinking": {"type": "disabled"}}
    if asked.thinking == "none" or (not asked.effort and asked.budget is None and not asked.thoughts):
        return {}
    made: Object = {"thinking": {"type": quirks.switched_on}}
    effort = asked.effort or (effort_for_budget(asked.budget) if asked.budget is not None else "")
    return {**made, "reasoning_effort": effort} if effort else made


def _enabled(asked: rq.Settings, _quirks: Quirks) -> Object:
    """https://www.alibabacloud.com/help/en/model-studio/deep-thinking"""
    if asked.budget == 0 or asked.effort == "none":
        return {"enable_thinking": False}
    if asked.budget is None and not asked.effort:
        return {"enable_thinking": True} if asked.thoughts else {}
    return {"enable_thinking": True, "thinking_budget": asked.budget or budget_for_effort(asked.effort)}


_SWITCHES = {"thinking": _typed, "enable_thinking": _enabled}


def _reasoning(asked: rq.Settings, body: Object) -> None:
    hidden = None if asked.thoughts is None else not asked.thoughts
    off = asked.budget == 0
    made = drop_empty(effort=asked.effort, max_tokens=None if off else asked.budget)
    made.update(
        {key: value for key, value in (("exclude", hidden), ("enabled", False if off else None)) if value is not None}
    )
    if made:
        body["reasoning"] = made


def _format(form: rq.Format) -> Object:
    if form.kind != "schema":
        return {"type": "json_object" if form.kind == "json" else "text"}
    schema = drop_empty(name=form.name or "answer", schema=form.schema, description=form.description)
    if form.strict is not None:
        schema["strict"] = form.strict
    return {"type": "json_schema", "json_schema": schema}
