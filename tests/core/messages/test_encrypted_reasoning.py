"""What a Responses server has encrypted goes back to that provider, and to no other."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from penstock import request as rq
from penstock.messages import Converted, convert, profile_of, remember
from penstock.stores import MemoryStore
from tests.support.each_case import each

USER = {"type": "message", "role": "user", "content": "hi"}
ANSWER = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}


def reasoning(*words: str) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": one} for one in words]
    return {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "CIPHER"}


def ask(model: str, provider: str, *items: Any, **options: Any) -> Converted:
    profile = replace(profile_of("responses"), provider=provider)
    body = {"model": model, "input": [USER, *items, USER]}
    return convert(body, "responses", "responses", profile=profile, **options)


def store_of(origin: str) -> MemoryStore:
    store = MemoryStore(lambda: 0.0)
    parts: list[Any] = [rq.Reasoning("", extra={"responses": {"encrypted_content": "CIPHER"}}), rq.Text("Hello.")]
    remember(rq.Turn(parts=parts), store, "", origin=origin)
    return store


@each("words", [("Hm.",), ()])
def test_another_provider_is_not_sent_it(words: tuple[str, ...]) -> None:
    made = ask("gpt-5.4", "other", reasoning(*words), ANSWER, store=store_of("openai"))
    assert "CIPHER" not in str(made.body)
    assert "rs_1" not in str(made.body)
    assert [row["type"] for row in made.body["input"]] == ["message"] * 3
    assert "loss-encrypted-content" in [row.code for row in made.diagnostics]


def test_its_own_provider_gets_it_back_whatever_the_model_is_called() -> None:
    made = ask("grok-4", "xai", reasoning("Hm."), ANSWER, store=store_of("xai"))
    assert made.body["input"][1] == reasoning("Hm.")


@each("model, kept", [("gpt-5.4", True), ("grok-4", False), ("orca-2", False)])
def test_what_was_never_seen_here_goes_to_models_of_openai_only(model: str, kept: bool) -> None:
    made = ask(model, "some", reasoning("Hm."), ANSWER)
    assert ("CIPHER" in str(made.body)) is kept


def test_a_compaction_and_a_lone_reasoning_item_leave_no_empty_turn() -> None:
    compaction = {"type": "compaction", "id": "c", "encrypted_content": "CIPHER"}
    for item in (compaction, reasoning()):
        assert ask("grok-4", "xai", item).body["input"] == [USER, USER]


def test_without_a_profile_nothing_is_changed() -> None:
    body = {"model": "grok-4", "input": [USER, reasoning("Hm."), ANSWER]}
    assert convert(body, "responses", "responses").body["input"] == body["input"]
