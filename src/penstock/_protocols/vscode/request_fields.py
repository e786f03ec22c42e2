"""Settings, tools, tool mode, data parts and prompt-tsx trees of VS Code requests ↔ canonical ones.

Hosts and extensions have no fixed spelling for model options; settings.toml lists the common ones. A data part is an
image or another file, a citation that our encoder wrote, or text and JSON, which models get as text.
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._diagnostics import read_tables
from penstock._lenient_json import as_json, is_json
from penstock._markers import free_text_schema, parse_free_text_schema
from penstock._media import decode_byte_list, encode_byte_list, sniff_media_type, split_file_url
from penstock._protocols.vscode.encode_parts import CITATION, citation_fields
from penstock._protocols.vscode.wire import NAME
from penstock._request_writer import RequestDraft, add_missing, drop_empty, split_extra
from penstock._strict_fields import build_extra
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._lenient_fields import Object

AUTO, REQUIRED = 1, 2
MODES: dict[Any, rq.ChoiceMode] = {AUTO: "auto", REQUIRED: "required", "auto": "auto", "required": "required"}
EFFORT = "reasoningEffort"  # the key of VS Code's model picker in modelConfiguration
_FORMATS: dict[str, rq.FormatKind] = {"text": "text", "json_object": "json", "json_schema": "schema"}


def _get_object(source: Object, key: str) -> Object | None:
    return strict.get_object(source, key) or None


def _get_format(source: Object, key: str) -> rq.Format | None:
    return strict.read_object(source, key, _read_format) if source.get(key) is not None else None


def _read_format(fields: Object) -> rq.Format:
    kind, about = strict.get_choice(fields, "type", _FORMATS), strict.get_object(fields, "json_schema")
    name, description = strict.get_text(about, "name"), strict.get_text(about, "description")
    return rq.Format(kind, name, _get_object(about, "schema"), description, strict.get_flag(about, "strict"))


_TABLE: dict[str, list[str]] = read_tables(__name__.rpartition(".")[0], "settings.toml")
_SPELLINGS = {field: spellings for field, (_, *spellings) in _TABLE.items()}
_FIELDS = {word: field for field, spellings in _SPELLINGS.items() for word in spellings}
_READERS: dict[str, Callable[[Object, str], Any]] = {
    "integer": strict.get_integer,
    "number": strict.get_number,
    "flag": strict.get_flag,
    "text": strict.get_text,
    "strings": strict.get_strings,
    "object": _get_object,
    "format": _get_format,
}


def read_settings(body: Object) -> tuple[rq.Settings, Object, Object]:
    """Returns the settings; options and configuration without a canonical setting; and how the others were spelled."""
    options, configuration = strict.get_object(body, "modelOptions"), strict.get_object(body, "modelConfiguration")
    settings, spellings = rq.Settings(), dict[str, str]()
    for spelling, value in options.items():
        field = _FIELDS.get(spelling)
        if field is None or value is None or field in spellings:
            continue
        spellings[field] = spelling
        setattr(settings, field, _read_option("modelOptions", _READERS[_TABLE[field][0]], options, spelling))
    picked = configuration.get(EFFORT) is not None
    if picked:
        settings.effort = _read_option("modelConfiguration", strict.get_text, configuration, EFFORT)
    unknown = {key: value for key, value in options.items() if key not in spellings.values()}
    unknown_configuration = strict.unknown_fields(configuration, {EFFORT}) if picked else configuration
    marks = {
        "words": {field: spelling for field, spelling in spellings.items() if spelling != _SPELLINGS[field][0]},
        "one": isinstance(options.get(spellings.get("stop", "")), str),
        "effort": spellings.get("effort", ""),
        "picked": picked,
        "empty": [key for key in ("modelOptions", "modelConfiguration") if key in body and not body[key]],
    }
    return settings, drop_empty(modelOptions=unknown, modelConfiguration=unknown_configuration), marks


def _read_option(parent: str, read: Callable[[Object, str], Any], source: Object, key: str) -> Any:
    try:
        return read(source, key)
    except BadRequest as error:
        raise error.at(parent) from None


def write_settings(settings: rq.Settings, own_fields: Object, marks: Object) -> Object:
    """Writes the fields of options and configuration."""
    read_spellings: Object = marks.get("words", {})
    options: Object = {}
    for field, usual in _SPELLINGS.items():
        value = getattr(settings, field)
        if value in (None, "", []) or (field == "effort" and marks.get("picked") and not marks.get("effort")):
            continue
        options[read_spellings.get(field) or usual[0]] = _write_format(value) if field == "format" else value
    if marks.get("one") and len(settings.stop) == 1:
        options[read_spellings.get("stop") or "stop"] = settings.stop[0]
    configuration = {EFFORT: settings.effort} if marks.get("picked") and settings.effort else {}
    written = {
        "modelOptions": {**own_fields.get("modelOptions", {}), **options},
        "modelConfiguration": {**own_fields.get("modelConfiguration", {}), **configuration},
    }
    return {key: value for key, value in written.items() if value or key in marks.get("empty", ())}


def _write_format(form: rq.Format) -> Object:
    if form.kind != "schema":
        return {"type": "json_object" if form.kind == "json" else "text"}
    strictness = {} if form.strict is None else {"strict": form.strict}
    about = drop_empty(name=form.name, schema=form.schema, description=form.description)
    return {"type": "json_schema", "json_schema": {**about, **strictness}}


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────

_TOOL = frozenset({"name", "description", "inputSchema", "strict"})


def read_tool(tool: Object) -> rq.Tool:
    """Reads a tool of the host. It is a function, unless its schema shows that it stands for a free-text tool."""
    schema = strict.get_object(tool, "inputSchema")
    name, description = strict.require_text(tool, "name"), strict.get_text(tool, "description")
    extra = build_extra(NAME, strict.unknown_fields(tool, _TOOL), also=strict.empty_fields(tool, _TOOL))
    grammar = parse_free_text_schema(schema)
    if grammar is not None:
        return rq.Tool(name, description, grammar or None, "custom", extra=extra)
    parameters = schema if isinstance(tool.get("inputSchema"), dict) else None
    return rq.Tool(name, description, parameters, strict=strict.get_flag(tool, "strict"), extra=extra)


def write_tool(tool: rq.Tool, draft: RequestDraft) -> list[Object]:
    """Writes a tool, if the host can run it."""
    own, marks = draft.split_extra(tool.extra)
    if tool.kind in ("provider", "unknown"):
        draft.report_loss("tool")
        return []
    if tool.namespace:
        draft.report_loss("namespace")
    if tool.cache:
        draft.report_loss("tool-cache")
    written = {**own, "name": tool.name, **drop_empty(description=tool.description)}
    if tool.kind == "custom":
        draft.report_carried("free-text")
        written["inputSchema"] = free_text_schema(tool)
    elif tool.schema is not None:
        written["inputSchema"] = tool.schema
    written |= {} if tool.strict is None else {"strict": tool.strict}
    add_missing(written, marks.get("also"))
    return [written]


def read_choice(body: Object) -> rq.ToolChoice | None:
    """Reads the tool mode: 1 is automatic, 2 required."""
    mode = body.get("toolMode")
    if mode is None:
        return None
    if isinstance(mode, bool) or not isinstance(mode, int | str) or mode not in MODES:
        raise BadRequest("1 (automatic) or 2 (required)", mode, "toolMode")
    return rq.ToolChoice(MODES[mode], extra=build_extra(NAME, {}, word=mode if isinstance(mode, str) else ""))


def write_choice(choice: rq.ToolChoice | None, draft: RequestDraft) -> Object:
    """Writes the field of the tool mode."""
    if choice is None:
        return {}
    if choice.names or choice.mode in ("none", "tool"):
        draft.report_loss("choice")
    mode = REQUIRED if choice.mode in ("required", "tool") else AUTO
    return {"toolMode": split_extra(choice.extra, NAME)[1].get("word") or mode}


# ── data parts ────────────────────────────────────────────────────────────────────────────────────

KINDS = frozenset({"text", "thinking", "call", "result", "data"})
CACHE = "cache_control"
JSON = "application/json"
_DATA = frozenset({"kind", "mimeType", "data", "url", "id", "name", "$mid"})


def part_kind(part: Object) -> str:
    """Returns a part's kind, by its `kind` or its fields. A `tree` has a value that is neither text nor thinking."""
    kind = part.get("kind")
    if isinstance(kind, str) and kind in KINDS:
        return kind
    if "callId" in part:
        return "result" if "content" in part else "call"
    if "mimeType" in part:
        return "data"
    if "value" not in part:
        return "unknown"
    value = part["value"]
    if isinstance(value, list) or part.keys() & {"id", "metadata"}:
        return "thinking"
    return "text" if isinstance(value, str) else "tree"


