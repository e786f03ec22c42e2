"""The wire form of VS Code is written down once, as a JSON Schema: what Python writes and reads is held against it.

Objects of the schema are open, as the version policy wants it. What we write ourselves is held against the closed form:
a field that the schema does not know is a failure.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import pytest
from jsonschema import Draft202012Validator

from penstock import encoder as new_encoder
from penstock import events as ev
from penstock._protocols.vscode import wire
from penstock._protocols.vscode.request_fields import KINDS
from penstock._protocols.vscode.wire import write_tokens
from tests.support import corpus
from tests.support import recorded_streams as recorded
from tests.support import request_protocols as requesting
from tests.support import run_streams as running
from tests.support.each_case import each
from tests.support.paths import TESTS
from tests.support.request_cases import cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.corpus import Entry

SCHEMA: dict[str, Any] = json.loads(files("penstock._protocols.vscode").joinpath("wire-1.schema.json").read_bytes())
DEFS: dict[str, Any] = SCHEMA["$defs"]
STREAMS = TESTS / "streams"
LINES: dict[str, Any] = {str(line.__struct_config__.tag): line for line in get_args(wire.AnyLine)}
OPEN = ("modelOptions", "modelConfiguration", "providerOptions", "inputSchema", "input", "metadata", "state")
"""What others fill as they like."""


def closed(schema: Any, name: str = "") -> Any:
    """The schema with objects that hold nothing but what it names."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: {word: closed(inner, word) for word, inner in value.items()} if key in ("properties", "$defs") else closed(value)
            for key, value in schema.items()}  # fmt: skip
    if "properties" in made and name not in OPEN and not made.keys() & {"additionalProperties", "oneOf"}:
        made["unevaluatedProperties"] = False
    return made


@cache
def validator(part: str, *, strict: bool = True) -> Draft202012Validator:
    defs = closed({"$defs": DEFS})["$defs"] if strict else DEFS
    return Draft202012Validator({"$ref": f"#/$defs/{part}", "$defs": defs})


def faults(part: str, value: Any, *, strict: bool = True) -> list[str]:
    found = validator(part, strict=strict).iter_errors(value)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


def shape(value: Any, name: str = "") -> Any:
    """A value without what only its texts and numbers say, so that alike ones are checked once."""
    if isinstance(value, dict) and name not in OPEN:
        kept = ("kind", "reason", "fault", "mimeType")
        return {key: inner if key in kept else shape(inner, key) for key, inner in value.items()}
    if isinstance(value, list) and name not in OPEN:
        return [shape(one) for one in value]
    return type(value).__name__


# ── the schema itself ─────────────────────────────────────────────────────────────────────────────


def test_it_is_a_schema_of_the_version_that_is_written() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["$id"].endswith(f":{wire.VERSION}")


@each("kind", LINES)
def test_every_line_has_the_fields_of_its_struct(kind: str) -> None:
    fields = msgspec.structs.fields(LINES[kind])
    about = DEFS[kind]
    assert {field.encode_name for field in fields} | {"kind"} == about["properties"].keys()
    needed = {field.encode_name for field in fields if field.required}
    always = {"version"} if kind in ("start", "whole") else set()  # written in any case, read also without
    assert set(about["required"]) == needed | {"kind"} | always
    assert about["properties"]["kind"] == {"const": kind}


def test_lines_and_words_are_those_of_the_code() -> None:
    named = {one["$ref"].rpartition("/")[2] for one in DEFS["line"]["oneOf"]}
    assert named | {"whole"} == LINES.keys()
    assert DEFS["end"]["properties"]["reason"]["enum"] == list(get_args(ev.Reason))
    assert DEFS["error"]["properties"]["fault"]["enum"] == list(get_args(ev.FaultKind))
    parts = [DEFS[one["$ref"].rpartition("/")[2]] for one in DEFS["messagePart"]["anyOf"]]
    assert {part["properties"]["kind"]["const"] for part in parts if "kind" in part["properties"]} == KINDS


def test_tokens_are_written_as_it_says() -> None:
    whole = msgspec.to_builtins(write_tokens(ev.Usage(9, 5, 3, 1, 2)))
    assert faults("tokens", whole) == []
    details = [name for name, about in DEFS["tokens"]["properties"].items() if "properties" in about]
    assert whole.keys() == DEFS["tokens"]["properties"].keys()
    assert all(whole[name].keys() == DEFS["tokens"]["properties"][name]["properties"].keys() for name in details)


