"""generateContent requests → canonical. `write.py` is the way back; parts, tools and settings have files of their own.

Function responses come inside user contents; here they are messages of role `tool`, and what stood beside them follows
in a user message marked as joined. Camel case and snake case are read; camel case is written, as both mean the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock import reading
from penstock import request as rq
from penstock.carrying import restored
from penstock.carrying.free import free_calls
from penstock.carrying.systems import told_apart
from penstock.errors import BadRequest
from penstock.protocols.gemini.own import NAME, SEAL
from penstock.protocols.gemini.request_interactions import is_interaction, read_interaction
from penstock.protocols.gemini.request_parts import Parts
from penstock.protocols.gemini.request_settings import read_settings
from penstock.protocols.gemini.request_tools import read_choice, read_tools
from penstock.protocols.gemini.spelling import keys
from penstock.reading import keep, rest, unsaid

if TYPE_CHECKING:
    from penstock.events import Extra
    from penstock.pick import Object

ROLES: dict[Any, rq.Role] = {"user": "user", "model": "assistant", "function": "user", "": "user", None: "user"}
_REQUEST = frozenset({"model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig"})
_CONTENT = frozenset({"role", "parts"})


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body. The model is named in the URL; some bodies say it again."""
    reading.as_object(body)
    if is_interaction(body):
        return read_interaction(body)
    outer, body = _unwrapped(keys(body))
    parts = Parts()
    tools = read_tools(body)
    messages = [*_system(body.get("systemInstruction"), parts), *_contents(body.get("contents"), parts)]
    free_calls(messages, tools)
    config = reading.table(body, "toolConfig")
    settings, more, marks = _settings(body)
    choice, beside = read_choice(keys(config))
    model = reading.text(body, "model") or reading.text(outer, "model")
    extra = keep(
        NAME,
        {**rest(body, _REQUEST), **_if(generationConfig=more, toolConfig=beside)},
        model="model" in body,
        single=isinstance(body.get("contents"), dict),
        outer=outer,
        unsaid=unsaid(body, _REQUEST),
        **marks,
    )
    return rq.Request(
        model, restored(messages), tools, choice, settings, extra=extra, diagnostics=parts.diagnostics
    )  # fmt: skip


def _settings(body: Object) -> tuple[rq.Settings, Object, Object]:
    if body.get("generationConfig") is None:
        return rq.Settings(), {}, {}
    return reading.inside(body, "generationConfig", read_settings)


def _if(**fields: Object) -> Object:
    return {key: value for key, value in fields.items() if value}


def _unwrapped(body: Object) -> tuple[Object, Object]:
    """Code Assist puts the request under a key of its own, with the model beside it."""
    inner = body.get("request")
    if not isinstance(inner, dict) or "contents" in body:
        return {}, body
    return rest(body, {"request"}), keys(cast("Object", inner))


def _system(given: Any, parts: Parts) -> list[rq.Message]:
    """The system instruction: a content, or its text alone."""
    if not given:
        return []
    if isinstance(given, str):
        return [rq.Message("system", [rq.Text(given)], extra=keep(NAME, {}, bare=True))]
    content = keys(reading.as_object(given, "systemInstruction"))
    try:
        said = _parts(content, parts)
    except BadRequest as error:
        raise error.at("systemInstruction") from None
    marks = {"role": content.get("role") or "", "single": isinstance(content.get("parts"), dict)}
    return [rq.Message("system", said, extra=keep(NAME, rest(content, _CONTENT), **marks))]


def _contents(given: Any, parts: Parts) -> list[rq.Message]:
    if isinstance(given, dict):
        given = [given]
    if not isinstance(given, list):
        raise BadRequest("a list", given, "contents")
    reader = _Contents(parts)
    rows = reading.each(given, reader.read, "contents")  # pyright: ignore[reportUnknownArgumentType]
    return [message for row in rows for message in row]


def _parts(content: Object, parts: Parts) -> list[rq.AnyPart]:
    given = content.get("parts")
    if isinstance(given, dict):
        return reading.each([given], parts.read, "parts")
    return reading.rows(content, "parts", parts.read)


class _Contents:
    """State: who spoke last, and how many have."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._count = 0
        self._last = ""
        self._results = False  # whether the last content held function responses

    def read(self, content: Object) -> list[rq.Message]:
        """One content: two messages where function responses and other parts share it."""
        content = keys(content)
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
        unknown = rest(content, _CONTENT) if content.keys() - _CONTENT else {}
        marks: Object = {"single": True} if isinstance(content.get("parts"), dict) else {}
        if odd or role not in ("user", "model"):
            marks["role"] = role or "none"
        return self._messages(canonical, said, unknown, marks)

    def _messages(self, role: rq.Role, said: list[rq.AnyPart], unknown: Object, marks: Object) -> list[rq.Message]:
        extra = keep(NAME, unknown, **marks) if unknown or marks else None
        results = [place for place, part in enumerate(said) if type(part) is rq.Result and part.by == "client"]
        again, self._results = self._results, bool(results)
        if results:
            return _answers(role, said, results, keep(NAME, unknown, **marks, apart=again))
        if role == "assistant":
            return [rq.Message(role, said, extra=extra)]
        first, *more = told_apart(said, SEAL)
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
    others.extra = keep(NAME, {}, joined=True, places=[] if first else places)
    return [*made, others]
