"""Checks of the values that a client's functions take: the error names the parameter, what it takes, and what it got.

Names mean the same in every function, so there is one table. Fields of a body are checked by the readers of requests;
here stand those that no reader sees, and the numbers that JSON has no form for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, Literal, TypeAlias, cast, get_args

from penstock._http.request_options import RequestOptions, Timeouts, find_json_problem
from penstock._option_checks import (
    FLAG,
    TEXT,
    Option,
    describe_value,
    instance_of,
    nearest_name,
    object_with,
    one_of,
    optional,
)
from penstock.errors import InputError

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[str, ...] = get_args(Effort)


def is_number(value: Any, least: float | None = None, above: float | None = None, *, whole: bool = False) -> bool:
    """True for a finite number in these bounds. A bool is not a number."""
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not isfinite(value):
        return False
    return (least is None or value >= least) and (above is None or value > above)


def _is_seconds(value: Any) -> bool:
    return is_number(value, above=0)


def _is_count(value: Any) -> bool:
    return is_number(value, 1, whole=True)


def _is_amount(value: Any) -> bool:
    return is_number(value, 0)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_not_a_bool(value: Any) -> bool:
    return not isinstance(value, bool)


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://"))


def _is_limit(value: Any) -> bool:
    return isinstance(value, Timeouts | Mapping) or _is_seconds(value)


def _is_price_table(value: Any) -> bool:
    names: Any = value
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in names)


def _is_environment(value: Any) -> bool:
    rows: Any = value
    return isinstance(value, Mapping) and all(isinstance(one, str) for row in rows.items() for one in row)


def _is_store(value: Any) -> bool:
    return value is False or object_with("get", "put").fits(value)


def _is_finite_if_number(value: Any) -> bool:
    return not isinstance(value, float) or isfinite(value)


def _is_approval(value: Any) -> bool:
    return isinstance(value, bool) or callable(value)


def _are_texts(value: Any) -> bool:
    items: Any = value
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    return all(isinstance(one, str) for one in items)


def _is_reasoning(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return True
    fields = cast("Mapping[str, Any]", value)
    kinds: dict[str, Any] = {"max_tokens": int, "enabled": bool, "exclude": bool, "effort": str, "summary": str}
    given = {name: one for name, one in fields.items() if name in kinds and one is not None}
    return all(
        isinstance(one, kinds[name]) and (type(one) is not bool or kinds[name] is bool) for name, one in given.items()
    )


SECONDS = Option("seconds above 0", _is_seconds)
COUNT = Option("a whole number of at least 1", _is_count)
_JSON_OBJECT = Option("a mapping of JSON values", _is_mapping)
_FINITE = Option("a finite number", _is_finite_if_number)
_MAPPING = instance_of("a mapping", Mapping)
JSON_NAMES = (
    "audio", "extra_body", "logit_bias", "metadata", "prediction", "stream_options", "thinking", "web_search_options",
)  # fmt: skip
CHECKS: dict[str, Option] = {
    # every call
    "timeout": Option("seconds above 0, Timeouts, or a mapping of its fields", _is_limit),
    "extra_headers": _MAPPING,
    "options": instance_of("RequestOptions or a mapping of its fields", RequestOptions, Mapping),
    "engine": one_of(("", "native", "sdk")),
    **dict.fromkeys(JSON_NAMES, _JSON_OBJECT),
    # turns
    "convert": _MAPPING,
    **dict.fromkeys(("prompt_caching", "context_management", "strict"), FLAG),
    **dict.fromkeys(("temperature", "top_p", "frequency_penalty", "presence_penalty"), _FINITE),
    "max_output_tokens": Option("a whole number", _is_not_a_bool),
    "reasoning_effort": TEXT,
    "reasoning": Option("an effort, a budget, True, False or an object with these", _is_reasoning),
    # embeddings, rankings, models
    **dict.fromkeys(("batch_size", "dimensions", "top", "top_n"), COUNT),
    "encoding_format": one_of(("float", "base64")),
    "input_type": TEXT,
    "chat": FLAG,
    "query": TEXT,
    "documents": Option("a list of texts", _are_texts),
    "provider": TEXT,
    # the client, its tools and servers
    "budget": Option("dollars of at least 0", _is_amount),
    "prices": Option("a mapping of models to prices", _is_price_table),
    "tenant": TEXT,
    "store": Option("a ReasoningStore or False", _is_store),
    "env": Option("a mapping of texts to texts", _is_environment),
    "router": object_with("open", "fetch"),
    "return_errors": FLAG,
    "tool_timeout": SECONDS,
    "name": TEXT,
    "description": TEXT,
    "needs_approval": Option("True, False or a function of the arguments", _is_approval),
    "only": optional(Option("a list of names", _are_texts)),
    "command": TEXT,
    "args": Option("texts", _are_texts),
    "url": Option("an http:// or https:// address", _is_address),
    "headers": Option("a mapping of texts to texts", _is_environment),
}
# What a body has under the same name, and its reader checks.
_OF_BODIES = frozenset({"store", "name", "headers"})


def check_value(name: str, value: Any, option: Option | None = None) -> None:
    """Raises an `InputError` unless a parameter takes the value. None means: not given."""
    check = option or CHECKS.get(name)
    if value is None or check is None:
        return
    if not check.fits(value):
        raise InputError(f"{name}: expected {check.expected}, found {describe_value(value)}")
    problem = find_json_problem(value) if name in JSON_NAMES else ""
    if problem:
        raise InputError(f"{name}: expected {check.expected}, found {problem}")
    if name in _FURTHER_CHECKS:
        _FURTHER_CHECKS[name](name, value)


def _check_effort(name: str, value: Any) -> None:
    """Raises for a word that is not an effort; suggests the nearest. An empty one means: not given."""
    if not isinstance(value, str) or not value or value in EFFORTS:
        return
    near = nearest_name(value, EFFORTS)
    hint = f"did you mean {near!r}?" if near else "a word that only a vendor knows goes into extra_body"
    raise InputError(f"{name}: expected one of {', '.join(EFFORTS)}, found {describe_value(value)}; {hint}")


def _check_reasoning(name: str, value: Any) -> None:
    if isinstance(value, Mapping):
        _check_effort(f"{name}.effort", cast("Mapping[str, Any]", value).get("effort"))
    else:
        _check_effort(name, value)


# What is checked besides the kind of a value.
_FURTHER_CHECKS: dict[str, Callable[[str, Any], None]] = {
    "reasoning": _check_reasoning,
    "reasoning_effort": _check_effort,
}


def check_values(given: Mapping[str, Any], *, body: bool = False) -> None:
    """Checks the values of several parameters. `body`: some of them are fields of a request's body."""
    for name, value in given.items():
        if name in CHECKS and not (body and name in _OF_BODIES):
            check_value(name, value)
