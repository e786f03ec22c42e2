"""The requests of a thin VS Code client → canonical requests. `request_write.py` is the inverse.

JSON has no classes, so the fields of a part show its kind; a `kind` field takes precedence. Tool results are in the
user's messages; here they have messages of role `tool`, and the other parts follow in a message that is marked as
joined. Parts that hosts keep for themselves are never content. docs/vscode-parts.md describes the form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._diagnostics import Diagnostics
from penstock._lenient_json import as_json
from penstock._markers import extract_markers, input_json
from penstock._protocols.vscode import encode_parts, request_fields
from penstock._protocols.vscode.encode_parts import ReasoningState
from penstock._protocols.vscode.request_fields import part_kind, read_bytes, read_data, read_tree
from penstock._protocols.vscode.wire import NAME, VERSION
from penstock._request_writer import split_extra
from penstock._strict_fields import build_extra
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._lenient_fields import Object
    from penstock.events import Extra

_ROLES: tuple[rq.Role, ...] = ("user", "assistant", "system")
ROLES: dict[Any, rq.Role] = {**dict(enumerate(_ROLES, 1)), **{role: role for role in _ROLES}}
_KNOWN_FIELDS = "version model messages tools toolMode modelOptions modelConfiguration providerOptions stream"
_KNOWN = frozenset(_KNOWN_FIELDS.split())
_TEXT = frozenset({"kind", "value", "refusal", "$mid"})
_CALL = frozenset({"kind", "callId", "name", "input", "extra"})
_RESULT = frozenset({"kind", "callId", "content", "isError", "$mid"})


def read_request(body: Object) -> rq.Request:
    """Reads a request from its parsed body."""
    diagnostics = Diagnostics("vscode request")
    version = strict.get_integer(strict.as_object(body), "version")
    if version is not None and version > VERSION:
        diagnostics.add("version", f"version {version} of the wire form is newer than this reader")
    tools = strict.read_objects(body, "tools", request_fields.read_tool)
    reader = VSCodeRequestReader(frozenset(tool.name for tool in tools if tool.kind == "custom"), diagnostics)
    rows = strict.read_objects(body, "messages", reader.read_message, need=True)
    settings, own, marks = request_fields.read_settings(body)
    marks["also"] = {key: None for key in body if key in _KNOWN and body[key] is None}
    streamed = strict.get_flag(body, "stream")
    marks |= {"bare": reader.is_bare, "streamed": streamed is True}
    marks |= {"version": version or "-", "tools": body.get("tools") == []}
    return rq.Request(
        strict.get_text(body, "model"),
        extract_markers(
            reader.name_results([message for row in rows for message in row]), failed=False, refusals=False
        ),
        tools,
        request_fields.read_choice(body),
        settings,
        stream=streamed is not False,
        options=strict.get_object(body, "providerOptions"),
        extra=build_extra(NAME, {**strict.unknown_fields(body, _KNOWN), **own}, **marks),
        diagnostics=list(diagnostics),
    )


class VSCodeRequestReader:
    """Reads one request. State: free-text tools, the tool of each call, whether no part names its kind."""

    def __init__(self, custom: frozenset[str], diagnostics: Diagnostics) -> None:
        self._custom = custom
        self._diagnostics = diagnostics
        self._names: dict[str, str] = {}
        self.is_bare = True

    def read_message(self, message: Object) -> list[rq.Message]:
        role = message.get("role")
        if isinstance(role, bool) or not isinstance(role, int | str) or role not in ROLES:
            raise BadRequest("1 (user), 2 (assistant) or 3 (system)", role, "role")
        content, host = message.get("content"), list[list[Any]]()
        is_text = isinstance(content, str)
        units: list[list[rq.AnyPart]] = [[rq.Text(str(content))]] if is_text else self._read_units(message, host)
        if len(message) == 2 and not host and not is_text and isinstance(role, int):  # noqa: PLR2004 — the usual message
            return split_results(rq.Message(ROLES[role]), units)
        own = strict.unknown_fields(message, {"role", "content", "name"})
        marks = {"host": host, "role": role if isinstance(role, str) else "", "text": is_text}
        extra = build_extra(NAME, own, **marks, marker=_last_marker(host))
        return split_results(rq.Message(ROLES[role], [], strict.get_text(message, "name"), extra), units)

    def _read_units(self, message: Object, host: list[list[Any]]) -> list[list[rq.AnyPart]]:
        """Returns the parts of each element (a run of thinking is one element). `host` collects the host's parts."""
        units: list[list[rq.AnyPart]] = []
        states: list[ReasoningState] = []
        run: list[Object] = []
        elements = strict.read_objects(message, "content", lambda part: part, need=True)
        for position, part in enumerate(elements):
            kind = part_kind(part)
            self.is_bare = self.is_bare and "kind" not in part
            try:
                if kind == "thinking":
                    run.append(part)
                    if position + 1 == len(elements) or part_kind(elements[position + 1]) != "thinking":
                        units += self._read_thinking(run, states, host, position)
                        run = []
                elif kind != "data" or not _read_host_part(part, position, units, host):
                    units.append(self._read_part(kind, part))
            except BadRequest as error:
                raise error.at(position).at("content") from None
        return units

    def _read_thinking(
        self, run: list[Object], states: list[ReasoningState], host: list[list[Any]], position: int
    ) -> list[list[rq.AnyPart]]:
        reasoning, is_intact = read_thinking(run, states)
        if not is_intact:
            text = "the state of earlier reasoning was changed on the way and is left out"
            self._diagnostics.add("thinking-state", text)
        if not reasoning:
            host += [[position + 1 - len(run) + at, part] for at, part in enumerate(run)]
            return []
        if [{**element, "kind": "thinking"} for element in run] != [write_thinking(reasoning)]:
            marks = {"raw": run, "run": len(reasoning)}
            reasoning[0].extra = {**(reasoning[0].extra or {}), NAME: {"_": marks}}
        return [[*reasoning]]

    def _read_part(self, kind: str, part: Object) -> list[rq.AnyPart]:
        read = self.kinds.get(kind)
        return [rq.Opaque(NAME, kind, part)] if read is None else read(self, part)

    def _read_text(self, part: Object) -> list[rq.AnyPart]:
        value = part.get("value")
        if type(value) is str and len(part) == 1 + ("kind" in part):
            return [rq.Text(value)]
        extra = build_extra(NAME, strict.unknown_fields(part, _TEXT), mid=part.get("$mid"))
        return [rq.Text(strict.require_text(part, "value"), strict.get_flag(part, "refusal") or False, extra=extra)]

    def _read_data(self, part: Object) -> list[rq.AnyPart]:
        return [read_data(part)]

    def _read_tree(self, part: Object) -> list[rq.AnyPart]:
        return [*read_tree(part, part.get("value"))]

    def _read_call(self, part: Object) -> list[rq.AnyPart]:
        call = rq.Call(strict.require_text(part, "callId"), strict.require_text(part, "name"))
        self._names[call.id] = call.name
        arguments = part.get("input")
        if type(arguments) is dict and len(part) == 3 + ("kind" in part) and call.name not in self._custom:
            call.json = input_json(arguments)  # the usual call, which has nothing else
            return [call]
        own = {key: value for key, value in part.items() if key not in _CALL or value is None}
        extra = strict.get_object(part, "extra")
        state = strict.pick_provider_state(extra)
        marks = {"silent": arguments is None, "state": extra if extra != state else None}
        call.extra = {**state, **(build_extra(NAME, own, **marks) or {})} or None
        text = lenient.get_text(lenient.as_object(arguments), "input")
        if call.name in self._custom and arguments == {"input": text}:
            call.json, call.form = text, "text"
        elif arguments is not None:
            call.json = input_json(arguments) if isinstance(arguments, dict) else as_json(arguments)
        return [call]

    def _read_result(self, part: Object) -> list[rq.AnyPart]:
        content, host = part.get("content"), list[list[Any]]()
        result = rq.Result(strict.require_text(part, "callId"))
        if isinstance(content, str):
            result.content = [rq.Text(content)]
        elif isinstance(content, list):
            result.content = self._read_contents(content, host)  # pyright: ignore[reportUnknownArgumentType]
        else:
            raise BadRequest("a list of parts", content, "content")
        if not host and not isinstance(content, str) and len(part) == 2 + ("kind" in part):
            return [result]  # the usual result, which has nothing else
        result.failed = strict.get_flag(part, "isError") or False
        marks: Object = {"unfailed": part.get("isError") is False, "text": isinstance(content, str), "host": host}
        result.extra = build_extra(NAME, strict.unknown_fields(part, _RESULT), **marks, mid=part.get("$mid"))
        return [result]

    def _read_contents(self, content: Sequence[Any], host: list[list[Any]]) -> list[rq.ResultPart]:
        units: list[list[rq.ResultPart]] = []
        for position, part in enumerate(content):
            try:
                if isinstance(part, str):
                    units.append([rq.Text(part, extra=build_extra(NAME, {}, string=True))])
                    continue
                element = strict.as_object(part)
                if part_kind(element) != "data" or not _read_host_part(element, position, units, host):
                    units.append(self._read_content(element))
            except BadRequest as error:
                raise error.at(position).at("content") from None
        return [part for unit in units for part in unit]

    def _read_content(self, part: Object) -> list[Any]:
        """Reads one element of a tool result. An element of an unknown shape is a JSON value."""
        kind = part_kind(part)
        self.is_bare = self.is_bare and "kind" not in part
        if kind == "data":
            return [read_data(part, in_result=True)]
        return self._read_text(part) if kind == "text" else read_tree(part, part.get("value", part), in_result=True)

    def name_results(self, messages: list[rq.Message]) -> list[rq.Message]:
        """Sets the tool's name of every result. Its call may follow in a later message."""
        for part in (part for message in messages if message.role == "tool" for part in message.parts):
            if type(part) is rq.Result:
                part.name = self._names.get(part.call, "")
        return messages

    kinds: ClassVar[Mapping[str, Callable[[Any, Object], list[rq.AnyPart]]]] = {
        "text": _read_text,
        "call": _read_call,
        "result": _read_result,
        "data": _read_data,
        "tree": _read_tree,
    }


