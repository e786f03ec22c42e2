"""Why an answer ended, what it cost and what went wrong: Gemini's words and numbers in ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock import pick
from penstock.faults import SPENT, classify, is_daily_quota
from penstock.protocols.gemini import wire
from penstock.protocols.gemini.own import NAME, own, shaped
from penstock.protocols.gemini.own import said as told

if TYPE_CHECKING:
    from penstock.events import Reason
    from penstock.parts import Ledger

REASONS: dict[str, Reason] = {
    "STOP": "stop", "MAX_TOKENS": "length", "CONTINUATION": "pause",
    "SAFETY": "filter", "RECITATION": "filter", "BLOCKLIST": "filter", "PROHIBITED_CONTENT": "filter", "SPII": "filter",
    "MODEL_ARMOR": "filter", "IMAGE_SAFETY": "filter", "IMAGE_PROHIBITED_CONTENT": "filter",
    "IMAGE_RECITATION": "filter",
    # the model failed to answer: no filter, and not what was asked for either
    "OTHER": "other", "LANGUAGE": "other", "NO_IMAGE": "other", "IMAGE_OTHER": "other",
    "MALFORMED_FUNCTION_CALL": "other", "UNEXPECTED_TOOL_CALL": "other", "TOO_MANY_TOOL_CALLS": "other",
    "MISSING_THOUGHT_SIGNATURE": "other", "MALFORMED_RESPONSE": "other",
}  # fmt: skip
# Enums as numbers, where protobuf was written without their names. Vertex numbers differently from 6 on.
NUMBERS = (
    "", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
    "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY",
)  # fmt: skip
RATINGS: dict[str, dict[int, str]] = {  # what a safety rating says, as numbers
    "category": {
        # Vertex counts from 1, the Gemini API from 7: below, it has the categories of PaLM alone.
        1: "HARM_CATEGORY_HATE_SPEECH", 2: "HARM_CATEGORY_DANGEROUS_CONTENT", 3: "HARM_CATEGORY_HARASSMENT",
        4: "HARM_CATEGORY_SEXUALLY_EXPLICIT", 5: "HARM_CATEGORY_CIVIC_INTEGRITY",
        7: "HARM_CATEGORY_HARASSMENT", 8: "HARM_CATEGORY_HATE_SPEECH", 9: "HARM_CATEGORY_SEXUALLY_EXPLICIT",
        10: "HARM_CATEGORY_DANGEROUS_CONTENT", 11: "HARM_CATEGORY_CIVIC_INTEGRITY",
    },
    "probability": {1: "NEGLIGIBLE", 2: "LOW", 3: "MEDIUM", 4: "HIGH"},
    "severity": {
        1: "HARM_SEVERITY_NEGLIGIBLE", 2: "HARM_SEVERITY_LOW", 3: "HARM_SEVERITY_MEDIUM", 4: "HARM_SEVERITY_HIGH",
    },
}  # fmt: skip
BLOCKS = ("", "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY")


def word_of(said: Any, numbers: tuple[str, ...] = NUMBERS) -> str:
    """The name of an enum value; nothing where it is unspecified."""
    if isinstance(said, int):
        return numbers[said] if 0 <= said < len(numbers) else str(said)
    word = said if isinstance(said, str) else ""
    return "" if word.endswith("_UNSPECIFIED") else word


def named_ratings(ratings: list[Any]) -> list[Any]:
    """Safety ratings with words for numbers: they are written for readers that know the words alone."""
    return [
        {key: RATINGS.get(key, {}).get(value, value) if type(value) is int else value for key, value in row.items()}
        for row in pick.objects(ratings)
    ]


def named_feedback(feedback: dict[str, Any]) -> dict[str, Any]:
    """What was said of the prompt, with words for numbers."""
    named = dict(feedback)
    if type(named.get("blockReason")) is int:
        named["blockReason"] = word_of(named["blockReason"], BLOCKS)
    if isinstance(named.get("safetyRatings"), list):
        named["safetyRatings"] = named_ratings(named["safetyRatings"])
    return named


def reason_of(word: str) -> Reason:
    """A word that is not in the table is a normal stop; whoever asks says so."""
    return REASONS.get(word, "stop")


class Tokens:
    """The usage of a turn. Every chunk counts all so far, but a count may shrink or be left out later: the last of each
    kind stands, unless the total shows that what is left out is zero. It is told once, at the end.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._said: dict[str, Any] = {}

    def count(self, said: dict[str, Any] | None) -> None:
        if said:
            # what is left out, or null, stays as it was; mostly nothing is
            whole = self._said.keys() <= said.keys() and None not in said.values()
            self._said = said if whole or _adds_up(said) else {**self._said, **told(**said)}

    def tell(self) -> None:
        said = self._said
        if said:
            known: wire.Usage = shaped(said, wire.Usage)
            self._ledger.usage(ev.Usage(
                total(known.prompt_token_count, known.tool_use_prompt_token_count),
                total(known.candidates_token_count, known.thoughts_token_count),
                known.cached_content_token_count, None, known.thoughts_token_count, extra={NAME: said},
            ))  # fmt: skip


def _adds_up(said: dict[str, Any]) -> bool:
    """Whether the counts of one chunk are all there are: protobuf leaves out what is zero, and the total shows it."""
    known: wire.Usage = shaped(said, wire.Usage)
    output = total(known.candidates_token_count, known.thoughts_token_count)
    given = total(known.prompt_token_count, known.tool_use_prompt_token_count)
    return bool(output) and said.get("totalTokenCount") == (given or 0) + (output or 0)


def total(*counts: int | None) -> int | None:
    """The sum of what is known; None if nothing is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def fault(ledger: Ledger, error: wire.Error | str) -> None:
    """An error object, in a stream or as a body."""
    said = wire.Error(message=error) if isinstance(error, str) else error
    details: list[dict[str, Any]] = [one for one in said.details or () if isinstance(one, dict)]
    words = [str(one.get("reason") or "") for one in details]
    if is_daily_quota(details):
        words.insert(0, SPENT)
    status = said.code if isinstance(said.code, int) else None
    word = said.status or ("" if status else str(said.code or ""))
    message = str(said.message or "the provider reported an error")
    ledger.fault(
        classify([*words, word], message, status), message, status=status, code=word, retry_after=_retry(details),
        extra=own(error=told(code=said.code, message=message, status=said.status, details=said.details or None)),
    )  # fmt: skip


def _retry(details: list[dict[str, Any]]) -> float | None:
    """`{"@type": "…RetryInfo", "retryDelay": "12.5s"}` → 12.5."""
    for one in details:
        delay = str(one.get("retryDelay") or "")
        if delay.endswith("s") and delay[:-1].replace(".", "", 1).isdecimal():
            return float(delay[:-1])
    return None
