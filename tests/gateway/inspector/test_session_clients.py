"""Sessions of real clients behind a gateway: whose turns are kept apart, and what belongs together."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.testing import Reply
from tests.page.agent_runs import NO_ESTIMATES
from tests.support.client_requests import get, post
from tests.support.event_feed import ended, watching
from tests.support.gateway import spoken_protocol
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import ReceivedRequest
    from tests.support.inspector import Inspected

ANTHROPIC = {"user-agent": "Anthropic/Python 0.50.0", "anthropic-version": "2023-06-01"}
CURL = {"user-agent": "curl/8.5.0"}
CLAUDE_CODE = {"user-agent": "claude-cli/2.1.9 (external, cli)", "anthropic-version": "2023-06-01"}
SUMMARY = "1. Primary request: the parser of dates loses the time zone.\n2. Files: src/dates.py, tests/test_dates.py."


def says(seen: ReceivedRequest) -> Reply:
    """The model: it says the same to everybody, sums up if it is asked to, and fails if it is told to."""
    protocol, _, rest = seen.path.lstrip("/").partition("/")
    spoken, asked = spoken_protocol(protocol, rest), seen.body.decode()
    last = asked[asked.rindex('"user"') if '"user"' in asked else 0 :]
    if "FAIL" in last:
        return Reply.error("anthropic", 500, "the provider is out of order")
    words = f"<summary>\n{SUMMARY}\n</summary>" if "detailed summary" in last else "I am here to help you with that."
    events: list[ev.AnyEvent] = [ev.Start(id=f"resp_{time.monotonic_ns()}", model="m"), ev.TextStart(0)]
    events += [ev.TextDelta(0, words), ev.TextEnd(0), ev.Usage(input=20, output=9), ev.Finish("stop")]
    return Reply.of(spoken, events, stream=json.loads(seen.body).get("stream") is True or "stream" in rest)


@pytest.fixture
def running() -> Iterator[Inspected]:
    with inspected(says, features=NO_ESTIMATES) as made, watching(made.url):
        yield made


class Chat:
    """A conversation of one program in one protocol. `ask` sends it all, with another message of the user."""

    def __init__(self, running: Inspected, protocol: str, headers: dict[str, str]) -> None:
        self._running, self.protocol, self.headers = running, protocol, headers
        self.messages: list[tuple[str, str]] = []
        self.ids: list[str] = []

    def ask(self, words: str, system: str = "You help.", model: str = "anthropic/text") -> str:
        self.messages.append(("user", words))
        path, body = self._body(system, model)
        reply = post(f"{self._running.url}{path}", json=body, headers=self.headers)
        self.ids.append(reply.headers["x-request-id"])
        if reply.status_code == 200:
            self.messages.append(("assistant", _text(reply.json())))
        else:
            self.messages.pop()
        ended(self._running, self.ids[-1])
        return self.ids[-1]

    def _body(self, system: str, model: str) -> tuple[str, dict[str, Any]]:
        plain = [{"role": role, "content": text} for role, text in self.messages]
        if self.protocol == "gemini":
            contents = [{"role": "user" if role == "user" else "model", "parts": [{"text": text}]}
                        for role, text in self.messages]  # fmt: skip
            return f"/v1beta/models/{model}:generateContent", {"contents": contents}
        if self.protocol == "anthropic":
            return "/v1/messages", {"model": model, "max_tokens": 99, "system": system, "messages": plain}
        return "/v1/chat/completions", {"model": model, "messages": [{"role": "system", "content": system}, *plain]}


def _text(answer: dict[str, Any]) -> str:
    if "candidates" in answer:
        return str(answer["candidates"][0]["content"]["parts"][0]["text"])
    return str(answer["choices"][0]["message"]["content"] if "choices" in answer else answer["content"][0]["text"])


def grouped(running: Inspected) -> dict[str, list[str]]:
    """The turns of each session by its id."""
    rows = get(f"{running.url}/inspector/sessions").json()["sessions"]
    return {row["id"]: [step["row"]["id"] for step in report(running, row["id"])["steps"]] for row in rows}


def report(running: Inspected, id: str) -> dict[str, Any]:
    found: dict[str, Any] = get(f"{running.url}/inspector/sessions/{id}").json()
    return found


def links(running: Inspected, id: str) -> list[str]:
    return [step["link"] for step in report(running, id)["steps"]]


def test_programs_that_say_the_same_are_kept_apart(running: Inspected) -> None:
    """The same words and the same answers, one turn of each after the other."""
    programs = {
        "anthropic-sdk": Chat(running, "anthropic", ANTHROPIC),
        "curl": Chat(running, "anthropic", {**CURL, "anthropic-version": "2023-06-01"}),
        "my-gemini": Chat(running, "gemini", {"user-agent": "my-gemini/1.0"}),
        "node": Chat(running, "openai-chat", {"user-agent": "node"}),
    }
    for words in ("hi", "and now?"):
        for chat in programs.values():
            chat.ask(words)
    assert grouped(running) == {chat.ids[0]: chat.ids for chat in programs.values()}
    for name, chat in programs.items():
        assert report(running, chat.ids[0])["session"]["client"] == name
    rows = get(f"{running.url}/inspector/turns?q=client%3Dcurl").json()["rows"]
    assert ({row["id"] for row in rows}, rows[0]["agent"]) == (set(programs["curl"].ids), "curl/8.5.0")


def test_one_user_agent_in_two_protocols_is_two_programs_until_an_answer_is_shared(running: Inspected) -> None:
    one, two = Chat(running, "openai-chat", CURL), Chat(running, "anthropic", CURL)
    for words in ("hi", "and now?"):
        one.ask(words)
        two.ask(words)
    assert grouped(running) == {one.ids[0]: one.ids, two.ids[0]: two.ids}
    other = Chat(running, "gemini", CURL)
    other.messages = [("user", "hi"), ("assistant", "I come from another gateway.")]
    other.ask("and now?")
    assert other.ids[0] in grouped(running)


def test_a_program_that_runs_again_is_another_session(running: Inspected) -> None:
    """It says the same, and gets the same answers."""
    runs = [Chat(running, "anthropic", CURL) for _ in range(3)]
    for chat in runs:
        for words in ("hi", "and now?", "thanks"):
            chat.ask(words)
    assert grouped(running) == {chat.ids[0]: chat.ids for chat in runs}
    runs[2].messages = runs[2].messages[:4]
    runs[2].ask("thanks")  # the last answer is asked for again
    assert links(running, runs[2].ids[0]) == ["start", "continue", "continue", "retry"]


def test_an_agent_that_changes_the_model_and_the_endpoint_is_one_session(running: Inspected) -> None:
    chat = Chat(running, "anthropic", CURL)
    chat.ask("hi")
    chat.protocol = "openai-chat"
    chat.ask("go on", model="openai-chat/tools")
    chat.ask("and on", model="anthropic/text")
    assert grouped(running) == {chat.ids[0]: chat.ids}
    assert links(running, chat.ids[0]) == ["start", "continue", "continue"]
    assert len(report(running, chat.ids[0])["session"]["models"]) > 1


@pytest.mark.parametrize("model", ["anthropic/text", "responses/text"])
def test_a_response_that_names_the_one_before_is_in_its_session(running: Inspected, model: str) -> None:
    """The id may be the gateway's or the provider's."""
    turns: list[str] = []
    previous: dict[str, str] = {}
    for words in ("hi", "and again", "FAIL", "FAIL"):
        body = {"model": model, "input": words, **previous}
        reply = post(f"{running.url}/v1/responses", json=body, headers={"user-agent": "OpenAI/Python 3.49.0"})
        turns.append(reply.headers["x-request-id"])
        ended(running, turns[-1])
        if reply.status_code == 200:
            previous = {"previous_response_id": reply.json()["id"]}
    assert grouped(running) == {turns[0]: turns}
    (held,) = running.inspector.sessions.reader._known()
    responses = held._responses
    assert all(response and turn in turns[:2] for response, turn in responses.items()), "errors have no id"
    found = report(running, turns[0])
    assert [step["link"] for step in found["steps"]] == ["start", "continue", "continue", "retry"]
    assert [step["messages"] for step in found["steps"]] == [1, 3, 5, 5]
    assert [step["previous"] for step in found["steps"]] == ["", *turns[:3]]
    assert [step["gap"]["kind"] for step in found["steps"][1:]] == ["user", "user", "client"]


def test_two_runs_that_name_responses_and_say_the_same_are_two_sessions(running: Inspected) -> None:
    """A turn belongs to the response that it names, although a turn of the other run has equal messages."""
    runs: list[list[str]] = []
    for _ in range(2):
        turns: list[str] = []
        previous: dict[str, str] = {}
        for words in ("hi", "and again", "and once more"):
            body = {"model": "responses/text", "input": words, **previous}
            reply = post(f"{running.url}/v1/responses", json=body, headers={"user-agent": "OpenAI/Python 3.49.0"})
            turns.append(reply.headers["x-request-id"])
            ended(running, turns[-1])
            previous = {"previous_response_id": reply.json()["id"]}
        runs.append(turns)
    assert grouped(running) == {turns[0]: turns for turns in runs}
    for turns in runs:
        assert links(running, turns[0]) == ["start", "continue", "continue"]


def test_a_request_for_a_title_is_no_retry(running: Inspected) -> None:
    """An agent sends the first words with another system message too. That it fails does not make the turn a retry."""
    title, main = Chat(running, "anthropic", CLAUDE_CODE), Chat(running, "anthropic", CLAUDE_CODE)
    title.ask("FAIL to mend the parser", system="Write a title of at most five words.", model="anthropic/tools")
    main.ask("FAIL to mend the parser", system="You are an agent for code.")
    main.ask("FAIL to mend the parser", system="You are an agent for code.")
    assert grouped(running) == {title.ids[0]: title.ids, main.ids[0]: main.ids}
    assert links(running, main.ids[0]) == ["start", "retry"]


def test_a_conversation_that_is_compacted_goes_on(running: Inspected) -> None:
    """The summary is asked for in the conversation; then it is the first message of a new one."""
    chat = Chat(running, "anthropic", CLAUDE_CODE)
    chat.ask("Mend the parser of dates.")
    chat.ask("It loses the time zone.")
    chat.ask("Your task is to create a detailed summary of the conversation so far.")
    lead = "This session is being continued from a previous conversation that ran out of context."
    chat.messages = []
    chat.ask(f"{lead} The conversation is summarized below:\n{SUMMARY}\nPlease continue without asking.")
    chat.ask("Run the tests.")
    assert grouped(running) == {chat.ids[0]: chat.ids}
    assert links(running, chat.ids[0]) == ["start", "continue", "continue", "compact", "continue"]
    assert report(running, chat.ids[0])["steps"][3]["gap"]["kind"] == "client"


def test_a_summary_after_the_first_words_is_a_compaction(running: Inspected) -> None:
    """Some agents keep what the user wrote, and put the summary behind it."""
    chat = Chat(running, "openai-chat", {"user-agent": "codex-like/1.0"})
    for words in ("Mend the parser of dates.", "It loses the time zone.", "Now write a detailed summary."):
        chat.ask(words)
    chat.messages = chat.messages[:1]
    chat.ask(f"Another model has worked on it. Its summary:\n{SUMMARY}")
    assert links(running, chat.ids[0]) == ["start", "continue", "continue", "compact"]


def test_a_subagent_with_its_own_system_message_is_a_session(running: Inspected) -> None:
    """It runs between two turns of the agent, of the same program with the same key."""
    agent, helper = Chat(running, "anthropic", CLAUDE_CODE), Chat(running, "anthropic", CLAUDE_CODE)
    agent.ask("Mend the parser of dates.", system="You are an agent for code.")
    helper.ask("Find where dates are parsed.", system="You search files.")
    helper.ask("Also in the tests.", system="You search files.")
    agent.ask("The helper says: src/dates.py", system="You are an agent for code.")
    assert grouped(running) == {agent.ids[0]: agent.ids, helper.ids[0]: helper.ids}


def test_the_same_request_after_an_error_is_a_retry(running: Inspected) -> None:
    chat = Chat(running, "anthropic", CURL)
    chat.ask("FAIL, please")
    chat.ask("FAIL, please")
    assert grouped(running) == {chat.ids[0]: chat.ids}
    found = report(running, chat.ids[0])
    assert [step["link"] for step in found["steps"]] == ["start", "retry"]
    session = found["session"]
    assert (session["cost"], session["unpriced"]) == (None, 2)
    assert (session["input"], session["output"], session["cached"], session["uncounted"]) == (None, None, None, 2)
