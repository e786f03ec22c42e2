"""generateContent requests → canonical. `write.py` is the way back; parts, tools and settings have files of their own.

Function responses come inside user contents; here they are messages of role `tool`, and what stood beside them follows
in a user message marked as joined. Camel case and snake case are read; camel case is written, as both mean the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, cast

from penstock import request as rq
from penstock import strict_fields
from penstock.carrying import json_of, restored
from penstock.carrying.free import free_calls
from penstock.carrying.systems import told_apart
from penstock.diagnostics import Diagnostic
from penstock.errors import BadRequest
from penstock.jsontext import as_json
from penstock.media import sniff
from penstock.protocols.gemini.decode_calls import CODE_EXECUTION, tool_name
from penstock.protocols.gemini.request_interactions import is_interaction, read_interaction
from penstock.protocols.gemini.request_settings import read_settings
from penstock.protocols.gemini.request_tools import read_choice, read_response, read_tools
from penstock.protocols.gemini.wire import NAME, SYSTEM_SEAL, camel_keys
from penstock.strict_fields import ResultMatcher, build_extra, empty_fields, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra
    from penstock.lenient_fields import Object

ROLES: dict[Any, rq.Role] = {"user": "user", "model": "assistant", "function": "user", "": "user", None: "user"}
_REQUEST = frozenset({"model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig"})
_CONTENT = frozenset({"role", "parts"})


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body. The model is named in the URL; some bodies say it again."""
    strict_fields.as_object(body)
    if is_interaction(body):
        return read_interaction(body)
    outer, body = _unwrapped(camel_keys(body))
    parts = Parts()
    tools = read_tools(body)
    messages = [*_system(body.get("systemInstruction"), parts), *_contents(body.get("contents"), parts)]
    free_calls(messages, tools)
    config = strict_fields.get_object(body, "toolConfig")
    settings, more, marks = _settings(body)
    choice, beside = read_choice(camel_keys(config))
    model = strict_fields.get_text(body, "model") or strict_fields.get_text(outer, "model")
    extra = build_extra(
        NAME,
        {**unknown_fields(body, _REQUEST), **_if(generationConfig=more, toolConfig=beside)},
        model="model" in body,
        single=isinstance(body.get("contents"), dict),
        outer=outer,
        unsaid=empty_fields(body, _REQUEST),
        **marks,
    )
    return rq.Request(
        model, restored(messages), tools, choice, settings, extra=extra, diagnostics=parts.diagnostics
    )  # fmt: skip


def _settings(body: Object) -> tuple[rq.Settings, Object, Object]:
    if body.get("generationConfig") is None:
        return rq.Settings(), {}, {}
    return strict_fields.read_object(body, "generationConfig", read_settings)


def _if(**fields: Object) -> Object:
    return {key: value for key, value in fields.items() if value}


def _unwrapped(body: Object) -> tuple[Object, Object]:
    """Code Assist puts the request under a key of its own, with the model beside it."""
    inner = body.get("request")
    if not isinstance(inner, dict) or "contents" in body:
        return {}, body
    return unknown_fields(body, {"request"}), camel_keys(cast("Object", inner))


def _system(given: Any, parts: Parts) -> list[rq.Message]:
    """The system instruction: a content, or its text alone."""
    if not given:
        return []
    if isinstance(given, str):
        return [rq.Message("system", [rq.Text(given)], extra=build_extra(NAME, {}, bare=True))]
    content = camel_keys(strict_fields.as_object(given, "systemInstruction"))
    try:
        said = _parts(content, parts)
    except BadRequest as error:
        raise error.at("systemInstruction") from None
    marks = {"role": content.get("role") or "", "single": isinstance(content.get("parts"), dict)}
    return [rq.Message("system", said, extra=build_extra(NAME, unknown_fields(content, _CONTENT), **marks))]


def _contents(given: Any, parts: Parts) -> list[rq.Message]:
    if isinstance(given, dict):
        given = [given]
    if not isinstance(given, list):
        raise BadRequest("a list", given, "contents")
    reader = _Contents(parts)
    rows = strict_fields.read_each(given, reader.read, "contents")  # pyright: ignore[reportUnknownArgumentType]
    return [message for row in rows for message in row]


def _parts(content: Object, parts: Parts) -> list[rq.AnyPart]:
    given = content.get("parts")
    if isinstance(given, dict):
        return strict_fields.read_each([given], parts.read, "parts")
    return strict_fields.read_objects(content, "parts", parts.read)


