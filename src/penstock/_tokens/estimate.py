"""`HybridTokenEstimator`: estimates the tokens of a text, a message or a request, with bounds.

A count that a provider reported is used for the same prompt (`actual`) and for a prompt that begins with it (`hybrid`).
Everything else is estimated by the model's family and corrected by the factor learned for provider and model. Stores
are passed in. docs/tokens.md shows how to use it and how accurate it is.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from penstock._diagnostics import Diagnostic
from penstock._tokens import count_cache, families, text_features
from penstock._tokens.count_cache import Count, CountCache, TurnOutcome, digest_bytes, digest_message, read_outcome
from penstock._tokens.families import Factor, Factors, Family, Tables, build_factors, load_tables
from penstock._tokens.text_features import HIDDEN, REASONING, TEXT, FeatureCounter, constant_values, estimate_tokens
from penstock.errors import InputError
from penstock.request import Message, Request, Tool, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._tokens.text_features import FrameParts, MessageParts
    from penstock.events import Usage
    from penstock.stores import CountStore, FactorStore

Method: TypeAlias = Literal["actual", "hybrid", "estimated"]
Conversation: TypeAlias = "Request | Sequence[Message]"
_MAX_PROMPTS = 20_000  # prompts whose actual count is remembered
_MAX_MODELS = 512  # models in memory
_MAX_NEW_MESSAGES = 64  # a known prefix is searched this far from the end
_SEAM_ERROR = 4.0  # tokens by which the seam between a known prefix and new messages may be wrong
_REREADS_REASONING = 50.0  # a family with a higher constant for hidden reasoning reads it again
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
    """One line of a breakdown: a message, or everything around the messages."""

    what: str
    estimate: Estimate


class Breakdown(msgspec.Struct, frozen=True):
    """A request line by line. `total` may be more exact than the sum of the lines."""

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


class ModelCounter:
    """Counts for one provider's model. `salt` separates its counts in the cache; `exact`: a real tokenizer counts."""

    __slots__ = ("constants", "counter", "factor", "family", "high", "low", "name", "salt")

    def __init__(self, name: str, family: Family, counter: FeatureCounter, salt: bytes, *, exact: bool) -> None:
        self.name = name
        self.family = family
        self.counter = counter
        self.salt = salt
        constants = list(constant_values(family.constants))
        if exact:
            constants[TEXT] = 1.0  # the fitted constant corrects errors of counting by text features
        self.constants = tuple(constants)
        self.low, self.high = family.constants.low, family.constants.high
        self.factor = 1.0

    def count_message(self, message: Message) -> Count:
        counted = self.counter.count_message(message)
        return estimate_tokens(counted, self.constants), text_features.message_error(counted, self.constants)

    def count_frame(self, request: Request) -> Count:
        counted = self.counter.count_frame(request)
        return estimate_tokens(counted, self.constants), text_features.frame_error(counted, self.constants)

    def split_message(self, message: Message) -> MessageParts:
        """Counts the text and the files of a message apart."""
        return text_features.split_message(self.counter.count_message(message), self.constants)

    def split_frame(self, request: Request) -> FrameParts:
        """Counts tools, framing and hidden additions apart."""
        return text_features.split_frame(self.counter.count_frame(request), self.constants)

    def count_reread_reasoning(self, message: Message, reasoning: float) -> float:
        """Returns how much of a turn's reasoning the model reads again in the next request."""
        amounts = self.counter.count_message(message).amounts
        if amounts[HIDDEN]:
            return reasoning if self.constants[HIDDEN] > _REREADS_REASONING else 0.0
        return min(reasoning, amounts[REASONING] * self.constants[REASONING])

    def salted(self, digest: bytes) -> bytes:
        return digest_bytes(digest, key=self.salt[:64])


