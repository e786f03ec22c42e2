"""How a turn ends on the wire: the last chunk's candidates, its usage, and the error object that stands in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.protocols.gemini.own import owned
from penstock.protocols.gemini.reasons import REASONS

if TYPE_CHECKING:
    from penstock import events as ev
    from penstock.events import FaultKind, Reason
    from penstock.protocols.gemini.cited import Cited

WORDS: dict[Reason, str] = {
    "stop": "STOP", "length": "MAX_TOKENS", "calls": "STOP", "filter": "SAFETY", "refusal": "SAFETY", "pause": "STOP",
    "other": "OTHER",
}  # fmt: skip
ERRORS: dict[FaultKind, tuple[int, str]] = {
    "auth": (401, "UNAUTHENTICATED"), "permission": (403, "PERMISSION_DENIED"), "not-found": (404, "NOT_FOUND"),
    "invalid": (400, "INVALID_ARGUMENT"), "too-large": (400, "INVALID_ARGUMENT"), "filter": (400, "INVALID_ARGUMENT"),
    "rate-limit": (429, "RESOURCE_EXHAUSTED"), "overloaded": (503, "UNAVAILABLE"), "network": (503, "UNAVAILABLE"),
    "timeout": (504, "DEADLINE_EXCEEDED"), "cancelled": (499, "CANCELLED"),
}  # fmt: skip
NOTES = (
    "finishMessage", "safetyRatings", "citationMetadata", "groundingMetadata", "urlContextMetadata", "avgLogprobs",
    "logprobsResult", "tokenCount",
)  # fmt: skip
RETRY = "type.googleapis.com/google.rpc.RetryInfo"


def candidates(event: ev.Finish, cited: dict[int, Cited]) -> list[dict[str, Any]]:
    """The end of every choice."""
    own = owned(event.extra)
    notes = {one["index"]: one for one in own.get("others", ())}
    ends = [_candidate(0, event.reason, event.raw, own, cited)]
    for choice, reason in enumerate(event.others, 1):
        said = notes.get(choice, {})
        ends.append(_candidate(choice, reason, said.get("finishReason", ""), said, cited))
    return ends


def _candidate(
    choice: int, reason: Reason, raw: str, own: dict[str, Any], cited: dict[int, Cited]
) -> dict[str, Any]:  # fmt: skip
    """The empty text is there because some readers insist on a part; Gemini sends it, too."""
    end: dict[str, Any] = {"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": _word(reason, raw)}
    end["index"] = choice
    if "groundingMetadata" not in own and "citationMetadata" not in own and choice in cited:
        grounding = cited[choice].metadata()
        if grounding:
            end["groundingMetadata"] = grounding
    end.update({key: own[key] for key in NOTES if key in own})
    return end


def _word(reason: Reason, raw: str) -> str:
    """Gemini's own word if it means the same; a stop with calls is a stop here."""
    meant = REASONS.get(raw)
    return raw if meant == reason or (meant == "stop" and reason == "calls") else WORDS[reason]


def usage(event: ev.Usage) -> dict[str, Any]:
    """The provider's own object, or one made of our counts: thoughts stand beside the candidates' tokens."""
    own = owned(event.extra)
    if "promptTokenCount" in own or "totalTokenCount" in own:
        return own
    said = {
        "promptTokenCount": event.input,
        "cachedContentTokenCount": event.cached,
        "candidatesTokenCount": None if event.output is None else max(event.output - (event.reasoning or 0), 0),
        "thoughtsTokenCount": event.reasoning,
        "totalTokenCount": (event.input or 0) + (event.output or 0),
    }
    return {key: value for key, value in said.items() if value is not None}


def error(event: ev.Fault) -> dict[str, Any]:
    """Status and code as Google's APIs have them, with the delay where one is known."""
    code, word = ERRORS.get(event.kind, (500, "INTERNAL"))
    details = owned(event.extra).get("details")
    if event.retry_after is not None and not details:
        details = [{"@type": RETRY, "retryDelay": f"{event.retry_after:g}s"}]
    said = {"code": event.status or code, "message": event.message, "status": word}
    return {"error": {**said, "details": details} if details else said}
