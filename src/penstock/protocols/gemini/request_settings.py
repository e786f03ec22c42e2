"""The `generationConfig` of a request → canonical settings. `write_settings.py` is the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from penstock import request as rq
from penstock import strict_fields
from penstock.lenient_fields import as_object, get_list, get_object, get_text
from penstock.protocols.gemini.wire import camel_keys
from penstock.request_writer import add_missing, budget_for_effort
from penstock.strict_fields import empty_fields, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.lenient_fields import Object
    from penstock.protocols.gemini.request_write import PartWriter

Report: TypeAlias = "Callable[[], None]"
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_NAMED = ("properties", "$defs", "definitions")  # keywords that hold schemas by name
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties")
_DEEPEST = 64
_LARGEST = 5000  # schemas in one, once references are put in

# ── Gemini's → JSON Schema ────────────────────────────────────────────────────────────────────────


def to_json(schema: Object, depth: int = 0) -> Object:
    """A schema as JSON Schema; itself if it is that already."""
    if depth > _DEEPEST:
        return schema
    made = _renamed(camel_keys(schema))
    for key in (*_NAMED, *_LISTED, *_SINGLE):
        if key in made:
            below = _below(key, made[key], depth + 1)
            if below is not made[key]:
                made = {**made, key: below}
    return _typed(_ordered(made))


def _renamed(schema: Object) -> Object:
    if "ref" in schema or "defs" in schema:
        return {{"ref": "$ref", "defs": "$defs"}.get(key, key): value for key, value in schema.items()}
    return schema


def _below(key: str, value: Any, depth: int) -> Any:
    if key in _LISTED:
        made: Any = [
            to_json(as_object(one), depth) if isinstance(one, dict) else one for one in get_list({"": value}, "")
        ]
        return made if made != value else value
    if not isinstance(value, dict):
        return value
    if key in _SINGLE:
        return to_json(value, depth)  # pyright: ignore[reportUnknownArgumentType]
    made = {name: to_json(one, depth) if isinstance(one, dict) else one for name, one in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return made if made != value else value  # pyright: ignore[reportUnknownVariableType]


def _ordered(schema: Object) -> Object:
    """Properties in the order that was wished for."""
    if "propertyOrdering" not in schema:
        return schema
    properties, order = get_object(schema, "properties"), get_list(schema, "propertyOrdering")
    first = {name: properties[name] for name in order if isinstance(name, str) and name in properties}
    made = {key: value for key, value in schema.items() if key != "propertyOrdering"}
    return {**made, "properties": {**first, **properties}} if first else made


def _typed(schema: Object) -> Object:
    """Types in small letters, null among them; counts as numbers."""
    change: Object = {}
    kind: Any = schema.get("type")
    if isinstance(kind, str) and kind != kind.lower():
        change["type"] = kind = kind.lower()
    for key in _COUNTS:
        if isinstance(schema.get(key), str) and schema[key].isdecimal():
            change[key] = int(schema[key])
    if not change and not isinstance(schema.get("nullable"), bool) and kind != "type_unspecified":
        return schema
    made = {key: value for key, value in {**schema, **change}.items() if key != "nullable"}
    if kind == "type_unspecified":
        del made["type"]
    return _nullable(made) if schema.get("nullable") else made


def _nullable(schema: Object) -> Object:
    if isinstance(schema.get("type"), str):
        more = {"enum": [*schema["enum"], None]} if isinstance(schema.get("enum"), list) else {}
        return {**schema, "type": [schema["type"], "null"], **more}
    return {**schema, "anyOf": [*get_list(schema, "anyOf"), {"type": "null"}]} if "anyOf" in schema else schema


# ── JSON Schema → the subset ──────────────────────────────────────────────────────────────────────

_KEPT = frozenset({
    "type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties",
    "required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf", "default",
    "propertyOrdering", "minimum", "maximum",
})  # fmt: skip
_SILENT = frozenset({"$schema", "$id", "$comment", "$defs", "definitions"})  # nothing is lost with these
_FORMATS = frozenset({"float", "double", "int32", "int64", "enum", "date-time"})


def to_subset(schema: Object, report: Report) -> Object:
    """A JSON Schema in the words of the subset; `report` is called for whatever had none."""
    defs = {f"#/{key}/{name}": one for key in ("$defs", "definitions") for name, one in get_object(schema, key).items()}
    return _Subset(defs, report).of(schema, ())


class _Subset:
    """One schema being rewritten. State: how many schemas it may still hold."""

    def __init__(self, defs: Object, report: Report) -> None:
        self._defs = defs
        self._report = report
        self._left = _LARGEST

    def of(self, schema: Any, path: tuple[str, ...]) -> Object:
        """`path` names the references and keywords that led here."""
        self._left -= 1
        if self._left < 0 or len(path) > _DEEPEST:
            self._report()
            return {"type": "object"}
        made = self._plain(as_object(schema), path)
        if made.keys() - _KEPT - _SILENT:
            self._report()
        kept = {key: value for key, value in made.items() if key in _KEPT}
        refs = (*path, get_text(as_object(schema), "$ref"))
        for key in ("items", "properties", "anyOf"):
            if key in kept:
                kept[key] = self._inner(key, kept[key], refs)
        return kept

    def _inner(self, key: str, value: Any, path: tuple[str, ...]) -> Any:
        if key == "properties":
            return {name: self.of(one, path) for name, one in as_object(value).items()}
        return self.of(value, path) if key == "items" else [self.of(one, path) for one in get_list({"": value}, "")]

    def _plain(self, schema: Object, path: tuple[str, ...]) -> Object:
        """References put in, alternatives and constants as the subset says them."""
        if "$ref" in schema:
            ref = get_text(schema, "$ref")
            if ref in path or ref not in self._defs:
                self._report()
                return {"type": "object"}
            more = {key: value for key, value in schema.items() if key != "$ref"}
            return self._plain({**as_object(self._defs[ref]), **more}, (*path, ref))
        made = dict(schema)
        for one in get_list({"": made.pop("allOf", None)}, ""):
            made = {**self._plain(as_object(one), path), **made}
        if "oneOf" in made:
            made["anyOf"] = [*get_list(made, "anyOf"), *get_list({"": made.pop("oneOf")}, "")]
        if "const" in made:
            made["enum"] = [made.pop("const")]
        self._words(made)
        return self._kinds(made)

    def _words(self, made: Object) -> None:
        """Only strings can be enumerated, and few formats are known."""
        words = made.get("enum")
        if isinstance(words, list) and not all(isinstance(word, str) for word in words):  # pyright: ignore[reportUnknownVariableType]
            self._report()
            del made["enum"]
        if "format" in made and made["format"] not in _FORMATS:
            self._report()
            del made["format"]

    def _kinds(self, made: Object) -> Object:
        """A list of types is one that may be null, or a choice."""
        kinds = made.get("type")
        if not isinstance(kinds, list):
            return made
        real = [kind for kind in kinds if kind != "null"]  # pyright: ignore[reportUnknownVariableType]
        if len(real) < len(kinds):  # pyright: ignore[reportUnknownArgumentType]
            made["nullable"] = True
        if len(real) == 1:  # pyright: ignore[reportUnknownArgumentType]
            made["type"] = real[0]
        else:
            del made["type"]
            made["anyOf"] = [*get_list(made, "anyOf"), *({"type": kind} for kind in real)]  # pyright: ignore[reportUnknownVariableType]
        return made


_Thought: TypeAlias = "tuple[int | None, str, bool | None, Object]"  # budget, level, whether to show it, all of it
LEVELS = frozenset({"minimal", "low", "medium", "high"})
_FORMAT = frozenset({"responseMimeType", "responseSchema", "responseJsonSchema"})
_CONFIG = _FORMAT | {
    "maxOutputTokens", "temperature", "topP", "topK", "stopSequences", "seed", "frequencyPenalty", "presencePenalty",
    "candidateCount", "responseLogprobs", "logprobs", "thinkingConfig",
}  # fmt: skip


def read_settings(given: Object) -> tuple[rq.Settings, Object, Object]:
    """The settings, what has no word among them, and how some were spelled."""
    config = camel_keys(given)
    thought: _Thought = (None, "", None, {})
    if config.get("thinkingConfig") is not None:
        thought = strict_fields.read_object(config, "thinkingConfig", _thought)
    budget, level, thoughts, thinking = thought
    form, marks = _read_format(config)
    effort = level.lower() if level.lower() in LEVELS else ""
    said = {"includeThoughts": True, "thinkingBudget": _is_budget(budget), "thinkingLevel": bool(effort)}
    odd = unknown_fields(thinking, {key for key, known in said.items() if known})
    more = unknown_fields(config, _CONFIG if form is not None or not _asks(config) else _CONFIG - _FORMAT)
    if odd:
        more["thinkingConfig"] = odd
    marks |= {"level": level if effort and level != effort.upper() else "", "config": empty_fields(config, _CONFIG)}
    settings = rq.Settings(
        max_output=strict_fields.get_integer(config, "maxOutputTokens"),
        temperature=strict_fields.get_number(config, "temperature"),
        top_p=strict_fields.get_number(config, "topP"),
        top_k=strict_fields.get_integer(config, "topK"),
        stop=strict_fields.get_strings(config, "stopSequences"),
        seed=strict_fields.get_integer(config, "seed"),
        frequency_penalty=strict_fields.get_number(config, "frequencyPenalty"),
        presence_penalty=strict_fields.get_number(config, "presencePenalty"),
        choices=strict_fields.get_integer(config, "candidateCount"),
        logprobs=strict_fields.get_flag(config, "responseLogprobs"),
        top_logprobs=strict_fields.get_integer(config, "logprobs"),
        format=form,
        effort=effort,
        budget=budget if _is_budget(budget) else None,
        thoughts=thoughts,
    )
    return settings, more, marks


def _thought(given: Object) -> _Thought:
    said = camel_keys(given)
    budget, level = strict_fields.get_integer(said, "thinkingBudget"), strict_fields.get_text(said, "thinkingLevel")
    return budget, level, strict_fields.get_flag(said, "includeThoughts"), said


def _is_budget(budget: int | None) -> bool:
    """-1 leaves it to the model."""
    return budget is not None and budget >= 0


def _asks(config: Object) -> bool:
    return any(config.get(key) for key in _FORMAT)


def _read_format(config: Object) -> tuple[rq.Format | None, Object]:
    """The form of the answer, and how its schema was spelled. Forms without a word stay as they are."""
    mime = strict_fields.get_text(config, "responseMimeType")
    subset = config.get("responseJsonSchema") is None
    schema = config.get("responseSchema" if subset else "responseJsonSchema")
    if mime == "text/plain" and schema is None:
        return rq.Format(), {}
    if mime not in ("", "application/json") or (not mime and schema is None):
        return None, {}
    if schema is None:
        return rq.Format("json"), {}
    given = strict_fields.get_object(config, "responseSchema" if subset else "responseJsonSchema")
    made = to_json(given) if subset else given
    marks: Object = {"schema": (True if made is given else given) if subset else None, "untyped": not mime}
    return rq.Format("schema", schema=made), marks


_UNSAID = ("parallel_calls", "verbosity", "tier", "user", "metadata", "cache_key", "store")
_NEAREST = {"xhigh": "high", "max": "high"}


def write_settings(asked: rq.Settings, own: Object, marks: Object, draft: PartWriter) -> Object:
    """The settings, without what has no word here."""
    for name in _UNSAID:
        if getattr(asked, name) not in (None, ""):
            draft.report_loss("setting", name)
    thinking = {**own.get("generationConfig", {}).get("thinkingConfig", {}), **_write_thinking(asked, marks, draft)}
    said: Object = {
        "maxOutputTokens": asked.max_output, "temperature": asked.temperature, "topP": asked.top_p,
        "topK": asked.top_k, "stopSequences": asked.stop or None, "seed": asked.seed,
        "frequencyPenalty": asked.frequency_penalty, "presencePenalty": asked.presence_penalty,
        "candidateCount": asked.choices, "responseLogprobs": asked.logprobs, "logprobs": asked.top_logprobs,
        "thinkingConfig": thinking or None,
    }  # fmt: skip
    made = {key: value for key, value in said.items() if value is not None}
    if asked.format is not None:
        made.update(_write_format(asked.format, marks, draft))
    add_missing(made, marks.get("config"))
    return made


def _write_thinking(asked: rq.Settings, marks: Object, draft: PartWriter) -> Object:
    made: Object = {} if asked.thoughts is None else {"includeThoughts": asked.thoughts}
    level = _NEAREST.get(asked.effort, asked.effort)
    if level in LEVELS:
        word = marks.get("level", "")
        made["thinkingLevel"] = word if word.lower() == level else level.upper()
        if level != asked.effort:
            draft.report_loss("effort")
        if asked.budget is not None:
            draft.report_loss("budget")
    elif asked.budget is not None or asked.effort:
        if asked.effort:
            draft.report_loss("effort")
        made["thinkingBudget"] = budget_for_effort(asked.effort) if asked.budget is None else asked.budget
    return made


def _write_format(form: rq.Format, marks: Object, draft: PartWriter) -> Object:
    if form.kind == "text":
        return {"responseMimeType": "text/plain"}
    if form.name or form.description or form.strict is not None:
        draft.report_loss("format")
    made: Object = {} if marks.get("untyped") else {"responseMimeType": "application/json"}
    was = marks.get("schema")
    if form.schema is None:
        return made
    if was is True:
        made["responseSchema"] = form.schema
    elif was and to_json(was) == form.schema:
        made["responseSchema"] = was
    elif draft.quirks.schemas == "subset":
        made["responseSchema"] = to_subset(form.schema, lambda: draft.report_loss("schema"))
    else:
        made["responseJsonSchema"] = form.schema
    return made
