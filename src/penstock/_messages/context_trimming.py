"""A conversation that is too long: old thinking and old tool results go first, then whole turns, oldest first.

The system prompt, the last user turn, and one half of a call and its result never go. It acts if a provider refused the
request for its length, or if even the lower bound of the estimate is over the limit; and it cuts once, well below the
limit, so that the next requests have the same beginning and prompt caches hold.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock._messages.traversal import without_item_ids

if TYPE_CHECKING:
    from penstock._diagnostics import Diagnostics

MAX_POINTS = 4
CACHED_TURNS = 2
DEFAULT_TTL = "5m"
_CACHEABLE = frozenset({rq.Text, rq.File, rq.Result})  # parts that a hint may stand on


def place_points(request: rq.Request, limit: int = MAX_POINTS, cache: str = DEFAULT_TTL) -> rq.Request:
    """Adds cache points, the most useful first, unless the client set its own."""
    if limit <= 0 or has_cache_points(request):
        return request
    messages, tools = list(request.messages), list(request.tools)
    ends = _last_user_positions(messages)
    tool_positions = _last_cacheable_tool(tools)
    message_positions = [*ends[:1], *_system_prompt_end(messages)][:limit]
    left = limit - len(message_positions)
    for position in tool_positions[:left]:
        tools[position] = replace(tools[position], cache=cache)
    for position in (*message_positions, *ends[1:][: max(left - len(tool_positions), 0)]):
        messages[position] = _with_cache_point(messages[position], cache)
    return replace(request, messages=messages, tools=tools)


def _system_prompt_end(messages: list[rq.Message]) -> list[int]:
    """Returns the position of the last system message that can carry a cache point."""
    front = next((position for position, one in enumerate(messages) if one.role != "system"), len(messages))
    return [position for position in range(front) if _cacheable_part(messages[position]) is not None][-1:]


def _last_cacheable_tool(tools: list[rq.Tool]) -> list[int]:
    """Returns the last tool that is not loaded later: a deferred tool may have no cache point."""
    deferred_flags = [any(fields.get("defer_loading") for fields in (tool.extra or {}).values()) for tool in tools]
    return [position for position, deferred in enumerate(deferred_flags) if not deferred][-1:]


def _last_user_positions(messages: list[rq.Message]) -> list[int]:
    """Returns the positions of the last messages of user turns, the last first."""
    found: list[int] = []
    next_role = ""
    for position in range(len(messages) - 1, -1, -1):
        role = "user" if messages[position].role in ("user", "tool") else messages[position].role
        if role == "user" and next_role != "user" and _cacheable_part(messages[position]) is not None:
            found.append(position)
            if len(found) == CACHED_TURNS:
                break
        next_role = role
    return found


def _cacheable_part(message: rq.Message) -> int | None:
    """Returns the position of the last part that can carry a cache point."""
    for position in range(len(message.parts) - 1, -1, -1):
        part = message.parts[position]
        if type(part) in _CACHEABLE and not (type(part) is rq.Text and not part.text.strip()):
            return position
    return None


def _with_cache_point(message: rq.Message, cache: str) -> rq.Message:
    position = _cacheable_part(message)
    if position is None:
        return message
    parts = list(message.parts)
    parts[position] = replace(parts[position], cache=cache)
    return replace(message, parts=parts)


def has_cache_points(request: rq.Request) -> bool:
    """True if the client set cache points."""
    return any(tool.cache for tool in request.tools) or any(_count_cache_points(request.messages))


def _count_cache_points(messages: list[rq.Message]) -> list[int]:
    """Returns the number of cache points of each message."""
    counts: list[int] = []
    for message in messages:
        count = 0
        for part in message.parts:
            if part.cache:
                count += 1
            if type(part) is rq.Result:
                for inner in part.content:
                    if inner.cache:
                        count += 1
        counts.append(count)
    return counts


def limit_points(request: rq.Request, limit: int, notes: Diagnostics) -> rq.Request:
    """Limits the cache points. Those of tools, of the prompt and of the last messages are kept first."""
    tools = [position for position, tool in enumerate(request.tools) if tool.cache]
    counts = _count_cache_points(request.messages)
    extra = len(tools) + sum(counts) - limit
    if extra <= 0:
        return request
    notes.add("cache-points", f"the target takes {limit} cache points; the least useful {extra} were left out")
    messages_ = list(request.messages)
    for position in sorted(
        range(len(messages_)), key=lambda position: (messages_[position].role == "system", position)
    ):
        if extra > 0 and counts[position]:
            messages_[position], removed = _without_cache_points(messages_[position], extra)
            extra -= removed
    tools_ = list(request.tools)
    for position in tools[: max(extra, 0)]:
        tools_[position] = replace(tools_[position], cache="")
    return replace(request, messages=messages_, tools=tools_)


def _without_cache_points(message: rq.Message, most: int) -> tuple[rq.Message, int]:
    """Removes up to so many cache points from a message, the first ones first. Returns it and their number."""
    removed = 0
    parts: list[Any] = []
    for part in message.parts:
        if type(part) is rq.Result and removed < most and any(inner.cache for inner in part.content):
            content: list[Any] = []
            for inner in part.content:
                content.append(replace(inner, cache="") if inner.cache and removed < most else inner)
                removed += content[-1] is not inner
            part = replace(part, content=content)  # noqa: PLW2901 — the same part without cache points
        if part.cache and removed < most:
            part = replace(part, cache="")  # noqa: PLW2901 — as above
            removed += 1
        parts.append(part)
    return replace(message, parts=parts), removed


if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._diagnostics import Diagnostics

    Count: TypeAlias = Callable[[rq.Message], int]

CLEARED = "[the result was cleared to save context]"
ESTIMATE_FROM = 0.5  # of the limit, by size alone: below that nothing is counted more closely
KEEP_SHARE, STEP_SHARE = 0.6, 0.2  # of the limit: about how much stays, and in which steps the rest goes
KEPT_ROUNDS = 3  # rounds of calls at the end whose results are not cleared
_CHARACTERS = 4  # that make a token, roughly
_encode = msgspec.json.Encoder().encode


class Cleared(msgspec.Struct, frozen=True):
    """About how many tokens a conversation had before and after, and how many turns were dropped."""

    before: int
    after: int
    turns: int = 0


def estimate_tokens(message: rq.Message) -> int:
    """Estimates tokens by size. Every file counts as a thousand."""
    files = [part for part in message.parts if type(part) is rq.File]
    files += [part for one in message.parts if type(one) is rq.Result for part in one.content if type(part) is rq.File]
    data = sum(len(file.data) for file in files)
    return (len(_encode(message)) - data) // _CHARACTERS + 1000 * len(files)


def estimate_request(request: rq.Request) -> int:
    """Estimates the tokens of messages and tools by size: the same for a request in every protocol."""
    messages = (
        replace(_plain(message), parts=[_plain(part) for part in message.parts]) for message in request.messages
    )
    tools = [_plain(tool) for tool in request.tools]
    return sum(map(estimate_tokens, messages)) + len(_encode(tools)) // _CHARACTERS


def _plain(item: Any) -> Any:
    """Returns the item without what only its own protocol knows."""
    if type(item) is rq.Result:
        item = replace(item, content=[_plain(part) for part in item.content])
    return replace(item, extra=None) if getattr(item, "extra", None) else item


def manage_context(
    request: rq.Request,
    notes: Diagnostics,
    *,
    limit: int,
    count: Count = estimate_tokens,
    keep: int = KEPT_ROUNDS,
    refused: bool = False,
    report: Callable[[Cleared], None] | None = None,
) -> rq.Request:
    """Cuts a request that is too long to about 60% of the limit. `report` gets what was removed.

    `refused`: the provider refused it, whatever the estimate says. A limit of 0 is unknown.
    """
    tokens = [count(message) for message in request.messages]
    total = sum(tokens) + len(_encode(request.tools)) // _CHARACTERS
    if not refused and _least_tokens(request, total, limit, count) <= limit:
        return request
    cut = _ContextCut(request.messages, tokens, _tokens_to_remove(total, min(limit, total) if limit else total), count)
    cut.clear(_without_reasoning, _finished_turns(request.messages))
    cut.clear(_without_results, _old_results(request.messages, keep))
    cut.drop_turns()
    reason = f"about {total} tokens are {f'more than the limit of {limit}' if limit else 'too many'}"
    if not cut.cleared and not cut.turns:
        notes.add("context-full", f"{reason}, and nothing old can be cleared")
        return request
    if cut.cleared:
        notes.add("context-cleared", f"{reason}; old thinking or results of {cut.cleared} messages were cleared")
    if cut.turns:
        notes.add("context-dropped", f"{reason}; the {cut.turns} oldest turns were left out")
    if limit and total - cut.removed > limit:
        notes.add("context-full", f"about {total - cut.removed} tokens are left, more than the limit of {limit}")
    if report is not None:
        report(Cleared(total, total - cut.removed, cut.turns))
    return replace(request, messages=cut.messages())


def _tokens_to_remove(total: int, size: int) -> int:
    """Returns how many tokens must be removed so that about 60% of the size stays.

    In steps of 20%: a growing conversation is cut at the same position for a while, so its beginning stays cached.
    """
    step = size * STEP_SHARE
    return ceil(ceil((total - size * (KEEP_SHARE + STEP_SHARE / 2)) / step) * step) if step else 0


def _least_tokens(request: rq.Request, total: int, limit: int, count: Count) -> int:
    """Returns the fewest tokens that the request may have. The caller's own `count` is taken as exact."""
    if count is not estimate_tokens or total < limit * ESTIMATE_FROM:
        return total if count is not estimate_tokens else 0
    from penstock._tokens.estimate import HybridTokenEstimator  # noqa: PLC0415 — reads tables that most requests do not need

    return HybridTokenEstimator(prompts=0).estimate_conversation(request).low


