"""Bedrock Converse, Cohere Chat, Ollama, Gemini Interactions and Completions with nothing but a JSON parser, written from
the vendors' documentation: their SDKs for Python are not installed, or only hand on what was sent.

Each reader takes the payloads of a stream, or the one document of a whole answer.
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html, …_ConverseStream.html
https://docs.cohere.com/reference/chat, https://docs.cohere.com/reference/chat-stream (version 2; `/v1/` before them)
https://docs.ollama.com/api/chat, https://ai.google.dev/api/interactions-api
https://platform.openai.com/docs/api-reference/completions
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.oracles.outcome import Outcome, arguments, sheltered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Json = dict[str, Any]


def outcomes(protocol: str, payloads: Iterable[Any]) -> list[Outcome]:
    """One outcome: no recording of these protocols holds two answers."""
    outcome = Outcome()
    with sheltered(outcome):
        READERS[protocol](list(payloads), outcome)
    return [outcome]


class _Calls:
    """Calls that are put together from fragments, by the index of their block."""

    def __init__(self) -> None:
        self._rows: dict[Any, list[Any]] = {}

    def begin(self, index: Any, id: str | None, name: str) -> None:
        self._rows[index] = [id, name, ""]

    def add(self, index: Any, fragment: str) -> None:
        if index in self._rows:
            self._rows[index][2] += fragment

    def deliver(self, outcome: Outcome) -> None:
        for id, name, given in self._rows.values():  # noqa: A001 — the wire's word
            outcome.calls.append((id, name, arguments(given) or {}))


# ── Bedrock Converse ──────────────────────────────────────────────────────────────────────────────────────────────────


def _bedrock(payloads: list[Json], outcome: Outcome) -> None:
    calls = _Calls()
    for payload in payloads:
        for block in ((payload.get("output") or {}).get("message") or {}).get("content") or ():
            _converse_block(block, outcome)
        start = payload.get("contentBlockStart") or {}
        begun = (start.get("start") or {}).get("toolUse")
        if begun and begun.get("type") in {None, "tool_use"}:
            calls.begin(start.get("contentBlockIndex"), begun["toolUseId"], begun["name"])
        piece = payload.get("contentBlockDelta") or {}
        delta = piece.get("delta") or {}
        calls.add(piece.get("contentBlockIndex"), (delta.get("toolUse") or {}).get("input") or "")
        outcome.text += delta.get("text") or ""
        outcome.reasoning += (delta.get("reasoningContent") or {}).get("text") or ""
        _converse_link(delta.get("citation"), outcome)
        outcome.finish = (payload.get("messageStop") or payload).get("stopReason") or outcome.finish
        outcome.counted((payload.get("metadata") or payload).get("usage"), "inputTokens", "outputTokens")
    calls.deliver(outcome)


def _converse_block(block: Json, outcome: Outcome) -> None:
    outcome.text += block.get("text") or ""
    outcome.reasoning += ((block.get("reasoningContent") or {}).get("reasoningText") or {}).get("text") or ""
    cited = block.get("citationsContent") or {}
    outcome.text += "".join(part.get("text") or "" for part in cited.get("content") or ())
    for citation in cited.get("citations") or ():
        _converse_link(citation, outcome)
    call = block.get("toolUse")
    if call and call.get("type") in {None, "tool_use"}:
        outcome.calls.append((call["toolUseId"], call["name"], call["input"]))


def _converse_link(citation: Json | None, outcome: Outcome) -> None:
    if citation:
        web = (citation.get("location") or {}).get("web") or {}
        source = citation.get("source") or ""
        url = web.get("url") or (source if "://" in source else None)
        outcome.link(url, citation.get("title") or web.get("domain"))


# ── Cohere ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _cohere(payloads: list[Json], outcome: Outcome) -> None:
    calls = _Calls()
    for payload in payloads:
        if payload == "[DONE]":  # type: ignore[comparison-overlap]  # behind the end, as a JSON string
            continue
        kind = payload.get("type") or payload.get("event_type")
        if kind is None:
            _cohere_answer(payload, outcome)
        elif kind in {"stream-end", "text-generation", "tool-calls-generation"}:
            _cohere_version1(kind, payload, outcome)
        else:
            _cohere_event(kind, payload, calls, outcome)
    calls.deliver(outcome)


def _cohere_answer(payload: Json, outcome: Outcome) -> None:
    """A whole answer of either version."""
    message = payload.get("message") or {}
    if not message:
        _cohere_version1("stream-end", {"response": payload}, outcome)
        return
    outcome.reasoning += message.get("tool_plan") or ""
    for part in message.get("content") or ():
        _cohere_content(part, outcome)
    for call in message.get("tool_calls") or ():
        outcome.calls.append((call["id"], call["function"]["name"], arguments(call["function"]["arguments"]) or {}))
    _cohere_links(message.get("citations") or (), outcome)
    outcome.finish = payload.get("finish_reason")
    _cohere_count(payload.get("usage"), outcome)


def _cohere_event(kind: str, payload: Json, calls: _Calls, outcome: Outcome) -> None:
    delta = payload.get("delta") or {}
    message = delta.get("message") or {}
    if kind in {"content-start", "content-delta"}:
        _cohere_content(message.get("content") or {}, outcome)
    elif kind == "tool-plan-delta":
        outcome.reasoning += message["tool_plan"]
    elif kind == "tool-call-start":
        call = message["tool_calls"]
        calls.begin(payload.get("index"), call["id"], call["function"]["name"])
        calls.add(payload.get("index"), call["function"].get("arguments") or "")
    elif kind == "tool-call-delta":
        calls.add(payload.get("index"), message["tool_calls"]["function"]["arguments"])
    elif kind == "citation-start":
        cited = message["citations"]
        _cohere_links(cited if isinstance(cited, list) else [cited], outcome)
    elif kind == "message-end":
        outcome.finish = delta.get("finish_reason")
        outcome.error = delta.get("error")
        _cohere_count(delta.get("usage"), outcome)


def _cohere_content(content: Json, outcome: Outcome) -> None:
    outcome.text += content.get("text") or ""
    outcome.reasoning += content.get("thinking") or ""


def _cohere_version1(kind: str, payload: Json, outcome: Outcome) -> None:
    """Its last event repeats all of the answer: that is read, and the deltas are not."""
    if kind != "stream-end":
        return
    answer = payload.get("response") or {}
    words = answer.get("text") or "".join(one.get("text") or "" for one in answer.get("generations") or ())
    if answer.get("tool_calls"):
        outcome.reasoning += words
    else:
        outcome.text += words
    outcome.calls += [(None, call["name"], call.get("parameters") or {}) for call in answer.get("tool_calls") or ()]
    documents = {one.get("id"): one for one in answer.get("documents") or ()}
    for citation in answer.get("citations") or ():
        sources = [{"document": documents.get(name, {})} for name in citation.get("document_ids") or ()]
        _cohere_links([{"sources": sources}], outcome)
    generated = (answer.get("generations") or [{}])[0]
    outcome.finish = answer.get("finish_reason") or generated.get("finish_reason") or payload.get("finish_reason")
    _cohere_count(answer.get("meta"), outcome)


def _cohere_links(citations: Iterable[Json], outcome: Outcome) -> None:
    for citation in citations:
        for source in citation.get("sources") or [{}]:
            document = source.get("document") or {}
            outcome.link(document.get("url"), document.get("title") or document.get("name"))


def _cohere_count(usage: Json | None, outcome: Outcome) -> None:
    counts = (usage or {}).get("tokens") or (usage or {}).get("billed_units")
    if counts:
        outcome.usage = {**counts, "cached_tokens": (usage or {}).get("cached_tokens")}


# ── Ollama, Interactions, Completions ─────────────────────────────────────────────────────────────────────────────────


def _ollama(payloads: list[Json], outcome: Outcome) -> None:
    for line in payloads:
        message = line.get("message") or {}
        outcome.text += message.get("content") or line.get("response") or ""
        outcome.reasoning += message.get("thinking") or line.get("thinking") or ""
        for call in message.get("tool_calls") or ():
            outcome.calls.append((call.get("id"), call["function"]["name"], call["function"].get("arguments") or {}))
        outcome.error = line.get("error") or outcome.error
        if line.get("done"):
            outcome.finish = line.get("done_reason") or "stop"
            outcome.usage = {key: line.get(key) for key in ("prompt_eval_count", "eval_count")}


def _interactions(payloads: list[Json], outcome: Outcome) -> None:
    calls, kinds = _Calls(), dict[Any, str]()
    for payload in payloads:
        kind, delta = payload.get("event_type"), payload.get("delta") or {}
        if kind is None or kind == "interaction.completed":
            whole = payload if kind is None else payload["interaction"]
            for step in (whole.get("steps") or ()) if kind is None else ():
                _step(step, outcome)
            outcome.finish, outcome.usage = whole.get("status"), whole.get("usage") or {}
        elif kind == "step.start":
            step, index = payload["step"], payload.get("index")
            kinds[index] = step["type"]
            if step["type"] == "function_call":
                calls.begin(index, step.get("id"), step["name"])
        elif kind == "step.delta" and kinds.get(payload.get("index")) != "user_input":
            outcome.text += (delta.get("text") or "") if delta.get("type") == "text" else ""
            if delta.get("type") == "thought_summary":
                outcome.reasoning += (delta.get("content") or {}).get("text") or ""
            elif delta.get("type") == "arguments_delta":
                calls.add(payload.get("index"), delta.get("arguments") or "")
            _step_links(delta.get("annotations") or (), outcome)
    calls.deliver(outcome)


def _step(step: Json, outcome: Outcome) -> None:
    if step["type"] == "function_call":
        outcome.calls.append((step.get("id"), step["name"], step.get("arguments") or {}))
    elif step["type"] == "thought":
        outcome.reasoning += "".join(part.get("text") or "" for part in step.get("summary") or ())
    elif step["type"] == "model_output":
        for part in step.get("content") or ():
            outcome.text += part.get("text") or ""
            _step_links(part.get("annotations") or (), outcome)


def _step_links(notes: Iterable[Json], outcome: Outcome) -> None:
    for note in notes:
        outcome.link(
            note.get("url") or note.get("document_uri"), note.get("title") or note.get("name") or note.get("file_name")
        )


def _completions(payloads: list[Json], outcome: Outcome) -> None:
    for payload in payloads:
        choice: Json = next((one for one in payload.get("choices") or () if not one.get("index")), {})
        outcome.text += choice.get("text") or ""
        outcome.finish = choice.get("finish_reason") or outcome.finish
        outcome.counted(payload.get("usage"), "prompt_tokens", "completion_tokens")


READERS: dict[str, Callable[[list[Json], Outcome], None]] = {
    "bedrock-converse": _bedrock,
    "cohere": _cohere,
    "ollama": _ollama,
    "gemini-interactions": _interactions,
    "openai-completions": _completions,
}
