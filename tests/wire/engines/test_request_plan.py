"""A plan writes each request by its content alone, whatever it wrote before: words, settings and provider vary."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock import request as rq
from penstock._engines.model_resolution import Target
from penstock._engines.request_plan import RequestPlan, build_request, plan_request
from penstock._http.request_options import RequestOptions
from penstock._providers.registry import providers
from penstock.errors import PenstockError
from penstock.gateway import Config
from tests.wire.engines.router_setup import asking

ROWS = [row for row in providers().values() if row.engine == "native" and row.endpoint("chat", "some-model")]
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


def planned(row: Any) -> RequestPlan:
    target, account = Target(row, "some-model", ""), Config().account(row.name)
    settings = dict.fromkeys(row.settings, "x1")
    account = replace(account, settings=settings)
    return plan_request(target, "chat", options=RequestOptions(), account=account, env={}, stream=True)


def made(request: rq.Request, how: RequestPlan, source: str) -> tuple[Any, ...] | str:
    try:
        job = build_request(request, how, source=source, convert={"tenant": "t"})
    except PenstockError as error:
        return str(error)
    return list(job.body.items()), job.diagnostics, job.losses, len(job.transforms), job.cleared


def said(rows: list[tuple[str, str]], settings: rq.Settings) -> rq.Request:
    messages = [rq.Message(role, [rq.Text(text=words)]) for role, words in rows]  # type: ignore[arg-type]
    return rq.Request("x/some-model", messages, settings=settings, stream=True)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
@hypothesis.given(st.lists(MESSAGES, min_size=2, max_size=3), SETTINGS, st.sampled_from(SOURCES))
@hypothesis.settings(deadline=None, max_examples=20)
def test_a_plan_keeps_nothing_of_earlier_requests(
    row: Any, several: list[list[tuple[str, str]]], settings: rq.Settings, source: str
) -> None:
    shared = planned(row)
    for rows in [*several, [("user", "first")], [("user", "second")], [("system", "a"), ("user", "third")]]:
        request = said(rows, settings)
        assert made(request, shared, source) == made(request, planned(row), source)


def test_what_is_written() -> None:
    how = planned(providers()["openai"])
    first = build_request(asking(text="one"), how, source="openai-chat", convert={})
    second = build_request(asking(text="two"), how, source="openai-chat", convert={})
    assert first.body["messages"] == [{"role": "user", "content": "one"}]
    assert second.body == {**first.body, "messages": [{"role": "user", "content": "two"}]}
    assert list(second.body) == list(first.body)


def test_a_required_limit_is_said_for_the_second_request_too() -> None:
    target = Target(providers()["anthropic"], "claude-sonnet-4-5", "")
    how = plan_request(
        target, "chat", options=RequestOptions(), account=Config().account("anthropic"), env={}, stream=True
    )
    first = build_request(asking("anthropic", text="one"), how, source="openai-chat", convert={})
    second = build_request(asking("anthropic", text="two"), how, source="openai-chat", convert={})
    assert [row.code for row in first.diagnostics] == ["output-limit"]
    assert second.diagnostics == first.diagnostics
    assert second.body["max_tokens"] == 32_000
