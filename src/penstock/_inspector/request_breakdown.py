"""Breaks a turn's prompt down: how many tokens its system prompt, tools, messages and files are estimated at.

Works on the text of the request, which is only there while somebody watches or the turn was recorded. Slow for long
requests: not for the event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock._gateway.token_estimates import find_uncertain_parts
from penstock._inspector.request_reasons import CUT_UNCOUNTABLE, NO_REQUEST_IN_FILE
from penstock._inspector.schemas import PromptBreakdown, PromptLine
from penstock._inspector.short_texts import shorten_text
from penstock._lenient_json import parse_lenient
from penstock._tokens import scale_breakdown
from penstock._tokens.conversation import read_conversation
from penstock._tokens.hidden_additions import has_hidden_context
from penstock.errors import InputError, PenstockError

if TYPE_CHECKING:
    from penstock._inspector.stream_traces import TraceSource
    from penstock._lenient_fields import Object
    from penstock._tokens.estimate import BreakdownLine, Estimate, HybridTokenEstimator
    from penstock.request import Message, Request

MAX_LINES = 1_000  # further messages are one line
MAX_LABEL = 80  # characters of a message's beginning


def break_down(source: TraceSource, estimator: HybridTokenEstimator) -> PromptBreakdown:
    """Returns the breakdown of a source's request."""
    row = source.row
    result = PromptBreakdown(model=source.model, provider=source.provider)
    if row is not None:
        result.model, result.provider, result.actual = row.model, row.provider, row.input
    if not source.request or source.request_cut:
        result.lost = CUT_UNCOUNTABLE if source.request else source.request_lost or NO_REQUEST_IN_FILE
        return result
    try:
        request = _read_request(source)
    except PenstockError as error:
        result.lost = f"the request cannot be read: {error}"
        return result
    result.model = result.model or request.model
    found = estimator.breakdown(request, result.model, result.provider)
    result.family = found.family
    result.uncertain = {str(kind): count for kind, count in find_uncertain_parts(request).items()}
    if result.actual and found.total.method != "actual" and _shows_whole_prompt(request):
        found = scale_breakdown(found, result.actual)
    total: Estimate = found.total
    result.tokens, result.low, result.high = total.tokens, total.low, total.high
    result.method, result.confidence = total.method, total.confidence
    result.lines = _limit_lines([_prompt_line(line, request.messages, source.secrets) for line in found.lines])
    return result


def _shows_whole_prompt(request: Request) -> bool:
    """False if the provider's count may be of more than the request: of what is on a server, or tools that ran there.

    The count of this very turn is better than one found by the text, which may have lost its secrets.
    """
    return not has_hidden_context(request) and all(tool.kind != "provider" for tool in request.tools)


def _read_request(source: TraceSource) -> Request:
    body = parse_lenient(source.request.encode("utf-8", "replace"))
    if not isinstance(body, dict):
        raise InputError("it is not a JSON object")
    return read_conversation(cast("Object", body), protocol=source.request_protocol).request


def _prompt_line(line: BreakdownLine, messages: list[Message], secrets: tuple[str, ...]) -> PromptLine:
    estimate = line.estimate
    return PromptLine(
        what=line.what,
        kind=line.kind,
        tokens=estimate.tokens,
        share=round(line.share, 4),
        low=estimate.low,
        high=estimate.high,
        method=estimate.method,
        message=line.message,
        about="" if line.message is None else _label(messages[line.message], secrets),
    )


def _label(message: Message, secrets: tuple[str, ...]) -> str:
    """Returns how a message begins: its first text, or the name of the first call or file."""
    for part in message.parts:
        text = getattr(part, "text", "") or getattr(part, "name", "") or getattr(part, "media", "")
        if text:
            return shorten_text(text, MAX_LABEL, secrets)
    return ""


def _limit_lines(lines: list[PromptLine]) -> list[PromptLine]:
    """Joins the smallest messages to one line, if there are too many."""
    messages = sorted((line for line in lines if line.kind == "message"), key=lambda line: -line.tokens)
    joined = messages[max(0, len(messages) - (len(lines) - MAX_LINES + 1)) :] if len(lines) > MAX_LINES else []
    if not joined:
        return lines
    numbers = {line.message for line in joined}
    columns = zip(*((line.tokens, line.share, line.low, line.high) for line in joined), strict=True)
    tokens, share, low, high = map(sum, columns)
    what = f"{len(joined):,} more messages"
    rest = PromptLine(what, "message", int(tokens), share, int(low), int(high), "estimated")
    return [*(line for line in lines if line.message is None or line.message not in numbers), rest]
