"""Every body that is written for another protocol than it came from fits that protocol's published JSON Schema.

The schemas lie where `PENSTOCK_SPECS` says, else in the folder beside the project; they are read there, not copied.
Bodies of the same shape are checked once.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import jsonschema
import pytest
from msgspec.structs import replace

from tests import conversations, corpus, requesting
from tests.request_cases import cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.request import Request


def whole(body: Any) -> list[Any]:
    return [body]


def contents(body: Any) -> list[Any]:
    return [*body["contents"], *([body["systemInstruction"]] if "systemInstruction" in body else [])]


SCHEMAS: dict[str, tuple[str, Callable[[Any], list[Any]]]] = {
    "openai-chat": ("openai-*-ChatCompletionCreateParams.json", whole),
    "responses": ("openai-*-ResponseCreateParams.json", whole),
    "anthropic": ("anthropic-*-MessageCreateParams.json", whole),
    "gemini": ("google-genai-*-Content.json", contents),
}
"""The schema of a protocol, and what in a body it is of."""
TARGETS = [name for name in SCHEMAS if name in requesting.WRITERS]
WORDS = frozenset({
    "type", "role", "mode", "detail", "format", "effort", "ttl", "service_tier", "tool_choice", "media_type", "status",
    "display",
})  # fmt: skip
"""Fields whose value matters to a schema."""


def root() -> Path:
    named = os.environ.get("PENSTOCK_SPECS")
    return Path(named) if named else corpus.PROJECT.parent / "shared" / "specs"


@cache
def validator(target: str) -> Any:
    found = sorted((root() / "jsonschema-from-sdks").glob(SCHEMAS[target][0]))
    if not found:
        pytest.skip(f"corpus absent: no JSON Schema for requests of {target}")
    schema = json.loads(found[-1].read_bytes())
    return jsonschema.validators.validator_for(schema)(schema)


def shape(value: Any, key: str = "") -> Any:
    """What a schema can tell two values apart by, nearly."""
    if isinstance(value, dict):
        return tuple(sorted((name, shape(item, name)) for name, item in value.items()))
    if isinstance(value, list):
        return ("list", *sorted({repr(shape(item, key)) for item in value}))
    return value if key in WORDS and isinstance(value, str) and len(value) < 40 else type(value).__name__


def complaints(target: str, requests: Iterable[tuple[str, Request]]) -> dict[str, str]:
    """Whose bodies do not fit, and where."""
    seen: set[str] = set()
    found: dict[str, str] = {}
    check = validator(target)
    for name, request in requests:
        named = replace(request, model=request.model or "model-1")  # where the address says it, the sender fills it in
        for part in SCHEMAS[target][1](json.loads(requesting.write(target, named).encode())):
            if (mark := repr(shape(part))) in seen:
                continue
            seen.add(mark)
            error = jsonschema.exceptions.best_match(check.iter_errors(part))
            if error is not None:
                found[name] = f"{error.json_path}: {error.message[:200]}"
    return found


@pytest.mark.corpus
@pytest.mark.parametrize("target", TARGETS)
def test_bodies_of_golden_cases_fit(target: str) -> None:
    rows = [(case.id, case.canonical()) for case in cases() if case.source != target]
    assert complaints(target, rows) == {}


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", [name for name in requesting.RECORDED if name in requesting.READERS])
def test_bodies_of_recorded_requests_fit(source: str, target: str) -> None:
    from tests.test_request_roundtrip import sound

    if source == target:
        return  # what a client sends to its own protocol is its own affair
    assert complaints(target, [(name, request) for name, _, request in sound(source)]) == {}


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@hypothesis.settings(max_examples=60, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(request=conversations.requests())
def test_bodies_of_made_up_conversations_fit(target: str, request: Request) -> None:
    assert complaints(target, [("made up", request)]) == {}
