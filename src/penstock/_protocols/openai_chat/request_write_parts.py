"""Canonical parts and tools → Chat Completions content, reasoning, results and tools, and what is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import _openai_requests as openai
from penstock import _request_writer as request_writer
from penstock import request as rq
from penstock._diagnostics import Losses, read_losses
from penstock._markers import NativeSupport
from penstock._media import sniff_media_type, split_file_url
from penstock._protocols.openai_chat.request_read_parts import join_texts, read_cache_hint, read_choice, read_grammar
from penstock._protocols.openai_chat.wire import NAME, write_details
from penstock._request_writer import RequestDraft, omit_with_loss, restore_fields, split_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock._lenient_fields import Object

LOSSES = read_losses(__name__, "requests")
LACKS = read_losses(__name__, "some_requests")
_AUDIO_FORMATS = openai.parse_field_names("audio/mpeg=mp3 audio/mp3=mp3 audio/wav=wav audio/x-wav=wav audio/wave=wav")
_FILE_EXTENSIONS = {media: extension for extension, media in openai.MEDIA_TYPES.items()}
_NAMED_KINDS = ("file", "document_url", "text")


class Quirks(msgspec.Struct, frozen=True):
    """How providers of this protocol differ. The field names are configuration keys."""

    limit: Literal["max_tokens", "max_completion_tokens", ""] = ""  # the output limit's field; "": the client's
    system: Literal["system", "developer", ""] = ""
    reasoning: Literal["reasoning_content", "reasoning", "thinking", ""] = "reasoning_content"
    details: bool = False  # reasoning_details may carry signed reasoning of other protocols
    # the field for reasoning settings: `reasoning` is OpenRouter's object, `thinking` an object with a type
    # (DeepSeek, Z.ai, Moonshot, MiniMax), `enable_thinking` Qwen's switch and budget
    effort: Literal["reasoning_effort", "reasoning", "thinking", "enable_thinking", ""] = "reasoning_effort"
    switched_on: Literal["enabled", "adaptive"] = "enabled"  # the type of `thinking` that enables it
    signatures: bool = False  # extra_content may carry Gemini's thought signatures
    lists: bool = True  # assistant and tool messages may have lists of parts
    result_files: bool = False  # tool results may have files
    file_urls: bool = False  # documents may be sent as URLs
    documents: Literal["file", "document_url"] = "file"
    seed: Literal["seed", "random_seed"] = "seed"
    top_k: bool = False
    cache: Literal["cache_control", "prompt_cache_breakpoint", ""] = ""


class ChatPartWriter(RequestDraft):
    """Writes parts, reasoning and results of one request."""

    protocol = NAME
    losses: ClassVar[Losses] = {**LOSSES, **LACKS}

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self.quirks = quirks
        files = {"result_files": quirks.result_files, "file_urls": quirks.file_urls}
        self.native_support = NativeSupport(NAME, failed=False, json=False, assistant_files=False, **files)

    def write_content(
        self, parts: Sequence[rq.AnyPart], *, listed: bool = False, hinted: bool = False
    ) -> str | list[Object]:
        """Returns a message's content: a string if one text is all. `hinted`: the last cache point is the message's."""
        if len(parts) == 1 and not listed:
            only = parts[0]
            marked = type(only) is rq.Text and only.cache and not hinted and self.quirks.cache
            if type(only) is rq.Text and not only.refusal and not marked and self._is_plain_text(only):
                if only.cache and not hinted:
                    self.report_loss("cache")
                return only.text
        if not parts and not listed:
            return ""
        if hinted:
            return [*self._write_parts(parts[:-1]), *self.write_part(parts[-1], hinted=True)]
        return self._write_parts(parts)

    def _is_plain_text(self, part: rq.Text) -> bool:
        return part.extra is None or self.is_foreign(part.extra)

    def _write_parts(self, parts: Sequence[rq.AnyPart | rq.ResultPart]) -> list[Object]:
        return [fields for part in parts for fields in self.write_part(part)]

    def write_part(self, part: rq.AnyPart | rq.ResultPart, *, hinted: bool = False) -> list[Object]:
        """Returns a part in Chat's form: mostly one object, sometimes none."""
        fields = self.part_writers[type(part)](self, part)
        if fields and part.cache and type(part) is not rq.Opaque:
            marks = split_extra(getattr(part, "extra", None), NAME)[1]
            if not hinted or "hint" in marks:
                self.write_cache_hint(part, fields[-1], marks)
        return fields

    def write_cache_hint(self, part: Any, fields: Object, marks: Object) -> None:
        """Writes a cache point, in the client's form or in the provider's."""
        cache_field = self.quirks.cache
        if "hint" in marks and read_cache_hint(marks["hint"]) == part.cache:
            fields.update(marks["hint"])
        elif cache_field == "cache_control":
            fields["cache_control"] = {"type": "ephemeral", **({"ttl": part.cache} if part.cache != "5m" else {})}
        elif cache_field and fields.get("type") != "function":
            fields["prompt_cache_breakpoint"] = {"mode": "explicit"}
        elif "cache_control" not in fields:
            self.report_loss("cache")

    def write_result_content(self, content: Sequence[rq.ResultPart], *, listed: bool) -> Any:
        """Returns the content of a tool result: a string if that is enough."""
        if len(content) == 1 and not listed:
            only = content[0]
            if type(only) is rq.Text and not only.cache and self._is_plain_text(only):
                return only.text
        fields = self._write_parts(content)
        if listed or (len(fields) > 1 and self.quirks.lists) or any(row["type"] != "text" for row in fields):
            return fields
        if len(fields) > 1:
            self.report_loss("parts")
        return "\n".join(row["text"] for row in fields)

    def _write_text(self, part: rq.Text) -> list[Object]:
        kind = "refusal" if part.refusal else "text"
        fields: Object = {"type": kind, kind: part.text}
        if part.extra is not None:
            extras, marks = self.split_extra(part.extra)
            restore_fields(fields, extras.get("beside", {}), marks)
        return [fields]

    def _write_json(self, part: rq.Json) -> list[Object]:
        self.report_loss("json-result")
        return [{"type": "text", "text": part.json}]

    def _write_file(self, part: rq.File) -> list[Object]:
        extras, marks = self.split_extra(part.extra)
        inner = {key: value for key, value in extras.items() if key != "beside"}
        if part.id and NAME not in (part.extra or ()):
            self.report_loss("file-id")
        kind, value = self._choose_file_form(part, marks)
        if part.name and kind not in _NAMED_KINDS:
            self.report_loss("file-name")
        fields: Object = {"type": kind}
        if kind == "text":
            return [{**fields, "text": value}]
        fields[kind] = {**value, **inner} if isinstance(value, dict) else value
        if kind == "document_url" and part.name:
            fields["document_name"] = part.name
        restore_fields(fields, extras.get("beside", {}), marks)
        return [fields]

    def _choose_file_form(self, part: rq.File, marks: Object) -> tuple[str, Any]:
        """Returns the type of the part that a file becomes, and its value."""
        kind, media = marks.get("kind") or "", part.media
        address = part.url or (f"data:{media};base64,{part.data}" if part.data else "")
        if "url" in marks and split_file_url(marks["url"], media)[1:] == (part.url, part.data):
            address = marks["url"]
        form = _AUDIO_FORMATS.get(media) if part.data else None
        if (media.startswith("image/") and kind != "file" and address) or kind in ("video_url", "audio_url"):
            if media == "image/*" and part.data:
                address = f"data:{sniff_media_type(part.data) or 'image/png'};base64,{part.data}"
            return kind or "image_url", address if "bare" in marks else request_writer.drop_empty(
                url=address, detail=part.detail
            )
        if kind == "document_url" or (not kind and address and self.quirks.documents == "document_url" and not form):
            return "document_url", address
        if "bare" in marks and kind != "file":
            return "input_audio", part.data or part.url
        if kind == "input_audio" or (form and kind != "file"):
            return "input_audio", {"data": part.data, "format": marks.get("format") or form}
        if part.url and not self.quirks.file_urls and kind != "file":
            self.report_loss("file")
            return "text", request_writer.describe_file(part)
        return "file", _build_file_object(
            part, part.data if "bare" in marks and part.data else address, extras="kind" in marks
        )

    def _write_as_text(self, part: Any) -> list[Object]:
        """Writes a call or a result that this role may not have as text."""
        self.report_loss("opaque")
        return [{"type": "text", "text": request_writer.collect_text(msgspec.to_builtins(part))}]

    def is_content_reasoning(self, part: rq.Reasoning) -> bool:
        """True if reasoning is a part of the content, not a separate field."""
        marks = split_extra(part.extra, NAME)[1]
        return "part" in marks or (self.quirks.reasoning == "thinking" and "field" not in marks)

    def _write_thinking_part(self, part: rq.Reasoning) -> list[Object]:
        extras, marks = split_extra(part.extra, NAME)
        original: Any = marks.get("given", {}).get("as")
        if original is None or join_texts(original) != part.text:
            original = part.text if marks.get("part") == "text" else [{"type": "text", "text": part.text}]
        return [{"type": "thinking", "thinking": original, **extras}]

    def write_reasoning(self, part: rq.Reasoning, body: Object) -> None:
        """Writes reasoning into the fields of a message."""
        extras, marks = split_extra(part.extra, NAME)
        state = {key: value for key, value in (part.extra or {}).items() if key != NAME and value.keys() - {"_"}}
        details = extras.get("reasoning_details", ())
        same = bool(details) and join_texts(details) == part.text
        if not same:
            details = write_details(state, part.text) if self.quirks.details else []
        if details:
            body["reasoning_details"] = [*body.get("reasoning_details", ()), *details]
        elif state:
            self.report_loss("reasoning-state")
        body.update({key: value for key, value in extras.items() if key != "reasoning_details"})
        field = marks.get("field", "" if same else self.quirks.reasoning)
        text = (marks.get("said") if same else "") or part.text
        if field and text:
            body[field] = body.get(field, "") + text
        elif text and not details:
            self.report_loss("reasoning")

    part_writers: dict[type, Callable[[Any, Any], list[Object]]] = {  # noqa: RUF012 — a table
        rq.Text: _write_text,
        rq.Json: _write_json,
        rq.File: _write_file,
        rq.Opaque: request_writer.write_foreign_state(type="text"),
        rq.Source: omit_with_loss("source"),
        rq.Ask: omit_with_loss("approval"),
        rq.Reasoning: _write_thinking_part,
        rq.Result: _write_as_text,
        rq.Call: _write_as_text,
    }


