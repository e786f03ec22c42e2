"""Published JSON Schemas of requests: every body that is written for another protocol than it came from must fit them.

The schemas lie where `PENSTOCK_SPECS` says, else in the folder beside the project; they are read there, not copied.
Bodies of the same shape are checked once.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jsonschema
import msgspec
import pytest
from msgspec.structs import replace

from penstock.messages import PROFILES, convert_request, profile_of
from tests.support.paths import PROJECT
from tests.support.request_protocols import quirks

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.messages import Profile
    from penstock.request import Request


def whole_body(body: Any) -> list[Any]:
    return [body]


def contents(body: Any) -> list[Any]:
    return [*body["contents"], *([body["systemInstruction"]] if "systemInstruction" in body else [])]


OPEN = replace(
    PROFILES["responses"], custom=False, namespaces=False,
    quirks=quirks("responses", efforts=("none", "low", "medium", "high", "xhigh"), any_json=False, words=False),
)  # fmt: skip
"""Open Responses: functions are its only tools, and it knows fewer words."""


class Spec(NamedTuple):
    """A published schema: whose requests, which file, where in it, what in a body it is of, and whom it describes."""

    target: str
    file: str
    name: str = ""
    pieces: Callable[[Any], list[Any]] = whole_body
    profile: Profile | None = None


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
DESCRIBED = sorted({spec.target for spec in SPECS})
WORDS = frozenset({
    "type", "role", "mode", "detail", "format", "effort", "ttl", "service_tier", "tool_choice", "media_type", "status",
    "display",
})  # fmt: skip
"""Fields whose value matters to a schema."""


def root() -> Path:
    named = os.environ.get("PENSTOCK_SPECS")
    return Path(named) if named else PROJECT.parent / "shared" / "specs"


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


def _shape(value: Any, key: str = "") -> Any:
    """What a schema can tell two values apart by, nearly."""
    if isinstance(value, dict):
        return tuple(sorted((name, _shape(item, name)) for name, item in value.items()))
    if isinstance(value, list):
        return ("list", *sorted({repr(_shape(item, key)) for item in value}))
    return value if key in WORDS and isinstance(value, str) and len(value) < 40 else type(value).__name__


_seen: set[tuple[Spec, str]] = set()


def _news(spec: Spec, body: Any) -> Any:
    """A body without the items of its lists of whose shape others were checked: a schema looks at each by itself."""
    return {
        key: [item for item in value if (spec, repr(_shape([key, item]))) not in _seen] or value[:1]
        if isinstance(value, list)
        else value
        for key, value in body.items()
    }


def complaints(request: Request, source: str, target: str, body: Any = None) -> list[str]:
    """Where what a provider of a target is sent does not fit the schemas of that target. `body`: if it is at hand."""
    named = replace(request, model=request.model or "model-1")  # where the address says it, the sender fills it in
    found: list[str] = []
    bodies: dict[int, Any] = {id(profile_of(target)): body} if body and request.model else {}
    for spec in (spec for spec in SPECS if spec.target == target):
        profile = spec.profile or profile_of(target)
        if id(profile) not in bodies:
            bodies[id(profile)] = convert_request(named, source, target, profile=profile).body
        for piece in spec.pieces(bodies[id(profile)]):
            part = _news(spec, piece)
            marks = {(spec, repr(_shape(part)))}
            if marks <= _seen:
                continue
            plain = msgspec.json.decode(msgspec.json.encode(part))  # as it is sent
            error = jsonschema.exceptions.best_match(validator(spec).iter_errors(plain))
            if error is None or error.json_path.endswith("max_output_tokens"):  # the caller's, however small
                lists = ((key, value) for key, value in part.items() if isinstance(value, list))
                _seen.update(marks, ((spec, repr(_shape([key, item]))) for key, value in lists for item in value))
            else:
                found.append(f"{spec.name or spec.file}: {error.json_path}: {error.message[:200]}")
    return found
