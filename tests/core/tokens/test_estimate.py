"""The estimator: what is counted, and how."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import tokens
from penstock._tokens.bpe import SEARCH_RANGE, split_text
from penstock._tokens.estimate import ModelCounter
from penstock._tokens.families import load_tables
from penstock._tokens.text_features import FeatureCounter, average_out
from penstock.errors import InputError, MissingExtra
from penstock.events import Usage
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
from penstock.tokens import Estimate, HybridTokenEstimator, counters
from tests.cli.command_runner import environment
from tests.core.tokens.samples import ALONE, CHINESE, CODE, COMPOUND, EMOJI, JSON, PROSE, RUSSIAN
from tests.core.tokens.test_pictures import png
from tests.support import corpus
from tests.support.each_case import each

if TYPE_CHECKING:
    from pathlib import Path

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


# ── Bounds: narrow for plain text, wider for what is uncertain, and found in time that grows with the te ──


KNOWN = [
    "gpt-4o", "gpt-4-turbo", "gpt-5", "gpt-5-nano", "gpt-oss-120b", "claude-3-opus", "claude-sonnet-4-5", "claude-opus-4-8",
    "gemini-2.0-flash", "gemini-2.5-flash", "gemini-3-pro-preview", "mistral-large-latest", "mistral-small-latest", "qwen3-8b",
    "qwen3.5-9b", "deepseek-chat", "grok-4", "grok-4.3", "llama-3.3-70b", "llama-4-scout", "glm-4.7", "kimi-k2", "amazon.nova-lite-v1",
]  # fmt: skip
WORDS = " ".join((PROSE * 20).split()[:500])


def counted(model: str, text: str = WORDS, tools: list[Tool] | None = None, **settings: Format) -> Estimate:
    request = Request(messages=[Message("user", [Text(text=text)])], settings=Settings(**settings))  # type: ignore[arg-type]
    return HybridTokenEstimator().estimate_conversation(request, model, tools=tools or [])


def widths(found: Estimate) -> tuple[float, float]:
    """By how much of the count the bounds are below and above it."""
    return 1 - found.low / found.tokens, found.high / found.tokens - 1


@each("model", KNOWN)
def test_500_plain_words_are_within_15_percent(model: str) -> None:
    below, above = widths(counted(model))
    assert 0.03 < below <= 0.155
    assert 0.03 < above <= 0.155


def test_a_model_that_no_rule_knows_is_less_sure() -> None:
    below, above = widths(counted("never-seen-1"))
    assert below <= 0.2
    assert 0.15 < above <= 0.35


@each("model", KNOWN)
def test_tools_and_formats_are_less_sure_than_text(model: str) -> None:
    plain = counted(model)
    tools = [Tool(f"tool_{place}", PROSE, {"type": "object"}) for place in range(4)]
    schema = Format("schema", schema={"type": "object", "properties": {"a": {"type": "string", "description": PROSE}}})
    for more in (counted(model, tools=tools), counted(model, format=schema)):
        assert more.high - more.low >= plain.high - plain.low - 1, "but for rounding"
        assert more.tokens >= plain.tokens


@each("text", [JSON, ALONE])
def test_marks_and_emoji_are_less_sure_than_words(text: str) -> None:
    estimator = HybridTokenEstimator()
    odd = estimator.estimate_text(text, "gpt-4o")
    plain = estimator.estimate_text(" ".join(WORDS.split()[: odd.tokens]), "gpt-4o")
    assert sum(widths(odd)) > 1.3 * sum(widths(plain))


def test_the_share_of_an_error_falls_with_the_length_of_a_text_and_never_below_that_of_its_kind() -> None:
    shares = [average_out(tokens) / tokens for tokens in (1, 30, 100, 1_000, 1_000_000)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == pytest.approx(1, abs=0.02)
    assert shares[-1] == pytest.approx(0.6, abs=0.01)
    assert average_out(2_000) > average_out(1_000), "more text is never surer in tokens"


def calls_for(text: str) -> int:
    """Python and C functions that are called to count a text, which a clock does not tell so surely."""
    estimator, number = HybridTokenEstimator(), 0
    estimator.estimate_text("", "gpt-4o")

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        estimator.estimate_text(text, "gpt-4o")
    finally:
        sys.setprofile(None)
    return number


def test_a_longer_text_takes_no_more_passes() -> None:
    assert calls_for(PROSE * 1_000) == calls_for(PROSE) < 120


def test_messages_and_tools_grow_one_by_one() -> None:
    """Each message is counted once, and its tokens add up, however many there are."""
    message, tool = Message("user", [Text(text=PROSE)]), Tool("read", PROSE, {"type": "object"})
    totals = [
        HybridTokenEstimator().estimate_conversation(Request(messages=[message] * n, tools=[tool] * n), "gpt-4o").tokens
        for n in (100, 200, 400)
    ]
    assert totals[2] - totals[1] == pytest.approx(2 * (totals[1] - totals[0]), rel=0.01)


# ── The published figures: the benchmark over recorded usage, as `python benchmarks/tokens.py` runs it ──


@pytest.mark.nightly
def test_estimates_are_as_near_as_they_are_said_to_be(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = corpus.corpus_or_skip()
    if not (folder / "tokens.json").is_file():
        pytest.skip("corpus absent: it holds no tokens.json")
    assert tokens.main(["--corpus", str(folder), "--plot", str(tmp_path / "plot.svg")]) == 0
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if line.startswith("- **missed**")] == []
    assert (tmp_path / "plot.svg").read_text().count("<circle") > 500


# ── The parts of a prompt: tools, framing, hidden additions, text and files add up to the count of the w ──


PARTS_TOOL = Tool("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
MODELS = ["gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash", "qwen3-8b", "never-seen-1"]


def counter_of(model: str) -> ModelCounter:
    family = load_tables().find_family(model)
    return ModelCounter(f"/{model}", family, FeatureCounter(family, load_tables().pictures), b"", exact=False)


@each("model", MODELS)
def test_the_parts_of_a_frame_add_up(model: str) -> None:
    counter = counter_of(model)
    schema = Settings(format=Format("schema", schema={"type": "object"}))
    request = Request(tools=[PARTS_TOOL], choice=ToolChoice("required"), settings=schema)
    parts = counter.split_frame(request)
    assert sum(tokens for tokens, _ in parts) == pytest.approx(counter.count_frame(request)[0])
    assert parts.tools[0] > 0
    bare = counter.split_frame(Request())
    assert (bare.tools, bare.hidden[0], bare.framing) == ((0, 0), 0, parts.framing)


@each("model", MODELS)
def test_files_are_apart_from_the_text(model: str) -> None:
    counter = counter_of(model)
    picture = File(media="image/png", data=base64.b64encode(png(1024, 1024)).decode())
    text, both = Message("user", [Text(text=PROSE)]), Message("user", [Text(text=PROSE), picture])
    parts = counter.split_message(both)
    assert parts.text == pytest.approx(counter.count_message(text))
    assert parts.text[0] + parts.files[0] == pytest.approx(counter.count_message(both)[0])
    assert parts.files[0] > 200
    assert counter.split_message(text).files == (0, 0)


# ── The extra: cutting long texts, loading on first use, and one clear word where it is not installed ──


@each("text", ["", "x", "word " * 3000, "x" * 9000, "東京" * 4000, " " * 7000])
def test_pieces_are_the_text_and_none_is_too_long(text: str) -> None:
    found = list(split_text(text, 2 * SEARCH_RANGE))
    assert "".join(found) == text
    assert all(len(piece) <= 2 * SEARCH_RANGE for piece in found)
    assert len(found) <= len(text) // SEARCH_RANGE + 1


def test_a_cut_is_before_a_space() -> None:
    first, *more = split_text("word " * 3000, 2 * SEARCH_RANGE)
    assert first.endswith("word")
    assert all(piece.startswith(" word") for piece in more)


def test_the_vocabularies_are_those_of_the_tables() -> None:
    assert set(counters()) <= {family.vocabulary for family in load_tables().families.values()}


def test_without_the_extra_only_its_use_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bpe_openai", None)  # an import of it fails, as if it were not there
    estimator = HybridTokenEstimator(counters=counters())
    assert estimator.estimate_text(CODE, "gemini-2.5-flash").tokens > 0
    with pytest.raises(MissingExtra, match=r"penstock\[bpe\]"):
        estimator.estimate_text(CODE, "gpt-4o")


def test_with_the_extra_text_is_exact_at_any_length() -> None:
    estimator = HybridTokenEstimator(counters=counters())
    assert [estimator.estimate_text(text, "gpt-4o").tokens for text in (CODE, JSON, EMOJI)] == [56, 84, 53]
    assert estimator.estimate_text(JSON * 6000, "gpt-4o").tokens == pytest.approx(84 * 6000, rel=0.02)


# ── Wrong parameters are named, impossible counts are not learned, and tools are read by their own shape ──


SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
SEEN_WRONG = [-5, 0, True, 10**30, 10**400, -(10**400), None, 1.5, "7", float("nan"), {"prompt_tokens": 5}]


@each("seen", SEEN_WRONG)
def test_a_report_that_is_no_count_is_refused_and_nothing_is_learned(seen: Any) -> None:
    estimator = HybridTokenEstimator()
    with pytest.raises(InputError, match=r"^seen: expected .*tokens.*found"):
        estimator.calibrate(PROSE, seen, "gpt-4o")
    assert estimator.estimate_conversation(PROSE, "gpt-4o").method == "estimated"
    assert estimator.factor("gpt-4o").turns == 0


@each("count, method", [(1, "actual"), (2**53 - 1, "actual")])
def test_every_count_that_a_prompt_can_have_is_taken(count: int, method: str) -> None:
    estimator = HybridTokenEstimator()
    for seen in (count, Usage(input=count)):
        estimator.calibrate(PROSE, seen, "gpt-4o", learn=False)
        found = estimator.estimate_conversation(PROSE, "gpt-4o")
        assert (found.tokens, found.method) == (count, method)


@each("count", [0, -3, 10**30])
def test_a_usage_that_no_prompt_can_have_is_passed_over(count: int) -> None:
    estimator = HybridTokenEstimator()
    estimator.calibrate(PROSE, Usage(input=count), "gpt-4o")
    assert estimator.estimate_conversation(PROSE, "gpt-4o").method == "estimated"


@each(
    "method, parameters, name",
    [
        ("estimate_text", {"text": 5}, "text"),
        ("estimate_text", {"text": None}, "text"),
        ("estimate_conversation", {"request": PROSE, "tools": None}, "tools"),
        ("breakdown", {"request": PROSE, "tools": {"name": "read"}}, "tools"),
        ("calibrate", {"request": PROSE, "seen": 5, "tools": "read"}, "tools"),
        ("fit", {"request": PROSE, "limit": None}, "limit"),
        ("fit", {"request": PROSE, "limit": float("nan")}, "limit"),
        ("fit", {"request": PROSE, "limit": True}, "limit"),
        ("fit", {"request": PROSE, "limit": 5, "reserve": None}, "reserve"),
        ("preflight", {"request": PROSE, "limit": None}, "limit"),
        ("preflight", {"request": PROSE, "limit": float("nan")}, "limit"),
    ],
)
def test_a_wrong_parameter_is_named(method: str, parameters: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match=f"^{name}: expected"):
        getattr(HybridTokenEstimator(), method)(**parameters)


@each("count, tokens", [(1, 1), (2, 1), (100, 1), (10_000, 79), (100_000, 782)])  # o200k
def test_runs_of_spaces_are_tokens(count: int, tokens: int) -> None:
    found = HybridTokenEstimator().estimate_text(" " * count, "gpt-4o")
    assert found.tokens == pytest.approx(tokens, abs=1 + tokens * 0.05)
    assert found.low <= tokens <= found.high
    assert found.high > 0


TOOL_FORMS: dict[str, dict[str, Any]] = {
    "openai-chat": {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": SCHEMA}},
    "responses": {"type": "function", "name": "read", "description": "Reads.", "parameters": SCHEMA},
    "anthropic": {"name": "read", "description": "Reads.", "input_schema": SCHEMA},
    "gemini": {"functionDeclarations": [{"name": "read", "description": "Reads.", "parameters": SCHEMA}]},
    "bedrock": {"toolSpec": {"name": "read", "description": "Reads.", "inputSchema": {"json": SCHEMA}}},
    "vscode": {"name": "read", "description": "Reads.", "inputSchema": SCHEMA},
}
BODIES: dict[str, tuple[Any, str]] = {
    "text": (PROSE, ""),
    "text of gemini": (PROSE, "gemini"),
    "request": (Request(messages=[Message("user", [Text(text=PROSE)])]), ""),
    "chat messages": ([{"role": "user", "content": PROSE}], ""),
    "chat": ({"messages": [{"role": "user", "content": PROSE}]}, ""),
    "responses": ({"input": PROSE}, ""),
    "anthropic": ({"messages": [{"role": "user", "content": PROSE}], "system": []}, "anthropic"),
    "gemini": ({"contents": [{"role": "user", "parts": [{"text": PROSE}]}]}, ""),
    "bedrock": ({"messages": [{"role": "user", "content": [{"text": PROSE}]}]}, "bedrock"),
    "completions": ({"prompt": PROSE}, ""),
}


@each("body", BODIES)
@each("form", TOOL_FORMS)
def test_tools_are_read_by_their_own_shape(body: str, form: str) -> None:
    given, protocol = BODIES[body]
    estimator = HybridTokenEstimator()
    expected = estimator.estimate_conversation(
        given, "gpt-4o", tools=[Tool("read", "Reads.", SCHEMA)], protocol=protocol
    )
    mixed = [TOOL_FORMS[form], Tool("write", "Writes.", SCHEMA)]
    assert estimator.estimate_conversation(given, "gpt-4o", tools=[TOOL_FORMS[form]], protocol=protocol) == expected
    assert estimator.estimate_conversation(given, "gpt-4o", tools=mixed, protocol=protocol).tokens > expected.tokens + 5


@each("tool", [5, None, "read", {"type": "function", "function": 5}, {"toolSpec": 5}, {"functionDeclarations": 5}])
@each("given", [PROSE, {"contents": [{"role": "user", "parts": [{"text": PROSE}]}]}])
def test_a_tool_that_cannot_be_read_is_named(given: Any, tool: Any) -> None:
    with pytest.raises(InputError, match=r"^tools\[1\]"):
        HybridTokenEstimator().estimate_conversation(given, tools=[TOOL_FORMS["openai-chat"], tool])
