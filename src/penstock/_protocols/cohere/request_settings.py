"""Settings of Cohere Chat requests, which are the same in both versions ↔ canonical settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._lenient_fields import Object, get_integer, get_text
from penstock._request_writer import RequestDraft, budget_for_effort

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_FIELDS: Sequence[tuple[str, str, Callable[[Object, str], Any]]] = (
    ("max_tokens", "max_output", strict.get_integer),
    ("temperature", "temperature", strict.get_number),
    ("p", "top_p", strict.get_number),
    ("k", "top_k", strict.get_integer),
    ("stop_sequences", "stop", strict.get_strings),
    ("seed", "seed", strict.get_integer),
    ("frequency_penalty", "frequency_penalty", strict.get_number),
    ("presence_penalty", "presence_penalty", strict.get_number),
    ("logprobs", "logprobs", strict.get_flag),
)
SETTINGS = {key for key, _, _ in _FIELDS} | {"response_format", "thinking"}
_UNSUPPORTED = "choices top_logprobs parallel_calls verbosity tier user metadata cache_key store"


def read_settings(body: Object) -> tuple[rq.Settings, Object]:
    """Returns the settings, and marks of how they were spelled."""
    thinking, format_ = strict.get_object(body, "thinking"), strict.get_object(body, "response_format")
    budget, thoughts = _read_thinking(thinking)
    fields = {name: read(body, key) for key, name, read in _FIELDS}
    settings = rq.Settings(**fields, format=_read_format(format_), budget=budget, thoughts=thoughts)
    return settings, {"thinking": thinking, "format": format_}


def _read_thinking(thinking: Object) -> tuple[int | None, bool | None]:
    """Returns the budget, and whether thinking is on."""
    if get_text(thinking, "type") == "disabled":
        return 0, None
    budget = get_integer(thinking, "token_budget")
    return budget, True if thinking and budget is None else None


def _read_format(given: Object) -> rq.Format | None:
    kind = given.get("type")
    if kind is None or kind == "text":
        return None if kind is None else rq.Format()
    key = "json_schema" if "json_schema" in given else "schema"
    return rq.Format("json") if given.get(key) is None else rq.Format("schema", schema=strict.get_object(given, key))


def write_settings(settings: rq.Settings, marks: Object, draft: RequestDraft, body: Object) -> None:
    """Writes the settings into a body and reports those that Cohere does not have."""
    for name in _UNSUPPORTED.split():
        if getattr(settings, name) not in (None, ""):
            draft.report_loss("setting", name)
    fields: Object = {key: getattr(settings, name) for key, name, _ in _FIELDS}
    fields["response_format"] = _write_format(settings.format, marks.get("format", {}), draft)
    fields["thinking"] = _write_thinking(settings, marks.get("thinking", {}), draft)
    body.update({key: value for key, value in fields.items() if value is not None and value not in ([], {})})


def _write_thinking(settings: rq.Settings, original: Object, draft: RequestDraft) -> Object:
    budget, thoughts = settings.budget, settings.thoughts
    if settings.effort:
        draft.report_loss("effort")
    elif (budget, thoughts) == _read_thinking(original):
        return original
    if thoughts is not None and (budget is not None or settings.effort):
        draft.report_loss("setting", "thoughts")
    if budget is None and settings.effort:
        budget = budget_for_effort(settings.effort)
    if budget is None:
        return {} if thoughts is None else {"type": "enabled" if thoughts else "disabled"}
    return {"type": "enabled", "token_budget": budget} if budget else {"type": "disabled"}


def _write_format(format_: rq.Format | None, original: Object, draft: RequestDraft) -> Object:
    if format_ is None or format_ == _read_format(original):
        return original if format_ is not None else {}
    if format_.kind == "text":
        return {"type": "text"}
    if format_.name or format_.description or format_.strict is not None:
        draft.report_loss("format")
    return {"type": "json_object", **({"json_schema": format_.schema} if format_.schema is not None else {})}
