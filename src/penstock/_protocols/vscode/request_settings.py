"""`modelOptions` and `modelConfiguration`, the tools and the tool mode ↔ canonical settings, tools and choice.

Hosts and extensions have no fixed spelling for model options: the common ones are read, the first of each is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._markers import free_text_schema, parse_free_text_schema
from penstock._request_writer import RequestDraft, add_missing, drop_empty, split_extra
from penstock._strict_fields import build_extra
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._lenient_fields import Object

NAME = "vscode"
AUTO, REQUIRED = 1, 2
MODES: dict[Any, rq.ChoiceMode] = {AUTO: "auto", REQUIRED: "required", "auto": "auto", "required": "required"}
EFFORT = "reasoningEffort"  # the word of VS Code's own picker, in modelConfiguration
_FORMATS: dict[str, rq.FormatKind] = {"text": "text", "json_object": "json", "json_schema": "schema"}


def _table(source: Object, key: str) -> Object | None:
    return strict.get_object(source, key) or None


def _format(source: Object, key: str) -> rq.Format | None:
    return strict.read_object(source, key, _form) if source.get(key) is not None else None


def _form(given: Object) -> rq.Format:
    kind = strict.get_choice(given, "type", _FORMATS)
    about = strict.get_object(given, "json_schema")
    return rq.Format(
        kind,
        strict.get_text(about, "name"),
        _table(about, "schema"),
        strict.get_text(about, "description"),
        strict.get_flag(about, "strict"),
    )


# our field → how it is read, and its spellings
FIELDS: dict[str, tuple[Callable[[Object, str], Any], tuple[str, ...]]] = {
    "max_output": (
        strict.get_integer,
        ("max_tokens", "maxTokens", "max_output_tokens", "maxOutputTokens", "max_completion_tokens"),
    ),
    "temperature": (strict.get_number, ("temperature",)),
    "top_p": (strict.get_number, ("top_p", "topP")),
    "top_k": (strict.get_integer, ("top_k", "topK")),
    "stop": (strict.get_strings, ("stop", "stop_sequences", "stopSequences")),
    "seed": (strict.get_integer, ("seed",)),
    "frequency_penalty": (strict.get_number, ("frequency_penalty", "frequencyPenalty")),
    "presence_penalty": (strict.get_number, ("presence_penalty", "presencePenalty")),
    "choices": (strict.get_integer, ("n",)),
    "logprobs": (strict.get_flag, ("logprobs",)),
    "top_logprobs": (strict.get_integer, ("top_logprobs",)),
    "format": (_format, ("response_format",)),
    "parallel_calls": (strict.get_flag, ("parallel_tool_calls", "parallelToolCalls")),
    "effort": (strict.get_text, ("reasoning_effort", EFFORT)),
    "budget": (strict.get_integer, ("thinking_budget", "thinkingBudget")),
    "thoughts": (strict.get_flag, ("include_thoughts", "includeThoughts")),
    "verbosity": (strict.get_text, ("verbosity",)),
    "tier": (strict.get_text, ("service_tier",)),
    "user": (strict.get_text, ("user",)),
    "metadata": (_table, ("metadata",)),
    "cache_key": (strict.get_text, ("prompt_cache_key",)),
    "store": (strict.get_flag, ("store",)),
}
_WORDS = {word: field for field, (_, words) in FIELDS.items() for word in words}


def read_settings(body: Object) -> tuple[rq.Settings, Object, Object]:
    """The settings; options and configuration without a word; how the others were spelled."""
    options, chosen = (strict.get_object(body, "modelOptions"), strict.get_object(body, "modelConfiguration"))
    asked, words = rq.Settings(), dict[str, str]()
    for word, value in options.items():
        field = _WORDS.get(word)
        if field is None or value is None or field in words:
            continue
        words[field] = word
        setattr(asked, field, _within("modelOptions", FIELDS[field][0], options, word))
    picked = chosen.get(EFFORT) is not None
    if picked:
        asked.effort = _within("modelConfiguration", strict.get_text, chosen, EFFORT)
    left = {key: value for key, value in options.items() if key not in words.values()}
    rest = strict.unknown_fields(chosen, {EFFORT}) if picked else chosen
    unusual = {field: word for field, word in words.items() if word != FIELDS[field][1][0]}
    marks = drop_empty(
        words=unusual, one=isinstance(options.get(words.get("stop", "")), str), effort=words.get("effort", "")
    )
    marks["picked"] = picked
    empty = [key for key in ("modelOptions", "modelConfiguration") if key in body and not body[key]]
    return asked, drop_empty(modelOptions=left, modelConfiguration=rest), {**marks, "empty": empty}


def _within(key: str, read: Callable[[Object, str], Any], source: Object, word: str) -> Any:
    try:
        return read(source, word)
    except BadRequest as error:
        raise error.at(key) from None


def write_settings(asked: rq.Settings, own: Object, marks: Object) -> Object:
    """The fields of options and configuration."""
    words: Mapping[str, str] = marks.get("words", {})
    options: Object = {}
    for field, (_, spellings) in FIELDS.items():
        value = getattr(asked, field)
        if value in (None, "", []) or (field == "effort" and marks.get("picked") and not marks.get("effort")):
            continue
        options[words.get(field) or spellings[0]] = _write_format(value) if field == "format" else value
    if marks.get("one") and len(asked.stop) == 1:
        options[words.get("stop") or "stop"] = asked.stop[0]
    chosen = {EFFORT: asked.effort} if marks.get("picked") and asked.effort else {}
    made = {
        "modelOptions": {**own.get("modelOptions", {}), **options},
        "modelConfiguration": {**own.get("modelConfiguration", {}), **chosen},
    }
    return {key: value for key, value in made.items() if value or key in marks.get("empty", ())}


def _write_format(form: rq.Format) -> Object:
    if form.kind != "schema":
        return {"type": "json_object" if form.kind == "json" else "text"}
    strictness = {} if form.strict is None else {"strict": form.strict}
    about = drop_empty(name=form.name, schema=form.schema, description=form.description)
    return {"type": "json_schema", "json_schema": {**about, **strictness}}


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────

_TOOL = frozenset({"name", "description", "inputSchema", "strict"})


def read_tool(tool: Object) -> rq.Tool:
    """A tool of the host's: always a function, unless its schema shows that it stands for one of free text."""
    schema = strict.get_object(tool, "inputSchema")
    name, description = strict.require_text(tool, "name"), strict.get_text(tool, "description")
    extra = build_extra(NAME, strict.unknown_fields(tool, _TOOL), also=strict.empty_fields(tool, _TOOL))
    grammar = parse_free_text_schema(schema)
    if grammar is not None:
        return rq.Tool(name, description, grammar or None, "custom", extra=extra)
    given = schema if isinstance(tool.get("inputSchema"), dict) else None
    return rq.Tool(name, description, given, strict=strict.get_flag(tool, "strict"), extra=extra)