def read_bytes(part: Object) -> tuple[str, str]:
    """Returns the base64 of a data part, and the form of its bytes if they were not base64."""
    value = part.get("data")
    if isinstance(value, str):
        return value, ""
    try:
        return encode_byte_list(value)
    except ValueError:
        raise BadRequest("base64 or bytes", value, "data") from None


def decode_text(data: str) -> str | None:
    """Returns the text in base64; None if it is not text."""
    try:
        return binascii.a2b_base64(data, strict_mode=True).decode()
    except ValueError:
        return None


def encode_text(text: str) -> str:
    """Returns the base64 of a text."""
    return binascii.b2a_base64(text.encode("utf-8", "replace"), newline=False).decode()


def read_data(part: Object, *, in_result: bool = False) -> Any:
    """Reads a data part that is content. In a tool result JSON stays JSON."""
    mime = strict.require_text(part, "mimeType")
    data, form = ("", "") if "url" in part or "id" in part else read_bytes(part)
    text = decode_text(data) if _is_text_type(mime) else None
    rest, marks = strict.unknown_fields(part, _DATA), {"form": form, "mid": part.get("$mid")}
    if text is None or "name" in part or encode_text(text) != data:  # a part with a name is a document
        url, name, file_id = (strict.get_text(part, key) for key in ("url", "name", "id"))
        return rq.File(mime, url, data, name=name, id=file_id, extra=build_extra(NAME, rest, **marks))
    if mime == CITATION and is_json(text):
        source = _read_citation(lenient.as_object(msgspec.json.decode(text)))
        source.extra = build_extra(NAME, rest, **marks, raw="" if as_json(citation_fields(source)) == text else text)
        return source
    if in_result and is_json(text) and not mime.startswith("text/"):
        return rq.Json(text, extra=build_extra(NAME, rest, **marks, mime="" if mime == JSON else mime))
    return rq.Text(text, extra=build_extra(NAME, rest, **marks, mime=mime))