class _Contents:
    """State: who spoke last, and how many have."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._count = 0
        self._last = ""
        self._results = False  # whether the last content held function responses

    def read(self, content: Object) -> list[rq.Message]:
        """One content: two messages where function responses and other parts share it."""
        content = camel_keys(content)
        role = content.get("role")
        if not isinstance(role, str | None) or role not in ROLES:
            raise BadRequest("user, model or function", role, "role")
        canonical, before = ROLES[role], self._last
        if canonical == "assistant" and before != "assistant":
            self._parts.pairs.begin()
        self._parts.begin(self._count)
        self._count += 1
        said = _parts(content, self._parts)
        odd = canonical == "user" and any(type(part) is rq.Call for part in said)
        canonical = "assistant" if odd else canonical  # whoever sends it: only the model calls
        self._last = canonical
        unknown = unknown_fields(content, _CONTENT) if content.keys() - _CONTENT else {}
        marks: Object = {"single": True} if isinstance(content.get("parts"), dict) else {}
        if odd or role not in ("user", "model"):
            marks["role"] = role or "none"
        return self._messages(canonical, said, unknown, marks)

    def _messages(self, role: rq.Role, said: list[rq.AnyPart], unknown: Object, marks: Object) -> list[rq.Message]:
        extra = build_extra(NAME, unknown, **marks) if unknown or marks else None
        results = [place for place, part in enumerate(said) if type(part) is rq.Result and part.by == "client"]
        again, self._results = self._results, bool(results)
        if results:
            return _answers(role, said, results, build_extra(NAME, unknown, **marks, apart=again))
        if role == "assistant":
            return [rq.Message(role, said, extra=extra)]
        first, *more = told_apart(said, SYSTEM_SEAL)
        return [rq.Message(*first, extra=extra), *(rq.Message(*row) for row in more)]


def _answers(role: rq.Role, said: list[rq.AnyPart], results: list[int], extra: Extra | None) -> list[rq.Message]:
    made = [rq.Message("tool", [said[place] for place in results], extra=extra)]
    places = [place for place in range(len(said)) if place not in results]
    if not places:
        return made
    others = rq.Message(role, [said[place] for place in places])
    if role == "assistant":
        return [others, *made]
    first = places == list(range(len(results), len(said)))
    others.extra = build_extra(NAME, {}, joined=True, places=[] if first else places)
    return [*made, others]


_BYTES = "application/octet-stream"
_WEB_DATA = re.compile(r"[A-Za-z0-9_-]+={0,2}")
_WEB = str.maketrans("-_", "+/")  # Base64 for addresses, which some clients send, and everybody else's


class Parts:
    """Reads the parts of one conversation. State: where we are, and the calls that wait for results."""

    def __init__(self) -> None:
        self.pairs = ResultMatcher()
        self.runs = ResultMatcher()  # of tools that Google ran
        self.diagnostics: list[Diagnostic] = []
        self._content = 0
        self._number = 0

    def begin(self, content: int) -> None:
        """Another content's parts follow."""
        self._content, self._number = content, -1

    def read(self, part: Object) -> rq.AnyPart:
        """A part of any kind."""
        self._number += 1
        part = camel_keys(part)
        if len(part) == 1 and type(part.get("text")) is str:
            return rq.Text(part["text"], extra=None if part["text"] else build_extra(NAME, {}, empty=True))
        kind = next((key for key in part if key in self.kinds and part[key] is not None), "")
        if kind:
            return strict_fields.read_object(
                part, kind, lambda said: self.kinds[kind](self, camel_keys(said), unknown_fields(part, {kind}))
            )
        if part.get("text") is not None:
            return _text(part)
        if part.get("thoughtSignature"):
            return rq.Reasoning(form="redacted", extra=build_extra(NAME, unknown_fields(part, {"text"}), bare=True))
        return rq.Opaque(NAME, "part", part)

    # ── calls and results ─────────────────────────────────────────────────────────────────────────

    def _mint(self) -> str:
        return f"call_{self._content}_{self._number}"

    def _call(self, said: Object, around: Object) -> rq.Call:
        given, name, args = (
            strict_fields.get_text(said, "id"),
            strict_fields.require_text(said, "name"),
            _object(said, "args"),
        )
        id = self.pairs.call(given, name, self._mint())  # noqa: A001 — as the part calls it
        more = {**around, **_more("functionCall", unknown_fields(said, {"id", "name", "args"}))}
        return rq.Call(id, name, _json(args), extra=build_extra(NAME, more, minted=not given, bare=args is None))

    def _result(self, said: Object, around: Object) -> rq.Result:
        given, name = strict_fields.get_text(said, "id"), strict_fields.require_text(said, "name")
        call = self.pairs.result(given, name)
        if not call:
            self.diagnostics.append(Diagnostic("no-call", f"a result of {name!r} belongs to no call", "gemini request"))
        id = call or given or self._mint()  # noqa: A001 — as the part calls it
        files = strict_fields.read_objects(said, "parts", _inner_part)
        content, failed, marks = read_response(_object(said, "response"), files)
        more = {**around, **_more("functionResponse", unknown_fields(said, {"id", "name", "response", "parts"}))}
        extra = build_extra(NAME, more, minted=not given, id=given if given != id else "", **marks)
        return rq.Result(id, name, content, failed, extra=extra)

    # ── what Google ran ───────────────────────────────────────────────────────────────────────────

    def _code(self, said: Object, around: Object) -> rq.Call:
        return self._ran(CODE_EXECUTION, said, unknown_fields(said, {"id"}), {**around, "part": "executableCode"})

    def _tool(self, said: Object, around: Object) -> rq.Call:
        kind = strict_fields.get_text(said, "toolType")
        own = {**around, "part": "toolCall", "toolType": kind}
        return self._ran(tool_name(kind), said, strict_fields.get_object(said, "args"), own)

    def _ran(self, name: str, said: Object, given: Object, own: Object) -> rq.Call:
        id = self.runs.call(strict_fields.get_text(said, "id"), name, f"run_{self._content}_{self._number}")  # noqa: A001 — so
        return rq.Call(id, name, as_json(given), "provider", extra={NAME: {**own, **_minted(said.get("id"))}})

    def _code_result(self, said: Object, around: Object) -> rq.Result:
        found = unknown_fields(said, {"id"})
        made = self._found(CODE_EXECUTION, said, found, {**around, "part": "codeExecutionResult"})
        made.failed = said.get("outcome") not in ("OUTCOME_OK", 1)
        return made

    def _tool_result(self, said: Object, around: Object) -> rq.Result:
        kind = strict_fields.get_text(said, "toolType")
        own = {**around, "part": "toolResponse", "toolType": kind}
        return self._found(tool_name(kind), said, strict_fields.get_object(said, "response"), own)

    def _found(self, name: str, said: Object, found: Object, own: Object) -> rq.Result:
        call = self.runs.result(strict_fields.get_text(said, "id"), name)
        extra = {NAME: {**own, **_minted(said.get("id"))}}
        return rq.Result(call, name, [rq.Json(as_json(found))], by="provider", extra=extra)

    def _blob(self, said: Object, around: Object) -> rq.File:
        return read_blob(said, around)

    def _link(self, said: Object, around: Object) -> rq.File:
        return read_link(said, around)

    kinds: ClassVar[Mapping[str, Callable[[Any, Object, Object], rq.AnyPart]]] = {
        "functionCall": _call, "functionResponse": _result, "inlineData": _blob, "fileData": _link,
        "executableCode": _code, "codeExecutionResult": _code_result, "toolCall": _tool, "toolResponse": _tool_result,
    }  # fmt: skip


