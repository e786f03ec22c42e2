"""Reasoning in Chat Completions requests → canonical: plain fields, detail lists and thinking parts of the dialects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from penstock import request as rq
from penstock import strict_fields as strict
from penstock.errors import BadRequest
from penstock.lenient_fields import as_object
from penstock.media import of_url, sniff
from penstock.protocols.openai_chat.wire import NAME, state_of
from penstock.strict_fields import build_extra, empty_fields, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.lenient_fields import Object

_FIELDS = ("reasoning_content", "reasoning")


def read_thoughts(message: Object) -> list[rq.Reasoning]:
    """What an assistant's message says that it thought, in whichever field."""
    field = next((name for name in _FIELDS if message.get(name)), "")
    if not field and message.get("reasoning_details") is None:
        return []
    said = strict.get_text(message, field) if field else ""
    repeated = {name: message[name] for name in _FIELDS if name != field and message.get(name)}
    made = _detailed(message)
    if not made:
        return [rq.Reasoning(said, extra=build_extra(NAME, repeated, field=field if field == "reasoning" else ""))]
    if said and len(made) == 1 and not made[0].text and made[0].form == "full":
        made[0].text = said  # a detail that only signs what the field says
    # Fields beside the details mostly repeat them; what they say is only kept if it cannot be made from the details.
    marks = {"field": field, "said": said if said != "".join(part.text for part in made) else ""}
    own = (made[0].extra or {})[NAME]
    made[0].extra = {**(made[0].extra or {}), NAME: {**repeated, **own, "_": marks}}
    return made


def _detailed(message: Object) -> list[rq.Reasoning]:
    """One part for each run of details that continue each other."""
    made: list[rq.Reasoning] = []
    last: Any = None
    for detail in strict.read_objects(message, "reasoning_details", dict):
        place = detail.get("type"), detail.get("index")
        if made and place == last and "text" in detail:
            _grow(made[-1], detail)
        else:
            made.append(_detail(detail))
        last = place
    return made


def told(pieces: Any) -> str:
    """The words of a list of details, or of texts."""
    rows = [piece.get("text") or piece.get("summary") for piece in pieces]
    return "".join(words for words in rows if isinstance(words, str))


def _detail(detail: Object) -> rq.Reasoning:
    words = detail.get("text") or detail.get("summary")
    part = rq.Reasoning(words if isinstance(words, str) else "", extra={NAME: {"reasoning_details": [detail]}})
    if detail.get("type") == "reasoning.summary":
        part.form = "summary"
    elif detail.get("type") == "reasoning.encrypted":
        part.form = "redacted"
        part.item = detail["id"] if isinstance(detail.get("id"), str) else ""
    _state(part, detail)
    return part


def _grow(part: rq.Reasoning, detail: Object) -> None:
    words = detail["text"]
    part.text += words if isinstance(words, str) else ""
    part.extra = part.extra or {}
    part.extra[NAME]["reasoning_details"].append(detail)
    _state(part, detail)


def _state(part: rq.Reasoning, detail: Object) -> None:
    """State that belongs to another protocol, for when the request goes on to that one."""
    part.extra = {**(part.extra or {}), **state_of(detail)}


def read_thinking(part: Object) -> rq.AnyPart:
    """A part of a message's content that was thought, not said: a string, or a list of texts."""
    given = part.get("thinking")
    if isinstance(given, str):
        return rq.Reasoning(given, extra=build_extra(NAME, unknown_fields(part, {"type", "thinking"}), part="text"))
    texts = strict.read_objects(part, "thinking", dict)
    plain = all(one.keys() == {"type", "text"} and one["type"] == "text" for one in texts)
    words = "".join(one["text"] for one in texts if isinstance(one.get("text"), str))
    marks = {"part": "list", "given": None if plain and len(texts) == 1 else {"as": given}}
    return rq.Reasoning(words, extra=build_extra(NAME, unknown_fields(part, {"type", "thinking"}), **marks))


