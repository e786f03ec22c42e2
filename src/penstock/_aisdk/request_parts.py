"""Parts that model messages and UI messages share: reasoning, inputs of calls, files, custom parts. Both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._aisdk import (
    PENSTOCK,
    SDK,
    TABLES,
    our_fields,
    provider_options,
    sdk_extra,
    to_json_text,
)
from penstock._aisdk.provider_options import OPTION_KEYS, OPTIONS, add_extra, read_extra_fields, write_extra_fields
from penstock._aisdk.wire import read_file_data, single_reference_id, write_file_data
from penstock._lenient_json import decode_unless_too_deep, is_json
from penstock._request_writer import RequestDraft, drop_empty, split_extra
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from penstock._lenient_fields import Object

_REASONING_FORMS = ("full", "summary", "redacted")


def read_text(part: Object, known: frozenset[str], protocol: str, **marks: Any) -> rq.Text:
    """Reads text, and whether it is a refusal."""
    text = rq.Text(strict.require_text(part, "text"))
    text.refusal = bool(read_extra_fields(text, part, known, protocol, **marks).get("refusal"))
    return text


def read_reasoning(part: Object, known: frozenset[str], protocol: str, **marks: Any) -> rq.Reasoning:
    """Reads reasoning with its state."""
    reasoning = rq.Reasoning(strict.require_text(part, "text"))
    ours = read_extra_fields(reasoning, part, known, protocol, **marks)
    reasoning.item = lenient.get_text(ours, "item")
    form: Any = ours.get("form")
    if form in _REASONING_FORMS:
        reasoning.form = form
    elif "redacted" in (reasoning.extra or {}).get("anthropic", ()) and not reasoning.text:
        reasoning.form = "redacted"
    return reasoning


def reasoning_fields(part: rq.Reasoning) -> Object:
    """Returns the fields of reasoning that only our key has."""
    sealed = "redacted" in (part.extra or {}).get("anthropic", ()) and not part.text
    return drop_empty(item=part.item, form="" if part.form == ("redacted" if sealed else "full") else part.form)


# ── calls ─────────────────────────────────────────────────────────────────────────────────────────


def set_call_input(call: rq.Call, value: Any, *, is_free_text: bool, protocol: str) -> None:
    """Sets the input of a call: text for free-text tools, else any JSON value."""
    if not isinstance(value, str):
        call.json = to_json_text(value)
    elif is_free_text:
        call.json, call.form = value, "text"
    elif value.lstrip().startswith("{") and is_json(value):
        call.json = value
        _, marks = split_extra(call.extra, protocol)
        add_extra(call, protocol, _={**marks, "text": True})
    else:
        call.json = to_json_text(value)


def call_input_value(call: rq.Call, marks: Object) -> Any:
    """Returns the input of a call as a value."""
    return call.json if call.form == "text" or marks.get("text") else parse_json_or_text(call.json or "{}")


def read_file(part: Object, field: str, default: str, protocol: str = SDK) -> rq.File:
    """Reads a file with its data in this field. UI messages have data URLs where model messages have base64."""
    kind = strict.get_text(part, "type")
    file, ours = _read_file_fields(part, field, part.get(field), default, protocol, "" if kind == "file" else kind)
    file.id, file.detail = file.id or lenient.get_text(ours, "id"), lenient.get_text(ours, "detail")
    if kind == "reasoning-file":
        add_extra(file, SDK, reasoning=True)
    return file


def _read_file_fields(
    part: Object, field: str, value: Any, default: str, protocol: str, mark_kind: str
) -> tuple[rq.File, Object]:
    """Reads a file with this value in this field; also returns our fields."""
    media_key = "mimeType" if "mediaType" not in part and "mimeType" in part else "mediaType"
    label = strict.get_text(part, media_key)
    try:
        file_data = read_file_data(value, label, default)
    except BadRequest as error:
        raise error.at(field) from None
    name, id = strict.get_text(part, "filename"), single_reference_id(file_data.reference)  # noqa: A001
    file = rq.File(file_data.media, file_data.url, file_data.data, name=name, id=id)
    usual = "" if protocol == SDK else "data-url"
    marks: Object = {
        "mime": media_key == "mimeType",
        "form": "" if file_data.form == usual else file_data.form or ("bare" if file_data.data else ""),
        "kind": mark_kind,
        "media": "" if file_data.media == label else label or "-",
        "reference": file_data.reference if value is part.get(field) else None,
    }
    return file, read_extra_fields(file, part, {"type", field, media_key, "filename"}, protocol, **marks)


def write_file(file: rq.File, field: str, protocol: str = SDK) -> Object:
    """Writes a file; an image part stays an image part."""
    file_id = "" if split_extra(file.extra, protocol)[1].get("reference") else file.id
    rest_fields, _, marks = write_extra_fields(file, protocol, id=file_id, detail=file.detail)
    kind = marks.get("kind") or ("reasoning-file" if sdk_extra(file.extra).get("reasoning") else "file")
    fields: Object = {"type": kind}
    form = marks.get("form") or ("data-url" if field == "url" else "")
    fields["image" if kind == "image" else field] = write_file_data(file, form, marks.get("reference"))
    return {**rest_fields, **fields, **_label_fields(file, marks)}


def _label_fields(file: rq.File, marks: Object) -> Object:
    media = marks.get("media") or file.media
    label = {} if media == "-" else {"mimeType" if marks.get("mime") else "mediaType": media}
    return {**label, **drop_empty(filename=file.name)}


def read_custom(part: Object, protocol: str = SDK) -> rq.Opaque:
    """Reads a custom part: opaque state under our key, or the SDK's part."""
    word = OPTION_KEYS[protocol][0]
    owner, _, kind = strict.get_text(part, "kind").partition(".")
    ours = our_fields(part.get(word))
    if "opaque" in ours and kind:
        return rq.Opaque(owner, kind, ours["opaque"])
    return rq.Opaque(SDK, "custom", {OPTIONS if key == word else key: value for key, value in part.items()})