def _build_file_object(part: rq.File, address: str, *, extras: bool) -> Object:
    """Returns the `file` object. The API requires a name with data, even if the file has none."""
    made_name = f"file.{_FILE_EXTENSIONS.get(part.media, 'bin')}" if address and not extras else ""
    return request_writer.drop_empty(file_data=address, file_id=part.id, filename=part.name or made_name)


def write_tools(draft: ChatPartWriter, tools: Iterable[rq.Tool], body: Object) -> None:
    """Writes all tools: as `tools`, or as `functions` if the client wrote them so."""
    for tool in tools:
        extras, marks = draft.split_extra(tool.extra)
        fields = _write_tool(draft, tool, extras, marks)
        if fields is not None:
            body.setdefault("functions" if "legacy" in marks else "tools", []).append(fields)


def _write_tool(draft: ChatPartWriter, tool: rq.Tool, extras: Object, marks: Object) -> Object | None:
    if tool.namespace:
        draft.report_loss("namespace", tool.namespace)
    if tool.kind in ("provider", "unknown"):
        if "tool" not in extras:
            draft.report_loss("tool", tool.name)
        return extras.get("tool")
    if tool.kind == "custom":
        return _write_custom_tool(tool, extras, marks)
    function = _write_function(tool)
    fields: Object = {"type": "function", "function": function}
    if extras or marks:
        restore_fields(function, extras.get("function", {}), marks)
        if "legacy" in marks:
            return function
        fields.update(extras.get("tool", {}))
        if "untyped" in marks:
            del fields["type"]
    if tool.cache:
        draft.write_cache_hint(tool, fields, marks)
    return fields