SOUNDS = {"mp3": "audio/mpeg", "wav": "audio/wav"}
DOCUMENTS = {
    "pdf": "application/pdf", "txt": "text/plain", "md": "text/markdown", "csv": "text/csv", "html": "text/html",
    "json": "application/json", "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif",
    "webp": "image/webp", "mp3": "audio/mpeg", "wav": "audio/wav", "mp4": "video/mp4",
}  # fmt: skip
P = TypeVar("P", rq.Text, rq.File)
_HINTS = frozenset({"cache_control", "prompt_cache_breakpoint"})


def read_content(content: Any) -> list[rq.AnyPart]:
    """A message's content: a string, a list of parts, or nothing."""
    if isinstance(content, str):
        return [rq.Text(content)] if content else []
    if content is None:
        return []
    if not isinstance(content, list):
        raise BadRequest("a string or a list of parts", content, "content")
    return strict.read_each(content, _part, "content")  # pyright: ignore[reportUnknownArgumentType]


def cached(source: Object) -> str | None:
    """How long the prompt up to here should be kept, if a hint says that it should."""
    for key in ("cache_control", "prompt_cache_breakpoint"):
        hint = source.get(key)
        if hint is not None:
            return strict.get_text(strict.as_object(hint, key), "ttl") or "5m"
    return None


def _part(part: Object) -> rq.AnyPart:
    kind = part.get("type")
    if kind == "text" and len(part) == 2:  # noqa: PLR2004 — the type and the words
        return rq.Text(strict.require_text(part, "text"))
    return _PARTS.get(kind, _other)(part) if isinstance(kind, str) else _other(part)


def _about(made: P, part: Object, known: str, **marks: Any) -> P:
    """What else a part says of itself, and how."""
    hint = {key: part[key] for key in _HINTS if part.get(key) is not None}
    if hint:
        made.cache = cached(part) or ""
    also = empty_fields(part, _HINTS | {known})
    beside = unknown_fields(part, _HINTS | {"type", known})
    inside = (made.extra or {}).get(NAME, {})
    made.extra = build_extra(NAME, {**inside, **({"beside": beside} if beside else {})}, hint=hint, also=also, **marks)
    return made


def _text(part: Object) -> rq.AnyPart:
    return _about(rq.Text(strict.require_text(part, "text")), part, "text")


def _refusal(part: Object) -> rq.AnyPart:
    return _about(rq.Text(strict.require_text(part, "refusal"), refusal=True), part, "refusal")


def _thinking(part: Object) -> rq.AnyPart:
    return read_thinking(part)


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def _addressed(source: Object, key: str, media: str) -> tuple[rq.File, str]:
    """A file by its address, and that address if it cannot be made again from what it holds."""
    given = strict.require_text(source, key)
    kind, url, data = of_url(given, media)
    odd = bool(data) and not given.startswith(f"data:{kind};base64,")
    return rq.File(kind, url, data), given if odd or (given.startswith("data:") and not data) else ""


def _pictured(part: Object, key: str, media: str, kind: str) -> rq.AnyPart:
    """An address in an object, or bare."""
    bare = isinstance(part.get(key), str)
    if bare:
        made, odd = _addressed(part, key, media)
    else:
        made, odd = strict.read_object(part, key, lambda inner: _addressed(inner, "url", media))
        known = {"url"}
        if key == "image_url" and isinstance(part[key].get("detail"), str):
            made.detail = part[key]["detail"]
            known = {"url", "detail"}
        made.extra = build_extra(NAME, unknown_fields(part[key], known))
    return _about(made, part, key, bare=bare, url=odd, kind=kind)


def _image(part: Object) -> rq.AnyPart:
    return _pictured(part, "image_url", "image/*", "")


def _video(part: Object) -> rq.AnyPart:
    return _pictured(part, "video_url", "video/mp4", "video_url")


def _audio_url(part: Object) -> rq.AnyPart:
    return _pictured(part, "audio_url", "audio/*", "audio_url")


def _document(part: Object) -> rq.AnyPart:
    made, odd = _addressed(part, "document_url", "application/pdf")
    made.name = strict.get_text(part, "document_name")
    return _about(made, unknown_fields(part, {"document_name"}), "document_url", url=odd, kind="document_url")