def write_custom(part: rq.Opaque, protocol: str = SDK) -> Object:
    """Writes opaque state as a custom part, which every reader since version 7 keeps."""
    word = OPTION_KEYS[protocol][0]
    if part.protocol == SDK and part.kind == "custom":
        return {word if key == OPTIONS else key: value for key, value in lenient.as_object(part.data).items()}
    return {"type": "custom", "kind": f"{part.protocol}.{part.kind}", word: {PENSTOCK: {"opaque": part.data}}}


DENIED_TEXT = "Tool call execution denied."  # the SDK's text if no reason is given
MEDIA_ONLY_VERSION = 5  # the version whose content lists have only text and `media`
CUSTOM, _CUSTOM_VERSION = "custom", 7  # content without a fixed shape, and the first version that has it
# content type → the field with its data, the field with its id in a provider's file store
FILES: dict[str, list[str]] = TABLES["file_fields"]


class ToolOutput(NamedTuple):
    """The output of a tool."""

    content: list[rq.ResultPart]
    failed: bool = False
    denied: bool = False
    marks: Object | None = None


def parse_json_or_text(json: str) -> Any:
    """Returns the value of a JSON text; the text if it is not JSON."""
    try:
        return decode_unless_too_deep(json) if json else ""
    except (msgspec.DecodeError, UnicodeEncodeError):
        return json


def value_as_content(value: Any) -> list[rq.ResultPart]:
    """Returns a value as content: text, or JSON."""
    return [rq.Text(value)] if isinstance(value, str) else [rq.Json(to_json_text(value))]


def read_output(output: Object) -> ToolOutput:
    """Reads an output (since version 5)."""
    kind = strict.require_text(output, "type")
    rest = strict.unknown_fields(output, {"type", "value"})
    marks: Object = {"beside": rest} if rest else {}
    if kind == "content":
        return ToolOutput(
            strict.read_objects(output, "value", read_content, need=True), marks={**marks, "listed": True}
        )
    if kind == "execution-denied":
        reason = strict.get_text(output, "reason")
        return ToolOutput([rq.Text(reason or DENIED_TEXT)], failed=True, denied=True, marks=marks)
    if kind not in ("text", "json", "error-text", "error-json"):
        raise BadRequest("text, json, error-text, error-json, content or execution-denied", kind, "type")
    if kind.endswith("text"):
        content: list[rq.ResultPart] = [rq.Text(strict.require_text(output, "value"))]
    else:
        content = [rq.Json(to_json_text(output.get("value")))]
    return ToolOutput(content, failed=kind.startswith("error-"), marks=marks)


def read_content(part: Object) -> rq.ResultPart:
    """Reads one part of an output's list."""
    kind = strict.require_text(part, "type")
    if kind == "text":
        text = rq.Text(strict.require_text(part, "text"))
        if not read_extra_fields(text, part, _TEXT).get("json"):
            return text
        return rq.Json(text.text, extra=text.extra, cache=text.cache)
    if kind in FILES:
        field, id_field = FILES[kind]
        stored_value = part.get(field or id_field)
        value = {"": stored_value} if id_field and isinstance(stored_value, str) else stored_value
        default = "image/*" if kind.startswith("image") else "application/octet-stream"
        return _read_file_fields(part, field or id_field, value, default, SDK, kind)[0]
    opaque = lenient.get_object(our_fields(part.get(OPTIONS)), "opaque")
    if kind == CUSTOM and lenient.get_text(opaque, "protocol"):
        return rq.Opaque(lenient.get_text(opaque, "protocol"), lenient.get_text(opaque, "kind"), opaque.get("data"))
    return rq.Opaque(SDK, kind, part)


_TEXT = frozenset({"type", "text"})