MARKER = "stateful_marker"
CACHE_HINTS = {"ephemeral": "5m", "1h": "1h"}  # the host writes the first; only our writer writes the other


def _read_host_part(part: Object, position: int, units: Sequence[Sequence[rq.Part]], host: list[list[Any]]) -> bool:
    """Reads a data part that is not content: a cache hint, or a part of the host. False if it is content."""
    mime = strict.require_text(part, "mimeType")
    if "/" in mime and not mime.startswith(encode_parts.DATA_PREFIX):
        return False
    hint = request_fields.decode_text(read_bytes(part)[0]) if mime == request_fields.CACHE else None
    is_plain = part.keys() <= {"kind", "mimeType", "data"} and isinstance(part.get("data"), str)
    if hint in CACHE_HINTS and units and not units[-1][-1].cache and is_plain:
        units[-1][-1].cache = CACHE_HINTS[hint]
    else:
        host.append([position, part])
    return True


def _last_marker(host: Sequence[list[Any]]) -> str:
    """Returns the last state marker among a message's host parts: a model's id, a backslash, and the stored text."""
    markers = [part for _, part in host if part.get("mimeType") == MARKER]
    return request_fields.decode_text(read_bytes(markers[-1])[0]) or "" if markers else ""


def split_results(message: rq.Message, units: list[list[rq.AnyPart]]) -> list[rq.Message]:
    """Returns the message with these units. Tool results and the other units become two messages."""
    if len(units) == 1 and message.extra is None and not message.name:  # the usual message
        has_result = type(units[0][0]) is rq.Result
        if not has_result or message.role == "user":
            return [rq.Message("tool" if has_result else message.role, units[0])]
    results = [position for position, unit in enumerate(units) if type(unit[0]) is rq.Result]
    if not results:
        message.parts = [part for unit in units for part in unit]
        return [message]
    others = [position for position in range(len(units)) if position not in results]
    # results come before the rest of a user's message, and after the rest of an assistant's message
    rows: list[tuple[rq.Role, list[int]]] = [("tool", results), (message.role, others)]
    if message.role == "assistant":
        rows.reverse()
    messages = [rq.Message(role, [part for index in row for part in units[index]]) for role, row in rows if row]
    own, marks = split_extra(message.extra, NAME)
    if not others and message.role != "user":
        marks = {**marks, "whose": message.role}
    messages[0].extra, messages[0].name = build_extra(NAME, own, **marks), message.name
    if len(messages) > 1:
        messages[1].extra = build_extra(NAME, {}, joined=rows[1][1])
    return messages