def _audio(part: Object) -> rq.AnyPart:
    given = part.get("input_audio")
    if isinstance(given, str):
        return _about(_raw(given, "audio/mpeg"), part, "input_audio", bare=True)
    made = strict.read_object(part, "input_audio", _sound)
    return _about(made, part, "input_audio", kind="input_audio", format=part["input_audio"].get("format"))


def _sound(audio: Object) -> rq.File:
    form = strict.get_text(audio, "format") or "wav"
    extra = build_extra(NAME, unknown_fields(audio, {"format", "data"}))
    return rq.File(SOUNDS.get(form, f"audio/{form}"), data=strict.require_text(audio, "data"), extra=extra)


def _raw(given: str, media: str) -> rq.File:
    """Base64 without a head, or an address."""
    if given.startswith(("http://", "https://")):
        return rq.File(media, given)
    return rq.File(sniff(given) or media, data=given)


def _file(part: Object) -> rq.AnyPart:
    made, odd = strict.read_object(part, "file", _uploaded)
    bare = bool(made.data) and not part["file"]["file_data"].startswith("data:")
    return _about(made, part, "file", url=odd, kind="file", bare=bare)


def _uploaded(file: Object) -> tuple[rq.File, str]:
    name = strict.get_text(file, "filename")
    media = DOCUMENTS.get(name.rpartition(".")[2].lower(), "application/pdf")
    given, odd = strict.get_text(file, "file_data"), ""
    made = rq.File(media)
    if given.startswith("data:"):
        made, odd = _addressed(file, "file_data", media)
    elif given:
        made = _raw(given, media)
    made.name, made.id = name, strict.get_text(file, "file_id")
    if not given and not made.id:
        raise BadRequest("a string", None, "file_data")
    made.extra = build_extra(NAME, unknown_fields(file, {"file_data", "filename", "file_id"}))
    return made, odd


def _other(part: Object) -> rq.AnyPart:
    """A kind of part without a word: kept whole for this protocol."""
    return rq.Opaque(NAME, strict.get_text(part, "type"), part)


_PARTS: dict[str, Callable[[Object], rq.AnyPart]] = {
    "text": _text, "refusal": _refusal, "image_url": _image, "input_audio": _audio, "file": _file,
    "video_url": _video, "audio_url": _audio_url, "document_url": _document, "thinking": _thinking,
}  # fmt: skip


MODES: dict[str, rq.ChoiceMode] = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
_FUNCTION = frozenset({"name", "description", "parameters", "strict"})


def read_tools(body: Object) -> list[rq.Tool]:
    """Tools, and what was called functions before there were others."""
    return [
        *strict.read_objects(body, "tools", read_tool),
        *strict.read_objects(body, "functions", _legacy),
    ]


def read_tool(tool: Object) -> rq.Tool:
    """A tool of any type; one of a type without a word is kept whole."""
    kind = tool.get("type", "function")
    if kind == "function":
        return _function(tool)
    if kind == "custom":
        return strict.read_object(tool, "custom", lambda said: _custom(tool, said))
    return rq.Tool(strict.get_text(tool, "name") or str(kind), kind="unknown", extra={NAME: {"tool": tool}})


def _function(tool: Object) -> rq.Tool:
    if "function" not in tool:
        return _flat(tool)
    said = tool["function"]
    try:
        made = _described(strict.as_object(said), "parameters")
        usual = len(said) == 3 + (made.strict is not None) and made.schema is not None and made.description
        if usual and len(tool) == 2 and "type" in tool:  # noqa: PLR2004 — nothing else is said
            return made
        function, also = unknown_fields(said, _FUNCTION), empty_fields(said, _FUNCTION)
    except BadRequest as error:
        raise error.at("function") from None
    made.cache = cached(tool) or ""
    beside = unknown_fields(tool, {"type", "function", "cache_control"})
    hint = {"cache_control": tool["cache_control"]} if made.cache else None
    fields = {key: value for key, value in (("function", function), ("tool", beside)) if value}
    made.extra = build_extra(NAME, fields, also=also, hint=hint, untyped="type" not in tool)
    return made