def _is_text_type(mime: str) -> bool:
    """True if a model can get data of this type as text."""
    bare = mime.partition(";")[0]
    return bare.startswith("text/") or bare == JSON or bare.endswith("+json")


def write_data(part: rq.File | rq.Json | rq.Text, marks: Object) -> Object:
    """Writes a file, a JSON value or a text as a data part."""
    if isinstance(part, rq.File):
        mime, data = part.media, part.data
        named = {"name": part.name} if part.name or _is_text_type(mime) else {}
        fields = {**drop_empty(url=part.url, id=part.id), **named}
    else:
        text = part.json if isinstance(part, rq.Json) else part.text
        mime, data, fields = marks.get("mime") or JSON, encode_text(text), {}
    if data or not fields.keys() & {"url", "id"}:
        fields = {"data": decode_byte_list(data, marks.get("form", "")), **fields}
    return {"kind": "data", "mimeType": mime, **fields}


def _read_citation(fields: Object) -> rq.Source:
    span = lenient.get_list(fields, "span")
    return rq.Source(
        lenient.get_text(fields, "url"),
        lenient.get_text(fields, "title"),
        span=(span[0], span[1]) if [type(index) for index in span] == [int, int] else None,
        quote=lenient.get_text(fields, "quote"),
        id=lenient.get_text(fields, "sourceId"),
        media=lenient.get_text(fields, "mediaType"),
        filename=lenient.get_text(fields, "filename"),
    )


def write_source(source: rq.Source) -> Object:
    """Writes a source as a data part."""
    own, marks = split_extra(source.extra, NAME)
    text = marks.get("raw") or as_json(citation_fields(source))
    data = decode_byte_list(encode_text(text), marks.get("form", ""))
    mid = {"$mid": marks["mid"]} if "mid" in marks else {}
    return {**own, **mid, "kind": "data", "mimeType": CITATION, "data": data}


# ── prompt-tsx trees and other values ─────────────────────────────────────────────────────────────

_PIECE_NODE, _TEXT_NODE, _IMAGE = 1, 2, 3  # types of nodes; the constructor of an image
_TREE_DEPTH = 200  # deeper trees are cut: no tool returns one


def read_tree(part: Object, value: Any, *, in_result: bool = False) -> list[Any]:
    """Reads a prompt-tsx tree as its content; any other value as JSON, which is text in a message."""
    node = lenient.get_object(lenient.as_object(value), "node")
    if node.get("type") in (_PIECE_NODE, _TEXT_NODE):
        content: list[Any] = []
        _collect_nodes(node, content, 0)
        content = content or [rq.Text("")]
    else:
        text = as_json(value)
        content = [rq.Json(text) if in_result else rq.Text(text)]
    content[0].extra = {NAME: {"_": {"raw": [part], "run": len(content)}}}
    return content


def _collect_nodes(node: Object, content: list[rq.Text | rq.File], depth: int) -> None:
    if node.get("type") == _TEXT_NODE:
        text, last = lenient.get_text(node, "text"), content[-1] if content else None
        if type(last) is rq.Text:
            last.text += "\n" + text if node.get("lineBreakBefore") else text
        else:
            content.append(rq.Text(text))
    elif node.get("ctor") == _IMAGE:
        source = lenient.get_text(lenient.get_object(node, "props"), "src")
        _, url, data = split_file_url(source, "") if ":" in source[:64] else ("", "", source)
        if source:
            content.append(rq.File(sniff_media_type(data) or "image/*", url, data))
    elif depth < _TREE_DEPTH:
        for child in lenient.get_objects(node, "children"):
            _collect_nodes(child, content, depth + 1)