def _write_function(tool: rq.Tool) -> Object:
    fields = {"description": tool.description or None, "parameters": tool.schema, "strict": tool.strict}
    return {"name": tool.name, **{key: value for key, value in fields.items() if value is not None}}


def _write_custom_tool(tool: rq.Tool, extras: Object, marks: Object) -> Object:
    custom = request_writer.drop_empty(name=tool.name, description=tool.description)
    grammar = tool.schema or {}
    if "format" in marks and read_grammar(marks["format"]) == tool.schema:
        custom["format"] = marks["format"]
    elif grammar.get("definition"):
        rules = {"syntax": grammar.get("syntax"), "definition": grammar["definition"]}
        custom["format"] = {"type": "grammar", "grammar": rules}
    restore_fields(custom, extras.get("custom", {}), marks)
    return {"type": "custom", "custom": custom, **extras.get("tool", {})}


def write_choice(draft: ChatPartWriter, choice: rq.ToolChoice | None, body: Object) -> None:
    """Writes which tool may or must be called, in the client's form if it is still valid."""
    if choice is None:
        return
    original: Object = draft.split_extra(choice.extra)[1].get("choice", {})
    choice_read = read_choice(original)
    if choice_read is not None and (choice_read.mode, choice_read.names) == (choice.mode, choice.names):
        body.update(original)
    else:
        body["tool_choice"] = _write_choice_object(choice)


def _write_choice_object(choice: rq.ToolChoice) -> Any:
    if choice.mode == "tool" and choice.names:
        return {"type": "function", "function": {"name": choice.names[0]}}
    mode = "required" if choice.mode == "tool" else choice.mode
    if not choice.names or mode == "none":
        return mode
    tools = [{"type": "function", "function": {"name": name}} for name in choice.names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
