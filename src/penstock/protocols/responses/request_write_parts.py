"""Canonical parts → Responses content; what providers differ in, and the table of what has no place here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock.jsontext import plain_or_raw
from penstock.lenient_fields import as_object
from penstock.markers import Holds
from penstock.media import sniff
from penstock.protocols.responses.request_read_parts import CONTENT, HINT, NEXT, media_of, nameless, read_output
from penstock.protocols.responses.wire import ANSWERS, LATE, NAME, given
from penstock.request_writer import Losses, RequestDraft, add_missing, collect_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.lenient_fields import Object

LOSSES: Losses = {
    "approval": "an approval is left out",
    "budget": "a budget of reasoning tokens is sent as an effort",
    "cache": "a cache point is left out",
    "encrypted": "what only the provider that ran a tool can read is left out of its result",
    "cut-call": "a call that never became whole is left out",
    "file-name": "the name of an image is left out",
    "format": "a schema without a name is called `answer`",
    "json-result": "a JSON value in a tool result is sent as its text",
    "logprobs": "log probabilities of an earlier answer are left out",
    "media": "the type of a document by its address is left out",
    "metadata": "metadata that are no strings are sent as their JSON",
    "name": "the name of whoever speaks is left out",
    "opaque": "state of another protocol is left out; what it says in words is sent as text",
    "order": "of a turn in which another provider ran tools, the calls of the client come last",
    "provider-call": "what a tool gave that the provider ran is left out if it is not known how this protocol said it",
    "reasoning": "reasoning that this provider did not seal is left out",
    "setting": "a setting without a word here is left out: {}",
    "source": "a citation in an earlier answer is left out",
    "tool": "a tool that another provider runs is left out: {}",
}
LACKS: Losses = {  # what only some providers cannot, as their `Quirks` say
    "any-json": "an answer of any JSON cannot be asked for and is not",
    "effort": "an effort without a word here is sent as the nearest: {}",
    "form": "the words of reasoning are sent as its summary",
    "max-output": "an output limit that is too low here is raised: {}",
}
HOLDS = Holds(NAME, failed=False, assistant_files=False)


class Quirks(msgspec.Struct, frozen=True):
    """What providers of this protocol differ in."""

    instructions: bool = True  # the system prompt goes there, and not into the input
    system: Literal["system", "developer"] = "system"  # the role of system messages in the input
    reasoning: Literal["drop", "summary", "content", "text"] = "drop"  # what becomes of reasoning without its seal
    sealed: bool = False  # ask for reasoning that can be sent back without being stored
    cache: bool = False  # cache points are understood
    efforts: tuple[str, ...] = ()  # the efforts that there are, lowest first; none named: all
    min_output: int = 0  # the lowest output limit that is taken
    any_json: bool = True  # an answer of any JSON can be asked for
    words: bool = True  # what was thought may stand in its item, beside the summary
    more: tuple[str, ...] = ()  # which of the settings that only some have: frequency_penalty, seed, stop …


class Content(RequestDraft):
    """Content being written. State: whether the request was one of this protocol when it was read."""

    protocol = NAME
    losses: ClassVar[Losses] = {**LOSSES, **LACKS}

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self.quirks = quirks
        self.native = False

    def content(self, parts: Sequence[rq.AnyPart | rq.ResultPart], *, listed: bool) -> str | list[Object]:
        """A string where that says it all."""
        if not listed and not parts:
            return ""
        only = parts[0] if len(parts) == 1 and not listed else None
        if only is not None and not only.cache:
            if type(only) is rq.Text and not only.refusal and NAME not in (only.extra or ()):
                self.split_extra(only.extra)
                return only.text
            if type(only) is rq.Json:
                self.report_loss("json-result")
                return only.json
        return self.parts(parts)

    def parts(self, parts: Iterable[rq.AnyPart | rq.ResultPart]) -> list[Object]:
        """A list of content parts."""
        return [made for part in parts for made in self.part(part)]

    def part(self, part: Any) -> list[Object]:
        """A part as what it is here: mostly one, sometimes none."""
        made = self.kinds[type(part)](self, part)
        if part.cache and made and type(part) is not rq.Opaque:
            self.hint(part, made[-1])
        return made

    def hint(self, part: rq.Part | rq.Tool, made: Object, *, fits: bool = True) -> None:
        """A cache point, if it is understood and there is a place for one."""
        if not part.cache or HINT in made:
            return
        if self.quirks.cache and fits:
            made[HINT] = {"mode": "explicit"}
        else:
            self.report_loss("cache")

    def _text(self, part: rq.Text) -> list[Object]:
        if part.extra is None:
            return [{"type": "input_text", "text": part.text}]
        own, marks = self.split_extra(part.extra)
        if part.refusal:
            made: Object = {"type": "refusal", "refusal": part.text, **own}
        else:
            made = {"type": marks.get("kind", "input_text"), "text": part.text, **own}
        add_missing(made, marks.get("also"))
        return [made]

    def _json(self, part: rq.Json) -> list[Object]:
        self.report_loss("json-result")
        return [{"type": "input_text", "text": part.json}]

    def _opaque(self, part: rq.Opaque) -> list[Object]:
        if part.protocol == NAME and part.kind.startswith(CONTENT):
            return [part.data]
        self.report_loss("opaque")
        words = collect_text(part.data)
        return [{"type": "input_text", "text": words}] if words else []

    def _source(self, _: rq.Source) -> list[Object]:
        self.report_loss("source")
        return []

    def _misplaced(self, part: Any) -> list[Object]:
        """A part that no message of this role may hold: told in words."""
        self.report_loss("opaque")
        words = collect_text(msgspec.to_builtins(part))
        return [{"type": "input_text", "text": words}] if words else []

    # ── files ─────────────────────────────────────────────────────────────────────────────────────

    def _file(self, part: rq.File) -> list[Object]:
        own, marks = self.split_extra(part.extra)
        kind = marks.get("kind") or ("input_image" if part.media.startswith("image/") else "input_file")
        made: Object = {"type": kind}
        if kind == "input_audio":
            made[kind] = {"data": part.data, **marks.get("audio", {})}
        elif kind == "input_image":
            self._image(part, marks, made)
        else:
            self._document(part, marks, made)
        made.update(own)
        add_missing(made, marks.get("also"))
        return [made]

    def _image(self, part: rq.File, marks: Object, made: Object) -> None:
        address = marks.get("url") or part.url or _inline(part)
        if address:
            made["image_url"] = address
        if part.id:
            made["file_id"] = part.id
        if part.name:
            self.report_loss("file-name")
        if (part.detail or not self.native) and "as_it_was" not in marks:
            made["detail"] = part.detail or "auto"
        elif part.detail and "detail" not in marks["as_it_was"]["image_url"]:
            made["detail"] = part.detail
        made.update(marks.get("as_it_was", {}))

    def _document(self, part: rq.File, marks: Object, made: Object) -> None:
        if part.data:
            made["file_data"] = part.data if "bare" in marks else marks.get("url") or _inline(part)
        if part.url:
            made["file_url"] = part.url
            if media_of(part.name or part.url) != part.media:
                self.report_loss("media")
        if part.id:
            made["file_id"] = part.id
        if part.name or (part.data and ("kind" not in marks or "unnamed" in marks)):
            made["filename"] = part.name or nameless(part.media)

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _text, rq.Json: _json, rq.File: _file, rq.Opaque: _opaque, rq.Source: _source,
        rq.Ask: _misplaced, rq.Reasoning: _misplaced, rq.Call: _misplaced, rq.Result: _misplaced,
    }  # fmt: skip


def _inline(part: rq.File) -> str:
    if not part.data:
        return ""
    media = part.media if not part.media.endswith("/*") else sniff(part.data) or "image/png"
    return f"data:{media};base64,{part.data}"


_ENTRIES = {"summary": ("summary", "summary_text"), "full": ("content", "reasoning_text")}


class Said(Content):
    """State: the items so far, and the one that further parts may still go into."""

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self.items: list[Object] = []
        self.texts: dict[int | None, Object] = {}  # what was said, by its place in the message; None: the last
        self._open: Object | None = None  # the message being spoken
        self._thought: Object | None = None  # the reasoning being written
        self._odd: Object = {}  # fields of it that are written as they were
        self.apart = False  # the next item begins another message of the assistant, right behind one

    def put(self, item: Object) -> None:
        """A whole item; nothing more goes into the one before."""
        self._open = self._thought = None
        self.apart = False
        self.items.append(item)

    def turn(self, *, apart: bool) -> None:
        """The assistant begins to speak; `apart` if it has spoken just before, in another message."""
        self.texts = {}
        self.apart = apart

    def mint(self, kind: str) -> str:
        """An id for an item that must have one: always, or where it must be seen that another message begins."""
        word = NEXT if self.apart else "_ps"
        self.apart = False
        return f"{kind}{word}{len(self.items)}"

    # ── texts ─────────────────────────────────────────────────────────────────────────────────────

    def say(self, part: rq.Text, place: int) -> None:
        """A text or a refusal."""
        own, marks = self.split_extra(part.extra)
        field = "refusal" if part.refusal else "text"
        made: Object = {"type": field if part.refusal else marks.get("kind", "output_text"), field: part.text}
        if "head" in marks or "more" in marks:
            made.update(own)
            add_missing(made, marks.get("also"))
        elif not part.refusal:
            made["annotations"] = []
            if not part.item:
                made["logprobs"] = []
        self.texts[place] = self.texts[None] = made
        self.hint(part, made, fits=False)
        if part.logprobs:
            self.report_loss("logprobs")
        self._spell(part, own, marks, [] if "blank" in marks else [made])

    def nothing(self, message: rq.Message) -> None:
        """A message in which the assistant said nothing."""
        marks = self.split_extra(message.extra)[1]
        if "head" in marks:
            self._new(self._headed(rq.Text(item=marks.get("id", "")), marks["head"], []))
        else:
            self.put({"type": "message", "role": "assistant", "content": ""})

    def picture(self, part: rq.File, _: int) -> None:
        """A file in what the assistant says."""
        own, marks = self.split_extra(part.extra)
        self._spell(part, own, marks, self.part(part))

    def _spell(self, part: rq.Text | rq.File, own: Object, marks: Object, made: list[Object]) -> None:
        """Content into the message that is open, or into a new one."""
        ours, item = NAME in (part.extra or ()), self._open
        if "head" in marks:
            self._new(self._headed(part, marks["head"], made))
        elif ours and item is not None and ("more" in marks or (part.item and part.item == item.get("id"))):
            item["content"] += made
        elif ours and part.item:  # out of a response
            about = {"phase": own["phase"]} if own.get("phase") else {}
            self._new(_whole(part.item, made, **about))
        elif type(part) is rq.Text and not part.refusal and not self.apart:
            self.put({"type": "message", "role": "assistant", "content": part.text})
        else:
            self._new(_whole(self.mint("msg"), made))

    def _headed(self, part: rq.Text | rq.File, head: Object, made: list[Object]) -> Object:
        item: Object = {} if "bare" in head else {"type": "message"}
        if part.item or "id" in head:
            item["id"] = part.item or head["id"]
        item["role"] = "assistant"
        if "status" in head:
            item["status"] = head["status"]
        string = head.get("shape") == "string" and type(part) is rq.Text
        item["content"] = part.text if string and type(part) is rq.Text else made
        item.update(head.get("fields", {}))
        add_missing(item, head.get("also"))
        return item

    def _new(self, item: Object) -> None:
        self.put(item)
        self._open = item if isinstance(item["content"], list) else None

    def cite(self, part: rq.Source, _: int) -> None:
        """A citation, in the text it belongs to."""
        own, text = self.split_extra(part.extra)[0], self.texts.get(part.of) or self.texts.get(None)
        if text is None or "annotation" not in own or "text" not in text:
            self.report_loss("source")
        else:
            text["annotations"] = [*text.get("annotations", ()), own["annotation"]]

    def state(self, part: rq.Opaque, _: int) -> None:
        """What only this protocol understands: content, or an item."""
        if part.protocol != NAME:
            self.report_loss("opaque")
            if words := collect_text(part.data):
                self.put({"type": "message", "role": "assistant", "content": words})
        elif not part.kind.startswith(CONTENT):
            self.put(part.data)
        elif self._open is not None:
            self._open["content"].append(part.data)
        else:
            self._new(_whole(self.mint("msg"), [part.data]))

    # ── reasoning ─────────────────────────────────────────────────────────────────────────────────

    def think(self, part: rq.Reasoning, _: int) -> None:
        """Reasoning with what makes it acceptable to a provider of this protocol, or without."""
        own, marks = self.split_extra(part.extra)
        if NAME not in (part.extra or ()):
            self._unsealed(part)
            return
        item = self._thought
        same = item is not None and "head" not in marks and bool(part.item) and part.item == item.get("id")
        if item is None or not (same or "more" in marks):
            item = self._reasoning(part, marks.get("head", {}))
            if "id" not in item and "head" not in marks:
                item["id"] = self.mint("rs")  # another protocol's carrier of this one's state: an item must have an id
        form = part.form
        if form == "full" and not self.quirks.words:
            self.report_loss("form")
            form = "summary"
        key, kind = _ENTRIES.get(form, ("", ""))
        if key and key not in self._odd:
            item[key] = [*(item.get(key) or ()), {"type": kind, "text": part.text}]
        item.update({key: value for key, value in own.items() if key != "id"})

    def _reasoning(self, part: rq.Reasoning, head: Object) -> Object:
        item: Object = {"type": "reasoning"}
        if part.item:
            item["id"] = part.item
        if "bare" not in head:
            item["summary"] = []
        if "status" in head:
            item["status"] = head["status"]
        add_missing(item, head.get("also"))
        self._odd = head.get("odd", {})
        item.update(self._odd)
        self.put(item)
        self._thought = item
        return item

    def _unsealed(self, part: rq.Reasoning) -> None:
        """Reasoning that no provider of this protocol knows."""
        way = self.quirks.reasoning
        if way == "drop" or not part.text:
            self.report_loss("reasoning")
        elif way == "text":
            self.put({"type": "message", "role": "assistant", "content": part.text})
        else:
            item: Object = {"type": "reasoning", "id": self.mint("rs"), "summary": []}
            kind = "summary_text" if way == "summary" else "reasoning_text"
            self.put({**item, way: [{"type": kind, "text": part.text}]})


def _whole(id: str, content: list[Object], **about: str) -> Object:
    """A message with all that is asked for."""
    return {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": content, **about}


def undrawn(messages: list[rq.Message]) -> list[rq.Message]:
    """The messages without pictures that a tool drew: they are in the items of its calls."""
    made: list[rq.Message] | None = None
    for place, message in enumerate(messages):
        if message.role == "assistant" and any(type(part) is rq.File and _drawn(part) for part in message.parts):
            parts = [part for part in message.parts if type(part) is not rq.File or not _drawn(part)]
            made = made or list(messages)
            made[place] = replace(message, parts=parts)
    return made or messages


def _drawn(file: rq.File) -> bool:
    return (file.extra or {}).get(NAME, {}).get("type") == "image_generation_call"


def call_item(call: rq.Call, item: Object) -> Object:
    """The item of a call that the client runs."""
    tool = LATE.get(item.get("type", ""))
    if tool is not None and given(item, tool) != call.json:
        try:
            item = {**item, **as_object(plain_or_raw(call.json))}
        except (msgspec.DecodeError, UnicodeEncodeError):
            return _named(item, call.id)
    return _named(item, call.id)


def _named(item: Object, call: str) -> Object:
    """The item with the id of its call, which may have been mapped. One kind has it under another name."""
    key = "id" if item.get("type") == "local_shell_call_output" and not item.get("call_id") else "call_id"
    if not call or item.get(key) == call or (key not in item and item.get("id") == call):
        return item
    return {**item, key: call}


def output_item(result: rq.Result, item: Object) -> Object:
    """The item of what the client answered. Words that were changed are put in place of the old ones."""
    if item.get("type") in ANSWERS and read_output(item) != result.content:
        words = "\n".join(_words(part) for part in result.content)
        output: Any = words
        if item["type"] == "shell_call_output":
            outcome = {"type": "exit", "exit_code": int(result.failed)}
            output = [{"stdout": words, "stderr": "", "outcome": outcome}]
        if isinstance(item.get("output"), str | list):
            item = {**item, "output": output}
    return _named(item, result.call)


def _words(part: rq.ResultPart) -> str:
    return part.text if type(part) is rq.Text else part.json if type(part) is rq.Json else ""
