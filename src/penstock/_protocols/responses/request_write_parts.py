"""Writes the parts of Responses requests: content, messages, reasoning, and items of built-in tools.

Parts that came from one item go back into one item. Text of other protocols becomes a plain message of its own. Items
of built-in tools are written unchanged, except for what was changed in the canonical request.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
from msgspec.structs import replace

from penstock import _openai_requests as openai
from penstock import request as rq
from penstock._diagnostics import read_losses
from penstock._lenient_fields import Object, as_object
from penstock._lenient_json import decode_unless_too_deep
from penstock._markers import NativeSupport
from penstock._media import sniff_media_type
from penstock._protocols.responses import request_read_parts, wire
from penstock._protocols.responses.wire import NAME
from penstock._request_writer import RequestDraft, add_missing, collect_text, drop_empty, omit_with_loss, restore_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


NATIVE_SUPPORT = NativeSupport(NAME, failed=False, assistant_files=False)
LOSSES = read_losses(__name__, "requests")
LACKS = read_losses(__name__, "some_requests")
_REASONING_PARTS = {"summary": ("summary", "summary_text"), "full": ("content", "reasoning_text")}


class Quirks(msgspec.Struct, frozen=True):
    """How providers of this protocol differ."""

    instructions: bool = True  # write the system prompt as `instructions`, not as input
    system: Literal["system", "developer"] = "system"  # the role of system messages in the input
    reasoning: Literal["drop", "summary", "content", "text"] = "drop"  # how to write reasoning without encrypted state
    sealed: bool = False  # request encrypted reasoning, which can be sent back without being stored
    cache: bool = False  # the provider accepts cache points
    efforts: tuple[str, ...] = ()  # accepted efforts, lowest first; empty: all
    min_output: int = 0  # the lowest accepted output limit
    any_json: bool = True  # the provider can answer with JSON without a schema
    words: bool = True  # a reasoning item may hold the full text beside the summary
    more: tuple[str, ...] = ()  # optional settings that the provider has: frequency_penalty, seed, stop …


class ContentWriter(RequestDraft):
    """Writes content parts. State: whether the request was read from this protocol."""

    protocol = NAME
    losses: ClassVar[Mapping[str, str]] = {**LOSSES, **LACKS}

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self.quirks = quirks
        self.native = False

    def write_content(self, parts: Sequence[rq.AnyPart | rq.ResultPart], *, listed: bool) -> str | list[Object]:
        """Returns a string if that is enough, else a list of content parts."""
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
        return [item for part in parts for item in self.write_part(part)]

    def write_part(self, part: Any) -> list[Object]:
        """Returns a part as content parts: mostly one, sometimes none."""
        written = self.part_writers[type(part)](self, part)
        if part.cache and written and type(part) is not rq.Opaque:
            self.write_cache_point(part, written[-1])
        return written

    def write_cache_point(self, part: rq.Part | rq.Tool, target: Object, *, allowed: bool = True) -> None:
        if not part.cache or request_read_parts.CACHE_HINT in target:
            return
        if self.quirks.cache and allowed:
            target[request_read_parts.CACHE_HINT] = {"mode": "explicit"}
        else:
            self.report_loss("cache")

    def _write_text(self, part: rq.Text) -> list[Object]:
        if part.extra is None:
            return [{"type": "input_text", "text": part.text}]
        extras, marks = self.split_extra(part.extra)
        if part.refusal:
            written: Object = {"type": "refusal", "refusal": part.text}
        else:
            written = {"type": marks.get("kind", "input_text"), "text": part.text}
        restore_fields(written, extras, marks)
        return [written]

    def _write_json(self, part: rq.Json) -> list[Object]:
        self.report_loss("json-result")
        return [{"type": "input_text", "text": part.json}]

    def _write_foreign(self, part: Any) -> list[Object]:
        """Writes opaque content of this protocol unchanged, and parts that the message cannot hold as text."""
        is_opaque = type(part) is rq.Opaque
        if is_opaque and is_content(part):
            return [part.data]
        self.report_loss("opaque")
        text = collect_text(part.data if is_opaque else msgspec.to_builtins(part))
        return [{"type": "input_text", "text": text}] if text else []

    def _write_file(self, part: rq.File) -> list[Object]:
        extras, marks = self.split_extra(part.extra)
        kind = marks.get("kind") or ("input_image" if part.media.startswith("image/") else "input_file")
        written: Object = {"type": kind}
        if kind == "input_audio":
            written[kind] = {"data": part.data, **marks.get("audio", {})}
        elif kind == "input_image":
            self._write_image(part, marks, written)
        else:
            self._write_document(part, marks, written)
        restore_fields(written, extras, marks)
        return [written]

    def _write_image(self, part: rq.File, marks: Object, target: Object) -> None:
        url = marks.get("url") or part.url or _build_data_url(part)
        target.update(drop_empty(image_url=url, file_id=part.id))
        if part.name:
            self.report_loss("file-name")
        if (part.detail or not self.native) and "as_it_was" not in marks:
            target["detail"] = part.detail or "auto"
        elif part.detail and "detail" not in marks["as_it_was"]["image_url"]:
            target["detail"] = part.detail
        target.update(marks.get("as_it_was", {}))

    def _write_document(self, part: rq.File, marks: Object, target: Object) -> None:
        if part.data:
            target["file_data"] = part.data if "bare" in marks else marks.get("url") or _build_data_url(part)
        if part.url:
            target["file_url"] = part.url
            if openai.guess_media_type(part.name or part.url) != part.media:
                self.report_loss("media")
        target.update(drop_empty(file_id=part.id))
        if part.name or (part.data and ("kind" not in marks or "unnamed" in marks)):
            target["filename"] = part.name or request_read_parts.make_file_name(part.media)

    part_writers: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _write_text,
        rq.Json: _write_json,
        rq.File: _write_file,
        rq.Source: omit_with_loss("source"),
        **dict.fromkeys((rq.Opaque, rq.Ask, rq.Reasoning, rq.Call, rq.Result), _write_foreign),
    }


def is_content(part: rq.Opaque) -> bool:
    """Returns True for an opaque content part of this protocol, False for an opaque item."""
    return part.protocol == NAME and part.kind.startswith(request_read_parts.CONTENT_KIND)


def _build_data_url(part: rq.File) -> str:
    if not part.data:
        return ""
    media = part.media if not part.media.endswith("/*") else sniff_media_type(part.data) or "image/png"
    return f"data:{media};base64,{part.data}"


class AssistantWriter(ContentWriter):
    """Writes messages and reasoning of the assistant. State: the items so far, and those that more parts may join."""

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self.items: list[Object] = []
        self._texts: dict[int | None, Object] = {}  # by position in the message; None: the last text
        self._open_message: Object | None = None
        self._open_reasoning: Object | None = None
        self._odd_fields: Object = {}  # fields of the reasoning that are written unchanged
        self.starts_message = False  # the next item starts another message of the assistant, right after one
        self._text_calls: set[str] = set()  # calls whose input is free text

    def add_item(self, item: Object) -> None:
        """Adds a complete item. No more parts join the item before it."""
        self._open_message = self._open_reasoning = None
        self.starts_message = False
        self.items.append(item)

    def start_message(self, *, split: bool) -> None:
        """Starts a message of the assistant. `split`: the message before is the assistant's, too."""
        self._texts = {}
        self.starts_message = split

    def make_id(self, kind: str) -> str:
        """Returns an id for an item that needs one: always, or to show that another message starts."""
        infix = request_read_parts.ID_SPLIT if self.starts_message else "_ps"
        self.starts_message = False
        return f"{kind}{infix}{len(self.items)}"

    # ── text ──────────────────────────────────────────────────────────────────────────────────────

    def write_text(self, part: rq.Text, position: int) -> None:
        """Writes a text or a refusal."""
        extras, marks = self.split_extra(part.extra)
        field = "refusal" if part.refusal else "text"
        written: Object = {"type": field if part.refusal else marks.get("kind", "output_text"), field: part.text}
        if "head" in marks or "more" in marks:
            restore_fields(written, extras, marks)
        elif not part.refusal:
            written["annotations"] = []
            if not part.item:
                written["logprobs"] = []
        self._texts[position] = self._texts[None] = written
        self.write_cache_point(part, written, allowed=False)
        if part.logprobs:
            self.report_loss("logprobs")
        self._join_message(part, extras, marks, [] if "blank" in marks else [written])

    def write_empty_message(self, message: rq.Message) -> None:
        marks = self.split_extra(message.extra)[1]
        if "head" in marks:
            self._add_message(self._build_item(rq.Text(item=marks.get("id", "")), marks["head"], []))
        else:
            self.add_item({"type": "message", "role": "assistant", "content": ""})

    def write_file(self, part: rq.File, _: int) -> None:
        extras, marks = self.split_extra(part.extra)
        self._join_message(part, extras, marks, self.write_part(part))

    def _join_message(self, part: rq.Text | rq.File, extras: Object, marks: Object, written: list[Object]) -> None:
        """Writes content into the open message, or into a new one."""
        native, item = NAME in (part.extra or ()), self._open_message
        if "head" in marks:
            self._add_message(self._build_item(part, marks["head"], written))
        elif native and item is not None and ("more" in marks or (part.item and part.item == item.get("id"))):
            item["content"] += written
        elif native and part.item:  # from a response
            phase = {"phase": extras["phase"]} if extras.get("phase") else {}
            self._add_message(_build_message(part.item, written, **phase))
        elif type(part) is rq.Text and not part.refusal and not self.starts_message:
            self.add_item({"type": "message", "role": "assistant", "content": part.text})
        else:
            self._add_message(_build_message(self.make_id("msg"), written))

    def _build_item(self, part: rq.Text | rq.File, head: Object, written: list[Object]) -> Object:
        """Returns a message item with the fields and the spelling that it had."""
        item: Object = {} if "bare" in head else {"type": "message"}
        if part.item or "id" in head:
            item["id"] = part.item or head["id"]
        item["role"] = "assistant"
        if "status" in head:
            item["status"] = head["status"]
        item["content"] = part.text if head.get("shape") == "string" and type(part) is rq.Text else written
        restore_fields(item, head.get("fields", {}), head)
        return item

    def _add_message(self, item: Object) -> None:
        self.add_item(item)
        self._open_message = item if isinstance(item["content"], list) else None

    def write_source(self, part: rq.Source, _: int) -> None:
        """Writes a citation into its text."""
        extras, text = self.split_extra(part.extra)[0], self._texts.get(part.of) or self._texts.get(None)
        if text is None or "annotation" not in extras or "text" not in text:
            self.report_loss("source")
        else:
            text["annotations"] = [*text.get("annotations", ()), extras["annotation"]]

    def write_state(self, part: rq.Opaque, _: int) -> None:
        """Writes opaque content or an opaque item of this protocol; of other protocols only the text."""
        if part.protocol != NAME:
            self.report_loss("opaque")
            if text := collect_text(part.data):
                self.add_item({"type": "message", "role": "assistant", "content": text})
        elif not is_content(part):
            self.add_item(part.data)
        elif self._open_message is not None:
            self._open_message["content"].append(part.data)
        else:
            self._add_message(_build_message(self.make_id("msg"), [part.data]))

    # ── reasoning ─────────────────────────────────────────────────────────────────────────────────

    def write_reasoning(self, part: rq.Reasoning, _: int) -> None:
        extras, marks = self.split_extra(part.extra)
        if NAME not in (part.extra or ()):
            self._write_foreign_reasoning(part)
            return
        item = self._open_reasoning
        same = item is not None and "head" not in marks and bool(part.item) and part.item == item.get("id")
        if item is None or not (same or "more" in marks):
            item = self._add_reasoning(part, marks.get("head", {}))
            if "id" not in item and "head" not in marks:
                item["id"] = self.make_id("rs")  # state that another protocol carried: an item must have an id
        key, kind = _REASONING_PARTS.get(part.form, ("", ""))
        if key == "content" and not self.quirks.words:
            self.report_loss("form")
            key, kind = "summary", "summary_text"
        if key and key not in self._odd_fields:
            item[key] = [*(item.get(key) or ()), {"type": kind, "text": part.text}]
        item.update({key: value for key, value in extras.items() if key != "id"})

    def _add_reasoning(self, part: rq.Reasoning, head: Object) -> Object:
        item = drop_empty(type="reasoning", id=part.item)
        if "bare" not in head:
            item["summary"] = []
        if "status" in head:
            item["status"] = head["status"]
        add_missing(item, head.get("also"))
        self._odd_fields = head.get("odd", {})
        item.update(self._odd_fields)
        self.add_item(item)
        self._open_reasoning = item
        return item

    def _write_foreign_reasoning(self, part: rq.Reasoning) -> None:
        """Writes reasoning of another protocol as the provider's quirks say."""
        target = self.quirks.reasoning
        if target == "drop" or not part.text:
            self.report_loss("reasoning")
        elif target == "text":
            self.add_item({"type": "message", "role": "assistant", "content": part.text})
        else:
            item: Object = {"type": "reasoning", "id": self.make_id("rs"), "summary": []}
            kind = "summary_text" if target == "summary" else "reasoning_text"
            self.add_item({**item, target: [{"type": kind, "text": part.text}]})


