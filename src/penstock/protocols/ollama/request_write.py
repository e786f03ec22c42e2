"""Canonical requests → Ollama's `/api/chat`; `/api/generate` where it was that and can still be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import request as rq
from penstock.markers import Holds, input_of, stowed
from penstock.media import sniff
from penstock.protocols.ollama.request_read import NAME, read_think
from penstock.request_writer import (
    Losses,
    RequestDraft,
    add_missing,
    collect_text,
    describe_file,
    effort_for_budget,
    write_function,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.lenient_fields import Object

LOSSES: Losses = {
    "approval": "an approval is left out",
    "cache": "a cache point is left out",
    "choice": "which tools may or must be called is left out",
    "encrypted": "what only the provider that ran a tool can read is left out of its result",
    "cut-call": "a call that never became whole is left out",
    "detail": "how closely an image should be looked at is not said",
    "effort": "an effort, or a budget of reasoning tokens, is sent as a wish to think",
    "file": "a file that is no image, or not at hand, is told as a line of text: {}",
    "form": "that reasoning is a summary is not said",
    "format": "of an answer's schema only the schema is sent",
    "json-result": "a JSON value in a tool result is sent as its text",
    "media": "type and name of an image are not said: its bytes show what it is: {}",
    "namespace": "which group a tool is of is left out",
    "name": "the name of who speaks is left out",
    "opaque": "state of another protocol is left out; what it says in words is sent as text",
    "order": "texts of a message are joined, reasoning stands before them, images and calls behind",
    "reasoning-state": "signed or encrypted reasoning of another protocol is sent as its words alone",
    "setting": "a setting without a word here is left out: {}",
    "source": "a citation in an earlier answer is left out",
    "strict": "that a tool's input must follow its schema is not said",
    "tool": "a tool that another provider runs is left out: {}",
}
HOLDS = Holds(NAME, failed=False, refusals=False)
_ORDER: dict[type, int] = {rq.Reasoning: 0, rq.Text: 1, rq.Json: 1, rq.File: 2, rq.Call: 3}


class Quirks(msgspec.Struct, frozen=True):
    """What servers and models of this protocol differ in."""

    ids: bool = True  # calls and results may carry an id
    levels: bool = False  # an effort may be said; otherwise thinking is on or off


class Writer(RequestDraft):
    """One request being written. State: the names of calls, and which ids were made up."""

    protocol = NAME
    losses = LOSSES

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self.quirks = quirks
        self._names: dict[str, str] = {}

    def write(self, request: rq.Request) -> Object:
        own, marks = self.split_extra(request.extra)
        body: Object = {"model": request.model} if request.model else {}
        made = [
            one
            for message in stowed(request.messages, HOLDS, self.report_carried, self.report_loss)
            for one in self._message(message)
        ]
        body.update((marks.get("generate") and _generate(made)) or {"messages": made})
        tools = [one for tool in request.tools for one in self._tool(tool)]
        if tools:
            body["tools"] = tools
        if request.choice is not None and (request.choice.mode != "auto" or request.choice.names):
            self.report_loss("choice")
        if not marks.get("silent") or not request.stream:
            body["stream"] = request.stream
        write_settings(request.settings, marks, self, body)
        body.update(own)
        add_missing(body, marks.get("also"))
        return body

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _message(self, message: rq.Message) -> list[Object]:
        own, marks = self.split_extra(message.extra)
        if message.name:
            self.report_loss("name")
        if message.role == "tool":
            made = [self._result(part) for part in message.parts if type(part) is rq.Result]
        else:
            made = [{"role": message.role, **self._said(message.parts)}]
        for one in made:
            one.update(own)
            add_missing(one, marks.get("also"))
        return made

    def _result(self, result: rq.Result) -> Object:
        _, marks = self.split_extra(result.extra)
        if result.cache:
            self.report_loss("cache")
        name = result.name or self._names.get(result.call, "")
        made: Object = {"role": "tool", **self._said(result.content)}
        if name and not marks.get("nameless"):
            made["tool_name"] = name
        if self.quirks.ids and not marks.get("minted"):
            made["tool_call_id"] = result.call
        return made

    def _said(self, parts: Sequence[rq.AnyPart | rq.ResultPart]) -> Object:
        """Content and images, what was thought, and calls."""
        texts: list[str] = []
        made: Object = {}
        last = 0
        for part in parts:
            place = _ORDER.get(type(part), 1)
            if place < last or (place == last == 0 and "thinking" in made):
                self.report_loss("order")
            last = max(place, last)
            if part.cache:
                self.report_loss("cache")
            texts += self._put(part, made)
        if len(texts) > 1:
            self.report_loss("order")
        return {"content": "\n".join(texts), **made}

    def _put(self, part: Any, made: Object) -> list[str]:
        """Put a part into a message; gives the words that go into its content."""
        if type(part) is rq.Text:
            self.split_extra(part.extra)
            return [part.text] if part.text else []
        if type(part) is rq.Json:
            self.report_loss("json-result")
            return [part.json]
        if type(part) is rq.Reasoning:
            self._thought(part, made)
        elif type(part) is rq.Call:
            self._call(part, made)
        elif type(part) is rq.File:
            return self._file(part, made)
        elif type(part) is rq.Opaque:
            self.report_loss("opaque")
            return [words for words in (collect_text(part.data),) if words]
        else:
            self.report_loss("approval" if type(part) is rq.Ask else "source")
        return []

    def _thought(self, part: rq.Reasoning, made: Object) -> None:
        self.split_extra(part.extra)
        if part.extra is not None and NAME not in part.extra:
            self.report_loss("reasoning-state")
        if part.form == "summary":
            self.report_loss("form")
        if part.text:
            made["thinking"] = f"{made['thinking']}\n{part.text}" if "thinking" in made else part.text

    def _file(self, part: rq.File, made: Object) -> list[str]:
        self.report_image_detail(part)
        _, marks = self.split_extra(part.extra)
        if part.media.startswith("image/") and part.data:
            if not marks.get("url") and (part.name or sniff(part.data) != part.media):
                self.report_loss("media", part.media)
            image = f"data:{part.media};base64,{part.data}" if marks.get("url") else part.data
            made.setdefault("images", []).append(image)
            return []
        if marks.get("url") and part.url:
            made.setdefault("images", []).append(part.url)
            return []
        self.report_loss("file", part.media)
        return [describe_file(part)]

    def _call(self, call: rq.Call, made: Object) -> None:
        own, marks = self.split_extra(call.extra)
        if call.cut:
            self.report_loss("cut-call")
            return
        self._names[call.id] = call.name
        given, carried = input_of(call)
        if carried:
            self.report_carried(carried)
        function: Object = {"name": call.name}
        if given or not marks.get("bare"):
            function["arguments"] = given
        function.update(own.get("function", {}))
        one: Object = {"id": call.id} if self.quirks.ids and not marks.get("minted") else {}
        if marks.get("typed") or not marks:
            one["type"] = "function"
        more = {key: value for key, value in own.items() if key != "function"}
        made.setdefault("tool_calls", []).append({**one, "function": function, **more})

    # ── tools ─────────────────────────────────────────────────────────────────────────────────────

    def _tool(self, tool: rq.Tool) -> list[Object]:
        own, marks = self.split_extra(tool.extra)
        if tool.cache:
            self.report_loss("cache")
        if "tool" in own:
            return [own["tool"]]
        function = write_function(self, tool, own, marks)
        if function is None:
            return []
        typed = {} if marks.get("untyped") else {"type": "function"}
        return [{**typed, "function": function, **own.get("beside", {})}]


def _generate(messages: Iterable[Object]) -> Object | None:
    """Messages as a prompt, where they are a user's one message, and perhaps a system prompt before it."""
    rows = list(messages)
    system = rows.pop(0) if len(rows) > 1 and rows[0]["role"] == "system" else {}
    if len(rows) != 1 or rows[0]["role"] != "user" or "images" in system:
        return None
    made: Object = {"prompt": rows[0]["content"]}
    if system:
        made["system"] = system["content"]
    if "images" in rows[0]:
        made["images"] = rows[0]["images"]
    return made


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """A request as the body of a chat call."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer


_UNSAID = ("choices", "parallel_calls", "verbosity", "tier", "user", "metadata", "cache_key", "store")
_NEAREST = {"minimal": "low", "xhigh": "high", "max": "high"}


def write_settings(asked: rq.Settings, marks: Object, draft: Writer, body: Object) -> None:
    """Put the settings into a body."""
    for name in _UNSAID:
        if getattr(asked, name) not in (None, ""):
            draft.report_loss("setting", name)
    stop: Any = asked.stop or None
    if marks.get("single") and len(asked.stop) == 1:
        stop = asked.stop[0]
    said: Object = {
        "num_predict": asked.max_output, "temperature": asked.temperature, "top_p": asked.top_p, "top_k": asked.top_k,
        "stop": stop, "seed": asked.seed, "frequency_penalty": asked.frequency_penalty,
        "presence_penalty": asked.presence_penalty,
    }  # fmt: skip
    options = {**{key: value for key, value in said.items() if value is not None}, **marks.get("options", {})}
    add_missing(options, marks.get("unsaid"))
    if options:
        body["options"] = options
    if asked.format is not None:
        _format(asked.format, draft, body)
    think = _think(asked, marks.get("think") or [None], draft)
    for key, value in (("think", think), ("logprobs", asked.logprobs), ("top_logprobs", asked.top_logprobs)):
        if value is not None:
            body[key] = value


def _format(form: rq.Format, draft: Writer, body: Object) -> None:
    if form.name or form.description or form.strict is not None:
        draft.report_loss("format")
    if form.kind != "text":
        body["format"] = "json" if form.schema is None else form.schema


def _think(asked: rq.Settings, was: list[Any], draft: Writer) -> bool | str | None:
    """Whether to think, and how hard where that can be said."""
    effort, budget, thoughts = asked.effort, asked.budget, asked.thoughts
    if read_think(was[0]) == (effort, budget, thoughts):
        known: bool | str | None = was[0]
        return known
    if not effort and budget is None:
        return thoughts
    if budget == 0 or effort == "none":
        if effort:
            draft.report_loss("effort")
        return False
    levels = draft.quirks.levels or asked.thinking == "effort"
    word = _NEAREST.get(effort, effort) or effort_for_budget(budget or 0)
    if word != effort or not levels:
        draft.report_loss("effort")
    return word if levels else True
