"""Canonical requests → Responses: the body and its settings. What providers differ in is a field of `Quirks`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import request as rq
from penstock.carrying import stowed
from penstock.jsontext import as_json
from penstock.protocols.responses.request import LOGPROBS, MORE, read_format
from penstock.protocols.responses.speech import NAME
from penstock.protocols.responses.write_builtin import undrawn
from penstock.protocols.responses.write_content import HOLDS, LACKS, LOSSES, Quirks
from penstock.protocols.responses.write_items import Items
from penstock.protocols.responses.write_tools import write_choice, write_tools
from penstock.writing import Draft, add, budget_of, effort_of, said, split

if TYPE_CHECKING:
    from penstock.pick import Object

__all__ = ["LACKS", "LOSSES", "NAME", "Quirks", "Writer", "write_request"]
SEALED = "reasoning.encrypted_content"
TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"})
_FORMS: dict[str, Object] = {"text": {"type": "text"}, "json": {"type": "json_object"}}
_PLAIN = (
    ("temperature", "temperature"), ("top_p", "top_p"), ("parallel_tool_calls", "parallel_calls"), ("user", "user"),
    ("prompt_cache_key", "cache_key"), ("store", "store"), ("top_logprobs", "top_logprobs"),
)  # fmt: skip


class Writer(Items):
    """One request being written."""

    def write(self, request: rq.Request) -> Object:
        own, marks = self.own(request.extra)
        self.native = "read" in marks
        body: Object = {"model": request.model} if request.model else {}
        messages = self._instructed(stowed(undrawn(request.messages), HOLDS, self.carry, self.lose), body)
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
        add(body, marks.get("also"))
        return body

    def _instructed(self, messages: list[rq.Message], body: Object) -> list[rq.Message]:
        """The system prompt where it has a field of its own; the messages that are left."""
        first = messages[0] if messages else None
        if first is None or first.role != "system" or len(first.parts) != 1:
            return messages
        only, marks = first.parts[0], split(first.extra, NAME)[1]
        fits = type(only) is rq.Text and not only.cache and bool(only.text)
        if type(only) is rq.Text and fits and ("top" in marks or (not self.native and self.quirks.instructions)):
            self.own(first.extra)
            self.own(only.extra)
            if first.name:
                self.lose("name")
            body["instructions"] = only.text
            return messages[1:]
        return messages

    def _asked(self, messages: list[rq.Message], marks: Object, body: Object) -> None:
        only = messages[0] if len(messages) == 1 else None
        if only is not None and "string" in split(only.extra, NAME)[1]:
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
            self.lose("setting", name)

    def _more(self, asked: rq.Settings, marks: Object, body: Object) -> None:
        """Settings that only some providers have."""
        for key in MORE:
            value = getattr(asked, key)
            if value is None or value == []:
                continue
            if key in self.quirks.more or key in marks.get("more", ()):
                body[key] = value[0] if key == "stop" and "stop" in marks and len(value) == 1 else value
            else:
                self.lose("setting", key)

    def _limit(self, asked: int) -> int:
        """The output limit, raised where the provider would refuse it."""
        least = self.quirks.min_output
        if asked < least:
            self.lose("max-output", f"{asked} is sent as {least}")
        return max(asked, least)

    def _labels(self, metadata: Object) -> Object:
        """Metadata whose values are strings, as they must be here."""
        if all(isinstance(value, str) for value in metadata.values()):
            return metadata
        self.lose("metadata")
        return {key: value if isinstance(value, str) else as_json(value) for key, value in metadata.items()}

    def _thinking(self, asked: rq.Settings, own: Object, marks: Object, body: Object) -> None:
        made: Object = dict(own.get("reasoning", {}))
        effort = asked.effort
        if asked.budget is not None:
            self.lose("budget")
            effort = effort if effort and asked.budget else effort_of(asked.budget)
        if effort:
            made["effort"] = self._known(effort)
        if asked.thoughts:
            made["summary"] = marks.get("summary") or "auto"
        add(made, marks.get("thinking"))
        if made:
            body["reasoning"] = made

    def _known(self, effort: str) -> str:
        known = self.quirks.efforts
        if not known or effort in known:
            return effort
        self.lose("effort", effort)
        wanted = budget_of(effort)
        return min(known, key=lambda word: (word == "none", abs(budget_of(word) - wanted)))

    def _form(self, asked: rq.Settings, own: Object, marks: Object, body: Object) -> None:
        made: Object = dict(own.get("text", {}))
        odd = marks.get("format")
        if odd is not None and read_format(odd) == asked.format:
            made["format"] = odd
        elif asked.format is not None and asked.format.kind == "json" and not self.quirks.any_json:
            self.lose("any-json")
        elif asked.format is not None:
            made["format"] = self._schema(asked.format) if asked.format.kind == "schema" else _FORMS[asked.format.kind]
        if asked.verbosity:
            made["verbosity"] = asked.verbosity
        add(made, marks.get("texts"))
        if made:
            body["text"] = made

    def _schema(self, form: rq.Format) -> Object:
        if not form.name:
            self.lose("format")
        made = said(type="json_schema", name=form.name or "answer", description=form.description)
        made["schema"] = form.schema or {"type": "object"}
        if form.strict is not None:
            made["strict"] = form.strict
        return made

    def _include(self, asked: rq.Settings, body: Object) -> None:
        wanted = [word for word, needed in ((LOGPROBS, asked.logprobs), (SEALED, self.quirks.sealed)) if needed]
        missing = [word for word in wanted if word not in body.get("include", ())]
        if missing:
            body["include"] = [*body.get("include", ()), *missing]


def write_request(request: rq.Request, quirks: Quirks | None = None) -> Draft:
    """A request as the body of a Responses call."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
