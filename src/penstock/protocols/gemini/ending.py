"""How a turn ends on the wire: the last chunk's candidates and its usage."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.protocols.gemini.own import owned, said
from penstock.protocols.gemini.reasons import REASONS, reason_of

if TYPE_CHECKING:
    from penstock import events as ev
    from penstock.events import Reason
    from penstock.protocols.gemini.candidate import Candidate

WORDS: dict[Reason, str] = {
    "stop": "STOP", "length": "MAX_TOKENS", "calls": "STOP", "filter": "SAFETY", "refusal": "SAFETY", "pause": "STOP",
    "other": "OTHER",
}  # fmt: skip
NOTES = (
    "finishMessage", "safetyRatings", "citationMetadata", "groundingMetadata", "urlContextMetadata", "avgLogprobs",
    "logprobsResult", "tokenCount",
)  # fmt: skip
COUNTS = frozenset({"promptTokenCount", "candidatesTokenCount", "totalTokenCount"})
LATEST = 253_402_300_800  # the year 10000


def time(seconds: int | None) -> str | None:
    """Seconds as Google's APIs write times; what is no time of theirs is none."""
    if seconds is None or not 0 <= seconds < LATEST:
        return None
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def candidates(event: ev.Finish, said_by: dict[int, Candidate]) -> list[dict[str, Any]]:
    """The end of every choice."""
    own = owned(event.extra)
    notes = {one["index"]: one for one in own.get("others", ())}
    ends = [_candidate(0, event.reason, event.raw, own, said_by)]
    for choice, reason in enumerate(event.others, 1):
        note = notes.get(choice, {})
        ends.append(_candidate(choice, reason, note.get("finishReason", ""), note, said_by))
    return ends


def so_far(said_by: dict[int, Candidate], spent: dict[str, Any] | None) -> dict[str, Any]:
    """What there is to say before an error."""
    found = [
        {"index": choice, "groundingMetadata": one.metadata()} for choice, one in said_by.items() if one.metadata()
    ]
    return said(candidates=found or None, usageMetadata=spent)


def _candidate(
    choice: int, reason: Reason, raw: str, own: dict[str, Any], said_by: dict[int, Candidate]
) -> dict[str, Any]:  # fmt: skip
    """The empty text is there because some readers insist on a part; Gemini sends it, too."""
    end: dict[str, Any] = {
        "content": {"parts": [{"text": ""}], "role": "model"},
        "finishReason": _word(reason, raw, own),
    }
    end["index"] = choice
    candidate = said_by.get(choice)
    if candidate is not None and candidate.refused and reason == "stop":
        end["finishReason"] = WORDS["refusal"]
    if "groundingMetadata" not in own and "citationMetadata" not in own and candidate is not None:
        grounding = candidate.metadata()
        if grounding:
            end["groundingMetadata"] = grounding
    end.update({key: own[key] for key in NOTES if key in own})
    return end


def _word(reason: Reason, raw: str, own: dict[str, Any]) -> str:
    """Gemini's own word, known or not, if it means the same; a stop with calls is a stop here."""
    meant = reason_of(raw) if raw in REASONS or own.get("finishReason") == raw else None
    return raw if meant == reason or (meant == "stop" and reason == "calls") else WORDS[reason]


def usage(event: ev.Usage) -> dict[str, Any]:
    """The provider's own object, or one made of our counts: thoughts stand beside the candidates' tokens."""
    own = owned(event.extra)
    if COUNTS & own.keys():
        return own
    thoughts = event.reasoning if event.output is None else min(event.reasoning or 0, event.output)
    return said(
        promptTokenCount=event.input,
        cachedContentTokenCount=event.cached,
        candidatesTokenCount=None if event.output is None else event.output - (thoughts or 0),
        thoughtsTokenCount=None if event.reasoning is None else thoughts,
        totalTokenCount=(event.input or 0) + (event.output or 0),
    )
