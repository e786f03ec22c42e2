"""Chat Completions streams as the official `openai` client reads and accumulates them.
What the SDK has no field for (reasoning, citations, a dialect's usage) is taken from the chunks it parsed.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from tests.oracles.outcome import Outcome, arguments, sheltered
from tests.oracles.replay import Replay, replay_for

if TYPE_CHECKING:
    import openai
    from openai.lib.streaming.chat import ChatCompletionStreamState


@cache
def _sdk() -> tuple[openai.OpenAI, Replay]:
    import openai

    replay = replay_for(openai.DefaultHttpxClient)
    return openai.OpenAI(
        api_key="none", base_url="http://upstream.test/v1", http_client=replay.client, max_retries=0
    ), replay


def outcomes(body: bytes) -> list[Outcome]:
    outcome = Outcome()
    with sheltered(outcome):
        _read(body, outcome)
    return [outcome]


def _read(body: bytes, outcome: Outcome) -> None:
    import openai
    from openai.lib.streaming.chat import ChatCompletionStreamState

    client, replay = _sdk()
    replay.body = body
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    begun = False
    stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}], stream=True)
    try:
        for chunk in stream:
            _extras(chunk, outcome)
            state.handle_chunk(chunk)
            begun = True
    except openai.APIError as error:
        outcome.error = error.message
    if begun:
        _snapshot(state.current_completion_snapshot, outcome)


def _snapshot(snapshot: Any, outcome: Outcome) -> None:
    choice = next((c for c in snapshot.choices if c.index == 0), None)
    if choice is None:
        return
    message = choice.message
    if isinstance(message.content, list):
        raise TypeError("the SDK has accumulated a list of parts as content")
    outcome.text = message.content or ""
    outcome.refusal = message.refusal or ""
    outcome.finish = choice.finish_reason
    outcome.calls = [(t.id, t.function.name, arguments(t.function.arguments)) for t in message.tool_calls or ()]
    if message.function_call:
        legacy = message.function_call
        outcome.calls.append((None, legacy.name, arguments(legacy.arguments)))


def _extras(chunk: Any, outcome: Outcome) -> None:
    extra = chunk.model_extra or {}
    usage = chunk.usage.to_dict() if chunk.usage else (extra.get("x_groq") or {}).get("usage")
    outcome.counted(usage, "prompt_tokens", "completion_tokens")
    titles = {found["url"]: found.get("title") for found in extra.get("search_results") or ()}
    for url in extra.get("citations") or ():
        outcome.link(url, titles.get(url))
    for choice in chunk.choices or ():
        if choice.index == 0:
            _thoughts(choice.delta.content, outcome)
            _delta(choice.delta.model_extra or {}, outcome)


def _thoughts(content: Any, outcome: Outcome) -> None:
    for part in content if isinstance(content, list) else ():
        outcome.reasoning += "".join(thought["text"] for thought in part.get("thinking") or ())


def _delta(extra: dict[str, Any], outcome: Outcome) -> None:
    # Where the details come with one of the two plain fields, they say the same again.
    spoken = extra.get("reasoning_content") or extra.get("reasoning")
    outcome.reasoning += spoken or "".join(
        part.get("text") or part.get("summary") or "" for part in extra.get("reasoning_details") or ()
    )
    for note in extra.get("annotations") or ():
        link = note.get("url_citation") or {}
        outcome.link(link.get("url"), link.get("title"))
