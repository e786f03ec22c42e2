"""Reads the parts of Responses requests: content, messages, reasoning, calls and their outputs.

The first part of an item has the mark `head` with the item's own fields; a further part has the mark `more`. Items of
built-in tools are also kept unchanged in `extra`, so that this protocol gets them back. `request_write_parts.py` is the
opposite direction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import _lenient_fields as lenient
from penstock import _openai_requests as openai
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._lenient_json import as_json, is_json
from penstock._media import sniff_media_type
from penstock._protocols.responses import wire
from penstock._protocols.responses.wire import NAME
from penstock._strict_fields import build_extra, empty_fields, unknown_fields
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from penstock._lenient_fields import Object
    from penstock.events import By, CallForm, Extra, ReasoningForm

CACHE_HINT = "prompt_cache_breakpoint"
CONTENT_KIND = "content:"  # prefix of the kind of opaque parts that are content, not items
ID_PREFIX = "msg_ps"  # prefix of ids that penstock made for messages without one
ID_SPLIT = "_psn"  # follows the kind in a made id if the item starts another message of the assistant
MESSAGE_FIELDS = frozenset({"type", "role", "content", "id", "status"})
_CACHE_TIMES = {"30m": "5m", "12h": "1h"}  # this protocol's values → canonical ones
_IMAGE_FIELDS = frozenset({"type", "image_url", "file_id", "detail"})
_FILE_FIELDS = frozenset({"type", "file_data", "file_url", "file_id", "filename"})
_TEXT_FIELDS = frozenset({"type", "text", "annotations"})
_REASONING_FIELDS = frozenset({"type", "id", "summary", "content", "status"})
_CALL_FIELDS = frozenset({"type", "id", "call_id", "name", "arguments", "input", "status"})
_OUTPUT_FIELDS = frozenset({"type", "id", "call_id", "name", "output", "status"})
_NO_ANNOTATIONS: Extra = {NAME: {"_": {"also": {"annotations": []}}}}
_REASONING_LISTS: tuple[tuple[str, ReasoningForm, str], ...] = (
    ("summary", "summary", "summary_text"),
    ("content", "full", "reasoning_text"),
)
_MCP = wire.BuiltinTool("", input=("arguments",), output=("output",))

# ── content ───────────────────────────────────────────────────────────────────────────────────────


def read_part(part: Object) -> rq.AnyPart:
    """Reads a content part. One of an unknown type is kept unchanged."""
    kind = part.get("type")
    if kind == "input_text" and len(part) == 2:  # noqa: PLR2004 — only a type and a text
        return rq.Text(strict.require_text(part, "text"))
    read = _PART_READERS.get(kind) if isinstance(kind, str) else None
    return read(part) if read else rq.Opaque(NAME, CONTENT_KIND + strict.get_text(part, "type"), part)


def _read_cache_hint(part: Object) -> str:
    """Returns how long to cache the prompt up to this part; empty without a hint."""
    if part.get(CACHE_HINT) is None:
        return ""
    given = strict.get_text(strict.get_object(part, CACHE_HINT), "ttl")
    return _CACHE_TIMES.get(given, given or "5m")


def _build_extra(part: Object, known: AbstractSet[str], **marks: Any) -> Extra | None:
    return build_extra(NAME, unknown_fields(part, known), also=empty_fields(part, known), **marks)


def _read_text(part: Object) -> rq.Text:
    kind = part["type"] if part["type"] != "input_text" else ""
    extra = _build_extra(part, {"type", "text"}, kind=kind)
    return rq.Text(strict.require_text(part, "text"), cache=_read_cache_hint(part), extra=extra)


def _read_refusal(part: Object) -> rq.Text:
    extra = _build_extra(part, {"type", "refusal"})
    return rq.Text(strict.require_text(part, "refusal"), refusal=True, extra=extra)


def _read_image(part: Object) -> rq.File:
    url, nested = part.get("image_url"), isinstance(part.get("image_url"), dict)
    if nested:  # as in Chat Completions
        url = strict.read_object(part, "image_url", lambda inner: strict.require_text(inner, "url"))
    elif url is None:
        url = ""
    elif not isinstance(url, str):
        raise BadRequest("a string", url, "image_url")
    file, unusual = openai.read_file_url(url, "image/*")
    file.id, file.cache = strict.get_text(part, "file_id"), _read_cache_hint(part)
    if not url and not file.id:
        raise BadRequest("a string", None, "image_url")
    inner: Object = part["image_url"] if nested else {}
    detail = part.get("detail", inner.get("detail"))
    file.detail = detail if isinstance(detail, str) else ""
    known = _IMAGE_FIELDS if isinstance(part.get("detail"), str) else _IMAGE_FIELDS - {"detail"}
    file.extra = _build_extra(part, known, url=unusual, as_it_was={"image_url": inner} if nested else None)
    return file


def _read_file(part: Object) -> rq.File:
    name, data, url = (strict.get_text(part, key) for key in ("filename", "file_data", "file_url"))
    media = openai.guess_media_type(name or url)
    bare = bool(data) and not data.startswith("data:")
    if bare:
        file, unusual = rq.File(sniff_media_type(data) or media, data=data), ""
    else:
        file, unusual = openai.read_file_url(data, media)
    file.url, file.id, file.cache = url, strict.get_text(part, "file_id"), _read_cache_hint(part)
    if not (data or url or file.id):
        raise BadRequest("a string", None, "file_data")
    unnamed = bool(data) and name == make_file_name(file.media)
    file.name = "" if unnamed else name
    file.extra = _build_extra(part, _FILE_FIELDS, kind="input_file", url=unusual, bare=bare, unnamed=unnamed)
    return file


def make_file_name(media: str) -> str:
    """Returns a name for a file without one, because this protocol requires a name."""
    return f"file.{media.rpartition('/')[2]}"


def _read_audio(part: Object) -> rq.File:
    file = strict.read_object(part, "input_audio", _read_audio_data)
    audio_fields = (file.extra or {}).get(NAME, {})
    file.extra = _build_extra(part, {"type", "input_audio"}, kind="input_audio", audio=audio_fields)
    return file


def _read_audio_data(audio: Object) -> rq.File:
    form = strict.get_text(audio, "format") or "wav"
    extra = build_extra(NAME, unknown_fields(audio, {"data"}))
    return rq.File(openai.AUDIO_TYPES.get(form, f"audio/{form}"), data=strict.require_text(audio, "data"), extra=extra)


_PART_READERS: dict[str, Callable[[Object], rq.AnyPart]] = {
    **dict.fromkeys(("input_text", "output_text", "text"), _read_text),
    "refusal": _read_refusal,
    "input_image": _read_image,
    "input_file": _read_file,
    "input_audio": _read_audio,
}

# ── messages and reasoning of the assistant ───────────────────────────────────────────────────────


def read_assistant_message(item: Object) -> list[rq.AnyPart]:
    """Reads an item of type `message`."""
    content, id = item.get("content"), strict.get_text(item, "id")  # noqa: A001 — the field's name
    marks: Object = {"head": _build_head(item, id)}
    if isinstance(content, str):
        parts: list[rq.AnyPart] = [rq.Text(content)]
        if not content:
            marks["blank"] = True
    else:
        parts = _read_content_list(item)
    if not parts or type(parts[0]) is rq.Opaque:
        parts.insert(0, rq.Text())
        marks["blank"] = True
    for part in parts:
        if type(part) is rq.Text or type(part) is rq.File:
            part.item = "" if "id" in marks.get("head", ()) else id
            file_mark = {} if type(part) is rq.Text else {"said": True}
            part.extra = strict.add_marks(part.extra, NAME, **marks, **file_mark)
            marks = {"more": True}
    return parts


def _build_head(item: Object, id: str) -> Object:
    """Returns the fields of the item, and how it was written."""
    head: Object = {
        "shape": "string" if isinstance(item.get("content"), str) else "list",
        "bare": "type" not in item,
        "id": id if id.startswith(ID_PREFIX) else "",
        "status": item.get("status"),
        "fields": unknown_fields(item, MESSAGE_FIELDS),
        "also": empty_fields(item, MESSAGE_FIELDS - {"content"}),
    }
    return {key: value for key, value in head.items() if value}


def _read_content_list(item: Object) -> list[rq.AnyPart]:
    parts: list[rq.AnyPart] = []
    for row in strict.read_objects(item, "content", _read_cited_part):
        for part in row:
            if type(part) is rq.Source:
                part.of = max(position for position, other in enumerate(parts) if type(other) is rq.Text)
            parts.append(part)
    return parts


def _read_cited_part(part: Object) -> list[rq.AnyPart]:
    """Reads a content part and its citations."""
    kind = part.get("type")
    if kind not in ("output_text", "input_text", "text"):
        return [read_part(part)]
    if kind == "output_text" and len(part) == 3 and part.get("annotations") == []:  # noqa: PLR2004 — the usual case
        return [rq.Text(strict.require_text(part, "text"), extra=_NO_ANNOTATIONS)]
    extra = _build_extra(part, _TEXT_FIELDS, kind=kind if kind != "output_text" else "")
    return [
        rq.Text(strict.require_text(part, "text"), extra=extra),
        *strict.read_objects(part, "annotations", _read_citation),
    ]


def _read_citation(annotation: Object) -> rq.Source:
    first, last = lenient.get_integer(annotation, "start_index"), lenient.get_integer(annotation, "end_index")
    span = (first, last) if first is not None and last is not None and last > first >= 0 else None
    filename, file_id = lenient.get_text(annotation, "filename"), lenient.get_text(annotation, "file_id")
    url, title = lenient.get_text(annotation, "url"), lenient.get_text(annotation, "title") or filename
    return rq.Source(url, title, None, span, id=file_id, filename=filename, extra={NAME: {"annotation": annotation}})


def read_reasoning(item: Object) -> list[rq.AnyPart]:
    """Reads an item of type `reasoning`: summary parts, then full text parts. The last one has the encrypted state."""
    id = strict.get_text(item, "id")  # noqa: A001 — the field's name
    unusual: Object = {}
    parts: list[rq.Reasoning] = []
    for key, form, kind in _REASONING_LISTS:
        rows = strict.read_objects(item, key, strict.as_object)
        parts += [
            rq.Reasoning(_get_reasoning_text(row, key, position), form, item=id) for position, row in enumerate(rows)
        ]
        if any(row.keys() != {"type", "text"} or row["type"] != kind for row in rows):
            unusual[key] = rows
    if not parts:
        parts.append(rq.Reasoning("", "redacted", item=id))
    head: Object = {"status": item.get("status"), "also": empty_fields(item, _REASONING_FIELDS), "odd": unusual}
    head = {key: value for key, value in head.items() if value}
    if "summary" not in item:
        head["bare"] = True
    for position, part in enumerate(parts):
        marks = {"more": True} if position else {"head": head}
        part.extra = {NAME: {**(unknown_fields(item, _REASONING_FIELDS) if part is parts[-1] else {}), "_": marks}}
    return [*parts]


def _get_reasoning_text(row: Object, key: str, position: int) -> str:
    try:
        return strict.get_text(row, "text")
    except BadRequest as error:
        raise error.at(position).at(key) from None


# ── function calls ────────────────────────────────────────────────────────────────────────────────


def get_call_id(item: Object) -> str:
    """Returns the id of a call. Some items have it only as `id`."""
    return strict.get_text(item, "call_id") or strict.get_text(item, "id")


def read_function_call(item: Object) -> rq.Call:
    """Reads the call of a function or a custom tool."""
    custom = item["type"] == "custom_tool_call"
    given = item.get("input" if custom else "arguments")
    if not isinstance(given, str | None):
        raise BadRequest("a string" if custom else "a string of JSON", given, "input" if custom else "arguments")
    call_id = get_call_id(item)
    if custom and call_id.startswith("xs_"):  # a step of xAI's own search
        return rq.Call(call_id, strict.get_text(item, "name"), given or "", "provider", extra={NAME: {"item": item}})
    form: CallForm = "text" if custom else "json"
    status = item.get("status")
    cut = status == "incomplete" and (custom or not is_json(given or ""))
    name, id = strict.require_text(item, "name"), strict.get_text(item, "id")  # noqa: A001 — the field's name
    call = rq.Call(call_id, name, given or "", "client", form, cut, item=id)
    if item.keys() <= _CALL_FIELDS and all(item.values()):
        call.extra = {NAME: {"_": {"status": status}}} if status else None
    else:
        marks = {"status": status, "also": empty_fields(item, _CALL_FIELDS), "loose": not item.get("call_id")}
        call.extra = build_extra(NAME, unknown_fields(item, _CALL_FIELDS), **marks)
    return call


def read_function_output(item: Object) -> rq.Result:
    """Reads the output of a function or a custom tool."""
    output = item.get("output")
    custom = item["type"] == "custom_tool_call_output"
    call, name = strict.get_text(item, "call_id"), strict.get_text(item, "name")
    if type(output) is str and output and call and len(item) == 3 and not custom:  # noqa: PLR2004 — the usual case
        return rq.Result(call, "", [rq.Text(output)])
    content: list[rq.ResultPart] = [
        part for part in openai.read_content(output, read_part, "output") if isinstance(part, rq.ResultPart)
    ]
    marks = {"id": item.get("id"), "status": item.get("status"), "listed": isinstance(output, list)}
    marks |= {"named": bool(name), "loose": not call, "also": empty_fields(item, _OUTPUT_FIELDS - {"output"})}
    extra = build_extra(NAME, unknown_fields(item, _OUTPUT_FIELDS), **marks, kind=item["type"] if custom else "")
    return rq.Result(call, name, content, form="text" if custom else "json", extra=extra)


# ── built-in tools ────────────────────────────────────────────────────────────────────────────────


def read_builtin_call(item: Object) -> rq.Call:
    """Reads a call without output. The client runs it, unless the item says that the provider does."""
    tool = wire.CALLS[item["type"]]
    name, json = strict.get_text(item, "name") or tool.name, wire.read_tool_input(item, tool)
    id, by = strict.get_text(item, "id"), wire.get_runner(item, tool)  # noqa: A001 — the field's name
    return rq.Call(get_call_id(item), name, json, by, item=id, extra={NAME: {"item": item}})


def read_provider_call(item: Object) -> list[rq.AnyPart]:
    """Reads a call that the provider ran, with its output. A generated image becomes a file, too."""
    kind: str = item["type"]
    tool = wire.CALLS_WITH_OUTPUT.get(kind, _MCP)
    id = strict.get_text(item, "id")  # noqa: A001 — the field's name
    name = strict.get_text(item, "name") or tool.name
    extra: dict[str, Any] = {NAME: {"id": id, "type": kind}}
    json = wire.to_text(item.get("arguments")) if tool is _MCP else wire.read_tool_input(item, tool)
    parts: list[rq.AnyPart] = [rq.Call(id, name, json, "provider", item=id, extra=extra)]
    image = lenient.get_text(item, "result") if kind == "image_generation_call" else ""
    if image:
        media = f"image/{lenient.get_text(item, 'output_format') or 'png'}"
        parts.append(rq.File(media, data=image, item=id, extra=extra))
    output: list[rq.ResultPart] = [rq.Json(as_json(item.get("error") or wire.read_tool_output(item, tool)))]
    parts.append(rq.Result(id, name, output, wire.has_failed(item), by="provider", extra={NAME: {"item": item}}))
    return parts


def read_builtin_output(item: Object, by: By) -> rq.Result:
    """Reads an output without its call."""
    tool, failed = wire.OUTPUTS[item["type"]], wire.has_failed(item)
    extras: Object = {"item": item, "_": {"failed": True}} if failed else {"item": item}
    content: list[rq.ResultPart] = read_client_output(item)
    if by == "provider":
        content = [rq.Json(as_json(wire.read_tool_output(item, tool)))]
    return rq.Result(get_call_id(item), tool.name, content, failed, by=by, extra={NAME: extras})


def read_client_output(item: Object) -> list[rq.ResultPart]:
    """Reads the output of a built-in tool that the client ran: text, a screenshot, or JSON."""
    output = wire.read_tool_output(item, wire.OUTPUTS[item["type"]])
    if isinstance(output, str):
        return [rq.Text(output)] if output else []
    screenshot = lenient.as_object(output)
    if screenshot.get("type") == "computer_screenshot":
        file, unusual = openai.read_file_url(strict.get_text(screenshot, "image_url"), "image/*")
        file.id = strict.get_text(screenshot, "file_id")
        file.extra = {NAME: {"_": {"url": unusual}}} if unusual else None
        return [file]
    return [] if output is None else [rq.Json(as_json(output))]


def read_approval_request(item: Object) -> list[rq.AnyPart]:
    """Reads the provider's question whether it may run a tool of an MCP server."""
    id, json = strict.require_text(item, "id"), wire.to_text(item.get("arguments"))  # noqa: A001 — the field's name
    extra: dict[str, Any] = {NAME: {"id": id, "type": item["type"]}}
    call = rq.Call(id, strict.get_text(item, "name"), json, "provider", item=id, extra=extra)
    return [call, rq.Ask(id, id, extra={NAME: {"item": item}})]


def read_approval(item: Object) -> rq.Ask:
    """Reads the user's answer to that question."""
    request_id = strict.require_text(item, "approval_request_id")
    approved = strict.get_flag(item, "approve")
    if approved is None:
        raise BadRequest("true or false", None, "approve")
    return rq.Ask(request_id, request_id, approved, extra={NAME: {"item": item}})
