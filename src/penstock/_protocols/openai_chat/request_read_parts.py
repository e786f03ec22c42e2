"""Chat Completions content, reasoning, tools and tool choice → canonical, in all the dialects' forms."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import _openai_requests as openai
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._lenient_fields import Object, as_object
from penstock._media import sniff_media_type
from penstock._protocols.openai_chat.wire import NAME, read_detail_state
from penstock._strict_fields import build_extra, empty_fields, unknown_fields
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable


_REASONING_FIELDS = ("reasoning_content", "reasoning")


def read_reasoning_fields(message: Object) -> list[rq.Reasoning]:
    """Reads the reasoning of an assistant message, from plain fields and detail lists."""
    field = next((name for name in _REASONING_FIELDS if message.get(name)), "")
    if not field and message.get("reasoning_details") is None:
        return []
    text = strict.get_text(message, field) if field else ""
    other_fields = {name: message[name] for name in _REASONING_FIELDS if name != field and message.get(name)}
    parts = _read_details(message)
    if not parts:
        return [rq.Reasoning(text, extra=build_extra(NAME, other_fields, field=field if field == "reasoning" else ""))]
    if text and len(parts) == 1 and not parts[0].text and parts[0].form == "full":
        parts[0].text = text  # a detail that only signs the text of the field
    # Plain fields mostly repeat the details; their text is kept only if the details do not have it.
    marks = {"field": field, "said": text if text != "".join(part.text for part in parts) else ""}
    extras = (parts[0].extra or {})[NAME]
    parts[0].extra = {**(parts[0].extra or {}), NAME: {**other_fields, **extras, "_": marks}}
    return parts


def _read_details(message: Object) -> list[rq.Reasoning]:
    """Returns one part for each run of details that continue each other."""
    parts: list[rq.Reasoning] = []
    last: Any = None
    for detail in strict.read_objects(message, "reasoning_details", dict):
        position = detail.get("type"), detail.get("index")
        if parts and position == last and "text" in detail:
            _append_detail(parts[-1], detail)
        else:
            parts.append(_read_detail(detail))
        last = position
    return parts


def join_texts(pieces: Any) -> str:
    """Returns the text of a list of details, or of texts."""
    rows = [piece.get("text") or piece.get("summary") for piece in pieces]
    return "".join(text for text in rows if isinstance(text, str))


def _read_detail(detail: Object) -> rq.Reasoning:
    text = detail.get("text") or detail.get("summary")
    # State that belongs to another protocol is added, in case the request goes there.
    extra = {NAME: {"reasoning_details": [detail]}, **read_detail_state(detail)}
    part = rq.Reasoning(text if isinstance(text, str) else "", extra=extra)
    if detail.get("type") == "reasoning.summary":
        part.form = "summary"
    elif detail.get("type") == "reasoning.encrypted":
        part.form = "redacted"
        part.item = detail["id"] if isinstance(detail.get("id"), str) else ""
    return part


def _append_detail(part: rq.Reasoning, detail: Object) -> None:
    text, extra = detail["text"], part.extra or {}
    part.text += text if isinstance(text, str) else ""
    extra[NAME]["reasoning_details"].append(detail)
    part.extra = {**extra, **read_detail_state(detail)}


def read_thinking_part(part: Object) -> rq.AnyPart:
    """Reads a thinking part: a string, or a list of texts."""
    value = part.get("thinking")
    if isinstance(value, str):
        return rq.Reasoning(value, extra=build_extra(NAME, unknown_fields(part, {"type", "thinking"}), part="text"))
    texts = strict.read_objects(part, "thinking", dict)
    is_plain = all(row.keys() == {"type", "text"} and row["type"] == "text" for row in texts)
    text = "".join(row["text"] for row in texts if isinstance(row.get("text"), str))
    marks = {"part": "list", "given": None if is_plain and len(texts) == 1 else {"as": value}}
    return rq.Reasoning(text, extra=build_extra(NAME, unknown_fields(part, {"type", "thinking"}), **marks))


PartType = TypeVar("PartType", rq.Text, rq.File)
_CACHE_HINTS = frozenset({"cache_control", "prompt_cache_breakpoint"})


def non_empty(**fields: Any) -> Object:
    """Returns the fields that have a value."""
    return {key: value for key, value in fields.items() if value}


def read_cache_hint(source: Object) -> str | None:
    """Returns how long the prompt up to here should be cached; None without a cache hint."""
    for key in ("cache_control", "prompt_cache_breakpoint"):
        hint = source.get(key)
        if hint is not None:
            return strict.get_text(strict.as_object(hint, key), "ttl") or "5m"
    return None


def read_part(part: Object) -> rq.AnyPart:
    """Reads a part of a message's content. One of an unknown type is kept unchanged."""
    kind = part.get("type")
    if kind == "text" and len(part) == 2:  # noqa: PLR2004 — type and text
        return rq.Text(strict.require_text(part, "text"))
    read = _PART_READERS.get(kind) if isinstance(kind, str) else None
    return read(part) if read else rq.Opaque(NAME, strict.get_text(part, "type"), part)


