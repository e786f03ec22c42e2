"""Chat Completions streams as the official `openai` client reads and accumulates them.
What the SDK has no field for (reasoning, citations, a dialect's usage) is taken from the chunks it parsed.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.oracles.outcome import Outcome, arguments, outcome_of, sheltered
from tests.oracles.replay import WHOLE, Replay, replay_for

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
    replay.play(body)
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


def body_outcome(body: bytes) -> Outcome:
    """An answer that was not streamed."""
    return outcome_of(_read_body, body)


def _read_body(body: bytes, outcome: Outcome) -> None:
    client, replay = _sdk()
    replay.play(body, WHOLE)
    completion = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}])
    extra = completion.model_extra or {}
    outcome.counted(completion.usage.to_dict() if completion.usage else None, "prompt_tokens", "completion_tokens")
    _links(extra, outcome)
    _snapshot(completion, outcome)
    choice: Any = next((c for c in completion.choices or () if not c.index), None)
    if choice is not None and choice.message is not None:
        _thoughts(choice.message.content, outcome)
        _delta({**(choice.message.model_extra or {}), "annotations": _annotations(choice.message)}, outcome)


def _annotations(message: Any) -> list[dict[str, Any]]:
    return [note if isinstance(note, dict) else note.to_dict() for note in message.annotations or ()]


def _snapshot(snapshot: Any, outcome: Outcome) -> None:
    choice = next((c for c in snapshot.choices if not c.index), None)
    if choice is None:
        return
    outcome.finish, message = choice.finish_reason, choice.message
    if message is None:
        return  # Azure's filter leaves nothing of it
    outcome.text = _text(message.content)
    outcome.refusal = message.refusal or ""
    outcome.calls = [(t.id, *_called(t)) for t in message.tool_calls or ()]
    legacy = message.function_call
    if legacy and legacy.name:
        outcome.calls.append((None, legacy.name, arguments(legacy.arguments)))


def _called(call: Any) -> tuple[str, Any]:
    if call.type == "custom":
        return call.custom.name, call.custom.input
    given = call.function.arguments
    return call.function.name, arguments(given) if isinstance(given, str | None) else given


def _text(content: Any) -> str:
    """Mistral's reasoning models answer with a list of parts, which the SDK hands on."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if part.get("type") == "text")
    return content if isinstance(content, str) else json.dumps(content, separators=(",", ":")) if content else ""


def _extras(chunk: Any, outcome: Outcome) -> None:
    extra = chunk.model_extra or {}
    usage = chunk.usage.to_dict() if chunk.usage else (extra.get("x_groq") or {}).get("usage")
    outcome.counted(usage, "prompt_tokens", "completion_tokens")
    _links(extra, outcome)
    for choice in chunk.choices or ():
        if choice.index == 0:
            _thoughts(choice.delta.content, outcome)
            _delta(choice.delta.model_extra or {}, outcome)


def _links(extra: dict[str, Any], outcome: Outcome) -> None:
    """Perplexity's search results, and the bare links of those that it does not describe."""
    titles = {found["url"]: found.get("title") for found in extra.get("search_results") or ()}
    for url in [*titles, *(extra.get("citations") or ())]:
        outcome.link(url, titles.get(url))


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
        link = note.get("url_citation") or note.get("file") or {}  # OpenRouter tells of files that it has read, too
        outcome.link(link.get("url"), link.get("title") or link.get("name"))
