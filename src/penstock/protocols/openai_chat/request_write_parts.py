"""Canonical parts → Chat Completions content, reasoning and results; and the table of what has no place there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import request as rq
from penstock.markers import Holds
from penstock.media import of_url, sniff
from penstock.protocols.openai_chat.request_read_parts import DOCUMENTS, SOUNDS, cached, read_choice, read_grammar, told
from penstock.protocols.openai_chat.wire import FORMATS, NAME
from penstock.request_writer import (
    Losses,
    RequestDraft,
    add_missing,
    collect_text,
    drop_empty,
    omit_with_loss,
    split_extra,
    write_foreign_state,
)
from penstock.request_writer import describe_file as told_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.lenient_fields import Object

LOSSES: Losses = {
    "approval": "an approval is left out",
    "budget": "a budget of reasoning tokens is sent as an effort",
    "cache": "a cache point is left out",
    "encrypted": "what only the provider that ran a tool can read is left out of its result",
    "cut-call": "a call that never became whole is left out",
    "empty": "an assistant's message of which nothing can be sent is left out",
    "file": "a file by its address is sent as a line of text with it",
    "file-id": "a file by another provider's id is sent by that id, which nobody else knows",
    "file-name": "the name of a file is left out",
    "json-result": "a JSON value in a tool result is sent as its text",
    "namespace": "the namespace of a tool is left out: {}",
    "opaque": "state of another protocol is left out; what it says in words is sent as text",
    "order": "what a message says behind its calls is sent before them, and all that it thought before both",
    "reasoning": "reasoning is left out",
    "reasoning-state": "signed or encrypted reasoning of another protocol is left out",
    "setting": "a setting without a word here is left out: {}",
    "source": "a citation in an earlier answer is left out",
    "tool": "a tool that another provider runs is left out: {}",
}
LACKS: Losses = {  # what only some providers cannot, as their `Quirks` say
    "parts": "a text of several parts is sent as one",
}
_FORMS = {media: form for form, media in SOUNDS.items()} | {
    "audio/mp3": "mp3",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
}


_ENDINGS = {media: ending for ending, media in DOCUMENTS.items()}
_NAMED = ("file", "document_url", "text")


class Quirks(msgspec.Struct, frozen=True):
    """What providers of this protocol differ in."""

    limit: Literal["max_tokens", "max_completion_tokens", ""] = ""  # the word for the output limit; "" as it was said
    system: Literal["system", "developer", ""] = ""
    reasoning: Literal["reasoning_content", "reasoning", "thinking", ""] = "reasoning_content"
    details: bool = False  # signed reasoning of others may be sent in reasoning_details
    # the fields for reasoning settings: `reasoning` is OpenRouter's object, `thinking` an object with a type
    # (DeepSeek, Z.ai, Moonshot, MiniMax), `enable_thinking` Qwen's switch and budget
    effort: Literal["reasoning_effort", "reasoning", "thinking", "enable_thinking", ""] = "reasoning_effort"
    switched_on: Literal["enabled", "adaptive"] = "enabled"  # the type of `thinking` that switches it on
    signatures: bool = False  # Gemini's thought signatures of other protocols may be sent, in extra_content
    lists: bool = True  # what the model and its tools say may be a list of parts
    result_files: bool = False  # files may stand in tool results
    file_urls: bool = False  # documents may be sent by their address
    documents: Literal["file", "document_url"] = "file"
    seed: Literal["seed", "random_seed"] = "seed"
    top_k: bool = False
    cache: Literal["cache_control", "prompt_cache_breakpoint", ""] = ""


class Parts(RequestDraft):
    """Parts being written."""

    protocol = NAME
    losses: ClassVar[Losses] = {**LOSSES, **LACKS}

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self.quirks = quirks
        self.holds = Holds(
            NAME,
            failed=False,
            json=False,
            assistant_files=False,
            result_files=quirks.result_files,
            file_urls=quirks.file_urls,
        )

    def content(self, parts: Sequence[rq.AnyPart], *, listed: bool = False, hinted: bool = False) -> str | list[Object]:
        """A message's content: a string where that says it all. `hinted`: the last cache point is the message's."""
        if len(parts) == 1 and not listed:
            only = parts[0]
            marked = type(only) is rq.Text and only.cache and not hinted and self.quirks.cache
            if type(only) is rq.Text and not only.refusal and not marked and self._bare(only):
                if only.cache and not hinted:
                    self.report_loss("cache")
                return only.text
        if not parts and not listed:
            return ""
        if hinted:
            return [*self._parts(parts[:-1]), *self.part(parts[-1], hinted=True)]
        return self._parts(parts)

    def _bare(self, part: rq.Text) -> bool:
        return part.extra is None or self.is_foreign(part.extra)

    def _parts(self, parts: Sequence[rq.AnyPart | rq.ResultPart]) -> list[Object]:
        return [made for part in parts for made in self.part(part)]

    def part(self, part: rq.AnyPart | rq.ResultPart, *, hinted: bool = False) -> list[Object]:
        """A part as what it is here: mostly one, sometimes none."""
        made = self.kinds[type(part)](self, part)
        if made and part.cache and type(part) is not rq.Opaque:
            marks = split_extra(getattr(part, "extra", None), NAME)[1]
            if not hinted or "hint" in marks:
                self.hint(part, made[-1], marks)
        return made

    def hint(self, part: Any, made: Object, marks: Object) -> None:
        """A cache point, as it was said or as the provider takes it."""
        word = self.quirks.cache
        if "hint" in marks and cached(marks["hint"]) == part.cache:
            made.update(marks["hint"])
        elif word == "cache_control":
            made["cache_control"] = {"type": "ephemeral", **({"ttl": part.cache} if part.cache != "5m" else {})}
        elif word and made.get("type") != "function":
            made["prompt_cache_breakpoint"] = {"mode": "explicit"}
        elif "cache_control" not in made:
            self.report_loss("cache")

    def answer(self, content: Sequence[rq.ResultPart], *, listed: bool) -> Any:
        """What a tool gave: a string where that says it all."""
        if len(content) == 1 and not listed:
            only = content[0]
            if type(only) is rq.Text and not only.cache and self._bare(only):
                return only.text
        made = self._parts(content)
        if listed or (len(made) > 1 and self.quirks.lists) or any(one["type"] != "text" for one in made):
            return made
        if len(made) > 1:
            self.report_loss("parts")
        return "\n".join(one["text"] for one in made)

    # ── one kind each ─────────────────────────────────────────────────────────────────────────────

    def _text(self, part: rq.Text) -> list[Object]:
        kind = "refusal" if part.refusal else "text"
        made: Object = {"type": kind, kind: part.text}
        if part.extra is not None:
            own, marks = self.split_extra(part.extra)
            made.update(own.get("beside", {}))
            add_missing(made, marks.get("also"))
        return [made]

    def _json(self, part: rq.Json) -> list[Object]:
        self.report_loss("json-result")
        return [{"type": "text", "text": part.json}]

    def _file(self, part: rq.File) -> list[Object]:
        own, marks = self.split_extra(part.extra)
        inner = {key: value for key, value in own.items() if key != "beside"}
        if part.id and NAME not in (part.extra or ()):
            self.report_loss("file-id")
        kind, said = self._filed(part, marks)
        if part.name and kind not in _NAMED:
            self.report_loss("file-name")
        made: Object = {"type": kind}
        if kind == "text":
            return [{**made, "text": said}]
        made[kind] = {**said, **inner} if isinstance(said, dict) else said
        if kind == "document_url" and part.name:
            made["document_name"] = part.name
        made.update(own.get("beside", {}))
        add_missing(made, marks.get("also"))
        return [made]

    def _filed(self, part: rq.File, marks: Object) -> tuple[str, Any]:
        """The type of part that a file becomes, and what stands in it."""
        kind, media = marks.get("kind") or "", part.media
        address = part.url or (f"data:{media};base64,{part.data}" if part.data else "")
        if "url" in marks and of_url(marks["url"], media)[1:] == (part.url, part.data):
            address = marks["url"]
        form = _FORMS.get(media) if part.data else None
        if (media.startswith("image/") and kind != "file" and address) or kind in ("video_url", "audio_url"):
            url = (
                f"data:{sniff(part.data) or 'image/png'};base64,{part.data}"
                if media == "image/*" and part.data
                else address
            )
            return kind or "image_url", url if "bare" in marks else {"url": url, **_looked(part)}
        if kind == "document_url" or (not kind and address and self.quirks.documents == "document_url" and not form):
            return "document_url", address
        if "bare" in marks and kind != "file":
            return "input_audio", part.data or part.url
        if kind == "input_audio" or (form and kind != "file"):
            return "input_audio", {"data": part.data, "format": marks.get("format") or form}
        if part.url and not self.quirks.file_urls and kind != "file":
            self.report_loss("file")
            return "text", told_file(part)
        return "file", _uploaded(part, part.data if "bare" in marks and part.data else address, own="kind" in marks)

    def _misplaced(self, part: Any) -> list[Object]:
        """A call or a result that no message of this role may hold: told in words."""
        self.report_loss("opaque")
        return [{"type": "text", "text": collect_text(msgspec.to_builtins(part))}]

    # ── reasoning ─────────────────────────────────────────────────────────────────────────────────

    def spoken(self, part: rq.Reasoning) -> bool:
        """Whether reasoning stands among what was said, and not in a field of its own."""
        marks = split_extra(part.extra, NAME)[1]
        return "part" in marks or (self.quirks.reasoning == "thinking" and "field" not in marks)

    def _thinking(self, part: rq.Reasoning) -> list[Object]:
        own, marks = split_extra(part.extra, NAME)
        given: Any = marks.get("given", {}).get("as")
        if given is None or told(given) != part.text:
            given = part.text if marks.get("part") == "text" else [{"type": "text", "text": part.text}]
        return [{"type": "thinking", "thinking": given, **own}]

    def thought(self, part: rq.Reasoning, body: Object) -> None:
        """Reasoning into the fields that a message has for it."""
        own, marks = split_extra(part.extra, NAME)
        state = {key: value for key, value in (part.extra or {}).items() if key != NAME and value.keys() - {"_"}}
        details = own.get("reasoning_details", ())
        same = bool(details) and told(details) == part.text
        if not same:
            details = self._details(part, state)
        if details:
            body["reasoning_details"] = [*body.get("reasoning_details", ()), *details]
        elif state:
            self.report_loss("reasoning-state")
        body.update({key: value for key, value in own.items() if key != "reasoning_details"})
        field = marks.get("field", "" if same else self.quirks.reasoning)
        words = (marks.get("said") if same else "") or part.text
        if field and words:
            body[field] = body.get(field, "") + words
        elif words and not details:
            self.report_loss("reasoning")

    def _details(self, part: rq.Reasoning, state: Object) -> list[Object]:
        if not self.quirks.details:
            return []
        for form, (protocol, signed, sealed) in FORMATS.items():
            own = state.get(protocol, {})
            if own.get(sealed):
                return [{"type": "reasoning.encrypted", "data": own[sealed], "format": form}]
            if signed and own.get(signed):
                detail = {"type": "reasoning.text", "text": part.text, "signature": own[signed], "format": form}
                return [detail]
        return []

    kinds: dict[type, Callable[[Any, Any], list[Object]]] = {  # noqa: RUF012 — a table
        rq.Text: _text,
        rq.Json: _json,
        rq.File: _file,
        rq.Opaque: write_foreign_state(type="text"),
        rq.Source: omit_with_loss("source"),
        rq.Ask: omit_with_loss("approval"),
        rq.Reasoning: _thinking,
        rq.Result: _misplaced,
        rq.Call: _misplaced,
    }


def _looked(part: rq.File) -> Object:
    return {"detail": part.detail} if part.detail else {}


def _uploaded(part: rq.File, address: str, *, own: bool) -> Object:
    """A document; a name is asked for with its data, even if it has none."""
    made: Object = {"file_data": address} if address else {}
    if part.id:
        made["file_id"] = part.id
    if part.name or (address and not own):
        made["filename"] = part.name or f"file.{_ENDINGS.get(part.media, 'bin')}"
    return made


def write_tools(draft: Parts, tools: Iterable[rq.Tool], body: Object) -> None:
    """All tools: as tools, or as functions where that is how they came."""
    for tool in tools:
        own, marks = draft.split_extra(tool.extra)
        made = _tool(draft, tool, own, marks)
        if made is not None:
            body.setdefault("functions" if "legacy" in marks else "tools", []).append(made)


def _tool(draft: Parts, tool: rq.Tool, own: Object, marks: Object) -> Object | None:
    if tool.namespace:
        draft.report_loss("namespace", tool.namespace)
    if tool.kind in ("provider", "unknown"):
        if "tool" not in own:
            draft.report_loss("tool", tool.name)
        return own.get("tool")
    if tool.kind == "custom":
        return _custom(tool, own, marks)
    function = _function(tool)
    made: Object = {"type": "function", "function": function}
    if own or marks:
        function.update(own.get("function", {}))
        add_missing(function, marks.get("also"))
        if "legacy" in marks:
            return function
        made.update(own.get("tool", {}))
        if "untyped" in marks:
            del made["type"]
    if tool.cache:
        draft.hint(tool, made, marks)
    return made


def _function(tool: rq.Tool) -> Object:
    function: Object = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.schema is not None:
        function["parameters"] = tool.schema
    if tool.strict is not None:
        function["strict"] = tool.strict
    return function


def _custom(tool: rq.Tool, own: Object, marks: Object) -> Object:
    custom = drop_empty(name=tool.name, description=tool.description)
    grammar = tool.schema or {}
    if "format" in marks and read_grammar(marks["format"]) == tool.schema:
        custom["format"] = marks["format"]
    elif grammar.get("definition"):
        rules = {"syntax": grammar.get("syntax"), "definition": grammar["definition"]}
        custom["format"] = {"type": "grammar", "grammar": rules}
    custom.update(own.get("custom", {}))
    add_missing(custom, marks.get("also"))
    return {"type": "custom", "custom": custom, **own.get("tool", {})}


def write_choice(draft: Parts, choice: rq.ToolChoice | None, body: Object) -> None:
    """Which tool may or must be called, as it was said where it was said here."""
    if choice is None:
        return
    given: Object = draft.split_extra(choice.extra)[1].get("choice", {})
    meant = read_choice(given)
    if meant is not None and (meant.mode, meant.names) == (choice.mode, choice.names):
        body.update(given)
    else:
        body["tool_choice"] = _chosen(choice)


def _chosen(choice: rq.ToolChoice) -> Any:
    if choice.mode == "tool" and choice.names:
        return {"type": "function", "function": {"name": choice.names[0]}}
    mode = "required" if choice.mode == "tool" else choice.mode
    if not choice.names or mode == "none":
        return mode
    tools = [{"type": "function", "function": {"name": name}} for name in choice.names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
