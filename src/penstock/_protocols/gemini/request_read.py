"""generateContent requests → canonical requests. `request_write` does the reverse.

Function responses come inside user contents. They become messages of role `tool`; other parts of the same content
follow in a user message that is marked as joined. Camel case and snake case are read; camel case is written.

A call without an id gets one from its position; a result without an id answers the calls of its name in order. Both
have a mark, so that the made-up id is not sent back.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, cast

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._diagnostics import Diagnostic
from penstock._lenient_json import as_json
from penstock._markers import extract_markers, input_json, restore_free_text_calls, split_system_parts
from penstock._media import sniff_media_type
from penstock._protocols.gemini.decode_calls import CODE_EXECUTION, get_tool_name
from penstock._protocols.gemini.request_interactions import is_interaction, read_interaction
from penstock._protocols.gemini.request_settings import read_settings
from penstock._protocols.gemini.request_tools import read_choice, read_response, read_tools
from penstock._protocols.gemini.wire import NAME, SYSTEM_SEAL, to_camel_keys
from penstock._request_writer import drop_empty
from penstock._strict_fields import ResultMatcher, build_extra, empty_fields, unknown_fields
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._lenient_fields import Object
    from penstock.events import Extra

_ROLES: dict[Any, rq.Role] = {"user": "user", "model": "assistant", "function": "user", "": "user", None: "user"}
_REQUEST = frozenset({"model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig"})
_CONTENT = frozenset({"role", "parts"})
_URL_SAFE = re.compile(r"[A-Za-z0-9_-]+={0,2}")
_TO_STANDARD = str.maketrans("-_", "+/")  # some clients send URL-safe Base64


def read_request(body: Object) -> rq.Request:
    """Reads a parsed body. The URL names the model; some bodies repeat it."""
    strict.as_object(body)
    if is_interaction(body):
        return read_interaction(body)
    wrapper, body = _unwrap_body(to_camel_keys(body))
    reader = ContentReader()
    tools = read_tools(body)
    messages = [*reader.read_system(body.get("systemInstruction")), *reader.read_contents(body.get("contents"))]
    restore_free_text_calls(messages, tools)
    config = strict.read_optional(body, "generationConfig", read_settings)
    settings, other_settings, marks = config or (rq.Settings(), {}, {})
    choice, other_config = read_choice(to_camel_keys(strict.get_object(body, "toolConfig")))
    model = strict.get_text(body, "model") or strict.get_text(wrapper, "model")
    fields = unknown_fields(body, _REQUEST) | drop_empty(generationConfig=other_settings, toolConfig=other_config)
    marks |= {"model": "model" in body, "single": isinstance(body.get("contents"), dict)}
    extra = build_extra(NAME, fields, outer=wrapper, unsaid=empty_fields(body, _REQUEST), **marks)
    diagnostics = reader.diagnostics
    messages = extract_markers(messages, failed=False)
    return rq.Request(model, messages, tools, choice, settings, extra=extra, diagnostics=diagnostics)


def _unwrap_body(body: Object) -> tuple[Object, Object]:
    """Code Assist puts the request under the key `request`, with the model beside it."""
    inner = body.get("request")
    if not isinstance(inner, dict) or "contents" in body:
        return {}, body
    return unknown_fields(body, {"request"}), to_camel_keys(cast("Object", inner))


class ContentReader:
    """Reads the contents of one conversation. State: the position, the last role, and calls without results."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._calls = ResultMatcher()
        self._runs = ResultMatcher()  # of tools that Google ran
        self._content = self._number = -1
        self._last_role = ""
        self._has_results = False  # the last content had function responses

    # ── contents ──────────────────────────────────────────────────────────────────────────────────

    def read_system(self, instruction: Any) -> list[rq.Message]:
        """Reads the system instruction: a content, or only its text."""
        if not instruction:
            return []
        if isinstance(instruction, str):
            return [rq.Message("system", [rq.Text(instruction)], extra=build_extra(NAME, {}, bare=True))]
        content = to_camel_keys(strict.as_object(instruction, "systemInstruction"))
        try:
            parts = self._read_parts(content)
        except BadRequest as error:
            raise error.at("systemInstruction") from None
        marks = {"role": content.get("role") or "", "single": isinstance(content.get("parts"), dict)}
        return [rq.Message("system", parts, extra=build_extra(NAME, unknown_fields(content, _CONTENT), **marks))]

    def read_contents(self, contents: Any) -> list[rq.Message]:
        if isinstance(contents, dict):
            contents = [contents]
        rows = strict.read_objects({"contents": contents}, "contents", self._read_content, need=True)
        return [message for row in rows for message in row]

    def _read_parts(self, content: Object) -> list[rq.AnyPart]:
        if isinstance(content.get("parts"), dict):
            content = {"parts": [content["parts"]]}
        return strict.read_objects(content, "parts", self._read_part)

    def _read_content(self, content: Object) -> list[rq.Message]:
        """Reads one content; two messages if it has function responses and other parts."""
        content = to_camel_keys(content)
        wire_role = content.get("role")
        if not isinstance(wire_role, str | None) or wire_role not in _ROLES:
            raise BadRequest("user, model or function", wire_role, "role")
        role = _ROLES[wire_role]
        if role == "assistant" and self._last_role != "assistant":
            self._calls.begin()
        self._content, self._number = self._content + 1, -1
        parts = self._read_parts(content)
        misplaced = role == "user" and any(type(part) is rq.Call for part in parts)
        self._last_role = role = "assistant" if misplaced else role  # only the model calls
        marks: Object = {"single": True} if isinstance(content.get("parts"), dict) else {}
        if misplaced or wire_role not in ("user", "model"):
            marks["role"] = wire_role or "none"
        unknown = unknown_fields(content, _CONTENT) if content.keys() - _CONTENT else {}
        return self._split_messages(role, parts, unknown, marks)

    def _split_messages(
        self, role: rq.Role, parts: list[rq.AnyPart], unknown: Object, marks: Object
    ) -> list[rq.Message]:
        results = [position for position, part in enumerate(parts) if type(part) is rq.Result and part.by == "client"]
        follows_results, self._has_results = self._has_results, bool(results)
        if results:
            return _split_results(role, parts, results, build_extra(NAME, unknown, **marks, apart=follows_results))
        extra = build_extra(NAME, unknown, **marks) if unknown or marks else None
        if role == "assistant":
            return [rq.Message(role, parts, extra=extra)]
        first, *more = split_system_parts(parts, SYSTEM_SEAL)
        return [rq.Message(*first, extra=extra), *(rq.Message(*row) for row in more)]

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _read_part(self, part: Object) -> rq.AnyPart:
        self._number += 1
        part = to_camel_keys(part)
        if len(part) == 1 and type(part.get("text")) is str:
            return rq.Text(part["text"], extra=None if part["text"] else build_extra(NAME, {}, empty=True))
        kind = next((key for key in part if key in self.part_readers and part[key] is not None), "")
        if kind:
            part_fields, read = unknown_fields(part, {kind}), self.part_readers[kind]
            return strict.read_object(part, kind, lambda inner: read(self, kind, to_camel_keys(inner), part_fields))
        if part.get("text") is not None:
            return _read_text(part)
        if part.get("thoughtSignature"):
            return rq.Reasoning(form="redacted", extra=build_extra(NAME, unknown_fields(part, {"text"}), bare=True))
        return rq.Opaque(NAME, "part", part)

    def _mint_id(self, prefix: str) -> str:
        return f"{prefix}_{self._content}_{self._number}"

    def _read_call(self, _: str, call: Object, part_fields: Object) -> rq.Call:
        sent_id, name, args = strict.get_text(call, "id"), strict.require_text(call, "name"), _get_object(call, "args")
        id = self._calls.call(sent_id, name, self._mint_id("call"))  # noqa: A001 — as the part calls it
        fields = {**part_fields, **_nest_fields("functionCall", unknown_fields(call, {"id", "name", "args"}))}
        extra = build_extra(NAME, fields, minted=not sent_id, bare=args is None)
        return rq.Call(id, name, "{}" if args is None else input_json(args), extra=extra)

    def _read_result(self, _: str, result: Object, part_fields: Object) -> rq.Result:
        sent_id, name = strict.get_text(result, "id"), strict.require_text(result, "name")
        call = self._calls.result(sent_id, name)
        if not call:
            self.diagnostics.append(Diagnostic("no-call", f"a result of {name!r} belongs to no call", "gemini request"))
        id = call or sent_id or self._mint_id("call")  # noqa: A001 — as the part calls it
        files = strict.read_objects(result, "parts", _read_result_part)
        content, failed, marks = read_response(_get_object(result, "response"), files)
        unknown = unknown_fields(result, {"id", "name", "response", "parts"})
        fields = {**part_fields, **_nest_fields("functionResponse", unknown)}
        extra = build_extra(NAME, fields, minted=not sent_id, id=sent_id if sent_id != id else "", **marks)
        return rq.Result(id, name, content, failed, extra=extra)

    # ── what Google ran ───────────────────────────────────────────────────────────────────────────

    def _read_file_part(self, kind: str, file: Object, part_fields: Object) -> rq.File:
        return _read_file(kind, file, part_fields)

    def _read_run(self, kind: str, call: Object, part_fields: Object) -> rq.Call:
        name, args, fields = _read_run_fields(kind, call, part_fields, "args")
        id = self._runs.call(strict.get_text(call, "id"), name, self._mint_id("run"))  # noqa: A001 — as the part calls it
        return rq.Call(id, name, as_json(args), "provider", extra={NAME: fields})

    def _read_run_result(self, kind: str, result: Object, part_fields: Object) -> rq.Result:
        name, output, fields = _read_run_fields(kind, result, part_fields, "response")
        call = self._runs.result(strict.get_text(result, "id"), name)
        failed = kind == "codeExecutionResult" and result.get("outcome") not in ("OUTCOME_OK", 1)
        return rq.Result(call, name, [rq.Json(as_json(output))], failed, by="provider", extra={NAME: fields})

    part_readers: ClassVar[Mapping[str, Callable[[Any, str, Object, Object], rq.AnyPart]]] = {
        "functionCall": _read_call,
        "functionResponse": _read_result,
        **dict.fromkeys(("inlineData", "fileData"), _read_file_part),
        **dict.fromkeys(("executableCode", "toolCall"), _read_run),
        **dict.fromkeys(("codeExecutionResult", "toolResponse"), _read_run_result),
    }


