"""The oracles themselves: small streams whose meaning is plain, and a count over the recorded ones."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from tests.oracles import anthropic_sdk, expected, google_sdk, openai_chat_sdk, openai_responses, samples
from tests.oracles.samples import SAID
from tests.support import corpus
from tests.support import key_paths as keypaths
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.oracles.outcome import Outcome

READERS: list[tuple[str, tuple[str, ...], Callable[[bytes], list[Outcome]]]] = [
    ("openai-chat", ("openai-chat", "mistral"), openai_chat_sdk.outcomes),
    ("openai-responses", ("openai-responses",), openai_responses.sdk_outcomes),
    ("responses-snapshot", ("openai-responses",), openai_responses.outcomes),
    ("anthropic", ("anthropic-messages",), anthropic_sdk.outcomes),
    ("google-genai", ("gemini",), google_sdk.outcomes),
]
MOST_FAILED = 0.05


def test_chat_is_read_by_the_openai_sdk() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}
    wanted = msgspec.structs.replace(SAID, finish="tool_calls", usage=usage)
    assert openai_chat_sdk.outcomes(samples.chat_stream()) == [wanted]


def test_a_call_without_arguments_has_none() -> None:
    whole = samples.chat(samples.fragment(0, "", id="n", type="function", name="now"), "tool_calls")
    (outcome,) = openai_chat_sdk.outcomes(samples.events(whole))
    assert outcome.calls == [("n", "now", {})]


def test_a_chat_error_in_the_stream_is_the_providers_and_keeps_what_was_said() -> None:
    error = {"error": {"message": "gone", "code": 502}}
    (outcome,) = openai_chat_sdk.outcomes(samples.events(samples.chat({"content": "Half"}), error))
    assert (outcome.text, outcome.error, outcome.failed) == ("Half", "gone", None)


@each("beta", [False, True])
def test_a_message_is_read_by_the_anthropic_sdk(beta: bool) -> None:
    usage = {"input_tokens": 5, "output_tokens": 9}
    wanted = msgspec.structs.replace(SAID, finish="tool_use", usage=usage)
    assert anthropic_sdk.outcomes(samples.message_stream(), beta=beta) == [wanted]


def test_messages_in_one_body_are_read_one_by_one() -> None:
    text = samples.block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "More."})
    body = samples.message_stream() + samples.message(text, finish="end_turn")
    assert [(o.text, o.finish) for o in anthropic_sdk.outcomes(body)] == [
        ("See there.", "tool_use"),
        ("More.", "end_turn"),
    ]


def test_an_anthropic_error_is_the_providers() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    (outcome,) = anthropic_sdk.outcomes(samples.events(error, named=True))
    assert (outcome.error, outcome.failed) == ("busy", None)


@each("read", [openai_responses.outcomes, openai_responses.sdk_outcomes])
def test_a_response_is_read_from_its_snapshot_and_by_the_openai_sdk(read: Callable[[bytes], list[Outcome]]) -> None:
    wanted = msgspec.structs.replace(SAID, finish="completed", usage=samples.RESPONSE_USAGE)
    assert read(samples.response_stream()) == [wanted]


def test_two_responses_in_one_body_are_two() -> None:
    assert [o.text for o in openai_responses.outcomes(samples.response_stream() * 2)] == ["See there."] * 2


@each("vertex", [False, True])
def test_gemini_is_read_by_the_google_sdk(vertex: bool) -> None:
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 9}
    wanted = msgspec.structs.replace(SAID, finish="STOP", usage=usage)
    assert google_sdk.outcomes(samples.gemini_stream(), vertex=vertex) == [wanted]


def test_expected_parts_are_read() -> None:
    (case,) = expected.cases({"cases": [{"test": "t", "parts": samples.expected_parts()}]})
    assert case.outcomes == [msgspec.structs.replace(SAID, finish="tool_use", usage={"in": 5})]
    assert (case.unified, case.whole, case.reshaped) == (["tool-calls"], True, False)
    assert case.belongs([{"a": ["Hm.", {"b": "See "}]}, "there."])
    assert not case.belongs(["Hm.", "See"])


@each("read", [row[2] for row in READERS])
def test_what_an_oracle_cannot_take_is_a_failure_and_never_an_exception(read: Callable[[bytes], list[Outcome]]) -> None:
    (outcome,) = read(b"event: message_start\ndata: {not json\n\n")
    assert outcome.failed


def test_key_paths_enter_lists_and_stop_where_told() -> None:
    value = {"a": [{"b": 1}, {"c": {"free": 2}}], "maps": {"x": {"y": 3}}, "args": {"free": 4}}
    found = keypaths.Paths(["a[].c", "args", "maps.*"]).of(value)
    assert found == {"a", "a[]", "a[].b", "a[].c", "maps", "maps.x", "args"}


def test_key_paths_that_stop_nowhere_go_all_the_way() -> None:
    assert keypaths.Paths().of({"a": [[{"b": None}]]}) == {"a", "a[]", "a[][]", "a[][].b"}


@corpus.SHARES
@each("label, protocols, read", READERS)
def test_oracles_read_nearly_every_recorded_stream(
    label: str, protocols: tuple[str, ...], read: Callable[[bytes], list[Outcome]], share: int
) -> None:
    corpus.corpus_or_skip()
    began = time.monotonic()
    entries = [entry for protocol in protocols for entry in corpus.take_share(corpus.streams(protocol), share)]
    found = [(entry, read(entry.events())) for entry in entries]
    seconds = time.monotonic() - began
    failures = Counter(o.failed for _, outcomes in found for o in outcomes if o.failed)
    # A stream that stops before its end is no defect of its reader.
    endless = sum(times for why, times in failures.items() if why.startswith("NoSnapshotError"))
    total, failed = sum(len(outcomes) for _, outcomes in found) - endless, failures.total() - endless
    table = [f"\n{label}: {total - failed} of {total} messages read, {endless} without an end, {seconds:.1f} s"]
    table += [f"{times:5}  {why}" for why, times in failures.most_common()]
    print("\n".join(table))  # noqa: T201  (seen with `pytest -s`)
    assert failed <= MOST_FAILED * total
    # The index counts a second start inside an unfinished message as another message; a reader need not.
    assert [entry.name for entry, outcomes in found if not 0 < len(outcomes) <= entry.messages] == []


def test_nearly_every_asserted_run_is_tied_to_its_stream() -> None:
    corpus.corpus_or_skip()
    asserted = {entry.name: (entry, expected.cases(entry.expected)) for entry in corpus.streams() if entry.expected}
    adrift = [n for n, (e, cases) in asserted.items() if not any(case.belongs(e.payloads()) for case in cases)]
    assert len(adrift) <= MOST_FAILED * len(asserted), adrift
