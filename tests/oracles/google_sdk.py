"""Gemini streams as the official `google-genai` client reads them. It parses chunk by chunk and folds nothing, so the
folding here is the plainest there is: texts joined, the last word on everything else.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.oracles.outcome import Outcome, sheltered
from tests.oracles.replay import WHOLE, Replay, replay_for

if TYPE_CHECKING:
    from google import genai
    from google.genai import types

_COUNTS = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")


class PartialArgumentsError(Exception):
    """The arguments come as path and value pairs, which the SDK hands on as they are."""


@cache
def _sdk(*, vertex: bool) -> tuple[genai.Client, Replay]:
    import httpx

    with warnings.catch_warnings():
        # Compiled for the first time, the SDK warns about its own source, and warnings are errors in our tests.
        warnings.simplefilter("ignore")
        from google import genai
        from google.genai import types

    replay = replay_for(httpx.Client)
    options = types.HttpOptions(base_url="http://upstream.test", httpx_client=replay.client)
    return genai.Client(api_key="none", vertexai=vertex, http_options=options), replay


def outcomes(body: bytes, *, vertex: bool = False) -> list[Outcome]:
    outcome = Outcome()
    with sheltered(outcome):
        _read(body, outcome, vertex=vertex)
    return [outcome]


def body_outcome(body: bytes) -> Outcome:
    """An answer that was not streamed."""
    outcome = Outcome()
    with sheltered(outcome):
        client, replay = _sdk(vertex=False)
        replay.play(body, WHOLE)
        _chunk(client.models.generate_content(model="m", contents="?", config=_quiet()), outcome)
    return outcome


def _quiet() -> types.GenerateContentConfig:
    from google.genai import types

    return types.GenerateContentConfig(
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )


def _read(body: bytes, outcome: Outcome, *, vertex: bool) -> None:
    client, replay = _sdk(vertex=vertex)
    from google.genai import errors

    replay.play(body)
    quiet = _quiet()
    try:
        for chunk in client.models.generate_content_stream(model="m", contents="?", config=quiet):
            _chunk(chunk, outcome)
    except errors.APIError as error:
        outcome.error = error.message


def _chunk(chunk: types.GenerateContentResponse, outcome: Outcome) -> None:
    if chunk.usage_metadata:
        said = chunk.usage_metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
        # What is zero is left out: a chunk whose counts make up its total has said all of them.
        counts = [said.get(name, 0) for name in _COUNTS]
        complete = sum(counts[1:]) and sum(counts) + said.get("toolUsePromptTokenCount", 0) == said.get(
            "totalTokenCount"
        )
        usage = said if complete else outcome.usage | said
        outcome.counted(usage, "promptTokenCount", "candidatesTokenCount")
    blocked = chunk.prompt_feedback and chunk.prompt_feedback.block_reason
    if chunk.prompt_feedback and blocked:
        outcome.error = chunk.prompt_feedback.block_reason_message or blocked.value
    for candidate in chunk.candidates or ():
        if not candidate.index:
            _candidate(candidate, outcome)


def _candidate(candidate: types.Candidate, outcome: Outcome) -> None:
    if candidate.finish_reason:
        outcome.finish = candidate.finish_reason.value
    for part in (candidate.content and candidate.content.parts) or ():
        _part(part, outcome)
    cited: Any = (candidate.citation_metadata and candidate.citation_metadata.citations) or ()
    for citation in cited:
        outcome.link(citation.uri, citation.title)
    for ground in (candidate.grounding_metadata and candidate.grounding_metadata.grounding_chunks) or ():
        where: Any = ground.web or ground.retrieved_context or ground.maps
        if where:
            outcome.link(where.uri, where.title)


def _part(part: types.Part, outcome: Outcome) -> None:
    if part.text:
        if part.thought:
            outcome.reasoning += part.text
        else:
            outcome.text += part.text
    call = part.function_call
    if call:
        if call.partial_args or call.will_continue:
            raise PartialArgumentsError("the SDK does not fold partial arguments")
        outcome.calls.append((call.id, call.name or "", call.args or {}))