def _finish_part(canonical: PartType, part: Object, known: str, **marks: Any) -> PartType:
    """Adds the other fields of a part, and how it was written, to its extra data."""
    hint = {key: part[key] for key in _CACHE_HINTS if part.get(key) is not None}
    if hint:
        canonical.cache = read_cache_hint(part) or ""
    also = empty_fields(part, _CACHE_HINTS | {known})
    other_keys = unknown_fields(part, _CACHE_HINTS | {"type", known})
    inside = (canonical.extra or {}).get(NAME, {})
    canonical.extra = build_extra(NAME, {**inside, **non_empty(beside=other_keys)}, hint=hint, also=also, **marks)
    return canonical


def _read_text(part: Object, key: str) -> rq.AnyPart:
    return _finish_part(rq.Text(strict.require_text(part, key), refusal=key == "refusal"), part, key)


def _read_linked_file(part: Object, key: str, media: str, kind: str) -> rq.AnyPart:
    """Reads a file whose URL is in an object, or is the value itself."""
    bare = isinstance(part.get(key), str)
    url = part[key] if bare else strict.read_object(part, key, partial(strict.require_text, key="url"))
    canonical, unusual_url = openai.read_file_url(url, media)
    if not bare:
        known = {"url"}
        if key == "image_url" and isinstance(part[key].get("detail"), str):
            canonical.detail = part[key]["detail"]
            known = {"url", "detail"}
        canonical.extra = build_extra(NAME, unknown_fields(part[key], known))
    return _finish_part(canonical, part, key, bare=bare, url=unusual_url, kind=kind)


def _read_document(part: Object) -> rq.AnyPart:
    canonical, unusual_url = openai.read_file_url(strict.require_text(part, "document_url"), "application/pdf")
    canonical.name = strict.get_text(part, "document_name")
    fields = unknown_fields(part, {"document_name"})
    return _finish_part(canonical, fields, "document_url", url=unusual_url, kind="document_url")


def _read_audio(part: Object) -> rq.AnyPart:
    value = part.get("input_audio")
    if isinstance(value, str):
        return _finish_part(_read_base64(value, "audio/mpeg"), part, "input_audio", bare=True)
    canonical = strict.read_object(part, "input_audio", _read_audio_object)
    return _finish_part(canonical, part, "input_audio", kind="input_audio", format=part["input_audio"].get("format"))


def _read_audio_object(audio: Object) -> rq.File:
    form = strict.get_text(audio, "format") or "wav"
    extra = build_extra(NAME, unknown_fields(audio, {"format", "data"}))
    return rq.File(openai.AUDIO_TYPES.get(form, f"audio/{form}"), data=strict.require_text(audio, "data"), extra=extra)


def _read_base64(value: str, media: str) -> rq.File:
    """Reads plain base64, or a URL."""
    if value.startswith(("http://", "https://")):
        return rq.File(media, value)
    return rq.File(sniff_media_type(value) or media, data=value)


def _read_file(part: Object) -> rq.AnyPart:
    canonical, unusual_url = strict.read_object(part, "file", _read_file_object)
    bare = bool(canonical.data) and not part["file"]["file_data"].startswith("data:")
    return _finish_part(canonical, part, "file", url=unusual_url, kind="file", bare=bare)


def _read_file_object(file: Object) -> tuple[rq.File, str]:
    name = strict.get_text(file, "filename")
    media = openai.guess_media_type(name)
    value, unusual_url = strict.get_text(file, "file_data"), ""
    canonical = rq.File(media)
    if value.startswith("data:"):
        canonical, unusual_url = openai.read_file_url(value, media)
    elif value:
        canonical = _read_base64(value, media)
    canonical.name, canonical.id = name, strict.get_text(file, "file_id")
    if not value and not canonical.id:
        raise BadRequest("a string", None, "file_data")
    canonical.extra = build_extra(NAME, unknown_fields(file, {"file_data", "filename", "file_id"}))
    return canonical, unusual_url


_PART_READERS: dict[str, Callable[[Object], rq.AnyPart]] = {
    "text": partial(_read_text, key="text"),
    "refusal": partial(_read_text, key="refusal"),
    "image_url": partial(_read_linked_file, key="image_url", media="image/*", kind=""),
    "video_url": partial(_read_linked_file, key="video_url", media="video/mp4", kind="video_url"),
    "audio_url": partial(_read_linked_file, key="audio_url", media="audio/*", kind="audio_url"),
    "input_audio": _read_audio,
    "file": _read_file,
    "document_url": _read_document,
    "thinking": read_thinking_part,
}


CHOICE_MODES: dict[str, rq.ChoiceMode] = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
_FUNCTION_KEYS = frozenset({"name", "description", "parameters", "strict"})


def read_tools(body: Object) -> list[rq.Tool]:
    """Reads `tools`, and the legacy `functions`."""
    return strict.read_objects(body, "tools", read_tool) + strict.read_objects(body, "functions", _read_legacy_function)