def _build_message(id: str, content: list[Object], **fields: str) -> Object:
    return {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": content, **fields}


# ── built-in tools ────────────────────────────────────────────────────────────────────────────────


def drop_generated_images(messages: list[rq.Message]) -> list[rq.Message]:
    """Returns the messages without images that a tool generated: the items of its calls hold them."""
    changed: list[rq.Message] | None = None
    for position, message in enumerate(messages):
        if message.role != "assistant":
            continue
        parts = [part for part in message.parts if not _is_generated_image(part)]
        if len(parts) < len(message.parts):
            changed = changed or list(messages)
            changed[position] = replace(message, parts=parts)
    return changed or messages


def _is_generated_image(part: rq.AnyPart) -> bool:
    return type(part) is rq.File and (part.extra or {}).get(NAME, {}).get("type") == "image_generation_call"


def build_call_item(call: rq.Call, item: Object) -> Object:
    """Returns the item of a call that the client runs, with the call's input and id."""
    tool = wire.CALLS.get(item.get("type", ""))
    if tool is not None and wire.read_tool_input(item, tool) != call.json:
        with suppress(msgspec.DecodeError, UnicodeEncodeError):
            item = {**item, **as_object(decode_unless_too_deep(call.json))}
    return _set_call_id(item, call.id)


def _set_call_id(item: Object, call: str) -> Object:
    """Returns the item with its call's id, which may have been mapped. `local_shell_call_output` has it as `id`."""
    key = "id" if item.get("type") == "local_shell_call_output" and not item.get("call_id") else "call_id"
    if not call or item.get(key) == call or (key not in item and item.get("id") == call):
        return item
    return {**item, key: call}


def build_output_item(result: rq.Result, item: Object) -> Object:
    """Returns the item of an output, with changed text in place of the old text."""
    if item.get("type") in wire.OUTPUTS and request_read_parts.read_client_output(item) != result.content:
        text = "\n".join(_get_text(part) for part in result.content)
        output: Any = text
        if item["type"] == "shell_call_output":
            outcome = {"type": "exit", "exit_code": int(result.failed)}
            output = [{"stdout": text, "stderr": "", "outcome": outcome}]
        if isinstance(item.get("output"), str | list):
            item = {**item, "output": output}
    return _set_call_id(item, result.call)


def _get_text(part: rq.ResultPart) -> str:
    return part.text if type(part) is rq.Text else part.json if type(part) is rq.Json else ""