def _read_run_fields(kind: str, run: Object, part_fields: Object, key: str) -> tuple[str, Object, Object]:
    """Returns the name of a tool that Google ran, its input or output, and the fields for extra data."""
    minted: Object = {} if run.get("id") else {"minted": True}
    if kind in ("executableCode", "codeExecutionResult"):
        return CODE_EXECUTION, unknown_fields(run, {"id"}), {**part_fields, "part": kind, **minted}
    tool = strict.get_text(run, "toolType")
    fields = {**part_fields, "part": kind, "toolType": tool, **minted}
    return get_tool_name(tool), strict.get_object(run, key), fields


def _read_text(part: Object) -> rq.Text | rq.Reasoning:
    text = strict.get_text(part, "text")
    if strict.get_flag(part, "thought"):
        return rq.Reasoning(text, extra=build_extra(NAME, unknown_fields(part, {"text", "thought"})))
    extra = build_extra(NAME, unknown_fields(part, {"text"}))
    is_signature = not text and part.get("thoughtSignature")
    return rq.Reasoning(form="redacted", extra=extra) if is_signature else rq.Text(text, extra=extra)


def _read_file(kind: str, file: Object, part_fields: Object) -> rq.File:
    """Reads a file that is sent as Base64 (`inlineData`) or as a URL (`fileData`)."""
    file = to_camel_keys(file)
    is_link = kind == "fileData"
    media, url = strict.get_text(file, "mimeType"), strict.require_text(file, "fileUri") if is_link else ""
    data = "" if is_link else strict.get_text(file, "data")
    url_safe = ("-" in data or "_" in data) and _URL_SAFE.fullmatch(data) is not None
    if url_safe:
        data = data.translate(_TO_STANDARD)
        data += "=" * (-len(data) % 4)
    unknown = unknown_fields(file, {"mimeType", "displayName", "fileUri" if is_link else "data"})
    fields = {**part_fields, **_nest_fields(kind, unknown)}
    extra = build_extra(NAME, fields, web=url_safe, untyped=is_link and not media)
    media = media or (data and sniff_media_type(data)) or "application/octet-stream"
    return rq.File(media, url, data, name=strict.get_text(file, "displayName"), extra=extra)


def _read_result_part(part: Object) -> rq.File | rq.Opaque:
    """Reads a part of a function response."""
    part = to_camel_keys(part)
    kind = next((key for key in ("inlineData", "fileData") if part.get(key) is not None), "")
    if not kind:
        return rq.Opaque(NAME, "part", part)
    return strict.read_object(part, kind, lambda file: _read_file(kind, file, unknown_fields(part, {kind})))


def _split_results(role: rq.Role, parts: list[rq.AnyPart], results: list[int], extra: Extra | None) -> list[rq.Message]:
    tool = rq.Message("tool", [parts[position] for position in results], extra=extra)
    positions = [position for position in range(len(parts)) if position not in results]
    if not positions:
        return [tool]
    others = rq.Message(role, [parts[position] for position in positions])
    if role == "assistant":
        return [others, tool]
    results_first = positions == list(range(len(results), len(parts)))
    others.extra = build_extra(NAME, {}, joined=True, places=[] if results_first else positions)
    return [tool, others]


def _nest_fields(key: str, fields: Object) -> Object:
    return {key: fields} if fields else {}


def _get_object(source: Object, key: str) -> Object | None:
    return None if source.get(key) is None else strict.get_object(source, key)
