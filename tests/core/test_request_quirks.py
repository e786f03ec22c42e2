"""What providers of one protocol differ in: each quirk does what its comment says, and reports what it costs."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from penstock import request as rq
from penstock.messages import convert, convert_request, profile_of
from tests.support import conversations
from tests.support import request_protocols as requesting
from tests.support.each_case import each

chat = partial(requesting.quirks, "openai-chat")
anthropic = partial(requesting.quirks, "anthropic")
bedrock = partial(requesting.quirks, "bedrock")
responses = partial(requesting.quirks, "responses")
SIGNED = rq.Reasoning("Hm.", extra={"anthropic": {"signature": "c2lnbmVk"}})
SEALED = rq.Reasoning(form="redacted", extra={"anthropic": {"redacted": "c2VhbGVk"}})


def asked(*messages: rq.Message, **more: Any) -> rq.Request:
    return rq.Request("m", [rq.Message("user", [rq.Text("Hello")]), *messages], **more)


def turn(*parts: rq.AnyPart) -> rq.Message:
    return rq.Message("assistant", list(parts))


def sent(protocol: str, request: rq.Request, quirks: Any) -> tuple[Any, list[str]]:
    draft = requesting.write(protocol, request, quirks)
    return draft.body, [row.code for row in draft.diagnostics]


# ── chat ──────────────────────────────────────────────────────────────────────────────────────────


@each("word", ["max_tokens", "max_completion_tokens"])
def test_the_word_for_the_output_limit(word: Any) -> None:
    request = requesting.read("openai-chat", {"messages": [], "max_tokens": 9})
    assert sent("openai-chat", request, chat(limit=word))[0] == {"messages": [], word: 9}


@each("word", ["system", "developer"])
def test_the_word_for_the_system(word: Any) -> None:
    request = requesting.read("openai-chat", {"messages": [{"role": "developer", "content": "Be kind."}]})
    assert sent("openai-chat", request, chat(system=word))[0]["messages"] == [{"role": word, "content": "Be kind."}]


def test_fields_for_reasoning() -> None:
    request = asked(turn(rq.Reasoning("Hm."), rq.Text("Hi.")))
    plain = {"role": "assistant", "content": "Hi."}
    assert sent("openai-chat", request, chat())[0]["messages"][1] == {**plain, "reasoning_content": "Hm."}
    assert sent("openai-chat", request, chat(reasoning="reasoning"))[0]["messages"][1] == {**plain, "reasoning": "Hm."}
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    assert sent("openai-chat", request, chat(reasoning="thinking"))[0]["messages"][1]["content"] == [
        thinking, {"type": "text", "text": "Hi."},
    ]  # fmt: skip
    body, codes = sent("openai-chat", request, chat(reasoning=""))
    assert (body["messages"][1], codes) == (plain, ["loss-reasoning"])


def test_signed_reasoning_survives_in_details() -> None:
    request = asked(turn(SIGNED, SEALED, rq.Text("Hi.")))
    body, codes = sent("openai-chat", request, chat(details=True))
    assert codes == []
    back = requesting.read("openai-chat", body)
    thoughts = [part for part in back.messages[1].parts if isinstance(part, rq.Reasoning)]
    assert [(part.text, part.form, (part.extra or {})["anthropic"]) for part in thoughts] == [
        ("Hm.", "full", {"signature": "c2lnbmVk"}), ("", "redacted", {"redacted": "c2VhbGVk"}),
    ]  # fmt: skip
    assert requesting.write("anthropic", back).body["messages"][1]["content"][:2] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "c2VhbGVk"},
    ]


def test_efforts_and_budgets() -> None:
    request = asked(settings=rq.Settings(budget=2000, thoughts=False))
    body, codes = sent("openai-chat", request, chat())
    assert (body["reasoning_effort"], codes) == ("low", ["loss-setting", "loss-budget"])
    body, codes = sent("openai-chat", request, chat(effort="reasoning"))
    assert (body["reasoning"], codes) == ({"max_tokens": 2000, "exclude": True}, [])
    body, codes = sent("openai-chat", asked(settings=rq.Settings(effort="low")), chat(effort=""))
    assert ("reasoning_effort" in body, codes) == (False, ["loss-setting"])


def test_results_that_must_be_strings() -> None:
    result = rq.Result("c", "f", [rq.Text("a"), rq.Text("b")])
    request = asked(turn(rq.Call("c", "f", "{}")), rq.Message("tool", [result]))
    assert sent("openai-chat", request, chat())[0]["messages"][2]["content"] == [
        {"type": "text", "text": "a"}, {"type": "text", "text": "b"},
    ]  # fmt: skip
    body, codes = sent("openai-chat", request, chat(lists=False))
    assert (body["messages"][2]["content"], codes) == ("a\nb", ["loss-parts"])


def test_files_in_results() -> None:
    result = rq.Result("c", "f", [rq.File("image/png", data=conversations.PIXEL)])
    request = asked(turn(rq.Call("c", "f", "{}")), rq.Message("tool", [result]))
    body, codes = sent("openai-chat", request, chat(result_files=True))
    assert ([part["type"] for part in body["messages"][2]["content"]], codes) == (["image_url"], [])


def test_documents() -> None:
    paper = rq.File("application/pdf", "https://example.org/a.pdf", name="a.pdf")
    request = rq.Request("m", [rq.Message("user", [paper])])
    assert sent("openai-chat", request, chat())[1] == ["loss-file"]
    named = {"file_data": "https://example.org/a.pdf", "filename": "a.pdf"}
    assert sent("openai-chat", request, chat(file_urls=True))[0]["messages"][0]["content"] == [
        {"type": "file", "file": named}
    ]
    assert sent("openai-chat", request, chat(documents="document_url"))[0]["messages"][0]["content"] == [
        {"type": "document_url", "document_url": "https://example.org/a.pdf", "document_name": "a.pdf"}
    ]


def test_cache_points_seeds_and_top_k() -> None:
    request = rq.Request(
        "m", [rq.Message("user", [rq.Text("Hello", cache="1h")])], settings=rq.Settings(seed=3, top_k=5)
    )
    quirks = chat(cache="cache_control", seed="random_seed", top_k=True)
    body, codes = sent("openai-chat", request, quirks)
    hint = {"type": "ephemeral", "ttl": "1h"}
    assert body["messages"][0]["content"] == [{"type": "text", "text": "Hello", "cache_control": hint}]
    assert (body["random_seed"], body["top_k"], codes) == (3, 5, [])
    body, _ = sent("openai-chat", request, chat(cache="prompt_cache_breakpoint"))
    assert body["messages"][0]["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit"}


# ── anthropic ─────────────────────────────────────────────────────────────────────────────────────


def test_unsigned_thinking() -> None:
    request = asked(turn(rq.Reasoning("Hm."), rq.Text("Hi.")), settings=rq.Settings(max_output=5))
    assert sent("anthropic", request, anthropic())[1] == ["loss-unsigned"]
    kept, codes = sent("anthropic", request, anthropic(unsigned="keep"))
    assert kept["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": ""}
    assert codes == []
    told, codes = sent("anthropic", request, anthropic(unsigned="text"))
    assert told["messages"][1]["content"][0] == {"type": "text", "text": "Hm."}
    assert codes == ["loss-unsigned"]


def test_system_messages_inside_that_the_user_must_say() -> None:
    request = asked(rq.Message("system", [rq.Text("Tools changed.")]), settings=rq.Settings(max_output=5))
    body, codes = sent("anthropic", request, anthropic(mid_system="user"))
    said = "<system-reminder>\nTools changed.\n</system-reminder>"
    assert (body["messages"][1], codes) == ({"role": "user", "content": said}, ["loss-mid-system"])


@each("limit, budget", [(64000, 24576), (4096, 3072), (2048, 1024), (2047, None), (100, None)])
def test_an_effort_as_a_budget_leaves_room_to_answer(limit: int, budget: int | None) -> None:
    """Where the limit has none to spare there is no budget, and that is reported."""
    request = asked(settings=rq.Settings(effort="high", max_output=limit))
    made = convert_request(replace(request, model="claude-sonnet-4-5"), "openai-chat", "anthropic")
    found = made.body.get("thinking", {}).get("budget_tokens"), made.body["max_tokens"]
    told = "changed-effort" if budget else "loss-effort"
    assert (found, [row.code for row in made.diagnostics]) == ((budget, limit), [told])
    body, codes = sent("bedrock", request, bedrock())
    more = body.get("additionalModelRequestFields", {}).get("thinking", {})
    assert (more.get("budget_tokens"), codes) == (budget, ["loss-effort"])


@each("target", ["anthropic", "bedrock"])
@each("maximum", [None, 4096, 64000])
def test_a_budget_is_always_less_than_the_output_limit(target: str, maximum: int | None) -> None:
    body = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "a"}]}
    body |= {"thinking": {"type": "enabled", "budget_tokens": 20000}}
    made = convert(body, "anthropic", target, profile=profile_of(target), max_output=maximum).body
    limit = made.get("max_tokens") or made["inferenceConfig"]["maxTokens"]
    thinking = made.get("thinking") or made["additionalModelRequestFields"]["thinking"]
    assert 1024 <= thinking["budget_tokens"] < limit <= (maximum or limit)


def test_a_budget_without_a_limit_gets_one_above_it() -> None:
    body, codes = sent("anthropic", asked(settings=rq.Settings(budget=20000)), anthropic())
    assert (body["max_tokens"], codes) == (24096, ["loss-max-output"])


def test_unsigned_reasoning_for_bedrock() -> None:
    """That of others is left out, because Claude refuses it; a client of this protocol gets its own sent."""
    request = asked(turn(rq.Reasoning("Hm."), rq.Text("Hi.")))
    assert sent("bedrock", request, bedrock())[1] == ["loss-unsigned"]
    said = [{"reasoningContent": {"reasoningText": {"text": "Hm."}}}, {"text": "Hi."}]
    body = {"messages": [{"role": "user", "content": [{"text": "a"}]}, {"role": "assistant", "content": said}]}
    assert sent("bedrock", requesting.read("bedrock", body), None) == (body, [])


def test_an_output_limit_must_be_said() -> None:
    body, codes = sent("anthropic", asked(), anthropic(max_output=77))
    assert (body["max_tokens"], codes) == (77, ["loss-max-output"])
