"""Canonical requests → Responses: the body and its settings. What providers differ in is a field of `Quirks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import request as rq
from penstock.jsontext import as_json
from penstock.markers import stowed
from penstock.protocols.responses.request_read import LOGPROBS, MORE, read_format
from penstock.protocols.responses.request_read_parts import CONTENT
from penstock.protocols.responses.request_write_parts import (
    HOLDS,
    LACKS,
    LOSSES,
    Quirks,
    Said,
    call_item,
    output_item,
    undrawn,
)
from penstock.protocols.responses.wire import NAME
from penstock.request_writer import (
    RequestDraft,
    add_missing,
    budget_for_effort,
    drop_empty,
    effort_for_budget,
    split_extra,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.lenient_fields import Object
    from penstock.protocols.responses.request_write_parts import Content

__all__ = ["LACKS", "LOSSES", "NAME", "Quirks", "Writer", "write_request"]
SEALED = "reasoning.encrypted_content"
TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"})
_FORMS: dict[str, Object] = {"text": {"type": "text"}, "json": {"type": "json_object"}}
_PLAIN = (
    ("temperature", "temperature"), ("top_p", "top_p"), ("parallel_tool_calls", "parallel_calls"), ("user", "user"),
    ("prompt_cache_key", "cache_key"), ("store", "store"), ("top_logprobs", "top_logprobs"),
)  # fmt: skip


class Items(Said):
    """Input being written. State, beside that of what is said: which calls have free text as their input."""

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._free: set[str] = set()

    def input(self, messages: Iterable[rq.Message]) -> list[Object]:
        """All messages as items."""
        before = ""
        for message in messages:
            if message.name:
                self.report_loss("name")
            if message.role == "assistant":
                self.turn(apart=before == "assistant" and not self.native)
            self.roles[message.role](self, message)
            before = message.role
        return self.items

    # ── who speaks ────────────────────────────────────────────────────────────────────────────────

    def _plain(self, message: rq.Message) -> None:
        """The system or the user; approvals, and what only this protocol understands, are items beside."""
        own, marks = self.split_extra(message.extra)
        inside: list[rq.AnyPart] = []
        for part in message.parts:
            if type(part) is rq.Ask:
                self._ask(part, 0)
            elif type(part) is rq.Opaque and part.protocol == NAME and not part.kind.startswith(CONTENT):
                self.put(part.data)
            else:
                inside.append(part)
        if not inside and message.parts:
            return
        item: Object = {} if "bare" in marks else {"type": "message"}
        item.update({key: marks[key] for key in ("id", "status") if key in marks})
        item["role"] = self._role(message, marks)
        item["content"] = self.content(inside, listed="listed" in marks)
        item.update(own)
        add_missing(item, marks.get("also"))
        self.put(item)

    def _role(self, message: rq.Message, marks: Object) -> str:
        if message.role == "user":
            return "user"
        return marks.get("role") or ("system" if self.native else self.quirks.system)

    def _assistant(self, message: rq.Message) -> None:
        if not message.parts:
            self.nothing(message)
            return
        for place, part in enumerate(message.parts):
            self.spoken[type(part)](self, part, place)

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _call(self, call: rq.Call, _: int) -> None:
        own, marks = self.split_extra(call.extra)
        if "item" in own:
            self.put(own["item"] if call.by == "provider" else call_item(call, own["item"]))
        elif call.cut and "status" not in marks:
            self.report_loss("cut-call")
        elif call.by == "client":  # what a provider ran is in the item of its result
            self.put(self._called(call, own, marks))

    def _called(self, call: rq.Call, own: Object, marks: Object) -> Object:
        text = call.form == "text"
        if text:
            self._free.add(call.id)
        item: Object = {"type": "custom_tool_call" if text else "function_call"}
        if call.item and (self.native or NAME in (call.extra or ())):
            item["id"] = call.item
        elif self.apart:
            item["id"] = self.mint("ctc" if text else "fc")
        if "loose" not in marks or call.id != call.item:
            item["call_id"] = call.id
        item["name"] = call.name
        item["input" if text else "arguments"] = call.json or ("" if text or marks else "{}")
        if "status" in marks:
            item["status"] = marks["status"]
        item.update({key: value for key, value in own.items() if key != "id"})
        add_missing(item, marks.get("also"))
        self.hint(call, item, fits=False)
        return item

    def _ask(self, ask: rq.Ask, _: int) -> None:
        own = self.split_extra(ask.extra)[0]
        if "item" in own:
            self.put(own["item"])
        else:
            self.report_loss("approval")

    # ── results ───────────────────────────────────────────────────────────────────────────────────

    def _ran(self, result: rq.Result, _: int) -> None:
        """A provider's result: the item of its call, which holds it. What a later one replaced is not told."""
        own = self.split_extra(result.extra)[0]
        if "item" not in own:
            self.report_loss("provider-call")
        elif not result.partial:
            self.put(own["item"])

    def _results(self, message: rq.Message) -> None:
        self.split_extra(message.extra)
        for part in message.parts:
            if type(part) is rq.Result:
                self.put(self._answered(part))
            elif made := self.part(part):
                self.put({"type": "message", "role": "user", "content": made})

    def _answered(self, result: rq.Result) -> Object:
        own, marks = self.split_extra(result.extra)
        if "item" in own:
            return output_item(result, own["item"])
        text = result.form == "text" or result.call in self._free or "kind" in marks
        item: Object = {"type": "custom_tool_call_output" if text else "function_call_output"}
        if result.call or "loose" not in marks:
            item["call_id"] = result.call
        item.update({key: marks[key] for key in ("id", "status") if key in marks})
        if "named" in marks:
            item["name"] = result.name
        item["output"] = self.content(result.content, listed="listed" in marks)
        item.update(own)
        add_missing(item, marks.get("also"))
        self.hint(result, item, fits=False)
        return item

    roles: ClassVar[Mapping[str, Callable[[Any, rq.Message], None]]] = {
        "system": _plain, "user": _plain, "assistant": _assistant, "tool": _results,
    }  # fmt: skip
    spoken: ClassVar[Mapping[type, Callable[[Any, Any, int], None]]] = {
        rq.Text: Said.say, rq.File: Said.picture, rq.Source: Said.cite, rq.Opaque: Said.state,
        rq.Reasoning: Said.think, rq.Call: _call, rq.Result: _ran, rq.Ask: _ask,
    }  # fmt: skip