class HybridTokenEstimator:
    """Counts for any model. One estimator may serve many conversations and threads.

    Threads that calibrate at the same time need a factor store; without one, the sample of one of them may be lost.

    `chars_per_token` counts text only by its length; `provider_overrides` does so for some providers. With
    `conservative`, `tokens` is the upper bound. `counters` are real tokenizers by the name of their vocabulary.
    `prompts`: how many prompts are remembered with their actual count; with 0 every count is an estimate.
    """

    def __init__(
        self,
        chars_per_token: float | None = None,
        *,
        conservative: bool = False,
        provider_overrides: Mapping[str, float] | None = None,
        counters: Mapping[str, Callable[[str], float]] | None = None,
        counts: CountStore | None = None,
        learned: FactorStore | None = None,
        tenant: str = "",
        facts: Tables | None = None,
        prompts: int = _MAX_PROMPTS,
    ) -> None:
        overrides = dict(provider_overrides or {})
        for name, value in {"chars_per_token": chars_per_token, **overrides}.items():
            if value is not None and not value > 0:
                raise InputError(f"{name}: expected characters per token, a number above 0, found {value}")
        self._chars_per_token, self._overrides = chars_per_token, overrides
        self._conservative = conservative
        self._text_counters = dict(counters or {})
        self._tables = facts or load_tables()
        self._tenant, self._factor_store = tenant, learned
        self._factors: dict[str, Factor] = {}
        self._models: dict[tuple[str, str], ModelCounter] = {}
        self.cache: CountCache = CountCache(counts, tenant)
        self._prompts = CountCache(counts, tenant, prompts)

    # ── counting ──────────────────────────────────────────────────────────────────────────────────────────────────

    def estimate_text(self, text: str, model: str = "", provider: str = "") -> Estimate:
        """Counts a text without the framing of a message."""
        counter = self._counter(model, provider)
        amount = counter.counter.count_text(text) * counter.constants[TEXT]
        return self._estimate(counter, amount, amount * text_features.TEXT_ERROR)

    def estimate_message(self, message: Message, model: str = "", provider: str = "") -> Estimate:
        """Counts a message with its framing. The same content is counted only once."""
        counter = self._counter(model, provider)
        return self._estimate(counter, *self._count_messages(counter, [message], [digest_message(message)])[0])

    def estimate_conversation(
        self, request: Conversation, model: str = "", provider: str = "", tools: Sequence[Tool] = ()
    ) -> Estimate:
        """Counts everything that is sent: messages, tools, the response format, and what the provider adds."""
        return self.breakdown(request, model, provider, tools, lines=False).total

    def breakdown(
        self,
        request: Conversation,
        model: str = "",
        provider: str = "",
        tools: Sequence[Tool] = (),
        *,
        lines: bool = True,
    ) -> Breakdown:
        """Counts the same as `estimate_conversation`, with a line for each message."""
        request = _to_request(request, tools)
        counter = self._counter(model or request.model, provider, refresh=True)
        prefixes, frame, counts = self._count_request(counter, request)
        total = self._total(counter, request, prefixes, frame, counts)
        if not lines:
            return Breakdown(counter.family.name, [], total)
        rows = [("around", frame), *zip((message.role for message in request.messages), counts, strict=True)]
        written = [BreakdownLine(what, self._estimate(counter, *count)) for what, count in rows]
        return Breakdown(counter.family.name, written, total)

    def _count_request(self, counter: ModelCounter, request: Request) -> tuple[list[bytes], Count, list[Count]]:
        """Returns the digests of all prefixes, the count of the frame, and the counts of the messages."""
        digests = [digest_message(message) for message in request.messages]
        digest = count_cache.digest_frame(request, counter.name)
        frame = self.cache.get_or_count([counter.salted(digest)], lambda _: counter.count_frame(request))[0]
        counts = self._count_messages(counter, request.messages, digests)
        return count_cache.digest_prefixes(digest, digests), frame, counts

    def _count_messages(
        self, counter: ModelCounter, messages: Sequence[Message], digests: Sequence[bytes]
    ) -> list[Count]:
        keys = [counter.salted(digest) for digest in digests]
        return self.cache.get_or_count(keys, lambda position: counter.count_message(messages[position]))

    def _total(
        self, counter: ModelCounter, request: Request, prefixes: list[bytes], frame: Count, counts: list[Count]
    ) -> Estimate:
        last = len(prefixes) - 1
        known = self._prompts.get(prefixes[: -_MAX_NEW_MESSAGES - 1 : -1])
        positions = range(last, max(-1, last - _MAX_NEW_MESSAGES), -1)
        position = next((position for position in positions if prefixes[position] in known), None)
        if position is None:
            amount, error = map(sum, zip(*counts, strict=True)) if counts else (0.0, 0.0)
            return self._estimate(counter, frame[0] + amount, text_features.combine_errors(frame[1], error))
        actual = known[prefixes[position]][0]
        if position == last:
            return Estimate(round(actual), "actual", 1.0, round(actual), round(actual))
        reply = self._count_reply(counter, prefixes[position], request.messages[position])
        tail = counts[position + (reply is not None) :]
        fixed = actual + (0.0 if reply is None else reply)
        return self._estimate(counter, sum(row[0] for row in tail), _SEAM_ERROR + sum(row[1] for row in tail), fixed)

    def _count_reply(self, counter: ModelCounter, prompt: bytes, message: Message) -> float | None:
        """Returns the provider's count of the answer to this prompt; None if the message is not that answer."""
        if message.role != "assistant":
            return None
        key = _reply_key(prompt, count_cache.digest_reply(message.parts))
        found = self._prompts.get([key]).get(key)
        return None if found is None else found[0] + counter.count_reread_reasoning(message, found[1])

    def _estimate(self, counter: ModelCounter, amount: float, error: float, fixed: float | None = None) -> Estimate:
        amount *= counter.factor
        known = fixed or 0.0
        low = round(known + max(0.0, amount - counter.low * error))
        high = round(known + amount + counter.high * error + 0.499)
        total = round(known + amount)
        confidence = max(0.0, 1 - (high - low) / (2 * total)) if total else 0.0
        shown = high if self._conservative else total
        return Estimate(shown, "estimated" if fixed is None else "hybrid", round(confidence, 3), low, high)

    # ── learning ──────────────────────────────────────────────────────────────────────────────────────────────────

    def calibrate(
        self,
        request: Conversation,
        seen: Turn | Usage | int,
        model: str = "",
        provider: str = "",
        tools: Sequence[Tool] = (),
        *,
        learn: bool = True,
    ) -> None:
        """Learns from a provider's report for this request: a turn, its usage, or only the input tokens.

        The prompt is remembered with its count. With `learn`, the report also corrects the model's factor.
        """
        request, outcome = _to_request(request, tools), read_outcome(seen)
        if outcome.input is None or outcome.ran_tools:
            return  # no count, or one that includes the results of provider tools
        counter = self._counter(model or request.model, provider, refresh=learn)
        if not learn:  # nothing needs to be counted
            self._remember_prompt(count_cache.digest_request(request, counter.name), outcome)
            return
        prefixes, frame, counts = self._count_request(counter, request)
        self._remember_prompt(prefixes[-1], outcome)
        if not outcome.steps:
            self._update_factor(counter, frame[0] + sum(row[0] for row in counts), outcome.input)

    def _remember_prompt(self, prompt: bytes, outcome: TurnOutcome) -> None:
        rows: dict[bytes, Count] = {prompt: (float(outcome.input or 0), 0.0)}
        if outcome.reply is not None and outcome.output is not None:
            rows[_reply_key(prompt, outcome.reply)] = (float(outcome.output), float(outcome.reasoning))
        self._prompts.add(rows)

    def _update_factor(self, counter: ModelCounter, estimated: float, actual: int) -> None:
        def update(old: bytes | None) -> bytes:
            return families.encode_factor(families.update_factor(families.decode_factor(old), estimated, actual))

        name = counter.name
        if self._factor_store is None:
            factor = families.update_factor(self._factors.get(name, Factor()), estimated, actual)
        else:
            factor = families.decode_factor(self._factor_store.update(self._tenant, name, update))
        self._factors[name] = factor
        counter.factor = factor.value

    def factor(self, model: str, provider: str = "") -> Factor:
        """Returns the learned factor of a provider's model."""
        counter = self._counter(model, provider, refresh=True)
        return self._factors.get(counter.name, Factor())

    def reset(self) -> None:
        """Forgets counts and prompts in memory. Learned factors and the store stay."""
        self.cache.clear()
        self._prompts.clear()

    # ── for gateways and clients ──────────────────────────────────────────────────────────────────────────────────

    def factors(self, model: str, provider: str = "") -> Factors:
        """Returns everything that a thin client needs to count for this model without the server."""
        counter = self._counter(model, provider, refresh=True)
        return build_factors(model, provider, counter.family, self._tables, counter.factor)

    def preflight(
        self, request: Conversation, limit: int, model: str = "", provider: str = "", tools: Sequence[Tool] = ()
    ) -> Diagnostic | None:
        """Returns a warning from 90% of a model's input limit on; never refuses."""
        return warning(self.estimate_conversation(request, model, provider, tools), limit)

    def _counter(self, model: str, provider: str, *, refresh: bool = False) -> ModelCounter:
        """Returns the counter of a model. `refresh` reads its factor again, which another process may have learned."""
        counter = self._models.get((provider, model))
        if counter is None:
            if len(self._models) >= _MAX_MODELS:
                self._models.clear()
            counter = self._models[provider, model] = self._build_counter(model, provider)
            refresh = True
        if refresh:
            if self._factor_store is not None:
                row = self._factor_store.get(self._tenant, [counter.name]).get(counter.name)
                if row is not None:
                    self._factors[counter.name] = families.decode_factor(row)
            counter.factor = self._factors.get(counter.name, Factor()).value
        return counter

    def _build_counter(self, model: str, provider: str) -> ModelCounter:
        family = self._tables.find_family(model, provider)
        chars = self._overrides.get(provider) or self._chars_per_token
        count = self._text_counters.get(family.vocabulary)
        method = family.vocabulary if count is not None else "classes"
        if chars:
            count, method = partial(_count_by_length, chars), str(chars)
        salt = count_cache.encode_stable((self._tables.version, family.name, method))
        counter = FeatureCounter(family, self._tables.pictures, count)
        return ModelCounter(f"{provider}/{model}", family, counter, salt, exact=count is not None)


def _to_request(request: Conversation, tools: Sequence[Tool]) -> Request:
    if isinstance(request, Request):
        return msgspec.structs.replace(request, tools=[*request.tools, *tools]) if tools else request
    return Request(messages=list(request), tools=list(tools))


def _count_by_length(chars_per_token: float, text: str) -> float:
    return len(text) / chars_per_token


def _reply_key(prompt: bytes, reply: bytes) -> bytes:
    return digest_bytes(prompt + reply, key=b"reply")