def read_tool(tool: Object) -> rq.Tool:
    """Reads a tool; one of unknown type is kept unchanged."""
    kind = tool.get("type", "function")
    if kind == "function":
        return _read_function(tool)
    if kind == "custom":
        return strict.read_object(tool, "custom", lambda fields: _read_custom_tool(tool, fields))
    return rq.Tool(strict.get_text(tool, "name") or str(kind), kind="unknown", extra={NAME: {"tool": tool}})


def _read_function(tool: Object) -> rq.Tool:
    if "function" not in tool:
        return _read_flat_function(tool)
    fields = tool["function"]
    try:
        canonical = openai.read_function(strict.as_object(fields))
        is_usual = len(fields) == 3 + (canonical.strict is not None) and canonical.schema is not None
        if is_usual and canonical.description and len(tool) == 2 and "type" in tool:  # noqa: PLR2004 — no other fields
            return canonical
        function, also = unknown_fields(fields, _FUNCTION_KEYS), empty_fields(fields, _FUNCTION_KEYS)
    except BadRequest as error:
        raise error.at("function") from None
    canonical.cache = read_cache_hint(tool) or ""
    other_keys = unknown_fields(tool, {"type", "function", "cache_control"})
    hint = {"cache_control": tool["cache_control"]} if canonical.cache else None
    unknown = non_empty(function=function, tool=other_keys)
    canonical.extra = build_extra(NAME, unknown, also=also, hint=hint, untyped="type" not in tool)
    return canonical


def _read_flat_function(tool: Object) -> rq.Tool:
    """Reads a function in the form of other protocols: no `function` object, the schema under another name."""
    schema_key = "input_schema" if "parameters" not in tool and "input_schema" in tool else "parameters"
    canonical = openai.read_function(tool, schema_key)
    canonical.cache = read_cache_hint(tool) or ""
    function = unknown_fields(tool, _FUNCTION_KEYS | {"type", "input_schema", "cache_control"})
    canonical.extra = build_extra(NAME, non_empty(function=function))
    return canonical


def _read_custom_tool(tool: Object, fields: Object) -> rq.Tool:
    form = strict.get_object(fields, "format")
    schema = read_grammar(form)
    custom = unknown_fields(fields, {"name", "description", "format"})
    unknown = non_empty(tool=unknown_fields(tool, {"type", "custom"}), custom=custom)
    canonical = rq.Tool(strict.require_text(fields, "name"), strict.get_text(fields, "description"), schema, "custom")
    canonical.extra = build_extra(NAME, unknown, also=empty_fields(fields, {"name", "description"}), format=form)
    return canonical


def read_grammar(form: Object) -> Object | None:
    """Returns the grammar of a free-text tool; None if it has none."""
    if form.get("type") != "grammar":
        return None
    grammar = strict.get_object(form, "grammar") or form
    return {"type": "grammar", "syntax": grammar.get("syntax"), "definition": grammar.get("definition")}


def _read_legacy_function(function: Object) -> rq.Tool:
    canonical = openai.read_function(function)
    unknown, also = unknown_fields(function, _FUNCTION_KEYS), empty_fields(function, _FUNCTION_KEYS)
    canonical.extra = build_extra(NAME, non_empty(function=unknown), also=also, legacy=True)
    return canonical


def read_choice(body: Object) -> rq.ToolChoice | None:
    """Reads which tool may or must be called, in all its forms."""
    key = "tool_choice" if body.get("tool_choice") is not None else "function_call"
    choice: Any = body.get(key)
    if choice is None:
        return None
    if isinstance(choice, str):
        canonical = rq.ToolChoice(strict.get_choice(body, key, CHOICE_MODES))
    else:
        canonical = strict.read_object(body, key, _read_choice_object)
    # Forms of other protocols are normalized; these are forms of Chat that must be written again.
    kind = as_object(choice).get("type")
    is_unusual = key == "function_call" or choice == "any" or (kind in ("custom", "allowed_tools") and kind in choice)
    canonical.extra = {NAME: {"_": {"choice": {key: choice}}}} if is_unusual else None
    return canonical


def _read_choice_object(choice: Object) -> rq.ToolChoice:
    kind = choice.get("type", "function")
    if kind == "allowed_tools":
        return strict.read_object(choice, "allowed_tools", _read_allowed_tools)
    if isinstance(kind, str) and kind in CHOICE_MODES:
        return rq.ToolChoice(CHOICE_MODES[kind])
    if isinstance(choice.get("name"), str):
        return rq.ToolChoice("tool", [choice["name"]])
    if kind not in ("function", "custom"):
        raise BadRequest("function, custom or allowed_tools", kind, "type")
    return rq.ToolChoice("tool", [strict.read_object(choice, kind, lambda fields: strict.require_text(fields, "name"))])


def _read_allowed_tools(allowed: Object) -> rq.ToolChoice:
    names = strict.read_objects(allowed, "tools", _read_allowed_name)
    return rq.ToolChoice(strict.get_choice(allowed, "mode", CHOICE_MODES), [name for name in names if name])


def _read_allowed_name(tool: Object) -> str:
    kind = tool.get("type")
    inner = strict.get_object(tool, kind) if isinstance(kind, str) else {}
    return strict.get_text(inner, "name") or strict.get_text(tool, "name")