# ── what we write ─────────────────────────────────────────────────────────────────────────────────


def written() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(STREAMS.glob("*/*/to-vscode.*")):
        for line in path.read_bytes().splitlines():
            yield f"{path.parent.name}: {line[:60]!r}", json.loads(line)


def check(lines: Iterable[dict[str, Any]], seen: set[bytes]) -> list[str]:
    found: list[str] = []
    for line in lines:
        form = msgspec.json.encode(shape(line), order="sorted")
        if form not in seen:
            seen.add(form)
            found += faults("whole" if line["kind"] == "whole" else "line", line)
    return found


def test_golden_lines_are_valid() -> None:
    known = [(name, line) for name, line in written() if line.get("kind") in LINES]
    assert len(known) > 30
    wrong = {name: found for name, line in known if (found := check([line], set()))}
    assert wrong == {}


@each("kind", sorted(LINES.keys() - {"whole"}))
def test_a_field_too_many_or_too_few_is_no_line(kind: str) -> None:
    good = next(line for _, line in written() if line.get("kind") == kind)
    assert faults("line", good) == []
    assert faults("line", {**good, "unheard": 1}) != []
    assert faults("line", {**good, "unheard": 1}, strict=False) == []
    for word in DEFS[kind]["required"]:
        assert faults("line", {key: good[key] for key in good if key != word}, strict=False) != []


@pytest.mark.parametrize("entries", recorded.all_shards(6_000_000))
def test_recorded_streams_become_valid_lines(entries: list[Entry]) -> None:
    corpus.corpus_or_skip()
    seen: set[bytes] = set()
    for entry in entries:
        encoder = new_encoder("vscode", id="m1", model="tiny-1", created=1)
        frames = [*encoder.feed(recorded.read(entry).events), *encoder.finish()]
        assert check((msgspec.json.decode(data) for _, data in frames), seen) == [], entry.name
        body = running.row("vscode").body
        assert body is not None
        assert check([msgspec.json.decode(body(frames))], seen) == [], entry.name


@each("source", requesting.READERS)
def test_recorded_requests_become_valid_requests(source: str) -> None:
    wrong: dict[str, list[str]] = {}
    seen: set[bytes] = set()
    for one in requesting.recorded_or_skip(source) if source not in ("vscode", "aisdk") else ():
        try:
            request = requesting.read(source, one.body)
        except ValueError:
            continue  # a body that its own provider refused
        body = requesting.write("vscode", request).body
        form = msgspec.json.encode(shape(body), order="sorted")
        if form not in seen:
            seen.add(form)
            found = faults("request", body, strict=False)
            wrong |= {one.name: found} if found else {}
    assert wrong == {}


@each("case", cases())
def test_golden_requests_are_valid(case: Any) -> None:
    if case.source == "vscode":
        assert faults("request", case.body("vscode"), strict=False) == []
    assert faults("request", requesting.write("vscode", case.read()).body, strict=False) == []


# ── what nobody writes yet ────────────────────────────────────────────────────────────────────────

MODEL: dict[str, Any] = {
    "id": "tiny-1", "name": "Tiny 1", "family": "tiny", "version": "1", "maxInputTokens": 8000, "maxOutputTokens": 1000,
    "capabilities": {"toolCalling": True, "imageInput": False}, "isUserSelectable": True, "detail": "small",
    "counting": {"factors": {"latin": 0.25, "digit": 0.6}, "message": 4, "image": 800},
}  # fmt: skip


def test_a_list_of_models() -> None:
    assert faults("models", {"version": 1, "models": [MODEL]}) == []


@each("field", [{"isDefault": True}, {"requiresAuthorization": {}}, {"capabilities": {"editTools": ["apply-patch"]}}])
def test_a_model_never_has_what_makes_a_host_refuse_the_list(field: dict[str, Any]) -> None:
    assert faults("models", {"version": 1, "models": [{**MODEL, **field}]}, strict=False) != []


def test_counts() -> None:
    asked = {
        "version": 1,
        "model": "tiny-1",
        "items": ["one text", {"role": 1, "content": [{"value": "hi"}]}, {"name": "log"}],
    }
    assert faults("countRequest", asked) == []
    assert faults("counts", {"version": 1, "counts": [2, 7.5, 3], "exact": False}) == []
    assert faults("countRequest", {"version": 1, "items": []}) != []
