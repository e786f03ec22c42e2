"""Made-up conversations: canonical requests with everything that real ones have, for any protocol to carry.

`requests()` is the strategy; `requests(plain=True)` leaves out what only some protocols can say (refusals, files that
the model made, tools run upstream, citations, state of a protocol). Texts never begin with a carrier's mark: those are
ours to write.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from penstock import request as rq

if TYPE_CHECKING:
    from collections.abc import Callable

    Draw = Callable[[st.SearchStrategy[Any]], Any]

PIXEL = base64.b64encode(
    bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010806000000") + b"pixel"
).decode()  # begins as a PNG does
PDF = base64.b64encode(b"%PDF-1.4 made up").decode()
SOUND = base64.b64encode(b"RIFF\x00\x00\x00\x00WAVEfmt ").decode()
NOTE = base64.b64encode("a plain note, très court".encode()).decode()

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=24).filter(
    lambda text: not text.startswith("<ps:")
)
names = st.from_regex(r"[a-z][a-z0-9_]{0,11}", fullmatch=True)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)
objects = st.dictionaries(names, values, max_size=4)
hints = st.sampled_from(["", "", "", "", "5m", "1h"])

# ── parts ─────────────────────────────────────────────────────────────────────────────────────────

texts = st.builds(rq.Text, words, cache=hints)
maybe_empty = st.builds(rq.Text, words | st.just(""), cache=st.just(""))
images = st.sampled_from([
    rq.File("image/png", data=PIXEL),
    rq.File("image/*", "https://example.org/cat.png"),
    rq.File("image/png", data=PIXEL, detail="low"),
])  # fmt: skip
documents = st.sampled_from([
    rq.File("application/pdf", data=PDF, name="paper.pdf"),
    rq.File("application/pdf", "https://example.org/paper.pdf"),
    rq.File("text/plain", data=NOTE, name="note.txt"),
    rq.File("audio/wav", data=SOUND),
])  # fmt: skip
files = images | documents


def fresh(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A new object each time: parts are not frozen, and no two places may share one."""
    return parts.map(lambda part: part.__copy__())


thoughts = st.builds(
    rq.Reasoning, words, extra=st.none() | st.builds(lambda signature: {"anthropic": {"signature": signature}}, words)
)
refusals = st.builds(rq.Text, words, refusal=st.just(True))
sources = st.builds(rq.Source, st.just("https://example.org/source"), words)
opaques = st.builds(
    rq.Opaque, st.just("elsewhere"), names, st.builds(lambda said: {"type": "note", "text": said}, words)
)


@st.composite
def results(draw: Draw, call: rq.Call | None, plain: bool, number: int) -> rq.Result:
    """What a tool answers: words, JSON, pictures, nothing; or that it failed."""
    kinds = texts | st.builds(rq.Json, objects.map(json.dumps)) | fresh(images)
    if not plain:
        kinds = kinds | fresh(documents)
    content = draw(st.lists(kinds, max_size=3))
    id, name = (call.id, call.name) if call is not None else (f"orphan_{number}", "gone")  # noqa: A001
    return rq.Result(id, name, content, draw(st.booleans()), cache=draw(hints))


@st.composite
def calls(draw: Draw, tools: list[rq.Tool], number: int) -> rq.Call:
    """A call of one of the tools, or of one that is no longer offered."""
    known = [tool for tool in tools if tool.kind in ("function", "custom")]
    tool = draw(st.sampled_from(known)) if known else None
    if tool is not None and tool.kind == "custom":
        return rq.Call(f"call_{number}", tool.name, draw(words), form="text")
    given = draw(objects.map(json.dumps) | st.sampled_from(["", "{}", '{"unfinished', "[1, 2]"]))
    return rq.Call(f"call_{number}", tool.name if tool else "gone", given)


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


