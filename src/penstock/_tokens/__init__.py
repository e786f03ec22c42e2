"""Token counting. Here: an estimate, and a request line by line (system prompt, tools, messages, files, framing).

The lines add up to the estimate of the whole request. Where that is the provider's count, or partly so, the lines share
it in proportion to their estimates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec

from penstock._diagnostics import Diagnostic
from penstock.request import File, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._tokens.count_cache import Count
    from penstock._tokens.text_features import FrameParts
    from penstock.request import Message, Request

Method: TypeAlias = Literal["actual", "hybrid", "estimated"]
LineKind: TypeAlias = Literal["system", "tools", "message", "images", "framing", "hidden"]
_WARNING_SHARE = 0.9  # of the limit


class Estimate(msgspec.Struct, frozen=True, gc=False):
    """A count. The actual one is between `low` and `high` 9 times in 10.

    `confidence` is 1 if both are equal, and 0 if they say nothing.
    """

    tokens: int
    method: Method
    confidence: float
    low: int
    high: int

    def __int__(self) -> int:
        return self.tokens


class BreakdownLine(msgspec.Struct, frozen=True):
    """One line of a breakdown. `share`: of all lines, 0 to 1. `message`: the position of the message.

    Files in messages are not in the lines of the messages; all files together have the line `images`. `hidden` are
    additions of the provider: the tool-use prompt, built-in tools, a forced tool choice, a response format.
    """

    what: str
    kind: LineKind
    estimate: Estimate
    share: float
    message: int | None = None


class Breakdown(msgspec.Struct, frozen=True):
    """A request line by line. The tokens of the lines add up to `total`."""

    family: str
    lines: list[BreakdownLine]
    total: Estimate


def warning(estimate: Estimate, limit: int) -> Diagnostic | None:
    """Returns a warning if the estimate is near or above the limit. A request is never refused by an estimate."""
    if limit <= 0 or estimate.tokens < _WARNING_SHARE * limit:
        return None
    share = f"{estimate.tokens:,} of {limit:,} tokens ({estimate.tokens / limit:.0%}; {estimate.method}"
    share += ")" if estimate.method == "actual" else f", {estimate.low:,} to {estimate.high:,})"
    if estimate.tokens > limit:
        return Diagnostic("over-limit", f"the prompt is probably too long: {share}; drop or shorten messages", "tokens")
    return Diagnostic("near-limit", f"the prompt comes near the limit: {share}", "tokens")


class LineCount(NamedTuple):
    """The count of a line before any correction: tokens, and by how many they may be wrong."""

    what: str
    kind: LineKind
    tokens: float
    error: float
    message: int | None = None


def list_line_counts(
    request: Request, counts: Sequence[Count], frame: FrameParts, files: Mapping[int, Count]
) -> list[LineCount]:
    """Returns the lines of a request. `counts`: of its messages with files; `files`: of the files, by message."""
    messages: list[LineCount] = []
    for position, (message, (tokens, error)) in enumerate(zip(request.messages, counts, strict=True)):
        file_tokens, file_error = files.get(position, (0.0, 0.0))
        kind: LineKind = "system" if message.role == "system" else "message"
        messages.append(LineCount(message.role, kind, tokens - file_tokens, error - file_error, position))
    lines = [row for row in messages if row.kind == "system"]
    if frame.tools[0]:
        lines.append(LineCount("tools", "tools", *frame.tools))
    lines += [row for row in messages if row.kind == "message"]
    if files:
        tokens, error = (sum(amounts) for amounts in zip(*files.values(), strict=True))
        lines.append(LineCount("images and files", "images", tokens, error))
    lines.append(LineCount("framing", "framing", *frame.framing))
    if frame.hidden[0]:
        lines.append(LineCount("added by the provider", "hidden", *frame.hidden))
    return lines


def has_files(message: Message) -> bool:
    """True if the message, or a tool result in it, holds a file."""
    return any(
        isinstance(part, File) or (isinstance(part, Result) and any(isinstance(inner, File) for inner in part.content))
        for part in message.parts
    )


def build_breakdown(
    family: str, total: Estimate, rows: Sequence[LineCount], estimate: Callable[[float, float], Estimate]
) -> Breakdown:
    """Builds the lines. `estimate` corrects a count and adds bounds; the tokens are then scaled to the total."""
    amounts = [max(0.0, row.tokens) for row in rows]
    whole = sum(amounts)
    tokens = _apportion(amounts, total.tokens)
    lines: list[BreakdownLine] = []
    for row, amount, share_of_total in zip(rows, amounts, tokens, strict=True):
        found = estimate(amount, max(0.0, row.error))
        low, high = min(found.low, share_of_total), max(found.high, share_of_total)
        found = msgspec.structs.replace(found, tokens=share_of_total, low=low, high=high)
        lines.append(BreakdownLine(row.what, row.kind, found, amount / whole if whole else 0.0, row.message))
    return Breakdown(family, lines, total)


def scale_breakdown(found: Breakdown, actual: int) -> Breakdown:
    """Scales the breakdown of a prompt to the count of the provider."""
    lines: list[BreakdownLine] = []
    for line, tokens in zip(found.lines, _apportion([line.share for line in found.lines], actual), strict=True):
        low, high = min(line.estimate.low, tokens), max(line.estimate.high, tokens)
        estimate = msgspec.structs.replace(line.estimate, tokens=tokens, low=low, high=high)
        lines.append(msgspec.structs.replace(line, estimate=estimate))
    return Breakdown(found.family, lines, Estimate(actual, "actual", 1.0, actual, actual))


def _apportion(amounts: Sequence[float], total: int) -> list[int]:
    """Returns integers in proportion to the amounts that add up to the total: the largest remainders are rounded up."""
    whole = sum(amounts)
    if not whole:
        return [0] * len(amounts)
    exact = [amount / whole * total for amount in amounts]
    found = [int(value) for value in exact]
    order = sorted(range(len(exact)), key=lambda position: found[position] - exact[position])
    for position in order[: total - sum(found)]:
        found[position] += 1
    return found
