"""The estimator: what is counted, and how."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InputError
from penstock.request import (
    Call,
    File,
    Format,
    Json,
    Message,
    Opaque,
    Reasoning,
    Request,
    Result,
    Settings,
    Source,
    Text,
    Tool,
    ToolChoice,
)  # fmt: skip
from penstock.tokens import HybridTokenEstimator
from tests.cli.command_runner import environment
from tests.core.tokens.samples import ALONE, CHINESE, CODE, COMPOUND, EMOJI, JSON, PROSE, RUSSIAN
from tests.support.each_case import each

ASKED = Message("user", [Text(text=PROSE)])
TOOL = Tool("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (1024).to_bytes(4, "big") + (768).to_bytes(4, "big")).decode()


def total(request: Any, model: str = "gpt-4o", **more: Any) -> int:
    return HybridTokenEstimator().estimate_conversation(request, model, **more).tokens


# ── what is counted ───────────────────────────────────────────────────────────────────────────────────────────────────


# How many o200k_base makes of them.
COUNTED = {
    "code": (CODE, 56), "json": (JSON, 84), "chinese": (CHINESE, 42), "russian": (RUSSIAN, 33), "emoji": (EMOJI, 53),
    "compound emoji": (COMPOUND, 56), "mixed": (CODE + JSON + CHINESE, 182),
}  # fmt: skip


@each("kind", COUNTED)
def test_text_of_any_kind_is_within_12_percent_before_anything_is_learned(kind: str) -> None:
    text, actual = COUNTED[kind]
    found = HybridTokenEstimator().estimate_text(text, "gpt-4o")
    assert found.tokens == pytest.approx(actual, rel=0.12)
    assert found.low <= actual <= found.high


def test_emoji_without_a_word_are_further_off_and_inside_the_bounds() -> None:
    """Frequent ones are one token each, rare ones three: 24 here, where chars / 4 says 4."""
    found = HybridTokenEstimator().estimate_text(ALONE, "gpt-4o")
    assert found.low <= 24 <= found.high


def test_a_message_is_its_text_and_its_framing_once() -> None:
    estimator = HybridTokenEstimator()
    text, message = estimator.estimate_text(PROSE, "gpt-4o"), estimator.estimate_message(ASKED, "gpt-4o")
    assert text.tokens + 2 <= message.tokens <= text.tokens + 8
    assert estimator.estimate_message(ASKED, "gpt-4o") == message
    system = Message("system", [Text(text=PROSE)])
    one, two = total([ASKED]), total([system, ASKED])
    assert two - one == pytest.approx(message.tokens, abs=2), "the system prompt counts once"


PARTS = {
    "text": Text(text=PROSE), "call": Call(id="1", name="read_file", json=JSON), "image": File(media="image/png", data=PNG),
    "result": Result(call="1", content=[Text(text=PROSE)]), "json": Result(call="1", content=[Json(json=JSON)]),
    "image in a result": Result(call="1", content=[File(media="image/png", data=PNG)]),
    "pdf": File(media="application/pdf", url="https://example.com/a.pdf"),
    "document": File(media="text/plain", data=base64.b64encode(PROSE.encode()).decode()),
    "sound": File(media="audio/wav", data="AAAA" * 9000), "reasoning": Reasoning(text=PROSE),
    "source": Source(quote=PROSE), "opaque": Opaque(protocol="x", kind="y", data={"said": PROSE}),
    "unknown file": File(media="application/x-thing", data="AAAA"), "video": File(media="video/mp4", data="AAAA"),
}  # fmt: skip


@each("kind", PARTS)
@each("model", ["gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash", "never-seen"])
def test_every_kind_of_part_counts(kind: str, model: str) -> None:
    estimator = HybridTokenEstimator()
    empty = estimator.estimate_message(Message("user", [Text(text="")]), model).tokens
    assert estimator.estimate_message(Message("user", [PARTS[kind]]), model).tokens >= empty + 5  # type: ignore[list-item]


def test_tools_and_the_form_of_the_answer_count() -> None:
    plain = total(Request(messages=[ASKED]))
    one, two = total(Request(messages=[ASKED], tools=[TOOL])), total([ASKED], tools=[TOOL, TOOL])
    assert plain < one < two
    schema = {"type": "object", "properties": {"height": {"type": "number", "description": PROSE}}}
    form = Settings(format=Format("schema", "answer", schema))
    assert total(Request(messages=[ASKED], settings=form)) > plain + 10
    forced = ToolChoice("required")
    claude = "claude-sonnet-4-5"
    assert (
        total(Request(messages=[ASKED], tools=[TOOL], choice=forced), claude)
        > total([ASKED], claude, tools=[TOOL]) + 30
    )
    assert total([ASKED], claude, tools=[TOOL]) > total([ASKED], claude) + 300, "its tools come with a long prompt"
    none = Request(messages=[ASKED], tools=[TOOL], choice=ToolChoice("none"))
    assert total(none, "mistral-large-latest") == total([ASKED], "mistral-large-latest"), (
        "unused tools are left out there"
    )


def test_each_family_counts_its_own_way() -> None:
    estimator = HybridTokenEstimator()
    figures = {
        model: estimator.estimate_text(CODE * 50, model).tokens
        for model in ("gpt-4o", "claude-3-5-sonnet", "gemini-2.5-pro")
    }
    assert len(set(figures.values())) == 3
    assert figures["claude-3-5-sonnet"] > figures["gpt-4o"]


def test_bounds_hold_the_estimate_and_grow_with_what_is_unknown() -> None:
    estimator = HybridTokenEstimator()
    known = estimator.estimate_conversation([ASKED], "gpt-4o")
    assert known.low <= known.tokens <= known.high
    assert known.method == "estimated"
    assert 0 < known.confidence < 1
    remote = Message("user", [File(media="image/*", url="https://example.com/picture")])
    unsure = estimator.estimate_conversation([remote], "gpt-4o")
    assert unsure.confidence < estimator.estimate_conversation([Message("user", [PARTS["image"]])], "gpt-4o").confidence  # type: ignore[list-item]


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(), max_size=80), st.sampled_from(["gpt-4o", "x", "claude-3-opus", "qwen3"]))
def test_any_text_can_be_counted(text: str, model: str) -> None:
    """Half surrogate pairs too: hosts written in other languages send them."""
    estimator = HybridTokenEstimator()
    assert estimator.estimate_text(text, model).tokens >= 0
    found = estimator.estimate_conversation([Message("user", [Text(text=text)])], model)
    assert 0 <= found.low <= found.tokens <= found.high


def test_options() -> None:
    by_length = HybridTokenEstimator(4.0)
    assert by_length.estimate_text("x" * 400, "gpt-4o").tokens == 100
    some = HybridTokenEstimator(provider_overrides={"openai": 2.0})
    assert some.estimate_text("x" * 400, "gpt-4o", "openai").tokens == 200
    assert some.estimate_text("x" * 400, "gpt-4o", "azure").tokens != 200
    careful = HybridTokenEstimator(conservative=True).estimate_conversation([ASKED], "gpt-4o")
    assert careful.tokens == careful.high > total([ASKED])
    exact = HybridTokenEstimator(counters={"o200k": lambda text: float(len(text.split()))})
    assert exact.estimate_text("one two three", "gpt-4o").tokens == 3
    assert exact.estimate_text("one two three", "gemini-2.5-pro").tokens != 0
    with pytest.raises(InputError, match="chars_per_token: expected"):
        HybridTokenEstimator(0)


def test_the_estimator_needs_msgspec_alone() -> None:
    code = (
        "import json, sys\nfrom penstock.tokens import HybridTokenEstimator\nHybridTokenEstimator().estimate_text('x')\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, check=True, timeout=60)
    third = {
        name for name in json.loads(done.stdout) if name not in sys.stdlib_module_names and not name.startswith("_")
    }
    assert third - {"sitecustomize"} <= {"msgspec", "penstock", "typing_extensions"}
