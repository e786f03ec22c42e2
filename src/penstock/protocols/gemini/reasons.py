"""Why an answer ended, what it cost and what went wrong: Gemini's words and numbers in ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import events as ev
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
BLOCKS = ("", "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY")


def word_of(said: Any, numbers: tuple[str, ...] = NUMBERS) -> str:
    """The name of an enum value; nothing where it is unspecified."""
    if isinstance(said, int):
        return numbers[said] if 0 <= said < len(numbers) else str(said)
    word = said if isinstance(said, str) else ""
    return "" if word.endswith("_UNSPECIFIED") else word


def reason_of(word: str) -> Reason:
    """A word that is not in the table is a normal stop; whoever asks says so."""
    return REASONS.get(word, "stop")


class Tokens:
    """The usage of a turn. Every chunk counts all so far, but a count may shrink or be left out later: the last of each
    kind stands. It is told once, at the end.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._said: dict[str, Any] = {}

    def count(self, said: dict[str, Any] | None) -> None:
        if said:
            # what is left out, or null, stays as it was; mostly nothing is
            whole = self._said.keys() <= said.keys() and None not in said.values()
            self._said = said if whole else {**self._said, **told(**said)}

    def tell(self) -> None:
        said = self._said
        if said:
            known: wire.Usage = shaped(said, wire.Usage)
            self._ledger.usage(ev.Usage(
                total(known.prompt_token_count, known.tool_use_prompt_token_count),
                total(known.candidates_token_count, known.thoughts_token_count),
                known.cached_content_token_count, None, known.thoughts_token_count, extra={NAME: said},
            ))  # fmt: skip


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