class Writer(Items):
    """One request being written."""

    def write(self, request: rq.Request) -> Object:
        own, marks = self.split_extra(request.extra)
        self.native = "read" in marks
        body: Object = {"model": request.model} if request.model else {}
        messages = self._instructed(
            stowed(undrawn(request.messages), HOLDS, self.report_carried, self.report_loss), body
        )
        self._asked(messages, marks, body)
        tools = write_tools(self, request.tools)
        if tools:
            body["tools"] = tools
        if request.choice is not None:
            body["tool_choice"] = write_choice(self, request.choice, request.tools)
        if request.stream:
            body["stream"] = True
        body.update({key: value for key, value in own.items() if key not in ("reasoning", "text")})
        self._settings(request.settings, marks, body)
        self._thinking(request.settings, own, marks, body)
        self._form(request.settings, own, marks, body)
        self._include(request.settings, body)
        add_missing(body, marks.get("also"))
        return body

    def _instructed(self, messages: list[rq.Message], body: Object) -> list[rq.Message]:
        """The system prompt where it has a field of its own; the messages that are left."""
        first = messages[0] if messages else None
        if first is None or first.role != "system" or len(first.parts) != 1:
            return messages
        only, marks = first.parts[0], split_extra(first.extra, NAME)[1]
        fits = type(only) is rq.Text and not only.cache and bool(only.text)
        if type(only) is rq.Text and fits and ("top" in marks or (not self.native and self.quirks.instructions)):
            self.split_extra(first.extra)
            self.split_extra(only.extra)
            if first.name:
                self.report_loss("name")
            body["instructions"] = only.text
            return messages[1:]
        return messages

    def _asked(self, messages: list[rq.Message], marks: Object, body: Object) -> None:
        only = messages[0] if len(messages) == 1 else None
        if only is not None and "string" in split_extra(only.extra, NAME)[1]:
            given = self.content(only.parts, listed=False)
            if isinstance(given, str):
                body["input"] = given
                return
        if messages or not self.native:
            body["input"] = self.input(messages)
        elif "input" in marks:
            body["input"] = []

    # ── settings ──────────────────────────────────────────────────────────────────────────────────

    def _settings(self, asked: rq.Settings, marks: Object, body: Object) -> None:
        for key, name in _PLAIN:
            value = getattr(asked, name)
            if value is not None and value != "":
                body[key] = value
        if asked.max_output is not None:
            body["max_output_tokens"] = self._limit(asked.max_output)
        self._more(asked, marks, body)
        if asked.tier in TIERS or (asked.tier and self.native):
            body["service_tier"] = asked.tier
        if asked.metadata is not None:
            body["metadata"] = asked.metadata if self.native else self._labels(asked.metadata)
        lost = {
            "choices": asked.choices is not None, "tier": asked.tier and "service_tier" not in body,
            "logprobs": asked.logprobs is False, "thoughts": asked.thoughts is False,
        }  # fmt: skip
        for name in (name for name, is_lost in lost.items() if is_lost):
            self.report_loss("setting", name)

    def _more(self, asked: rq.Settings, marks: Object, body: Object) -> None:
        """Settings that only some providers have."""
        for key in MORE:
            value = getattr(asked, key)
            if value is None or value == []:
                continue
            if key in self.quirks.more or key in marks.get("more", ()):
                body[key] = value[0] if key == "stop" and "stop" in marks and len(value) == 1 else value
            else:
                self.report_loss("setting", key)

    def _limit(self, asked: int) -> int:
        """The output limit, raised where the provider would refuse it."""
        least = self.quirks.min_output
        if asked < least:
            self.report_loss("max-output", f"{asked} is sent as {least}")
        return max(asked, least)

    def _labels(self, metadata: Object) -> Object:
        """Metadata whose values are strings, as they must be here."""
        if all(isinstance(value, str) for value in metadata.values()):
            return metadata
        self.report_loss("metadata")
        return {key: value if isinstance(value, str) else as_json(value) for key, value in metadata.items()}

    def _thinking(self, asked: rq.Settings, own: Object, marks: Object, body: Object) -> None:
        made: Object = dict(own.get("reasoning", {}))
        effort = asked.effort
        if asked.budget is not None:
            self.report_loss("budget")
            effort = effort if effort and asked.budget else effort_for_budget(asked.budget)
        if effort:
            made["effort"] = self._known(effort)
        if asked.thoughts:
            made["summary"] = marks.get("summary") or "auto"
        add_missing(made, marks.get("thinking"))
        if made:
            body["reasoning"] = made

    def _known(self, effort: str) -> str:
        known = self.quirks.efforts
        if not known or effort in known:
            return effort
        self.report_loss("effort", effort)
        wanted = budget_for_effort(effort)
        return min(known, key=lambda word: (word == "none", abs(budget_for_effort(word) - wanted)))

    def _form(self, asked: rq.Settings, own: Object, marks: Object, body: Object) -> None:
        made: Object = dict(own.get("text", {}))
        odd = marks.get("format")
        if odd is not None and read_format(odd) == asked.format:
            made["format"] = odd
        elif asked.format is not None and asked.format.kind == "json" and not self.quirks.any_json:
            self.report_loss("any-json")
        elif asked.format is not None:
            made["format"] = self._schema(asked.format) if asked.format.kind == "schema" else _FORMS[asked.format.kind]
        if asked.verbosity:
            made["verbosity"] = asked.verbosity
        add_missing(made, marks.get("texts"))
        if made:
            body["text"] = made

    def _schema(self, form: rq.Format) -> Object:
        if not form.name:
            self.report_loss("format")
        made = drop_empty(type="json_schema", name=form.name or "answer", description=form.description)
        made["schema"] = form.schema or {"type": "object"}
        if form.strict is not None:
            made["strict"] = form.strict
        return made

    def _include(self, asked: rq.Settings, body: Object) -> None:
        wanted = [word for word, needed in ((LOGPROBS, asked.logprobs), (SEALED, self.quirks.sealed)) if needed]
        missing = [word for word in wanted if word not in body.get("include", ())]
        if missing:
            body["include"] = [*body.get("include", ()), *missing]


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """A request as the body of a Responses call."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer


_NOTHING: Object = {"type": "object", "properties": {}}  # the input of a tool that has none


def write_tools(draft: Content, tools: Iterable[rq.Tool]) -> list[Object]:
    """All tools; those of one namespace, as far as they follow each other, in one group."""
    made: list[Object] = []
    group: Object = {}
    for tool in tools:
        own, marks = draft.split_extra(tool.extra)
        one = None if "elsewhere" in marks else _tool(draft, tool, own, marks)
        if one is None:
            continue
        if not tool.namespace:
            made.append(one)
            group = {}
        elif group.get("name") == tool.namespace and "space" not in marks:
            group["tools"].append(one)
        else:
            about = marks.get("space", {"description": ""})
            group = {"type": "namespace", **about, "name": tool.namespace, "tools": [one]}
            made.append(group)
    return made


def _tool(draft: Content, tool: rq.Tool, own: Object, marks: Object) -> Object | None:
    if "tool" in own:
        return own["tool"]  # type: ignore[no-any-return]
    if tool.kind in ("provider", "unknown"):
        draft.report_loss("tool", tool.name)
        draft.hint(tool, {}, fits=False)
        return None
    made = _custom(tool) if tool.kind == "custom" else _function(draft, tool)
    if "nested" in marks:
        inner = {key: value for key, value in made.items() if key != "type"}
        add_missing(inner, marks.get("also"))
        return {"type": "function", "function": {**inner, **marks.get("inner", {})}, **own}
    if "untyped" in marks:
        del made["type"]
    made.update(own)
    add_missing(made, marks.get("also"))
    draft.hint(tool, made, fits=False)
    return made


def _custom(tool: rq.Tool) -> Object:
    return {"type": "custom", **drop_empty(name=tool.name, description=tool.description, format=tool.schema)}


def _function(draft: Content, tool: rq.Tool) -> Object:
    made: Object = {"type": "function", "name": tool.name}
    if tool.description:
        made["description"] = tool.description
    if tool.schema is not None or not draft.native:
        made["parameters"] = _NOTHING if tool.schema is None else tool.schema
    if tool.strict is not None or not draft.native:
        made["strict"] = bool(tool.strict)  # unlike elsewhere, a tool that does not say is strict here
    return made


def write_choice(draft: Content, choice: rq.ToolChoice, tools: Iterable[rq.Tool]) -> Any:
    """Which tool may or must be called, as it was said where it was said here."""
    marks = draft.split_extra(choice.extra)[1]
    if "choice" in marks:
        return marks["choice"]
    if choice.mode == "none" or not choice.names:
        return "required" if choice.mode == "tool" else choice.mode
    kinds = {tool.name: tool.kind for tool in tools}
    rows = [{"type": "custom" if kinds.get(name) == "custom" else "function", "name": name} for name in choice.names]
    return rows[0] if choice.mode == "tool" else {"type": "allowed_tools", "mode": choice.mode, "tools": rows}
