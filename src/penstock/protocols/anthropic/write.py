"""Canonical requests → Anthropic Messages. What providers of it differ in is a field of `Quirks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import request as rq
from penstock.writing import Draft, Losses, budget_of, said, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.pick import Object

NAME = "anthropic"
LOSSES: Losses = {
    "provider-call": "a tool that another provider ran, and its result, are left out",
    "opaque": "state of another protocol is left out",
    "unsigned": "reasoning without this provider's signature is left out, or said as text",
    "refusal": "a refusal is said as text",
    "assistant-file": "a file that the model made is moved into a user message behind it",
    "audio": "a sound is said as a line of text with its type",
    "source": "a citation in an earlier answer is left out",
    "approval": "an approval is left out",
    "free-text": "a custom tool becomes a function with one string, `input`",
    "tool": "a tool that another provider runs is left out",
    "setting": "a setting without a word here is left out: {}",
    "schema-name": "the name of an answer's schema is left out",
    "json": "an answer of any JSON is asked for without a schema",
    "mid-system": "a system message inside the conversation is said by the user",
}
_UNSAID = (
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "choices",
    "logprobs",
    "top_logprobs",
    "verbosity",
    "cache_key",
    "store",
)
_EFFORTS = {"minimal": "low", "none": "low"}


class Quirks(msgspec.Struct, frozen=True):
    """What providers of this protocol differ in."""

    max_output: int = 4096  # it must be said: what to say when nobody did
    mid_system: Literal["keep", "user"] = "keep"
    effort: bool = True  # output_config.effort is understood; otherwise a budget is sent
    unsigned: Literal["drop", "text", "keep"] = "drop"  # reasoning that carries no signature


class Writer(Draft):
    """One request being written."""

    protocol = NAME
    losses = LOSSES

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self._quirks = quirks

    def write(self, request: rq.Request) -> Object:
        own, marks = split(request.extra, NAME)
        first = next(
            (place for place, one in enumerate(request.messages) if one.role != "system"), len(request.messages)
        )
        body: Object = {"model": request.model, "max_tokens": request.settings.max_output or self._quirks.max_output}
        system = self._system(request.messages[:first])
        if system:
            body["system"] = system
        body["messages"] = self._messages(request.messages[first:])
        tools = [made for tool in request.tools for made in self._tool(tool)]
        if tools:
            body["tools"] = tools
        choice = self._choice(request)
        if choice:
            body["tool_choice"] = choice
        if request.stream:
            body["stream"] = True
        body.update(self._settings(request.settings, own, marks))
        output = own.get("output_config")
        body.update({key: value for key, value in own.items() if key not in ("thinking", "output_config")})
        if output:
            body["output_config"] = {**output, **body.get("output_config", {})}
        return body

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _system(self, messages: list[rq.Message]) -> str | list[Object]:
        parts = [part for message in messages for part in message.parts]
        listed = any("listed" in split(message.extra, NAME)[1] for message in messages)
        return self._content(parts, listed=listed)

    def _messages(self, messages: Iterable[rq.Message]) -> list[Object]:
        made: list[Object] = []
        results: Object | None = None  # the user message that collects the results of one round
        for message in messages:
            if message.role == "tool":
                if results is None:
                    results = {"role": "user", "content": [], **split(message.extra, NAME)[0]}
                    made.append(results)
                for part in message.parts:
                    results["content"] += self._part(part)
                continue
            _, marks = split(message.extra, NAME)
            if results is not None and marks.get("joined"):
                results["content"] += [block for part in message.parts for block in self._part(part)]
            else:
                self._message(message, marks, made)
            results = None
        return made

    def _message(self, message: rq.Message, marks: Object, made: list[Object]) -> None:
        role = message.role
        if role == "system" and self._quirks.mid_system == "user":
            self.lose("mid-system")
            role = "user"
        parts = message.parts
        files = [part for part in parts if type(part) is rq.File] if role == "assistant" else []
        if files:
            self.lose("assistant-file")
            parts = [part for part in parts if type(part) is not rq.File]
        content = self._content(parts, listed="listed" in marks)
        if content or role != "assistant":
            made.append({"role": role, "content": content, **split(message.extra, NAME)[0]})
        if files:
            made.append({"role": "user", "content": [block for file in files for block in self._part(file)]})

    def _content(self, parts: list[rq.AnyPart], *, listed: bool) -> str | list[Object]:
        if len(parts) == 1 and not listed:
            only = parts[0]
            if type(only) is rq.Text and not only.cache and only.extra is None and not only.refusal:
                return only.text
        return [block for part in parts for block in self._part(part)]

    def _part(self, part: rq.AnyPart | rq.ResultPart) -> list[Object]:
        made = self.kinds[type(part)](self, part)
        if part.cache and made:
            made[-1]["cache_control"] = cache_hint(part.cache)
        return made

    def _text(self, part: rq.Text) -> list[Object]:
        if part.refusal:
            self.lose("refusal")
        if not part.text:
            return []  # an empty block is refused
        return [{"type": "text", "text": part.text, **split(part.extra, NAME)[0]}]

    def _json(self, part: rq.Json) -> list[Object]:
        return [{"type": "text", "text": part.json}]

    def _reasoning(self, part: rq.Reasoning) -> list[Object]:
        own, _ = split(part.extra, NAME)
        if "redacted" in own:
            return [{"type": "redacted_thinking", "data": own["redacted"]}]
        if own.get("signature") or self._quirks.unsigned == "keep":
            return [{"type": "thinking", "thinking": part.text, "signature": "", **own}]
        self.lose("unsigned")
        return [{"type": "text", "text": part.text}] if self._quirks.unsigned == "text" and part.text else []

    def _call(self, call: rq.Call) -> list[Object]:
        own, _ = split(call.extra, NAME)
        if call.by == "provider" and not own:
            self.lose("provider-call")
            return []
        given: Any = {"input": call.json} if call.form == "text" else msgspec.json.decode(call.json or "{}")
        if not isinstance(given, dict):
            given = {"input": given}
        return [{"type": "tool_use", **own, "id": call.id, "name": call.name, "input": given}]

    def _result(self, result: rq.Result) -> list[Object]:
        own, marks = split(result.extra, NAME)
        if result.by == "provider":
            if not own:
                self.lose("provider-call")
                return []
            return [{**own, "content": msgspec.json.decode(result.json)}]
        block: Object = {"type": "tool_result", "tool_use_id": result.call, **own}
        if result.content or "listed" in marks:
            block["content"] = self._content(result.content, listed="listed" in marks)  # type: ignore[arg-type]
        if result.failed or "said" in marks:
            block["is_error"] = result.failed
        return [block]

    def _file(self, part: rq.File) -> list[Object]:
        own, marks = split(part.extra, NAME)
        kind = marks.get("kind") or ("image" if part.media.startswith("image/") else "document")
        if part.media.startswith(("audio/", "video/")):
            self.lose("audio")
            return [{"type": "text", "text": f"[{part.name or part.media}]"}]
        if part.id:
            source: Object = {"type": "file", "file_id": part.id}
        elif part.url:
            source = {"type": "url", "url": part.url}
        else:
            source = {"type": "base64", "media_type": part.media, "data": part.data}
        return [{"type": kind, "source": source, **({"title": part.name} if part.name else {}), **own}]

    def _opaque(self, part: rq.Opaque) -> list[Object]:
        if part.protocol == NAME:
            return [dict(part.data)]
        self.lose("opaque")
        return []

    def _source(self, _: rq.Source) -> list[Object]:
        self.lose("source")
        return []

    def _ask(self, _: rq.Ask) -> list[Object]:
        self.lose("approval")
        return []

    # ── tools and settings ────────────────────────────────────────────────────────────────────────

    def _tool(self, tool: rq.Tool) -> list[Object]:
        own, marks = split(tool.extra, NAME)
        if "tool" in own:
            made: Object = dict(own["tool"])
        elif tool.kind in ("provider", "unknown"):
            self.lose("tool")
            return []
        else:
            made = {
                **({"type": "custom"} if marks.get("typed") else {}),
                **said(name=tool.name, description=tool.description),
            }
            made["input_schema"] = self._schema(tool)
            if tool.strict is not None:
                made["strict"] = tool.strict
            made.update(own)
        if tool.cache:
            made["cache_control"] = cache_hint(tool.cache)
        return [made]

    def _schema(self, tool: rq.Tool) -> Object:
        if tool.kind == "custom":
            self.lose("free-text")
            return {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
        schema = tool.schema or {}
        return schema if schema.get("type") else {"type": "object", **schema}

    def _choice(self, request: rq.Request) -> Object | None:
        choice, parallel = request.choice, request.settings.parallel_calls
        if choice is None and (parallel is None or not request.tools):
            return None
        mode = (choice or rq.ToolChoice()).mode
        made: Object = {"type": "any" if mode == "required" else mode}
        if choice is not None and mode == "tool":
            made["name"] = choice.names[0]
        if parallel is not None and mode != "none":
            made["disable_parallel_tool_use"] = not parallel
        return made

    def _settings(self, asked: rq.Settings, own: Object, marks: Object) -> Object:
        for name in _UNSAID:
            if getattr(asked, name) not in (None, ""):
                self.diagnostics.add("loss-setting", f"{NAME}: {LOSSES['setting'].format(name)}")
        body: Object = {
            "temperature": asked.temperature, "top_p": asked.top_p, "top_k": asked.top_k,
            "stop_sequences": asked.stop or None, "service_tier": asked.tier or None,
            "metadata": asked.metadata if own or not asked.user else {"user_id": asked.user},
            "thinking": own.get("thinking") or self._thinking(asked),
            "output_format" if marks.get("old_format") else "_format": self._format(asked.format),
        }  # fmt: skip
        output = said(effort=self._effort(asked), format=body.pop("_format", None))
        return {key: value for key, value in {**body, "output_config": output or None}.items() if value is not None}

    def _effort(self, asked: rq.Settings) -> str:
        return _EFFORTS.get(asked.effort, asked.effort) if self._quirks.effort else ""

    def _thinking(self, asked: rq.Settings) -> Object | None:
        if asked.budget is not None:
            return (
                {"type": "enabled", "budget_tokens": max(asked.budget, 1024)} if asked.budget else {"type": "disabled"}
            )
        if asked.effort in ("", "none"):
            return {"type": "disabled"} if asked.effort == "none" else None
        if self._quirks.effort:
            return {"type": "adaptive"}
        return {"type": "enabled", "budget_tokens": max(budget_of(asked.effort), 1024)}

    def _format(self, form: rq.Format | None) -> Object | None:
        if form is None or form.kind == "text":
            return None
        if form.name:
            self.lose("schema-name")
        if form.schema is None:
            self.lose("json")
        return {"type": "json_schema", "schema": form.schema or {"type": "object"}}

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _text, rq.Json: _json, rq.Reasoning: _reasoning, rq.Call: _call, rq.Result: _result, rq.File: _file,
        rq.Opaque: _opaque, rq.Source: _source, rq.Ask: _ask,
    }  # fmt: skip


def cache_hint(cache: str) -> Object:
    """A cache point, with its time to live where it is not the usual one."""
    return {"type": "ephemeral"} if cache == "5m" else {"type": "ephemeral", "ttl": cache}


def write_request(request: rq.Request, quirks: Quirks | None = None) -> Draft:
    """A request as the body of a Messages call."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
