"""Settings of a Converse request → canonical: its own, and those that models take as additional fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import reading
from penstock import request as rq
from penstock.errors import BadRequest
from penstock.jsontext import as_json
from penstock.pick import as_object, number, table, text
from penstock.reading import rest, unsaid

if TYPE_CHECKING:
    from penstock.pick import Object

SETTINGS = frozenset({
    "inferenceConfig", "additionalModelRequestFields", "outputConfig", "requestMetadata", "serviceTier",
})  # fmt: skip
_CONFIG = frozenset({"maxTokens", "max_new_tokens", "temperature", "topP", "stopSequences"})
THOUGHTS = ("thinking", "reasoning_config", "reasoningConfig")


class Wishes(msgspec.Struct, frozen=True):
    """What additional fields ask for, as far as it has a canonical word."""

    budget: int | None = None
    thoughts: bool | None = None
    effort: str = ""
    top_k: int | None = None


def wishes(fields: Object) -> Wishes:
    """Read additional fields, each model family's own."""
    key = next((key for key in THOUGHTS if isinstance(fields.get(key), dict)), "")
    said = table(fields, key)
    effort = text(table(fields, "output_config"), "effort") or text(fields, "reasoning_effort")
    effort = effort or text(said, "maxReasoningEffort")
    kind, budget = text(said, "type"), number(said, "budget_tokens")
    if kind == "disabled":
        budget = 0
    shown = True if kind and kind != "disabled" and budget is None and not effort else None
    top_k = number(fields, "top_k")
    if top_k is None:
        top_k = number(table(fields, "inferenceConfig"), "topK")
    return Wishes(budget, shown, effort, top_k)


def read_settings(body: Object) -> tuple[rq.Settings, Object]:
    """The settings, and how they were said."""
    config = reading.table(body, "inferenceConfig")
    more = reading.table(body, "additionalModelRequestFields")
    wished = wishes(more)
    form, spelled = _format(body)
    limit = "maxTokens" if config.get("maxTokens") is not None else "max_new_tokens"
    tier = body.get("serviceTier")
    marks = {
        "limit": limit if limit != "maxTokens" and limit in config else "", "config": rest(config, _CONFIG),
        "unsaid": unsaid(config, _CONFIG), "more": more, "output": spelled,
    }  # fmt: skip
    try:
        settings = rq.Settings(
            max_output=reading.whole(config, limit),
            temperature=reading.number(config, "temperature"),
            top_p=reading.number(config, "topP"),
            stop=reading.strings(config, "stopSequences"),
        )
    except BadRequest as error:
        raise error.at("inferenceConfig") from None
    settings.top_k, settings.budget = wished.top_k, wished.budget
    settings.effort, settings.thoughts = wished.effort, wished.thoughts
    settings.format = form
    settings.tier = text(as_object(tier), "type")
    settings.metadata = reading.table(body, "requestMetadata") or None
    if tier is not None and rest(as_object(tier), {"type"}):
        marks["tier"] = tier
    return settings, marks


def _format(body: Object) -> tuple[rq.Format | None, Any]:
    """The schema of the answer is JSON inside of a string."""
    output = reading.table(body, "outputConfig")
    if not output:
        return None, None
    said = table(table(table(output, "textFormat"), "structure"), "jsonSchema")
    try:
        schema = msgspec.json.decode(text(said, "schema"))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None, output
    if not isinstance(schema, dict):
        return None, output
    form = rq.Format("schema", text(said, "name"), as_object(schema), text(said, "description"))
    return form, None if write_format(form) == output else output


def write_format(form: rq.Format) -> Object:
    """The usual way to ask for a schema."""
    schema: Object = {"name": form.name} if form.name else {}
    if form.description:
        schema["description"] = form.description
    schema["schema"] = as_json(form.schema or {"type": "object"})
    return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}}
