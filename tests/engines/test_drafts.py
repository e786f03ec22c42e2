"""A request written from a draft is what the long way would have written, whatever its words, settings and provider."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock import request as rq
from penstock.diagnostics import Diagnostic
from penstock.engines.config import Config
from penstock.engines.drafts import sort_of
from penstock.engines.model_resolution import Target
from penstock.engines.options import RequestOptions
from penstock.engines.request_plan import Plan, plan, prepare
from penstock.errors import PenstockError
from penstock.providers.registry import providers
from tests.engines.asking import asking
from tests.support.example_counts import examples

ROWS = [row for row in providers().values() if row.engine == "native" and row.endpoint("chat", "some-model")]
CENTRAL = {"openai", "anthropic", "gemini", "bedrock", "cohere", "ollama"}
"""One for each protocol; the others differ in their settings and fields, and are for `make test`."""
SOURCES = ("openai-chat", "anthropic", "responses", "gemini", "vscode")
WORDS = st.one_of(
    st.text(max_size=8), st.sampled_from(["json", "a\tb", " ", "", "<x>", "\\n", 'say "no"', "é", "\x00"])
)
SETTINGS = st.builds(
    rq.Settings, max_output=st.sampled_from([None, 1, 16, 10**6]), temperature=st.sampled_from([None, 0.0, 2.0]),
    top_k=st.sampled_from([None, 3]), stop=st.lists(st.sampled_from(["a", "b"]), max_size=2),
    choices=st.sampled_from([None, 1]), effort=st.sampled_from(["", "low", "none"]), seed=st.sampled_from([None, 1]),
    format=st.sampled_from([None, rq.Format("json")]), user=st.sampled_from(["", "u"]),
)  # fmt: skip
MESSAGES = st.lists(st.tuples(st.sampled_from(["system", "user", "user", "assistant"]), WORDS), min_size=1, max_size=4)


def planned(row: Any) -> Plan:
    target, account = Target(row, "some-model", ""), Config().account(row.name)
    settings = dict.fromkeys(row.settings, "x1")
    account = replace(account, settings=settings)
    return plan(target, "chat", options=RequestOptions(), account=account, env={}, stream=True)


def made(request: rq.Request, how: Plan, source: str) -> tuple[Any, ...] | str:
    try:
        job = prepare(request, how, source=source, convert={"tenant": "t"})
    except PenstockError as error:
        return str(error)
    return list(job.body.items()), job.diagnostics, job.losses, len(job.shaping), job.cleared


def said(rows: list[tuple[str, str]], settings: rq.Settings) -> rq.Request:
    messages = [rq.Message(role, [rq.Text(text=words)]) for role, words in rows]  # type: ignore[arg-type]
    return rq.Request("x/some-model", messages, settings=settings, stream=True)


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.name, marks=[] if row.name in CENTRAL else pytest.mark.slow) for row in ROWS]
)
@hypothesis.given(st.lists(MESSAGES, min_size=2, max_size=3), SETTINGS, st.sampled_from(SOURCES))
@hypothesis.settings(deadline=None, max_examples=examples(20))
def test_from_a_draft(row: Any, several: list[list[tuple[str, str]]], settings: rq.Settings, source: str) -> None:
    shared = planned(row)
    for rows in [*several, [("user", "first")], [("user", "second")], [("system", "a"), ("user", "third")]]:
        request = said(rows, settings)
        assert made(request, shared, source) == made(request, planned(row), source)


def test_the_second_request_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    how = planned(providers()["openai"])
    first = prepare(asking(text="one"), how, source="openai-chat", convert={})
    monkeypatch.setattr("penstock.engines.request_plan.convert_request", None)
    second = prepare(asking(text="two"), how, source="openai-chat", convert={})
    assert second.body == {**first.body, "messages": [{"role": "user", "content": "two"}]}
    assert list(second.body) == list(first.body)


@pytest.mark.finding("DEF-2")
def test_a_required_limit_is_said_for_the_second_request_too(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(providers()["anthropic"], "claude-sonnet-4-5", "")
    how = plan(target, "chat", options=RequestOptions(), account=Config().account("anthropic"), env={}, stream=True)
    first = prepare(asking("anthropic", text="one"), how, source="openai-chat", convert={})
    monkeypatch.setattr("penstock.engines.request_plan.convert_request", None)
    second = prepare(asking("anthropic", text="two"), how, source="openai-chat", convert={})
    assert [row.code for row in first.diagnostics] == ["output-limit"]
    assert second.diagnostics == first.diagnostics
    assert second.body["max_tokens"] == 32_000


MORE: dict[str, dict[str, Any]] = {
    "tools": {"tools": [rq.Tool("f")]},
    "what was found": {"diagnostics": [Diagnostic("a", "b", "c")]},
    "options": {"options": {"openai": {"x": 1}}},
    "nothing": {"messages": []},
    "an answer": {"messages": [rq.Message("assistant", [rq.Text(text="a")])]},
    "two parts": {"messages": [rq.Message("user", [rq.Text(text="a"), rq.Text(text="b")])]},
    "a picture": {"messages": [rq.Message("user", [rq.File(media="image/png", data="eA==")])]},
    "a cache point": {"messages": [rq.Message("user", [rq.Text(text="a", cache="5m")])]},
    "a name": {"messages": [rq.Message("user", [rq.Text(text="a")], name="Ann")]},
    "something kept": {"messages": [rq.Message("user", [rq.Text(text="a", extra={"openai-chat": {"x": 1}})])]},
    "blank": {"messages": [rq.Message("user", [rq.Text(text=" \n")])]},
    "long settings": {"settings": rq.Settings(user="u" * 2000)},
    "many messages": {"messages": [rq.Message("user", [rq.Text(text="a")])] * 9},
}


@pytest.mark.parametrize("case", MORE)
def test_what_is_more_than_words(case: str) -> None:
    assert sort_of(asking(), "openai-chat") is not None
    assert sort_of(replace(asking(), **MORE[case]), "openai-chat") is None
