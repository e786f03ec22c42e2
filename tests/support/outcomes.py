"""A turn of ours in the neutral form of the oracles, and what differs between two of them.

Leans on the fold. Numbers are made comparable here: an oracle gives the provider's own, ours are whole sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from penstock._ledger import TRUNCATED
from tests.oracles.outcome import Outcome, arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.request import Call, Turn
    from tests.oracles.outcome import Call as Called

COUNTS = ("input", "output", "cached", "written", "reasoning")
Usage: TypeAlias = dict[str, Any]
Counts: TypeAlias = "Callable[[Usage], Usage]"
REASONS = {
    "stop": "stop", "length": "length", "tool_calls": "calls", "function_call": "calls", "content_filter": "filter",
    "end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "calls", "pause_turn": "pause",
    "refusal": "refusal", "completed": "stop", "incomplete": "length", "max_output_tokens": "length",
    "queued": "pause", "in_progress": "pause",
    "STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "filter", "RECITATION": "filter", "NO_IMAGE": "other", "OTHER": "other",
    "UNEXPECTED_TOOL_CALL": "other", "COMPLETE": "stop", "TOOL_CALL": "calls", "requires_action": "calls",
    "guardrail_intervened": "filter", "content_filtered": "filter", "model_context_window_exceeded": "length",
}  # fmt: skip
"""A provider's word to the canonical one, before calls are looked at. Written apart from the codecs' own tables."""


def ours(turn: Turn) -> Outcome:
    """`finish` is the canonical reason, `usage` our own numbers."""
    usage = turn.usage
    outcome = Outcome(
        text=turn.text,
        reasoning=turn.reasoning,
        refusal=turn.refusal,
        calls=[_called(call) for call in turn.calls],
        finish=_finish(turn),
        usage={name: getattr(usage, name) for name in COUNTS} if usage else dict.fromkeys(COUNTS),
        error=turn.fault.message if turn.fault else None,
    )
    for source in turn.sources:
        outcome.link(source.url or None, source.title or None)
    return outcome


def _finish(turn: Turn) -> str | None:
    """A stop after calls is a wish to have them run, whatever the word."""
    if turn.finish is None:
        return None
    return "calls" if turn.finish.reason == "stop" and turn.calls else turn.finish.reason


def _called(call: Call) -> Called:
    return call.id, call.name, call.json if call.form == "text" else arguments(call.json)


def joined(turns: Iterable[Turn]) -> Outcome:
    """Several turns as one: for readers that know one answer to a body."""
    rows = [ours(turn) for turn in turns]
    whole = rows[-1]
    for row in reversed(rows[:-1]):
        whole.text, whole.reasoning = row.text + whole.text, row.reasoning + whole.reasoning
        whole.refusal, whole.calls = row.refusal + whole.refusal, [*row.calls, *whole.calls]
        whole.sources = [*row.sources, *(link for link in whole.sources if link not in row.sources)]
    if whole.calls and whole.finish == "stop":
        whole.finish = "calls"
    return whole


def chat_counts(usage: Usage) -> Usage:
    """Reasoning may stand beside the completion (xAI): the total tells; where it fits neither, that there is more."""
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    thought = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    inside, total = (prompt or 0) + (completion or 0), usage.get("total_tokens")
    fits = total in {inside, inside + (thought or 0)}
    if thought and (total != inside if fits else thought > (completion or 0)):
        completion = (completion or 0) + thought
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    return {"input": prompt, "output": completion, "cached": cached, "reasoning": thought}


def message_counts(usage: Usage) -> Usage:
    """The whole prompt is what was read, written, and neither. Compactions are billed beside the counts at the top."""
    compactions = [run for run in usage.get("iterations") or () if run["type"] == "compaction"]

    def add(key: str) -> int | None:
        found = [row[key] for row in (usage, *compactions) if row.get(key) is not None]
        return sum(found) if found else None

    read, written = add("cache_read_input_tokens"), add("cache_creation_input_tokens")
    whole = (add("input_tokens") or 0) + (read or 0) + (written or 0)
    return {"input": whole, "output": add("output_tokens"), "cached": read, "written": written}


def response_counts(usage: Usage) -> Usage:
    cached = (usage.get("input_tokens_details") or {}).get("cached_tokens")
    thought = (usage.get("output_tokens_details") or {}).get("reasoning_tokens")
    return {
        "input": usage.get("input_tokens"),
        "output": usage.get("output_tokens"),
        "cached": cached,
        "reasoning": thought,
    }


def gemini_counts(usage: Usage) -> Usage:
    """Tool results count as input, thoughts as output."""

    def add(*keys: str) -> int | None:
        found = [usage[key] for key in keys if usage.get(key) is not None]
        return sum(found) if found else None

    return {
        "input": add("promptTokenCount", "toolUsePromptTokenCount"),
        "output": add("candidatesTokenCount", "thoughtsTokenCount"),
        "cached": usage.get("cachedContentTokenCount"),
        "reasoning": usage.get("thoughtsTokenCount"),
    }


def converse_counts(usage: Usage) -> Usage:
    """What was cached stands beside the input, as the total shows."""
    whole, output = usage.get("inputTokens"), usage.get("outputTokens")
    read, written = usage.get("cacheReadInputTokens"), usage.get("cacheWriteInputTokens")
    if whole is not None and usage.get("totalTokens") != whole + (output or 0):
        whole += (read or 0) + (written or 0)
    return {"input": whole, "output": output, "cached": read, "written": written}


def cohere_counts(usage: Usage) -> Usage:
    whole = usage.get("input_tokens")
    if whole is not None:
        whole += usage.get("image_tokens") or 0
    return {"input": whole, "output": usage.get("output_tokens"), "cached": usage.get("cached_tokens")}


def ollama_counts(usage: Usage) -> Usage:
    return {"input": usage.get("prompt_eval_count"), "output": usage.get("eval_count")}


def interaction_counts(usage: Usage) -> Usage:
    """Tool results count as input, thoughts as output."""
    given = (usage.get("total_input_tokens"), usage.get("total_tool_use_tokens"))
    made = (usage.get("total_output_tokens"), usage.get("total_thought_tokens"))
    return {
        "input": sum(count or 0 for count in given),
        "output": sum(count or 0 for count in made),
        "cached": usage.get("total_cached_tokens"),
    }


def differences(mine: Outcome, theirs: Outcome, counts: Counts | None = None) -> set[str]:
    """The names of the fields in which they differ."""
    if theirs.failed:
        # where a stream has no end, a reader of its last word has nothing to say
        return set() if theirs.failed.startswith("NoSnapshot") and mine.error == TRUNCATED else {"failed"}
    names = ("text", "reasoning", "refusal", "error")
    pairs: dict[str, tuple[Any, Any]] = {name: (getattr(mine, name), getattr(theirs, name)) for name in names}
    pairs["calls"] = _calls(mine, theirs)
    pairs["sources"] = set(mine.sources), {(url or None, title or None) for url, title in theirs.sources}
    pairs["finish"] = mine.finish, _reason(theirs, called=bool(mine.calls))
    if _open_ended(mine, theirs):
        del pairs["finish"], pairs["error"]
    if theirs.usage or theirs.input is not None or theirs.output is not None:
        said = counts(theirs.usage) if counts else {"input": theirs.input, "output": theirs.output}
        # Some protocols must give a number: zero is how they say that nothing was counted.
        said = {name: count for name, count in said.items() if count or (count == 0 and mine.usage[name] is not None)}
        pairs["usage"] = {name: mine.usage[name] for name in said}, said
    return {name for name, (left, right) in pairs.items() if left != right}


def _open_ended(mine: Outcome, theirs: Outcome) -> bool:
    """That a stream was cut off, only we say: the others just stop, without a reason."""
    return mine.error == TRUNCATED and theirs.finish is None and theirs.error is None


def _calls(mine: Outcome, theirs: Outcome) -> tuple[list[Any], list[Any]]:
    """An id that the oracle does not know is any; input that is no JSON is a call that was cut, which is none."""
    # A built-in tool has no name on the wire: some take its item's type, which is the tool's with `_call` behind it.
    whole = [(one[0] or None, one[1].removesuffix("_call"), one[2]) for one in theirs.calls if not _cut(one[2], theirs)]
    alike = len(mine.calls) == len(whole)
    known = [
        (call[0] if alike and other[0] else None, *call[1:])
        for call, other in zip(mine.calls, whole if alike else mine.calls, strict=True)
    ]
    return known if alike else list(mine.calls), whole


def _cut(given: Any, outcome: Outcome) -> bool:
    broken = REASONS.get(outcome.finish or "") == "length" or outcome.error is not None
    return broken and (isinstance(given, str) or given == {})


def _reason(theirs: Outcome, *, called: bool) -> str | None:
    if theirs.error is not None:
        return None
    if theirs.finish is None:
        return "calls" if called else "other"
    reason = REASONS.get(theirs.finish, "stop")
    if reason == "stop" and called:
        return "calls"
    return "stop" if reason == "calls" and not called else reason
