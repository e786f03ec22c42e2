"""What a thin VS Code client sends: the host's messages and tools as JSON → canonical. `write.py` is the way back.

Parts are told by their shape, because the host's classes are gone in JSON; a `kind`, where there is one, has the last
word. Tool results stand in the user's messages; here they have messages of role `tool`, and what stood beside them
follows, marked as joined. Parts that hosts keep for themselves are never content. docs/vscode-parts.md has the form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._diagnostics import Diagnostics
from penstock._jsontext import as_json
from penstock._markers import extract_markers, input_json
from penstock._protocols.vscode import request_settings
from penstock._protocols.vscode.request_parts import CACHE, kind_of, ours, read_bytes, read_data, read_tree, text_in
from penstock._protocols.vscode.request_settings import NAME
from penstock._protocols.vscode.thinking import Thought, note_raw, read_run
from penstock._protocols.vscode.wire import VERSION
from penstock._request_writer import split_extra
from penstock._strict_fields import build_extra
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock._lenient_fields import Object

ROLES: dict[Any, rq.Role] = {
    1: "user",
    2: "assistant",
    3: "system",
    "user": "user",
    "assistant": "assistant",
    "system": "system",
}
_KNOWN = frozenset(
    {
        "version",
        "model",
        "messages",
        "tools",
        "toolMode",
        "modelOptions",
        "modelConfiguration",
        "providerOptions",
        "stream",
    }
)
_TEXT = frozenset({"kind", "value", "refusal", "$mid"})
_CALL = frozenset({"kind", "callId", "name", "input", "extra"})
_RESULT = frozenset({"kind", "callId", "content", "isError", "$mid"})


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    notes = Diagnostics("vscode request")
    version = strict.get_integer(strict.as_object(body), "version")
    if version is not None and version > VERSION:
        notes.add("version", f"version {version} of the wire form is newer than this reader")
    tools = strict.read_objects(body, "tools", request_settings.read_tool)
    reader = _Reader(frozenset(tool.name for tool in tools if tool.kind == "custom"), notes)
    rows = strict.read_objects(body, "messages", reader.message, need=True)
    asked, own, marks = request_settings.read_settings(body)
    nulls = {key: None for key in body if key in _KNOWN and body[key] is None}
    streamed = strict.get_flag(body, "stream")
    return rq.Request(
        strict.get_text(body, "model"),
        extract_markers(reader.named([message for row in rows for message in row])),
        tools,
        request_settings.read_choice(body),
        asked,
        stream=streamed is not False,
        options=strict.get_object(body, "providerOptions"),
        extra=build_extra(
            NAME,
            {**strict.unknown_fields(body, _KNOWN), **own},
            **marks,
            also=nulls,
            bare=reader.bare,
            streamed=streamed is True,
            version=version or "-",
            tools=body.get("tools") == [],
        ),
        diagnostics=list(notes),
    )


class _Reader:
    """One request being read. State: tools of free text, the tool of each call, whether any part names its kind."""

    def __init__(self, custom: frozenset[str], notes: Diagnostics) -> None:
        self._custom = custom
        self._notes = notes
        self._names: dict[str, str] = {}
        self.bare = True

    def message(self, message: Object) -> list[rq.Message]:
        role = message.get("role")
        if isinstance(role, bool) or not isinstance(role, int | str) or role not in ROLES:
            raise BadRequest("1 (user), 2 (assistant) or 3 (system)", role, "role")
        content = message.get("content")
        if isinstance(content, str):
            units: list[list[rq.AnyPart]] = [[rq.Text(content)]]
            host: list[list[Any]] = []
        else:
            units, host = self._units(message)
        if len(message) == 2 and not host and not isinstance(content, str) and isinstance(role, int):  # noqa: PLR2004 — role and content: most are so
            return apart(rq.Message(ROLES[role]), units)
        own = {key: value for key, value in message.items() if key not in ("role", "content", "name")}
        spelled = {"host": host, "role": role if isinstance(role, str) else "", "text": isinstance(content, str)}
        extra = build_extra(NAME, own, **spelled, marker=marker(host))
        return apart(rq.Message(ROLES[role], [], strict.get_text(message, "name"), extra), units)

    def _units(self, message: Object) -> tuple[list[list[rq.AnyPart]], list[list[Any]]]:
        """Content in units, the parts that one element became (a run of thinking is one); and what is the host's."""
        units: list[list[rq.AnyPart]] = []
        host: list[list[Any]] = []
        given: list[Thought] = []
        run: list[Object] = []
        elements = strict.read_objects(message, "content", lambda part: part, need=True)
        for place, part in enumerate(elements):
            kind = kind_of(part)
            if "kind" in part:
                self.bare = False
            try:
                if kind == "thinking":
                    run.append(part)
                    if place + 1 == len(elements) or kind_of(elements[place + 1]) != "thinking":
                        units += self._thought(run, given, host, place)
                        run = []
                elif kind != "data" or not take(part, place, units, host):
                    units.append(self._part(kind, part))
            except BadRequest as error:
                raise error.at(place).at("content") from None
        return units, host

    def _thought(
        self, run: list[Object], given: list[Thought], host: list[list[Any]], place: int
    ) -> list[list[rq.AnyPart]]:
        parts, sound = read_run(run, given)
        if not sound:
            self._notes.add("thinking-state", "the state of earlier reasoning was changed on the way and is left out")
        if not parts:
            host += [[place + 1 - len(run) + at, part] for at, part in enumerate(run)]
            return []
        note_raw(parts, run)
        return [[*parts]]

    def _part(self, kind: str, part: Object) -> list[rq.AnyPart]:
        read = self.kinds.get(kind)
        return [rq.Opaque(NAME, kind, part)] if read is None else read(self, part)

    def _text(self, part: Object) -> list[rq.AnyPart]:
        if len(part) == 1 and "value" in part:
            return [rq.Text(part["value"])]
        made = rq.Text(strict.require_text(part, "value"), strict.get_flag(part, "refusal") or False)
        made.extra = build_extra(NAME, strict.unknown_fields(part, _TEXT), mid=part.get("$mid"))
        return [made]

    def _data(self, part: Object) -> list[rq.AnyPart]:
        return [read_data(part)]

    def _tree(self, part: Object) -> list[rq.AnyPart]:
        return [*read_tree(part, part.get("value"))]

    def _call(self, part: Object) -> list[rq.AnyPart]:
        made = rq.Call(strict.require_text(part, "callId"), strict.require_text(part, "name"))
        self._names[made.id] = made.name
        given = part.get("input")
        own = {key: value for key, value in part.items() if key not in _CALL or value is None}
        told = strict.get_object(part, "extra")
        state = strict.pick_provider_state(told)
        odd = told if told != state else None
        made.extra = {**state, **(build_extra(NAME, own, silent=given is None, state=odd) or {})} or None
        only = lenient.get_text(lenient.as_object(given), "input")
        if made.name in self._custom and given == {"input": only}:
            made.json, made.form = only, "text"
        elif given is not None:
            made.json = input_json(given) if isinstance(given, dict) else as_json(given)
        return [made]

    def _result(self, part: Object) -> list[rq.AnyPart]:
        content = part.get("content")
        made = rq.Result(strict.require_text(part, "callId"))
        host: list[list[Any]] = []
        if isinstance(content, str):
            made.content = [rq.Text(content)]
        elif isinstance(content, list):
            made.content = self._contents(content, host)  # pyright: ignore[reportUnknownArgumentType]
        else:
            raise BadRequest("a list of parts", content, "content")
        made.failed = strict.get_flag(part, "isError") or False
        made.extra = build_extra(
            NAME,
            strict.unknown_fields(part, _RESULT),
            unfailed=part.get("isError") is False,
            text=isinstance(content, str),
            host=host,
            mid=part.get("$mid"),
        )
        return [made]

    def _contents(self, content: Sequence[Any], host: list[list[Any]]) -> list[rq.ResultPart]:
        units: list[list[rq.ResultPart]] = []
        for place, part in enumerate(content):
            try:
                whole = {"value": part} if isinstance(part, str) else strict.as_object(part)
                if kind_of(whole) != "data" or not take(whole, place, units, host):
                    units.append(self._content(whole, string=isinstance(part, str)))
            except BadRequest as error:
                raise error.at(place).at("content") from None
        return [part for unit in units for part in unit]

    def _content(self, part: Object, *, string: bool) -> list[Any]:
        """One thing that a tool gave; what has no shape of its own is a JSON value."""
        if string:
            return [rq.Text(part["value"], extra=build_extra(NAME, {}, string=True))]
        kind = kind_of(part)
        self.bare = self.bare and "kind" not in part
        if kind == "data":
            return [read_data(part, inside=True)]
        return self._text(part) if kind == "text" else read_tree(part, part.get("value", part), inside=True)

    def named(self, messages: list[rq.Message]) -> list[rq.Message]:
        """Every result with its tool's name, wherever its call stands."""
        for message in messages:
            if message.role == "tool":
                for part in message.parts:
                    if type(part) is rq.Result:
                        part.name = self._names.get(part.call, "")
        return messages

    kinds: ClassVar[Mapping[str, Callable[[Any, Object], list[rq.AnyPart]]]] = {
        "text": _text,
        "call": _call,
        "result": _result,
        "data": _data,
        "tree": _tree,
    }


