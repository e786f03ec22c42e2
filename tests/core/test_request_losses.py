"""Every loss of a request can happen, and is reported when it does.

Most happen in the golden cases; the table here makes the others. That none goes unreported is what
`test_recorded_requests` and `test_made_up_requests` hold.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from penstock import request as rq
from tests.support import conversations, request_facets
from tests.support import request_protocols as requesting
from tests.support.each_case import each
from tests.support.request_cases import cases

HELLO = rq.Message("user", [rq.Text("Hello")])
SEARCH = {"type": "object", "properties": {"where": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/x"}]}}}


def asked(*parts: rq.AnyPart, role: rq.Role = "user", **more: Any) -> rq.Request:
    """A request in which somebody says these parts."""
    return rq.Request("m", [HELLO, rq.Message(role, list(parts)), HELLO] if parts else [HELLO], **more)


def answered(*content: rq.ResultPart, **more: Any) -> rq.Request:
    """A request in which a tool gave this."""
    turn = rq.Message("assistant", [rq.Call("c", "f", "{}")])
    return rq.Request("m", [HELLO, turn, rq.Message("tool", [rq.Result("c", "f", list(content), **more)])])


CUT = asked(rq.Call("c", "f", '{"a', cut=True), role="assistant")
LINK = rq.File("image/png", "https://example.org/a.png")
PAIR = asked(rq.Call("c", "f", "{}"), role="assistant")
RAN = asked(rq.Call("c", "f", "{}", "provider", extra={"gemini": {}}), role="assistant")
RAN_BEHIND = asked(rq.Call("c", "f", "{}"), rq.Call("s", "search", "{}", "provider"), role="assistant")
SEARCHED = asked(
    rq.Call("s", "search", "{}", "provider"),
    rq.Result(
        "s", "search", [rq.Json('[{"url":"https://example.org","encrypted_content":"c2VhbGVk"}]')], by="provider"
    ),
    role="assistant",
)
SDKS = {"aisdk", "uistream", "completions"}  # they carry state of all protocols, or one text
REMINDED = asked(rq.Text("Tools changed."), role="system")
THOUGHT = asked(rq.Reasoning("Hm."), rq.Text("Hi."), role="assistant")
TALLY = asked(tools=[rq.Tool("f", schema=SEARCH)], choice=rq.ToolChoice("required"))

ROWS: list[tuple[str, str, rq.Request, dict[str, Any] | None]] = [
    *((name, "cut-call", CUT, None) for name in requesting.WRITERS if name != "completions"),
    *((name, "order", RAN_BEHIND, None) for name in ("vscode", "responses", "anthropic", "gemini", "bedrock")),
    *((name, "encrypted", SEARCHED, None) for name in requesting.WRITERS if name not in SDKS),
    ("openai-chat", "empty", asked(rq.Reasoning("Hm."), role="assistant"), {"reasoning": ""}),
    ("responses", "max-output", asked(settings=rq.Settings(max_output=8)), {"min_output": 16}),
    ("vscode", "partial", answered(rq.Text("a"), partial=True), None),
    ("vscode", "usage", asked(usage=False), None),
    ("responses", "logprobs", asked(rq.Text("a", logprobs=[{"token": "a"}]), role="assistant"), None),
    ("responses", "media", asked(rq.File("text/csv", "https://example.org/a.pdf")), None),
    ("responses", "metadata", asked(settings=rq.Settings(metadata={"a": 1})), None),
    ("responses", "provider-call", asked(
        rq.Result("c", "f", [rq.Json("1")], by="provider", extra={"responses": {}}), role="assistant"), None),
    ("responses", "any-json", asked(settings=rq.Settings(format=rq.Format("json"))), {"any_json": False}),
    ("responses", "effort", asked(settings=rq.Settings(effort="max")), {"efforts": ("low", "high")}),
    ("responses", "form", asked(
        rq.Reasoning("Hm.", extra={"responses": {"encrypted_content": "e"}}), role="assistant"), {"words": False}),
    ("anthropic", "cache", asked(rq.Text("a", cache="30m")), None),
    ("anthropic", "mid-system", REMINDED, {"mid_system": "user"}),
    ("gemini", "budget", asked(settings=rq.Settings(effort="low", budget=5000)), None),
    ("gemini", "effort", asked(settings=rq.Settings(effort="xhigh")), None),
    ("gemini", "call-id", PAIR, {"ids": False}),
    ("gemini", "mid-system", REMINDED, {"metadata": False}),
    ("gemini", "schema", TALLY, {"schemas": "subset"}),
    ("gemini", "traces", RAN, None),
    ("bedrock", "media", asked(rq.File("image/*", data=conversations.PIXEL)), None),
    ("bedrock", "top-k", asked(settings=rq.Settings(top_k=3)), {"top_k": ""}),
    ("cohere", "choice", TALLY, {"version": 1}),
    ("cohere", "ids", PAIR, {"version": 1}),
    ("cohere", "reasoning", THOUGHT, {"version": 1}),
    ("cohere", "schema", TALLY, {"version": 1}),
    ("openai-chat", "parts", answered(rq.Text("a"), rq.Text("b")), {"lists": False}),
    ("openai-chat", "reasoning", THOUGHT, {"reasoning": ""}),
    ("uistream", "approval", asked(rq.Ask("nobody", "a1", approved=True)), None),
    ("uistream", "source", answered(rq.Source("https://example.org", "A")), None),
    ("aisdk", "approval", asked(rq.Ask("c", "a1"), role="assistant"), {"version": 5}),
    ("aisdk", "opaque", asked(rq.Opaque("aisdk", "custom", {"type": "custom"}), role="assistant"), {"version": 6}),
    ("aisdk", "result-url", answered(LINK), {"version": 5}),
    ("aisdk", "system-part", rq.Request("m", [rq.Message("system", [rq.Text("a"), LINK]), HELLO]), None),
]  # fmt: skip


def reported(target: str, request: rq.Request, quirks: dict[str, Any] | None = None) -> set[str]:
    differing = requesting.quirks(target, **quirks) if quirks else None
    codes = [found.code for found in requesting.write(target, request, differing).diagnostics]
    return {code.removeprefix("loss-") for code in codes if code.startswith("loss-")}


@cache
def golden(target: str) -> frozenset[str]:
    return frozenset(key for case in cases() for key in reported(target, case.canonical()))


@each("target, key, request_, quirks", ROWS)
def test_a_loss_is_reported(target: str, key: str, request_: rq.Request, quirks: dict[str, Any] | None) -> None:
    assert key in reported(target, request_, quirks)


@each("target", requesting.WRITERS)
def test_every_loss_happens_somewhere(target: str) -> None:
    """And no other does: a report that is not written down is a KeyError. What only some lack is no loss by default."""
    losses, lacks = requesting.losses(target).keys(), requesting.lacks(target).keys()
    made = golden(target) | {key for name, key, _, _ in ROWS if name == target}
    assert {*losses, *lacks} - made == set()
    assert golden(target).isdisjoint(lacks)
    assert not losses & lacks


@each("target", requesting.WRITERS)
def test_the_table_of_excuses_knows_every_loss(target: str) -> None:
    """`tests/data/request_excuses.toml`. No loss of a main protocol costs anything vital; what single providers lack may."""
    known = request_facets.excuses()
    losses = requesting.losses(target).keys()
    assert {*losses, *requesting.lacks(target)} - {*known["any"], *known.get(target, {})} == set()
    if target in requesting.MAIN:
        assert {key for key in losses if request_facets.excuse(target, key) & request_facets.VITAL} == set()


def test_no_excuse_is_left_over() -> None:
    for target, rows in request_facets.excuses().items():
        targets = requesting.WRITERS if target == "any" else [target]
        written = {key for name in targets for key in {*requesting.losses(name), *requesting.lacks(name)}}
        assert set(rows) - {"always", "extra"} <= written, target
