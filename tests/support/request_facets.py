"""A request taken apart into facets that can be compared one by one, and which facets a reported loss excuses.

The counterpart of `tests.support.turn_facets` for the way in. `extra` is no facet: it is for its own protocol, and what it says that
matters to others has a word. Taken as the same: adjacent tool messages and one with all their results; adjacent system
messages and one with all their parts; no tool choice and `auto`; no answer format and `text`; a schema without a name
and `answer`; no input schema and one without properties; no arguments and `{}`; no detail of an image and `auto`.
"""

from __future__ import annotations

import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import request as rq
from tests.oracles.outcome import arguments
from tests.support import request_protocols as requesting
from tests.support.paths import TESTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock import Diagnostic
    from penstock._request_writer import RequestDraft

Facets = dict[str, Any]
VITAL = frozenset({"text", "refusal", "system", "calls", "results", "images", "tools", "shape", "texts-in-results"})
"""What no loss may cost between the main protocols. (`refusal`: the words; that they decline is `refusal-kind`.)"""
MEDIA = {"audio/mp3": "audio/mpeg", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav", "image/jpg": "image/jpeg"}
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/*"})
NO_INPUT: tuple[Any, ...] = (None, {}, {"type": "object"}, {"type": "object", "properties": {}})


def facets(request: rq.Request) -> Facets:
    """What a request asks, in comparable pieces. Order is kept inside a facet, not between facets."""
    rows, solid = list(_rows(request.messages)), list(_rows(request.messages, solid=True))
    found: Facets = {
        "model": request.model,
        "stream": request.stream,
        "names": [message.name for message in request.messages if message.name],
        "shape": [token for role, parts in solid for token in (f"[{role}", *sorted(_kinds(parts)))],
        "order": [token for role, parts in solid for token in (f"[{role}", *_kinds(parts))],
    }
    return found | _said(rows) | _ran(rows) | _given(rows) | _offered(request) | _settings(request.settings)


def _rows(messages: Iterable[rq.Message], *, solid: bool = False) -> Iterator[tuple[str, list[Any]]]:
    """Roles with their parts, neighbours of the system or of tools joined, empty texts and messages left out.

    `solid` leaves out all parts that some loss may cost.
    """
    role = ""
    parts: list[Any] = []
    for message in messages:
        said = [part for part in message.parts if not (isinstance(part, rq.Text) and not part.text)]
        if not said or (solid and not _kinds(said)):
            continue
        if message.role == role and role in ("system", "tool"):
            parts = [*parts, *said]
            continue
        if parts:
            yield role, parts
        role, parts = message.role, said
    if parts:
        yield role, parts


def _kinds(parts: Iterable[Any]) -> list[str]:
    names: dict[Any, str] = {rq.Text: "text", rq.Call: "call", rq.Result: "result"}
    return [
        "image" if _is_image(part) else names[type(part)] if getattr(part, "by", "") != "provider" else "ran"
        for part in parts
        if (type(part) in names and not getattr(part, "cut", False)) or _is_image(part)
    ]


def _is_image(part: Any) -> bool:
    """A picture of a kind that all take; one by a provider's id, or a drawing in XML, is a file like others."""
    return isinstance(part, rq.File) and MEDIA.get(part.media, part.media) in PICTURES and not part.id


def _of(rows: Sequence[tuple[str, list[Any]]], kind: type) -> list[tuple[str, Any]]:
    return [(role, part) for role, parts in rows for part in parts if isinstance(part, kind)]


def _said(rows: Sequence[tuple[str, list[Any]]]) -> Facets:
    texts = _of(rows, rq.Text)
    thoughts = [part for _, part in _of(rows, rq.Reasoning)]
    return {
        "text": [(role, part.text) for role, part in texts if role != "system" and not part.refusal],
        "system": [part.text for role, part in texts if role == "system"],
        "refusal": [part.text for _, part in texts if part.refusal],
        "reasoning": "".join(part.text for part in thoughts),
        "reasoning-state": [(where, name, value) for part in thoughts for where, name, value in _state(part)],
        "sources": [(part.url, part.title) for _, part in _of(rows, rq.Source)],
        "asks": [(part.call, part.id, part.approved) for _, part in _of(rows, rq.Ask)],
        "opaque": [(part.protocol, part.kind) for part in _deep(rows, rq.Opaque)],
        "cache": [(type(part).__name__, part.cache) for part in _deep(rows, rq.Part) if part.cache],
    }


def _state(part: rq.Reasoning) -> Iterator[tuple[str, str, Any]]:
    for protocol, own in (part.extra or {}).items():
        for name in ("signature", "redacted", "encrypted_content", "thoughtSignature"):
            if own.get(name):
                yield protocol, name, own[name]


def _deep(rows: Sequence[tuple[str, list[Any]]], kind: type) -> list[Any]:
    """Parts of a kind, those inside of results too."""
    every = [part for _, parts in rows for part in parts]
    inside = [part for result in every if isinstance(result, rq.Result) for part in result.content]
    return [part for part in (*every, *inside) if isinstance(part, kind)]


def _ran(rows: Sequence[tuple[str, list[Any]]]) -> Facets:
    calls = [part for _, part in _of(rows, rq.Call) if not part.cut]
    ours = [call for call in calls if call.by == "client"]
    return {
        "calls": [(call.id, call.name, _input(call)) for call in ours],
        "call-forms": [(call.id, call.form) for call in ours],
        "cuts": [part.id for _, part in _of(rows, rq.Call) if part.cut],
        "provider-calls": [(call.id, call.name, arguments(call.json)) for call in calls if call.by == "provider"],
    }


def _input(call: rq.Call) -> Any:
    """A call's input; the one string of a function that was a free-text tool is the same as that text."""
    given = call.json if call.form == "text" else arguments(call.json)
    return given["input"] if isinstance(given, dict) and given.keys() == {"input"} else given


def _given(rows: Sequence[tuple[str, list[Any]]]) -> Facets:
    results = [part for _, part in _of(rows, rq.Result)]
    ours = [result for result in results if result.by == "client"]
    files = [(role, part) for role, part in _of(rows, rq.File)]
    kept = [(result.call, part) for result in ours for part in result.content if isinstance(part, rq.File)]
    return {
        "results": [(result.call, result.failed) for result in ours],
        "texts-in-results": [(result.call, words) for result in ours for words in _words(result)],
        "json-in-results": [result.call for result in ours for part in result.content if isinstance(part, rq.Json)],
        "provider-results": [(result.call, arguments(result.json)) for result in results if result.by == "provider"],
        "images": [(where, *_file(part)) for where, part in (*files, *kept) if _is_image(part)],
        "files": [(where, *_file(part)) for where, part in (*files, *kept) if not _is_image(part)],
        "file-names": [part.name for _, part in (*files, *kept) if part.name],
        "details": [part.detail for _, part in (*files, *kept) if part.detail not in ("", "auto")],
    }


def _words(result: rq.Result) -> list[Any]:
    """Texts and JSON values; the text of a JSON value is the same as the value."""
    said = [part.text if isinstance(part, rq.Text) else part.json for part in result.content
            if isinstance(part, rq.Text | rq.Json)]  # fmt: skip
    return [arguments(words) for words in said if words]


def _file(file: rq.File) -> tuple[str, str, str, str]:
    media = MEDIA.get(file.media, file.media)
    return "image/*" if media.startswith("image/") and file.url else media, file.url, file.data, file.id


def _offered(request: rq.Request) -> Facets:
    ours = [tool for tool in request.tools if tool.kind in ("function", "custom")]
    choice = request.choice or rq.ToolChoice()
    return {
        "tools": [(tool.name, tool.description, _schema(tool)) for tool in ours],
        "tool-kinds": [(tool.name, tool.kind) for tool in ours],
        "namespaces": [tool.namespace for tool in ours if tool.namespace],
        "strict": [(tool.name, tool.strict) for tool in ours if tool.strict is not None],
        "tool-cache": [(tool.name, tool.cache) for tool in request.tools if tool.cache],
        "provider-tools": [tool.name for tool in request.tools if tool not in ours],
        "choice": choice.mode,
        "choice-names": choice.names,
    }


def _schema(tool: rq.Tool) -> Any:
    if tool.schema in NO_INPUT:
        return None
    return tool.schema if tool.kind == "custom" else {"type": "object", **(tool.schema or {})}


def _settings(asked: rq.Settings) -> Facets:
    found = {f"settings.{name}": getattr(asked, name) for name in asked.__struct_fields__}
    form = asked.format
    found["settings.format"] = None if form is None or form.kind == "text" else (form.kind, form.schema)
    named = form is not None and form.kind == "schema"
    found["settings.format-name"] = (
        (form.name or "answer", form.description, form.strict) if form is not None and named else None
    )
    return found


# ── what changed, and what may ────────────────────────────────────────────────────────────────────


def changed(before: rq.Request, after: rq.Request) -> set[str]:
    """The facets in which two requests differ; with a `+` those to which something was only added."""
    return differing(facets(before), facets(after))


def differing(left: Facets, right: Facets) -> set[str]:
    return {
        f"{name}+" if isinstance(left[name], list) and _within(left[name], right[name]) else name
        for name in left
        if left[name] != right[name]
    } - {"reasoning-state+"}


def _within(few: list[Any], many: list[Any]) -> bool:
    """Whether all of the one stands in the other, in the same order."""
    rest = iter(many)
    return all(any(one == other for other in rest) for one in few)


@cache
def excuses() -> dict[str, dict[str, frozenset[str]]]:
    """Target or `any` → loss key → the facets it excuses; the key `always` needs no report."""
    rows = tomllib.loads((TESTS / "data" / "request_excuses.toml").read_text())
    return {name: {key: frozenset(facets) for key, facets in row.items()} for name, row in rows.items()}


def excuse(target: str, key: str) -> frozenset[str]:
    """What one loss excuses; what may change may also be added to."""
    known = excuses()["any"] | excuses().get(target, {})
    return frozenset(word for facet in known.get(key, ()) for word in (facet, f"{facet.rstrip('+')}+"))


def excused(target: str, diagnostics: Iterable[Diagnostic]) -> set[str]:
    """The facets that may have changed, by the losses that were reported; a setting is excused by its name."""
    found = set(excuse(target, "always"))
    for row in diagnostics:
        kind, _, key = row.code.partition("-")
        if kind == "loss":
            found |= excuse(target, key)
        if row.code == "loss-setting":
            found.add(f"settings.{row.message.rpartition(': ')[2]}")
    return found


# ── there and back ────────────────────────────────────────────────────────────────────────────────


def there_and_back(target: str, request: rq.Request) -> tuple[RequestDraft, rq.Request]:
    """What a target is sent for a request, and what that means."""
    draft = requesting.write(target, request)
    return draft, requesting.read(target, msgspec.json.decode(draft.encode()))


def silent_losses(target: str, before: rq.Request, after: rq.Request, *drafts: RequestDraft) -> dict[str, Any]:
    """What differs without a word, with both versions of it."""
    left, right = facets(before), facets(after)
    lost = differing(left, right) - excused(target, [row for draft in drafts for row in draft.diagnostics])
    return {name: (left[name.rstrip("+")], right[name.rstrip("+")]) for name in lost}


def what_is_lost(target: str, before: rq.Request, *, vital: bool) -> Any:
    """What a target is not told, without a word; of what is vital, also with one."""
    draft, after = there_and_back(target, before)
    found = changed(before, after)
    silent = found - excused(target, draft.diagnostics)
    return silent_losses(target, before, after, draft) if silent else vital and found & VITAL