# ── writing outputs ──────────────────────────────────────────────────────────────────────────────────


def write_output(result: rq.Result, draft: RequestDraft, version: int) -> Object:
    """Writes the output of a result."""
    own, marks = split_extra(result.extra, SDK)
    rest: Object = marks.get("beside", {})
    value = single_value(result)
    if own.get("denied") and version > MEDIA_ONLY_VERSION:
        reason = value.text if type(value) is rq.Text and value.text != DENIED_TEXT else ""
        return {"type": "execution-denied", **({"reason": reason} if reason else {}), **rest}
    error = "error-" if result.failed else ""
    if type(value) is rq.Text:
        return {"type": f"{error}text", "value": value.text, **rest}
    if type(value) is rq.Json:
        return {"type": f"{error}json", "value": parse_json_or_text(value.json), **rest}
    if result.failed:
        draft.report_loss("failed-content")
    return {"type": "content", "value": write_content(result.content, draft, version), **rest}


def single_value(result: rq.Result) -> rq.Text | rq.Json | None:
    """Returns the only text or value of a result, if it has nothing else."""
    if len(result.content) != 1 or split_extra(result.extra, SDK)[1].get("listed"):
        return None
    value = result.content[0]
    if not isinstance(value, rq.Text | rq.Json) or value.cache:
        return None
    return None if any(fields.keys() - {"_"} for fields in (value.extra or {}).values()) else value


def write_content(content: list[rq.ResultPart], draft: RequestDraft, version: int) -> list[Object]:
    """Writes the parts of an output's list."""
    return [fields for part in content for fields in _write_content_part(part, draft, version)]


def _write_content_part(part: rq.ResultPart, draft: RequestDraft, version: int) -> list[Object]:
    if isinstance(part, rq.Opaque):
        if part.protocol == SDK:
            return [part.data]
        if version >= _CUSTOM_VERSION:
            state = {"protocol": part.protocol, "kind": part.kind, "data": part.data}
            return [{"type": CUSTOM, OPTIONS: {PENSTOCK: {"opaque": state}}}]
        draft.report_loss("opaque")
        return []
    provider_options.report_foreign_fields(draft, part.extra)
    if isinstance(part, rq.File):
        return [_write_content_file(part, draft, version)]
    if isinstance(part, rq.Source):
        draft.report_loss("source")
        return []
    text, is_json = (part.json, True) if isinstance(part, rq.Json) else (part.text, False)
    return [{"type": "text", "text": text, **write_extra_fields(part, json=is_json)[0]}]


def _write_content_file(file: rq.File, draft: RequestDraft, version: int) -> Object:
    rest_fields, _, marks = write_extra_fields(file)
    draft.report_image_detail(file)
    kind = _content_file_type(file, marks.get("kind", ""), version)
    if not kind:
        draft.report_loss("result-url")
        return {"type": "text", "text": f"[{file.name or file.media}]({file.url or file.id})"}
    field, id_field = FILES[kind]
    label, reference = _label_fields(file, marks), marks.get("reference")
    if not marks and file.media.endswith("*"):
        del label["mediaType"]
    value = (reference or file.id) if id_field else write_file_data(file, marks.get("form", ""), reference)
    return {**rest_fields, "type": kind, field or id_field: value, **label}


def _content_file_type(file: rq.File, original: str, version: int) -> str:
    """Returns the content type for a file; empty if there is none."""
    if original:
        return original
    if version <= MEDIA_ONLY_VERSION:
        return "media" if file.data else ""
    prefix = "image-" if file.media.startswith("image/") else "file-"
    if file.data:
        return prefix + "data"
    return prefix + "url" if file.url else prefix.replace("image-", "image-file-") + "id"


def split_sdk_runs(message: rq.Message) -> list[rq.Message]:
    """Turns calls that the SDK ran into client calls, and splits the message where their results come."""
    sdk_calls = {part.id for part in message.parts if type(part) is rq.Call and sdk_extra(part.extra).get("sdk")}
    if not sdk_calls:
        return [message]
    messages = [replace(message, parts=[])]
    for part in message.parts:
        is_answer = type(part) is rq.Result and part.call in sdk_calls
        role: rq.Role = "tool" if is_answer else "assistant"
        if messages[-1].role != role:
            messages.append(rq.Message(role, []))
        messages[-1].parts.append(
            _as_client_part(part) if is_answer or (type(part) is rq.Call and part.id in sdk_calls) else part
        )
    return messages


def _as_client_part(part: rq.AnyPart) -> rq.AnyPart:
    if not isinstance(part, rq.Call | rq.Result):
        return part
    sdk_fields = {key: value for key, value in sdk_extra(part.extra).items() if key != "sdk"}
    others = {protocol: fields for protocol, fields in (part.extra or {}).items() if protocol != SDK}
    return replace(part, by="client", extra={**others, **({SDK: sdk_fields} if sdk_fields else {})} or None)
