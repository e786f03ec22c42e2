"""The `aisdk` encoder writes each version in that version's own words, and none of them makes a call the client's."""

from __future__ import annotations

import json

from penstock import events as ev
from tests.support import run_streams as running
from tests.support.each_case import each
from tests.support.stream_cases import cases

VERSIONS = (4, 5, 6, 7)

CALL = "toolCallId toolName input providerExecuted providerMetadata dynamic"
SINCE_5 = {
    "start": "", "start-step": "request warnings", "text-start": "id providerMetadata",
    "text-delta": "id text providerMetadata", "text-end": "id providerMetadata", "reasoning-start": "id providerMetadata",
    "reasoning-delta": "id text providerMetadata", "reasoning-end": "id providerMetadata",
    "tool-input-start": "id toolName providerMetadata providerExecuted dynamic", "tool-input-delta": "id delta",
    "tool-input-end": "id", "tool-call": f"{CALL} invalid error", "tool-result": f"{CALL} output preliminary",
    "tool-error": f"{CALL} error invalid", "source": "sourceType id url title mediaType filename providerMetadata",
    "file": "file", "finish-step": "response usage finishReason providerMetadata", "finish": "finishReason totalUsage",
    "abort": "", "error": "error",
}  # fmt: skip
SINCE_6 = {
    "abort": "reason", "file": "providerMetadata", "finish": "rawFinishReason", "finish-step": "rawFinishReason",
    "tool-approval-request": "approvalId toolCall signature reason isAutomatic", "tool-call": "title toolMetadata",
    "tool-error": "title toolMetadata", "tool-input-start": "inputEncoding title toolMetadata",
    "tool-output-denied": "toolCallId toolName", "tool-result": "title toolMetadata",
}  # fmt: skip
SINCE_7 = {
    "custom": "kind providerMetadata", "finish-step": "performance", "reasoning-file": "file providerMetadata",
    "steering-message": "id message stepNumber", "tool-approval-response": "approvalId toolCall approved reason",
}  # fmt: skip
ONLY_4 = {
    "step-start": "messageId request warnings", "text-delta": "textDelta", "reasoning": "textDelta",
    "reasoning-signature": "signature", "redacted-reasoning": "data", "source": "source", "file": "base64 mimeType",
    "tool-call-streaming-start": "toolCallId toolName", "tool-call-delta": "toolCallId toolName argsTextDelta",
    "tool-call": "toolCallId toolName args", "tool-result": "toolCallId toolName args result", "error": "error",
    "step-finish": "messageId request warnings response usage finishReason providerMetadata isContinued",
    "finish": "finishReason usage providerMetadata response",
}  # fmt: skip
TABLES = {4: (ONLY_4,), 5: (SINCE_5,), 6: (SINCE_5, SINCE_6), 7: (SINCE_5, SINCE_6, SINCE_7)}


def known_to(ai: int) -> dict[str, set[str]]:
    """Part to its fields; `type` is everybody's."""
    fields: dict[str, set[str]] = {}
    for table in TABLES[ai]:
        for kind, words in table.items():
            fields.setdefault(kind, {"type"}).update(words.split())
    return fields


@each("ai", VERSIONS)
def test_every_version_is_written_in_its_own_shapes(ai: int) -> None:
    known, odd = known_to(ai), dict[str, set[str]]()
    for case in cases():
        events = [event for event in case.expected() if not isinstance(event, ev.Unknown)]
        for _, data in running.encode(f"aisdk@{ai}", events):
            part = json.loads(data)
            if more := set(part) - known.get(part["type"], set()):
                odd.setdefault(part["type"], set()).update(more)
    assert odd == {}


@each("ai", VERSIONS)
def test_no_version_gives_the_client_what_is_not_the_client_s(ai: int) -> None:
    for case in cases():
        events = case.expected()
        clients = {(e.id, e.name) for e in events if isinstance(e, ev.CallEnd) and e.by == "client"}
        answered = {e.call for e in events if isinstance(e, ev.Result | ev.Ask)}
        parts = [json.loads(data) for _, data in running.encode(f"aisdk@{ai}", events)]
        given = [part for part in parts if part.get("type") == "tool-call" and not part.get("providerExecuted")]
        found = {(p["toolCallId"], p["toolName"]) for p in given if p.get("toolCallId") not in {None, *answered}}
        assert found <= clients, case.id
