"""The factors that a thin client counts with: small, complete, and the same counts in another language."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from penstock.request import Call, Message, Result, Text
from penstock.tokens import Factors, HybridTokenEstimator
from tests.core.tokens.samples import CODE, JSON, PROSE, TEXTS
from tests.support.each_case import each

HERE = Path(__file__).parent
MODELS = ["gpt-4o", "claude-sonnet-4-5", "gemini-2.0-flash", "gemini-2.5-flash", "qwen3-8b", "never-seen-1"]


def counted(model: str, texts: list[str], messages: list[Message]) -> dict[str, list[int]]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on the PATH")
    factors = HybridTokenEstimator().factors(model).json()
    rows = [
        {
            "texts": [text for part in message.parts for text in _texts(part)],
            "json": [part.json for part in message.parts if isinstance(part, Call)],
            "calls": sum(isinstance(part, Call) for part in message.parts),
            "results": sum(isinstance(part, Result) for part in message.parts),
        }
        for message in messages
    ]
    given = msgspec.json.encode({"factors": msgspec.Raw(factors), "texts": texts, "messages": rows})
    done = subprocess.run([node, HERE / "reference.mjs"], input=given, capture_output=True, timeout=60, check=True)
    found: dict[str, list[int]] = json.loads(done.stdout)
    return found


def _texts(part: object) -> list[str]:
    if isinstance(part, Call):
        return [part.name]
    if isinstance(part, Result):
        return [one.text for one in part.content if isinstance(one, Text)]
    return [part.text] if isinstance(part, Text) else []


@each("model", MODELS)
def test_a_client_in_another_language_agrees_within_2_percent(model: str) -> None:
    texts = [*TEXTS, "", " ", "  x", "\r\n\r\n", "aA aAA ABC1 ___ é́ 中a文 \U0001f600!", PROSE * 20]
    messages = [
        Message("user", [Text(text=PROSE)]),
        Message("assistant", [Text(text="One moment."), Call(id="1", name="read_file", json=JSON)]),
        Message("tool", [Result(call="1", content=[Text(text=CODE)])]),
    ]
    found, estimator = counted(model, texts, messages), HybridTokenEstimator()
    ours = [estimator.estimate_text(text, model).tokens for text in texts]
    assert found["texts"] == pytest.approx(ours, rel=0.02, abs=1)
    ours = [estimator.estimate_message(message, model).tokens for message in messages]
    assert found["messages"] == pytest.approx(ours, rel=0.02, abs=1)


@each("model", MODELS)
def test_the_factors_are_small_and_come_back_whole(model: str) -> None:
    factors = HybridTokenEstimator().factors(model, "somebody")
    assert len(factors.json()) < 2_500
    assert msgspec.json.decode(factors.json(), type=Factors) == factors


def test_what_was_learned_is_in_them() -> None:
    estimator, message = HybridTokenEstimator(), Message("user", [Text(text=PROSE * 5)])
    plain = estimator.estimate_conversation([message], "gpt-4o").tokens
    for _ in range(5):
        estimator.calibrate([message], plain * 2, "gpt-4o", "other")
    assert estimator.factors("gpt-4o", "other").factor > 1.3
    assert estimator.factors("gpt-4o").factor == 1.0