class _Talk:
    """One conversation being made up."""

    def __init__(self, draw: Draw, tools: list[rq.Tool], *, plain: bool) -> None:
        self._draw = draw
        self._tools = tools
        self._plain = plain
        self._count = 0
        self.messages: list[rq.Message] = []

    def _number(self) -> int:
        self._count += 1
        return self._count

    def system(self, most: int) -> None:
        for _ in range(self._draw(st.integers(0, most))):
            self.messages.append(rq.Message("system", self._draw(st.lists(texts, min_size=1, max_size=2))))

    def user(self) -> None:
        kinds = texts | maybe_empty | fresh(images if self._plain else files)
        if not self._plain:
            kinds = kinds | opaques
        name = "" if self._plain else self._draw(st.sampled_from(["", "", "", "ada"]))
        self.messages.append(rq.Message("user", self._draw(st.lists(kinds, max_size=3)), name))

    def turn(self) -> None:
        """What the model did, and what its tools gave."""
        parts = list(self._draw(st.lists(texts if self._plain else texts | refusals | thoughts | sources, max_size=3)))
        if not self._plain and self._draw(st.booleans()):
            parts += self._ran()
        if not self._plain and self._draw(st.integers(0, 5)) == 0:
            parts.insert(self._draw(st.integers(0, len(parts))), rq.File("image/png", data=PIXEL))
        asked = [self._draw(calls(self._tools, self._number())) for _ in range(self._draw(st.integers(0, 3)))]
        self.messages.append(rq.Message("assistant", [*parts, *asked]))
        given = [self._draw(results(call, self._plain, 0)) for call in asked]
        if self._draw(st.integers(0, 9)) == 0:
            given.append(self._draw(results(None, self._plain, self._number())))
        if given:
            apart = self._draw(st.booleans())
            self.messages += (
                [rq.Message("tool", [one]) for one in given] if apart else [rq.Message("tool", list(given))]
            )

    def _ran(self) -> list[rq.AnyPart]:
        id = f"srv_{self._number()}"  # noqa: A001 — as everybody calls it
        call = rq.Call(id, "web_search", json.dumps(self._draw(objects)), "provider")
        answer = rq.Result(id, "web_search", [rq.Json(json.dumps(self._draw(objects)))], by="provider")
        return [call, answer, *self._draw(st.lists(texts, max_size=1))][: self._draw(st.integers(1, 3))]


# ── tools and settings ────────────────────────────────────────────────────────────────────────────

schemas = st.builds(
    lambda fields: {"type": "object", "properties": {name: {"type": "string"} for name in fields}, "required": fields},
    st.lists(names, unique=True, max_size=3),
)
grammars = st.none() | st.just({"type": "grammar", "syntax": "lark", "definition": 'start: "a"+'})


@st.composite
def tools(draw: Draw, plain: bool) -> list[rq.Tool]:
    """Functions with and without input, tools of free text, tools that a provider runs."""
    made: list[rq.Tool] = []
    for name in draw(st.lists(names, unique=True, max_size=4)):
        kind = draw(
            st.sampled_from(["function", "function", "custom"] if plain else ["function", "custom", "provider"])
        )
        said = draw(words | st.just(""))
        if kind == "function":
            strict = draw(st.sampled_from([None, None, True, False]))
            made.append(rq.Tool(name, said, draw(st.none() | schemas), strict=strict, cache=draw(hints)))
        elif kind == "custom":
            made.append(rq.Tool(name, said, draw(grammars), "custom"))
        else:
            made.append(rq.Tool(name, kind="provider", extra={"elsewhere": {"tool": {"type": name}}}))
    return made


formats = st.sampled_from([
    None, None, rq.Format(), rq.Format("json"),
    rq.Format("schema", "answer", {"type": "object", "properties": {"a": {"type": "string"}}}, strict=True),
])  # fmt: skip
settings = st.builds(
    rq.Settings,
    max_output=st.none() | st.integers(1, 4096), temperature=st.none() | st.floats(0, 2, width=16),
    top_p=st.none() | st.floats(0.125, 1, width=16), top_k=st.none() | st.integers(1, 100),
    stop=st.lists(words, max_size=2), seed=st.none() | st.integers(0, 2**31), choices=st.sampled_from([None, None, 2]),
    format=formats, parallel_calls=st.sampled_from([None, None, True, False]),
    effort=st.sampled_from(["", "", "low", "medium", "high", "minimal", "none"]), user=st.just("") | names,
    tier=st.sampled_from(["", "", "auto", "default", "flex"]),
)  # fmt: skip
budgets = st.builds(rq.Settings, budget=st.sampled_from([0, 512, 2048, 20000]), max_output=st.integers(1, 64000))


@st.composite
def requests(draw: Draw, *, plain: bool = False) -> rq.Request:
    """A whole request."""
    offered = draw(tools(plain))
    talk = _Talk(draw, offered, plain=plain)
    talk.system(2)
    for number in range(draw(st.integers(1, 3))):
        if not number or draw(st.integers(0, 2)):  # else the model goes on: after its tools, or just so
            talk.user()
        talk.turn()
        if draw(st.integers(0, 3)) == 0:
            talk.user()
            talk.system(1)
    talk.user()
    callable_ = [tool.name for tool in offered if tool.kind == "function"]
    choices: list[Any] = [None, None, rq.ToolChoice("auto"), rq.ToolChoice("none")]
    if callable_:
        choices += [rq.ToolChoice("required"), rq.ToolChoice("tool", [callable_[0]])]
    asked = draw(settings) if plain else draw(settings | budgets)
    return rq.Request("model-1", talk.messages, offered, draw(st.sampled_from(choices)), asked, draw(st.booleans()))
