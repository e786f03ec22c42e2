"""Every body that is written for another protocol than it came from fits that protocol's published JSON Schema.

The schemas lie where `PENSTOCK_SPECS` says, else in the folder beside the project; they are read there, not copied.
Bodies of the same shape are checked once.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import hypothesis
import jsonschema
import pytest
from msgspec.structs import replace

from penstock._lenient_json import as_json
from penstock._protocols.responses.request_write import Quirks
from penstock.messages import PROFILES, convert_request, profile_of
from tests.support import conversations, corpus
from tests.support import request_protocols as requesting
from tests.support.request_cases import cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.messages import Profile
    from penstock.request import Request


def whole_body(body: Any) -> list[Any]:
    return [body]


def contents(body: Any) -> list[Any]:
    return [*body["contents"], *([body["systemInstruction"]] if "systemInstruction" in body else [])]


OPEN = replace(
    PROFILES["responses"], custom=False, namespaces=False,
    quirks=Quirks(efforts=("none", "low", "medium", "high", "xhigh"), any_json=False, words=False),
)  # fmt: skip
"""Open Responses: functions are its only tools, and it knows fewer words."""


class Spec(NamedTuple):
    """A published schema: whose requests, which file, where in it, what in a body it is of, and whom it describes."""

    target: str
    file: str
    name: str = ""
    pieces: Callable[[Any], list[Any]] = whole_body
    profile: Profile | None = None

    def body(self, request: Request, source: str) -> Any:
        """What a provider of this kind is sent."""
        named = replace(request, model=request.model or "model-1")  # where the address says it, the sender fills it in
        made = convert_request(named, source, self.target, profile=self.profile or profile_of(self.target))
        return json.loads(as_json(made.body))

    @property
    def id(self) -> str:
        return f"{self.target}-{self.name or self.file.split('/')[-1]}"


SPECS = [
    Spec("openai-chat", "jsonschema-from-sdks/openai-*-ChatCompletionCreateParams.json"),
    Spec("openai-chat", "openai-openapi.json", "CreateChatCompletionRequest"),
    Spec("responses", "jsonschema-from-sdks/openai-*-ResponseCreateParams.json"),
    Spec("responses", "openai-openapi.json", "CreateResponse"),
    Spec("responses", "openresponses/openapi-current.json", "CreateResponseBody", whole_body, OPEN),
    Spec("anthropic", "jsonschema-from-sdks/anthropic-*-MessageCreateParams.json"),
    Spec("gemini", "jsonschema-from-sdks/google-genai-*-Content.json", "", contents),
    Spec("completions", "openai-openapi.json", "CreateCompletionRequest"),
]
REFUSED = {
    "invalid_temperature_blocking": "a temperature of 100", "validation_error_carries_identity": "one of -5",
    "opentelemetry-instrumentation-vertexai.test_gen-b1b3c5ba": "one of 1000",
}  # fmt: skip
"""Recorded requests whose values no provider took: part of the name, and why."""
EACH = pytest.mark.parametrize("spec", SPECS, ids=[spec.id for spec in SPECS])
WORDS = frozenset({
    "type", "role", "mode", "detail", "format", "effort", "ttl", "service_tier", "tool_choice", "media_type", "status",
    "display",
})  # fmt: skip
"""Fields whose value matters to a schema."""


def root() -> Path:
    named = os.environ.get("PENSTOCK_SPECS")
    return Path(named) if named else corpus.PROJECT.parent / "shared" / "specs"


@cache
def validator(spec: Spec) -> Any:
    found = sorted(root().glob(spec.file))
    if not found:
        pytest.skip(f"corpus absent: no schema for requests of {spec.target}")
    schema = json.loads(found[-1].read_bytes())
    if spec.name:
        schema = {"components": _nullable(schema["components"]), "$ref": f"#/components/schemas/{spec.name}"}
    return jsonschema.Draft202012Validator(schema)


def _nullable(value: Any) -> Any:
    """OpenAPI's older word for what may be null, in that of JSON Schema; and what fits two of `oneOf` fits as well."""
    if isinstance(value, list):
        return [_nullable(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {"anyOf" if key == "oneOf" else key: _nullable(item) for key, item in value.items() if key != "nullable"}
    return {"anyOf": [made, {"type": "null"}]} if value.get("nullable") is True else made


def shape(value: Any, key: str = "") -> Any:
    """What a schema can tell two values apart by, nearly."""
    if isinstance(value, dict):
        return tuple(sorted((name, shape(item, name)) for name, item in value.items()))
    if isinstance(value, list):
        return ("list", *sorted({repr(shape(item, key)) for item in value}))
    return value if key in WORDS and isinstance(value, str) and len(value) < 40 else type(value).__name__


def complaints(spec: Spec, source: str, requests: Iterable[tuple[str, Request]]) -> dict[str, str]:
    """Whose bodies do not fit, and where."""
    seen: set[str] = set()
    found: dict[str, str] = {}
    check = validator(spec)
    for name, request in requests:
        for part in spec.pieces(spec.body(request, source)):
            if (mark := repr(shape(part))) in seen:
                continue
            seen.add(mark)
            error = jsonschema.exceptions.best_match(check.iter_errors(part))
            if error is not None and not error.json_path.endswith("max_output_tokens"):  # the caller's, however small
                found[name] = f"{error.json_path}: {error.message[:200]}"
    return found


@EACH
def test_bodies_of_golden_cases_fit(spec: Spec) -> None:
    found = {
        case.id: complaint
        for case in cases()
        if case.source != spec.target
        for complaint in complaints(spec, case.source, [(case.id, case.canonical())]).values()
    }
    assert found == {}


@EACH
@pytest.mark.parametrize("source", [name for name in requesting.RECORDED if name in requesting.READERS])
def test_bodies_of_recorded_requests_fit(source: str, spec: Spec) -> None:
    from tests.core.test_request_roundtrip import sound

    if source == spec.target:
        return  # what a client sends to its own protocol is its own affair
    rows = [
        (name, request)
        for name, _, request in sound(source)
        if request.messages and not any(part in name for part in REFUSED)  # a stored prompt is none elsewhere
    ]
    assert complaints(spec, source, rows) == {}


@EACH
@hypothesis.settings(max_examples=8, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(request=conversations.requests())
def test_bodies_of_made_up_conversations_fit(spec: Spec, request: Request) -> None:
    assert complaints(spec, "events", [("made up", request)]) == {}