def _described(said: Object, schema: str) -> rq.Tool:
    given: Any = said.get(schema)
    if not isinstance(given, dict | None):
        raise BadRequest("an object", given, schema)
    is_strict = None if said.get("strict") is None else strict.get_flag(said, "strict")
    name, description = strict.require_text(said, "name"), strict.get_text(said, "description")
    return rq.Tool(name, description, given, "function", is_strict)  # pyright: ignore[reportUnknownArgumentType]


def _flat(tool: Object) -> rq.Tool:
    """A function said as other protocols say it: without the object around it, its schema under another name."""
    made = _described(tool, "input_schema" if "parameters" not in tool and "input_schema" in tool else "parameters")
    made.cache = cached(tool) or ""
    function = unknown_fields(tool, _FUNCTION | {"type", "input_schema", "cache_control"})
    made.extra = build_extra(NAME, {"function": function} if function else {})
    return made


def _custom(tool: Object, said: Object) -> rq.Tool:
    form = strict.get_object(said, "format")
    schema = read_grammar(form)
    fields = {
        "tool": unknown_fields(tool, {"type", "custom"}),
        "custom": unknown_fields(said, {"name", "description", "format"}),
    }
    made = rq.Tool(strict.require_text(said, "name"), strict.get_text(said, "description"), schema, "custom")
    made.extra = build_extra(
        NAME,
        {key: value for key, value in fields.items() if value},
        also=empty_fields(said, {"name", "description"}),
        format=form,
    )
    return made


def read_grammar(form: Object) -> Object | None:
    """The grammar of free text, if there is one."""
    if form.get("type") != "grammar":
        return None
    grammar = strict.get_object(form, "grammar") or form
    return {"type": "grammar", "syntax": grammar.get("syntax"), "definition": grammar.get("definition")}


def _legacy(function: Object) -> rq.Tool:
    made = _described(function, "parameters")
    strange = unknown_fields(function, _FUNCTION)
    made.extra = build_extra(
        NAME, {"function": strange} if strange else {}, also=empty_fields(function, _FUNCTION), legacy=True
    )
    return made


# ── tool choice ───────────────────────────────────────────────────────────────────────────────────


def read_choice(body: Object) -> rq.ToolChoice | None:
    """Which tool may or must be called, in all the ways it can be said."""
    key = "tool_choice" if body.get("tool_choice") is not None else "function_call"
    choice: Any = body.get(key)
    if choice is None:
        return None
    if isinstance(choice, str):
        made = rq.ToolChoice(strict.get_choice(body, key, MODES))
    else:
        made = strict.read_object(body, key, _chosen)
    # What is said as another protocol says it is mended; these are this one's own.
    kind = as_object(choice).get("type")
    odd = key == "function_call" or choice == "any" or (kind in ("custom", "allowed_tools") and kind in choice)
    made.extra = {NAME: {"_": {"choice": {key: choice}}}} if odd else None
    return made


def _chosen(choice: Object) -> rq.ToolChoice:
    kind = choice.get("type", "function")
    if kind == "allowed_tools":
        return strict.read_object(choice, "allowed_tools", _allowed)
    if isinstance(kind, str) and kind in MODES:
        return rq.ToolChoice(MODES[kind])
    if isinstance(choice.get("name"), str):
        return rq.ToolChoice("tool", [choice["name"]])
    if kind not in ("function", "custom"):
        raise BadRequest("function, custom or allowed_tools", kind, "type")
    return rq.ToolChoice("tool", [strict.read_object(choice, kind, lambda said: strict.require_text(said, "name"))])


def _allowed(allowed: Object) -> rq.ToolChoice:
    names = strict.read_objects(allowed, "tools", _allowed_name)
    return rq.ToolChoice(strict.get_choice(allowed, "mode", MODES), [name for name in names if name])


def _allowed_name(tool: Object) -> str:
    kind = tool.get("type")
    inner = strict.get_object(tool, kind) if isinstance(kind, str) else {}
    return strict.get_text(inner, "name") or strict.get_text(tool, "name")
