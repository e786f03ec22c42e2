"""Responses streams two ways: `outcomes` reads the snapshot that a stream ends with, with nothing but a JSON parser;
`sdk_outcomes` lets the official `openai` client accumulate the events.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from tests.oracles import wire
from tests.oracles.outcome import Outcome, arguments, sheltered
from tests.oracles.replay import WHOLE, Replay, replay_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import openai

FINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})
Item = dict[str, Any]


class NoSnapshotError(Exception):
    """The stream ends without saying what it said."""


def outcomes(body: bytes) -> list[Outcome]:
    return [_outcome(part, _from_snapshot) for part in wire.split(body, "response.created", FINAL)]


def sdk_outcomes(body: bytes) -> list[Outcome]:
    return [_outcome(part, _from_sdk) for part in wire.split(body, "response.created", FINAL)]


def _outcome(body: bytes, read: Callable[[bytes, Outcome], None]) -> Outcome:
    outcome = Outcome()
    with sheltered(outcome):
        read(body, outcome)
    return outcome


def _from_snapshot(body: bytes, outcome: Outcome) -> None:
    final: dict[str, Any] | None = None
    done: dict[int, Item] = {}
    for frame in wire.sse(body):
        payload = wire.parsed(frame.data) or {}
        kind = payload.get("type")
        if kind in FINAL:
            final = payload["response"]
        elif kind == "response.output_item.done":
            done[payload["output_index"]] = payload["item"]
        elif kind == "error":
            outcome.error = (payload.get("error") or payload)["message"]
    if final is None:
        raise NoSnapshotError("the stream has no completed, incomplete or failed event")
    # Some providers end with an empty output: each item's own last word then stands in for it.
    _response(final, final.get("output") or [done[index] for index in sorted(done)], outcome)


@cache
def _sdk() -> tuple[openai.OpenAI, Replay]:
    import openai

    replay = replay_for(openai.DefaultHttpxClient)
    return openai.OpenAI(
        api_key="none", base_url="http://upstream.test/v1", http_client=replay.client, max_retries=0
    ), replay


def _from_sdk(body: bytes, outcome: Outcome) -> None:
    import openai

    client, replay = _sdk()
    replay.play(body)
    final: Any = None
    try:
        with client.responses.stream(model="m", input="?") as stream:
            for event in stream:
                if event.type in FINAL:
                    final = getattr(event, "response", None)
    except openai.APIError as error:
        outcome.error = error.message
        return
    if final is None:
        raise NoSnapshotError("the SDK saw no completed, incomplete or failed event")
    response = final.to_dict()
    _response(response, response.get("output") or (), outcome)


def body_outcome(body: bytes) -> Outcome:
    """An answer that was not streamed, by the official client."""
    return _outcome(body, _from_body)


def _from_body(body: bytes, outcome: Outcome) -> None:
    client, replay = _sdk()
    replay.play(body, WHOLE)
    response = client.responses.create(model="m", input="?").to_dict()
    _response(response, response.get("output") or (), outcome)  # type: ignore[arg-type]


def _response(response: dict[str, Any], output: Iterable[Item], outcome: Outcome) -> None:
    reason = (response.get("incomplete_details") or {}).get("reason")
    outcome.finish = reason or response.get("status")
    outcome.error = (response.get("error") or {}).get("message") or outcome.error
    outcome.counted(response.get("usage"), "input_tokens", "output_tokens")
    for item in output:
        _ITEMS.get(item["type"], _ignore)(item, outcome)


def _ignore(item: Item, outcome: Outcome) -> None:
    """Provider-run calls, their results and opaque state are not what an Outcome speaks of."""


def _message(item: Item, outcome: Outcome) -> None:
    for part in item.get("content") or ():
        outcome.text += part.get("text") or ""
        outcome.refusal += part.get("refusal") or ""
        for note in part.get("annotations") or ():
            outcome.link(note.get("url"), note.get("title") or note.get("filename"))


def _reasoning(item: Item, outcome: Outcome) -> None:
    for part in [*(item.get("summary") or ()), *(item.get("content") or ())]:
        outcome.reasoning += part.get("text") or ""


def _function(item: Item, outcome: Outcome) -> None:
    outcome.calls.append((item["call_id"], item["name"], arguments(item["arguments"])))


def _custom(item: Item, outcome: Outcome) -> None:
    # xAI reports the steps of its own search as custom calls; nobody but the id tells them apart.
    if not str(item["call_id"]).startswith("xs_"):
        outcome.calls.append((item["call_id"], item["name"], item["input"]))


def _shell(item: Item, outcome: Outcome) -> None:
    # In a container of the provider the call is run there.
    if (item.get("environment") or {}).get("type") != "container_reference":
        outcome.calls.append((item["call_id"], item["type"], {"action": item["action"]}))


def _patch(item: Item, outcome: Outcome) -> None:
    outcome.calls.append((item["call_id"], item["type"], {"operation": item["operation"]}))


def _tool_search(item: Item, outcome: Outcome) -> None:
    if item.get("execution") == "client":
        outcome.calls.append((item["call_id"], item["type"], item["arguments"]))


_ITEMS: dict[str, Callable[[Item, Outcome], None]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function,
    "custom_tool_call": _custom,
    "shell_call": _shell,
    "local_shell_call": _shell,
    "apply_patch_call": _patch,
    "computer_call": _shell,
    "tool_search_call": _tool_search,
}