class _ContextCut:
    """Cuts messages. `left` is the number of tokens still to remove, `removed` of those removed."""

    def __init__(self, messages: list[rq.Message], tokens: list[int], left: int, count: Count) -> None:
        self._messages: list[rq.Message | None] = list(messages)
        self._tokens = list(tokens)
        self._count = count
        self.left, self.removed, self.cleared, self.turns = left, 0, 0, 0

    def messages(self) -> list[rq.Message]:
        return [message for message in self._messages if message is not None]

    def clear(self, change: Callable[[rq.Message], rq.Message], positions: list[int]) -> None:
        """Changes messages, the oldest first, until enough tokens are removed."""
        for position in positions:
            old = self._messages[position]
            if self.left <= 0 or old is None:
                return
            new = change(old)
            if new is not old:
                after = self._count(new)
                self._count_removed(self._tokens[position] - after)
                self._messages[position], self._tokens[position] = new, after
                self.cleared += 1

    def drop_turns(self) -> None:
        """Drops turns, the oldest first, until enough tokens are removed. System messages stay."""
        for positions in _turns(self.messages()):
            if self.left <= 0:
                return
            for position in positions:
                self._count_removed(self._tokens[position])
                self._messages[position] = None
            self.turns += 1

    def _count_removed(self, tokens: int) -> None:
        self.left -= tokens
        self.removed += tokens