# ── thinking ──────────────────────────────────────────────────────────────────────────────────────


def read_thinking(run: Sequence[Object], states: list[ReasoningState]) -> tuple[list[rq.Reasoning], bool]:
    """Returns the reasoning of consecutive thinking parts, and whether its state could be read.

    `states` are those of earlier reasoning in this message. Metadata may repeat them; they are not returned again.
    """
    value = "".join(_thinking_text(part) for part in run)
    id = next((id for part in reversed(run) if (id := strict.get_text(part, "id"))), "")  # noqa: A001
    metadata = next((data for part in reversed(run) if (data := strict.get_object(part, "metadata"))), dict[str, Any]())
    if not encode_parts.is_packed(metadata):
        return _read_foreign_thinking(value, id, metadata), True
    packed = encode_parts.unpack_reasoning(metadata)
    if not packed:
        return ([rq.Reasoning(value, item=id)] if value else []), False
    fresh = packed[len(states) :] if packed[: len(states)] == states else packed
    states += fresh
    return [
        rq.Reasoning(one.text, one.form, item=one.id, extra=strict.pick_provider_state(one.extra or {}) or None)
        for one in fresh
    ], True


def _thinking_text(part: Object) -> str:
    if not isinstance(part.get("value"), str | list):
        raise BadRequest("a string or a list of strings", part.get("value"), "value")
    return "".join(strict.get_strings(part, "value"))