def write_tool(tool: rq.Tool, draft: RequestDraft) -> list[Object]:
    """A tool, if the host can run it."""
    own, marks = draft.split_extra(tool.extra)
    if tool.kind in ("provider", "unknown"):
        draft.report_loss("tool")
        return []
    if tool.namespace:
        draft.report_loss("namespace")
    if tool.cache:
        draft.report_loss("tool-cache")
    made = {**own, "name": tool.name, **drop_empty(description=tool.description)}
    if tool.kind == "custom":
        draft.report_carried("free-text")
        made["inputSchema"] = free_text_schema(tool)
    elif tool.schema is not None:
        made["inputSchema"] = tool.schema
    made |= {} if tool.strict is None else {"strict": tool.strict}
    add_missing(made, marks.get("also"))
    return [made]


def read_choice(body: Object) -> rq.ToolChoice | None:
    """The tool mode: 1 is automatic, 2 required."""
    mode = body.get("toolMode")
    if mode is None:
        return None
    if isinstance(mode, bool) or not isinstance(mode, int | str) or mode not in MODES:
        raise BadRequest("1 (automatic) or 2 (required)", mode, "toolMode")
    return rq.ToolChoice(MODES[mode], extra=build_extra(NAME, {}, word=mode if isinstance(mode, str) else ""))


def write_choice(choice: rq.ToolChoice | None, draft: RequestDraft) -> Object:
    """The field of the tool mode."""
    if choice is None:
        return {}
    if choice.names or choice.mode in ("none", "tool"):
        draft.report_loss("choice")
    mode = REQUIRED if choice.mode in ("required", "tool") else AUTO
    return {"toolMode": split_extra(choice.extra, NAME)[1].get("word") or mode}