MARKER = "stateful_marker"
HINTS = {"ephemeral": "5m", "1h": "1h"}  # the host knows the first; the other is for what we write ourselves


def take(part: Object, place: int, units: Sequence[Sequence[rq.Part]], host: list[list[Any]]) -> bool:
    """Whether a data part is the host's; if so, it is dealt with."""
    mime = strict.require_text(part, "mimeType")
    if "/" in mime and not ours(mime):
        return False
    word = text_in(read_bytes(part)[0]) if mime == CACHE else None
    if word in HINTS and units and not units[-1][-1].cache and _plain(part):
        units[-1][-1].cache = HINTS[word]
    else:
        host.append([place, part])
    return True


def _plain(part: Object) -> bool:
    return part.keys() <= {"kind", "mimeType", "data"} and isinstance(part["data"], str)


def marker(host: Sequence[list[Any]]) -> str:
    """The last marker of state among a message's host parts: a model's id, a backslash, and what was stored."""
    found = [part for _, part in host if part.get("mimeType") == MARKER]
    return text_in(read_bytes(found[-1])[0]) or "" if found else ""


def apart(message: rq.Message, units: list[list[rq.AnyPart]]) -> list[rq.Message]:
    """The message with these units, and behind it what goes into one of its own."""
    results = [place for place, unit in enumerate(units) if type(unit[0]) is rq.Result]
    if not results:
        message.parts = [part for unit in units for part in unit]
        return [message]
    others = [place for place in range(len(units)) if place not in results]
    # results stand before what else a user says, and behind what an assistant says
    rows: list[tuple[rq.Role, list[int]]] = [("tool", results), (message.role, others)]
    if message.role == "assistant":
        rows.reverse()
    made = [rq.Message(role, [part for place in row for part in units[place]]) for role, row in rows if row]
    own, marks = split_extra(message.extra, NAME)
    if not others and message.role != "user":
        marks = {**marks, "whose": message.role}
    made[0].extra, made[0].name = build_extra(NAME, own, **marks), message.name
    if len(made) > 1:
        made[1].extra = build_extra(NAME, {}, joined=rows[1][1])
    return made


def together(first: list[list[Object]], second: list[list[Object]], places: Any) -> list[list[Object]]:
    """The elements of two messages as those of one."""
    if not isinstance(places, list):
        return [*first, *second]
    made = list(first)
    for place, unit in zip(places, second, strict=False):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        made.insert(place, unit)  # pyright: ignore[reportUnknownArgumentType]
    return [*made, *second[len(places) :]]  # pyright: ignore[reportUnknownArgumentType]


def flat(units: Iterable[Iterable[Object]], host: Sequence[list[Any]]) -> list[Object]:
    """The content of a message, with what is the host's at its places."""
    made = [element for unit in units for element in unit]
    for place, part in host:
        made.insert(place, part)
    return made
