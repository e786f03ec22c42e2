"""Parts of a request's contents → canonical parts. `write_parts.py` is the way back.

A call without an id gets one from its place; a result without one answers the calls of its name in order. Both say so
among their marks (the decoder's in `extra` itself), so that the made-up id is not sent back.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from penstock import reading
from penstock import request as rq
from penstock.carrying import json_of
from penstock.diagnostics import Diagnostic
from penstock.jsontext import as_json
from penstock.media import sniff
from penstock.protocols.gemini.calls import CODE, tool_name
from penstock.protocols.gemini.own import NAME
from penstock.protocols.gemini.responses import read_response
from penstock.protocols.gemini.spelling import keys
from penstock.reading import Pairs, keep, rest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.pick import Object

_BYTES = "application/octet-stream"
_WEB_DATA = re.compile(r"[A-Za-z0-9_-]+={0,2}")
_WEB = str.maketrans("-_", "+/")  # Base64 for addresses, which some clients send, and everybody else's


class Parts:
    """Reads the parts of one conversation. State: where we are, and the calls that wait for results."""

    def __init__(self) -> None:
        self.pairs = Pairs()
        self.runs = Pairs()  # of tools that Google ran
        self.diagnostics: list[Diagnostic] = []
        self._content = 0
        self._number = 0

    def begin(self, content: int) -> None:
        """Another content's parts follow."""
        self._content, self._number = content, -1

    def read(self, part: Object) -> rq.AnyPart:
        """A part of any kind."""
        self._number += 1
        part = keys(part)
        if len(part) == 1 and type(part.get("text")) is str:
            return rq.Text(part["text"], extra=None if part["text"] else keep(NAME, {}, empty=True))
        kind = next((key for key in part if key in self.kinds and part[key] is not None), "")
        if kind:
            return reading.inside(part, kind, lambda said: self.kinds[kind](self, keys(said), rest(part, {kind})))
        if part.get("text") is not None:
            return _text(part)
        if part.get("thoughtSignature"):
            return rq.Reasoning(form="redacted", extra=keep(NAME, rest(part, {"text"}), bare=True))
        return rq.Opaque(NAME, "part", part)

    # ── calls and results ─────────────────────────────────────────────────────────────────────────

    def _mint(self) -> str:
        return f"call_{self._content}_{self._number}"

    def _call(self, said: Object, around: Object) -> rq.Call:
        given, name, args = reading.text(said, "id"), reading.needed(said, "name"), _object(said, "args")
        id = self.pairs.call(given, name, self._mint())  # noqa: A001 — as the part calls it
        more = {**around, **_more("functionCall", rest(said, {"id", "name", "args"}))}
        return rq.Call(id, name, _json(args), extra=keep(NAME, more, minted=not given, bare=args is None))

    def _result(self, said: Object, around: Object) -> rq.Result:
        given, name = reading.text(said, "id"), reading.needed(said, "name")
        call = self.pairs.result(given, name)
        if not call:
            self.diagnostics.append(Diagnostic("no-call", f"a result of {name!r} belongs to no call", "gemini request"))
        id = call or given or self._mint()  # noqa: A001 — as the part calls it
        files = reading.rows(said, "parts", _inner_part)
        content, failed, marks = read_response(_object(said, "response"), files)
        more = {**around, **_more("functionResponse", rest(said, {"id", "name", "response", "parts"}))}
        extra = keep(NAME, more, minted=not given, id=given if given != id else "", **marks)
        return rq.Result(id, name, content, failed, extra=extra)

    # ── what Google ran ───────────────────────────────────────────────────────────────────────────

    def _code(self, said: Object, around: Object) -> rq.Call:
        return self._ran(CODE, said, rest(said, {"id"}), {**around, "part": "executableCode"})

    def _tool(self, said: Object, around: Object) -> rq.Call:
        kind = reading.text(said, "toolType")
        own = {**around, "part": "toolCall", "toolType": kind}
        return self._ran(tool_name(kind), said, reading.table(said, "args"), own)

    def _ran(self, name: str, said: Object, given: Object, own: Object) -> rq.Call:
        id = self.runs.call(reading.text(said, "id"), name, f"run_{self._content}_{self._number}")  # noqa: A001 — so
        return rq.Call(id, name, as_json(given), "provider", extra={NAME: {**own, **_minted(said.get("id"))}})

    def _code_result(self, said: Object, around: Object) -> rq.Result:
        found = rest(said, {"id"})
        made = self._found(CODE, said, found, {**around, "part": "codeExecutionResult"})
        made.failed = said.get("outcome") not in ("OUTCOME_OK", 1)
        return made

    def _tool_result(self, said: Object, around: Object) -> rq.Result:
        kind = reading.text(said, "toolType")
        own = {**around, "part": "toolResponse", "toolType": kind}
        return self._found(tool_name(kind), said, reading.table(said, "response"), own)

    def _found(self, name: str, said: Object, found: Object, own: Object) -> rq.Result:
        call = self.runs.result(reading.text(said, "id"), name)
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
    text = reading.text(part, "text")
    if reading.flag(part, "thought"):
        return rq.Reasoning(text, extra=keep(NAME, rest(part, {"text", "thought"})))
    if not text and part.get("thoughtSignature"):
        return rq.Reasoning(form="redacted", extra=keep(NAME, rest(part, {"text"})))
    return rq.Text(text, extra=keep(NAME, rest(part, {"text"})))


def read_blob(said: Object, around: Object) -> rq.File:
    """A file by its bytes."""
    data = reading.text(said, "data")
    web = ("-" in data or "_" in data) and _WEB_DATA.fullmatch(data) is not None
    if web:
        data = data.translate(_WEB)
        data += "=" * (-len(data) % 4)
    media = reading.text(said, "mimeType") or sniff(data) or _BYTES
    extra = keep(NAME, {**around, **_more("inlineData", rest(said, {"mimeType", "data", "displayName"}))}, web=web)
    return rq.File(media, data=data, name=reading.text(said, "displayName"), extra=extra)


def read_link(said: Object, around: Object) -> rq.File:
    """A file by its address."""
    media = reading.text(said, "mimeType")
    more = {**around, **_more("fileData", rest(said, {"mimeType", "fileUri", "displayName"}))}
    extra = keep(NAME, more, untyped=not media)
    return rq.File(
        media or _BYTES, reading.needed(said, "fileUri"), name=reading.text(said, "displayName"), extra=extra
    )


def _inner_part(part: Object) -> rq.File | rq.Opaque:
    """A part of a function's response."""
    part = keys(part)
    if part.get("inlineData") is not None:
        return reading.inside(part, "inlineData", lambda said: read_blob(keys(said), rest(part, {"inlineData"})))
    if part.get("fileData") is not None:
        return reading.inside(part, "fileData", lambda said: read_link(keys(said), rest(part, {"fileData"})))
    return rq.Opaque(NAME, "part", part)


def _object(source: Object, key: str) -> Object | None:
    return None if source.get(key) is None else reading.table(source, key)


def _json(args: Object | None) -> str:
    if args is None:
        return "{}"
    return json_of(args)


def _minted(given: Any) -> Object:
    return {} if given else {"minted": True}


def _more(key: str, fields: Object) -> Object:
    return {key: fields} if fields else {}