def _read_foreign_thinking(value: str, id: str, metadata: Object) -> list[rq.Reasoning]:
    """Reads the metadata of another provider: a signature is Claude's, encrypted content is of the Responses API."""
    texts: dict[str, str] = {key: text for key, text in metadata.items() if isinstance(text, str) and text}
    extra: Extra = {}
    if encode_parts.SIGNATURE in texts:
        extra["anthropic"] = {"signature": texts[encode_parts.SIGNATURE]}
    if encode_parts.PACKED in texts:
        extra["responses"] = {"encrypted_content": texts[encode_parts.PACKED], **({"id": id} if id else {})}
    text = texts.get(encode_parts.COMPLETE, value)
    reasoning = [rq.Reasoning(text, item=id, extra=extra or None)] if text or extra else []
    if encode_parts.REDACTED in texts:
        state: Extra = {"anthropic": {"redacted": texts[encode_parts.REDACTED]}}
        reasoning.append(rq.Reasoning(form="redacted", extra=state))
    return reasoning


def write_thinking(run: Sequence[rq.Reasoning]) -> Object:
    """Writes consecutive reasoning as the one thinking part that a host would keep."""
    states = [ReasoningState(one.text, one.item, one.form, pick_others_state(one.extra) or None) for one in run]
    id = next((one.item for one in reversed(run) if one.item), "")  # noqa: A001
    part: Object = {"kind": "thinking", "value": "".join(one.text for one in run), **({"id": id} if id else {})}
    if len(run) > 1 or any(one.extra or one.form != "full" for one in states):
        part["metadata"] = encode_parts.pack_reasoning(states)
    return part


def pick_others_state(extra: Extra | None) -> Extra:
    """Returns the provider state of other protocols."""
    return strict.pick_provider_state({key: fields for key, fields in (extra or {}).items() if key != NAME})
