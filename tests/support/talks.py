"""Talks: small requests, made by hand or by Hypothesis, and what holds after every pass over one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import strategies as st

from penstock import request as rq
from tests.support.request_passes import Diagnostics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

IDS = st.sampled_from(["call_1", "call_2", "toolu_01", "x" * 90, "a:b/c", "functions.ls:0", "Ab3dE6gH9", "", "gw-1"])
NAMES = st.sampled_from(["read", "a.b", "a_b", "a-b", "9lives", "write file", "n" * 80, "n" * 79 + "m", "工具", "_"])
WORDS = st.sampled_from(["", " ", "hello", "Grüße", "two\nlines", "x" * 200])
TEXTS = st.builds(rq.Text, WORDS)
CALLS = st.builds(
    rq.Call, IDS, NAMES, st.sampled_from(["{}", '{"path":"a.py"}', ""]), cut=st.integers(0, 9).map(lambda n: n == 0)
)
FREE = st.builds(rq.Call, IDS, NAMES, st.sampled_from(["ls -l", "", '{"input":1}']), form=st.just("text"))
FILES = st.builds(
    rq.File, st.sampled_from(["image/png", "image/jpg", "audio/wav"]), data=st.sampled_from(["iVBORw0KGgo=", "AAAA"])
)
THOUGHTS = st.builds(rq.Reasoning, WORDS, extra=st.sampled_from([None, {"anthropic": {"signature": "c2ln"}}]))
CONTENT = st.lists(st.one_of(TEXTS, FILES, st.builds(rq.Json, st.just('{"ok":true}'))), max_size=2)
RESULTS = st.builds(rq.Result, IDS, st.one_of(st.just(""), NAMES), CONTENT, st.booleans())
MESSAGES = st.one_of(
    st.builds(rq.Message, st.just("system"), st.lists(TEXTS, max_size=2)),
    st.builds(rq.Message, st.just("user"), st.lists(st.one_of(TEXTS, FILES), max_size=2)),
    st.builds(rq.Message, st.just("assistant"), st.lists(st.one_of(TEXTS, THOUGHTS, CALLS, FREE), max_size=4)),
    st.builds(rq.Message, st.just("tool"), st.lists(RESULTS, min_size=1, max_size=3)),
)
TOOLS = st.builds(
    rq.Tool, NAMES, kind=st.sampled_from(["function", "custom"]), namespace=st.sampled_from(["", "", "fs", "mcp.x"])
)
REQUESTS = st.builds(
    rq.Request,
    st.just("m"),
    st.lists(MESSAGES, max_size=10),
    st.lists(TOOLS, max_size=5, unique_by=lambda tool: (tool.namespace, tool.name)),
)


def plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


def ask(*messages: rq.Message, tools: Iterable[rq.Tool] = ()) -> rq.Request:
    return rq.Request("m", list(messages), list(tools))


def user(*said: str | rq.AnyPart) -> rq.Message:
    return rq.Message("user", _parts(said))


def system(*said: str | rq.AnyPart) -> rq.Message:
    return rq.Message("system", _parts(said))


def assistant(*said: str | rq.AnyPart) -> rq.Message:
    return rq.Message("assistant", _parts(said))


def tool(*results: rq.Result) -> rq.Message:
    return rq.Message("tool", list(results))


def call(id: str, name: str = "read", json: str = "{}", **more: Any) -> rq.Call:
    return rq.Call(id, name, json, **more)


def result(id: str, text: str = "fine", **more: Any) -> rq.Result:
    return rq.Result(id, content=[rq.Text(text)], **more)


def _parts(said: Iterable[str | rq.AnyPart]) -> list[rq.AnyPart]:
    return [rq.Text(part) if isinstance(part, str) else part for part in said]


def codes(notes: Diagnostics) -> list[str]:
    return [note.code for note in notes]


def steady(request: rq.Request, change: Callable[[rq.Request, Diagnostics], rq.Request]) -> rq.Request:
    """What a pass makes of a request: the same again the second time, and the request given is left as it was."""
    before = plain(request)
    made = change(request, Diagnostics())
    assert plain(request) == before
    assert plain(change(made, Diagnostics())) == plain(made)
    return made


def talk(*lines: str | rq.Message) -> rq.Request:
    """A request of lines as `shape` writes them, "assistant text call:a"; messages stand for themselves."""
    return rq.Request("m", [_said(line) if isinstance(line, str) else line for line in lines])


def _said(line: str) -> rq.Message:
    role, *words = line.split()
    made: dict[str, Callable[[str], rq.AnyPart]] = {"text": lambda _: rq.Text("hi"), "call": call, "result": result}
    return rq.Message(role, [made[kind](id_) for kind, _, id_ in (word.partition(":") for word in words)])  # type: ignore[arg-type]


def shape(request: rq.Request) -> list[str]:
    """Who says what kind of thing, in a line each."""
    return [f"{one.role} {' '.join(_word(part) for part in one.parts)}".strip() for one in request.messages]


def _word(part: rq.AnyPart) -> str:
    if isinstance(part, rq.Call):
        return f"call:{part.id}"
    if isinstance(part, rq.Result):
        return f"result:{part.call}"
    return type(part).__name__.lower()
