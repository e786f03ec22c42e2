"""Recorded requests of real clients: there and back, and to every other provider.

A → canonical → A gives the recorded body back, value for value. A → canonical → B → canonical asks for the same as the
first, but for the losses that B reports (`tests/data/request_excuses.toml`). And what `convert` makes of it is looked
at as a provider would (`tests.support.request_contents`, the published schemas), not through our own readers.
"""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock.errors import BadRequest
from penstock.messages import convert_request, profile_of
from tests.support import request_contents, request_facets, request_laws, request_schemas
from tests.support import request_protocols as requesting
from tests.support.request_protocols import MAIN, RECORDED, WRITERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.messages import Converted
    from penstock.request import Request

SOURCES = [name for name in WRITERS if name in RECORDED]
CLIENTS = 45
"""Clients of whom conversations with tools were recorded, at the least."""
INVALID = {
    "openai-chat": {
        "malformed_request_field": "the temperature is a word",
        "portkey.test_prompt_template": "it fills a stored prompt in and has no messages",
    },
    "anthropic": {"anthropic_completion_error": "a message is a string"},
}
"""Recorded requests that no provider took either: part of the name, and why."""
REFUSED = {
    "invalid_temperature_blocking": "a temperature of 100", "validation_error_carries_identity": "one of -5",
    "opentelemetry-instrumentation-vertexai.test_gen-b1b3c5ba": "one of 1000",
}  # fmt: skip
"""Recorded requests whose values no provider took: part of the name, and why."""


def camel(value: Any) -> Any:
    """Gemini takes names in both spellings, and is sent the documented one; null is absent."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        re.sub("_([a-z])", lambda found: found[1].upper(), key): camel(item)
        for key, item in value.items()
        if item is not None
    }


def unbuffered(value: Any) -> Any:
    """Bytes as a recorder wrote them out, where the wire has base64."""
    if isinstance(value, list):
        return [unbuffered(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "Buffer" and value.keys() == {"type", "data"}:
        return base64.b64encode(bytes(value["data"])).decode()
    return {key: unbuffered(item) for key, item in value.items()}


NORMAL: dict[str, Callable[[Any], Any]] = {"gemini": camel, "bedrock": unbuffered}
"""What may differ between a body and the one that is sent for it: all there is."""


@cache
def sound(protocol: str) -> list[tuple[str, Any, Request]]:
    """The recorded requests that can be read."""
    excuses = INVALID.get(protocol, {})
    return [
        (one.name, one.body, requesting.read(protocol, one.body))
        for one in requesting.recorded_or_skip(protocol)
        if not any(part in one.name for part in excuses)
    ]


@cache
def distinct(protocol: str) -> list[tuple[str, Any, Request]]:
    """One of those that differ in nothing but numbers and long texts."""
    return list({repr(shape(body)): (name, body, request) for name, body, request in sound(protocol)}.values())


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return value if isinstance(value, str) and len(value) < 24 else type(value).__name__


@pytest.mark.parametrize("source", SOURCES)
def test_the_same_protocol_gets_back_what_was_sent(source: str) -> None:
    normal = NORMAL.get(source, lambda body: body)
    problems: list[str] = []
    for name, body, request in sound(source):
        draft = requesting.write(source, request)
        if normal(json.loads(draft.encode())) != normal(body):
            problems.append(f"{name} is another body")
        problems += [f"{name}: {row.code}" for row in draft.diagnostics]
    assert problems == []


def test_requests_that_nobody_takes_are_refused() -> None:
    for protocol, parts in INVALID.items():
        for part in parts:
            bodies = [one.body for one in requesting.recorded_or_skip(protocol) if part in one.name]
            assert bodies
            for body in bodies:
                with pytest.raises(BadRequest):
                    requesting.read(protocol, body)


@pytest.mark.parametrize("source", SOURCES)
def test_another_protocol_is_asked_the_same(source: str) -> None:
    """Between the main protocols text, calls, results, system messages, tools and images arrive in any case."""
    lost: dict[Any, Any] = {}
    for name, _, request in distinct(source):
        facets = request_facets.facets(request)
        for target in WRITERS:
            if target == source:
                continue
            draft, after = request_facets.there_and_back(target, request)
            changed = request_facets.differing(facets, request_facets.facets(after))
            if silent := changed - request_facets.excused(target, draft.diagnostics):
                lost[name, target] = silent
            if source in MAIN and target in MAIN:
                if vital := changed & request_facets.VITAL:
                    lost[name, target, "vital"] = vital
                codes = {row.code.removeprefix("loss-") for row in draft.diagnostics}
                assert requesting.lacks(target).keys().isdisjoint(codes)
    assert lost == {}


@pytest.mark.parametrize("source", SOURCES)
def test_every_provider_is_sent_what_it_takes(source: str) -> None:
    """Calls arrive in order and by name. A few requests are refused, with a typed error, as they were meant to be."""
    problems: dict[Any, Any] = {}
    refused = 0
    for name, _, request in distinct(source):
        before = msgspec.json.encode(request)
        for target in WRITERS:
            try:
                made = convert_request(request, source, target, profile=profile_of(target))
            except BadRequest:
                refused += 1
                continue
            request_laws.fits(made, target)
            if target != source and (found := complaints(name, request, source, target, made)):
                problems[name, target] = found
        if msgspec.json.encode(request) != before:
            problems[name] = "it was changed"
    assert problems == {}
    assert refused <= 2 * len(WRITERS)


def complaints(name: str, request: Request, source: str, target: str, made: Converted) -> list[Any]:
    """What a provider would say. (To its own protocol whoever speaks it may say it in its other forms.)"""
    found: list[Any] = []
    if target in request_contents.READ and source != "completions":
        asked, called = request_laws.asked(request), request_laws.called(made, target)
        found += [(called, asked)] if called != asked else []
        found += request_contents.broken(target, made.body) if asked else []
    if request.messages and not any(part in name for part in REFUSED):  # a stored prompt is none elsewhere
        found += request_schemas.complaints(request, source, target, made.body)
    return found


def test_conversations_of_every_client_are_among_them() -> None:
    talks = [name for source in SOURCES if source != "completions" for name, _, request in sound(source)
             if request_laws.asked(request)]  # fmt: skip
    clients = {name.partition("/")[0] for name in talks if name.count("/") == 2}
    assert len(clients) >= CLIENTS, sorted(clients)