def _text(part: Object) -> rq.Text | rq.Reasoning:
    text = strict_fields.get_text(part, "text")
    if strict_fields.get_flag(part, "thought"):
        return rq.Reasoning(text, extra=build_extra(NAME, unknown_fields(part, {"text", "thought"})))
    if not text and part.get("thoughtSignature"):
        return rq.Reasoning(form="redacted", extra=build_extra(NAME, unknown_fields(part, {"text"})))
    return rq.Text(text, extra=build_extra(NAME, unknown_fields(part, {"text"})))


def read_blob(said: Object, around: Object) -> rq.File:
    """A file by its bytes."""
    data = strict_fields.get_text(said, "data")
    web = ("-" in data or "_" in data) and _WEB_DATA.fullmatch(data) is not None
    if web:
        data = data.translate(_WEB)
        data += "=" * (-len(data) % 4)
    media = strict_fields.get_text(said, "mimeType") or sniff(data) or _BYTES
    extra = build_extra(
        NAME, {**around, **_more("inlineData", unknown_fields(said, {"mimeType", "data", "displayName"}))}, web=web
    )
    return rq.File(media, data=data, name=strict_fields.get_text(said, "displayName"), extra=extra)


def read_link(said: Object, around: Object) -> rq.File:
    """A file by its address."""
    media = strict_fields.get_text(said, "mimeType")
    more = {**around, **_more("fileData", unknown_fields(said, {"mimeType", "fileUri", "displayName"}))}
    extra = build_extra(NAME, more, untyped=not media)
    return rq.File(
        media or _BYTES,
        strict_fields.require_text(said, "fileUri"),
        name=strict_fields.get_text(said, "displayName"),
        extra=extra,
    )


def _inner_part(part: Object) -> rq.File | rq.Opaque:
    """A part of a function's response."""
    part = camel_keys(part)
    if part.get("inlineData") is not None:
        return strict_fields.read_object(
            part, "inlineData", lambda said: read_blob(camel_keys(said), unknown_fields(part, {"inlineData"}))
        )
    if part.get("fileData") is not None:
        return strict_fields.read_object(
            part, "fileData", lambda said: read_link(camel_keys(said), unknown_fields(part, {"fileData"}))
        )
    return rq.Opaque(NAME, "part", part)


def _object(source: Object, key: str) -> Object | None:
    return None if source.get(key) is None else strict_fields.get_object(source, key)


def _json(args: Object | None) -> str:
    if args is None:
        return "{}"
    return json_of(args)


def _minted(given: Any) -> Object:
    return {} if given else {"minted": True}


def _more(key: str, fields: Object) -> Object:
    return {key: fields} if fields else {}