def _turns(messages: list[rq.Message]) -> list[list[int]]:
    """Returns the positions of each turn before the last: a user message and all up to the next one.

    A call and its result are in the same turn. System messages are in none.
    """
    results = {
        part.call: position
        for position, message in enumerate(messages)
        for part in message.parts
        if type(part) is rq.Result
    }
    last = max((position for position, message in enumerate(messages) if message.role == "user"), default=0)
    turns: list[list[int]] = [[]]
    waiting: set[str] = set()
    for position, message in enumerate(messages):
        if message.role == "user" and not waiting:
            if position >= last:
                return [turn for turn in turns if turn]
            turns.append([])
        for part in message.parts:
            if type(part) is rq.Call and part.by == "client" and results.get(part.id, -1) >= position:
                waiting.add(part.id)
            elif type(part) is rq.Result:
                waiting.discard(part.call)
        if message.role != "system":
            turns[-1].append(position)
    return [turn for turn in turns[:-1] if turn]  # the last turn began before the last thing that the user said


def _finished_turns(messages: list[rq.Message]) -> list[int]:
    """Returns the assistant messages before the last user message."""
    last = max((position for position, message in enumerate(messages) if message.role == "user"), default=0)
    return [position for position in range(last) if messages[position].role == "assistant"]


def _old_results(messages: list[rq.Message], keep: int) -> list[int]:
    """Returns the messages with results, without those of the last rounds."""
    rounds = 0
    for position in range(len(messages) - 1, -1, -1):
        if messages[position].role == "assistant" and any(type(part) is rq.Call for part in messages[position].parts):
            rounds += 1
            if rounds == keep:
                return [before for before in range(position) if messages[before].role == "tool"]
    return [] if keep else [position for position, message in enumerate(messages) if message.role == "tool"]


def _without_reasoning(message: rq.Message) -> rq.Message:
    parts = [part for part in message.parts if type(part) is not rq.Reasoning]
    removed = len(message.parts) - len(parts)
    return replace(message, parts=without_item_ids(parts)) if parts and removed else message


def _without_results(message: rq.Message) -> rq.Message:
    parts: list[Any] = [_clear_result(part) if type(part) is rq.Result else part for part in message.parts]
    same = all(new is old for new, old in zip(parts, message.parts, strict=True))
    return message if same else replace(message, parts=parts)


def _clear_result(result: rq.Result) -> rq.Result:
    if not result.content or result.by == "provider":
        return result
    only = result.content[0] if len(result.content) == 1 else None
    if type(only) is rq.Text and len(only.text) <= len(CLEARED):
        return result
    return replace(result, content=[rq.Text(CLEARED)])
