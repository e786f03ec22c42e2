"""`HybridTokenEstimator`: estimates the tokens of a text, a message or a request, with bounds.

A count that a provider reported is used for the same prompt (`actual`) and for a prompt that begins with it (`hybrid`).
Everything else is estimated by the model's family and corrected by the factor learned for provider and model. Stores
are passed in. docs/tokens.md shows how to use it and how accurate it is.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from math import ceil, floor
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec.structs import replace

from penstock._tokens import (
    Breakdown,
    BreakdownLine,
    Estimate,
    build_breakdown,
    count_cache,
    families,
    has_files,
    list_line_counts,
    text_features,
    warning,
)
from penstock._tokens.bpe import Bound, check_characters, check_limit, check_text, check_tokens, count_by_length
from penstock._tokens.conversation import FitResult, Shortening, read_conversation
from penstock._tokens.count_cache import Count, CountCache, TurnOutcome, digest_bytes, digest_message, read_outcome
from penstock._tokens.families import Factor, Factors, Tables, build_factors, load_tables
from penstock._tokens.hidden_additions import adds_system, has_hidden_context, list_uncounted_fields
from penstock._tokens.text_features import TEXT, FeatureCounter, ModelCounter
from penstock.request import Reasoning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._diagnostics import Diagnostic
    from penstock._tokens.conversation import AnyConversation, AnyTools
    from penstock.events import Usage
    from penstock.request import Message, Request, Turn
    from penstock.stores import CountStore, FactorStore

__all__ = ["Breakdown", "BreakdownLine", "Estimate", "HybridTokenEstimator", "ModelCounter", "warning"]
T = TypeVar("T")
_MAX_PROMPTS = 20_000  # prompts whose actual count is remembered
_MAX_MODELS = 512  # models in memory
_MAX_NEW_MESSAGES = 64  # a known prefix is searched this far from the end
_MAX_REPLY_FACTOR, _MAX_REPLY_EXTRA = 1.5, 15.0  # a reply beside reasoning may have this much more than estimated
_SEAM_ERROR = 8.0  # tokens by which the seam between a known prefix and new messages may be wrong


class HybridTokenEstimator:
    """Counts for any model. One estimator may serve many conversations and threads.

    Threads that calibrate at the same time need a factor store; without one, the sample of one of them may be lost.

    `chars_per_token` counts text only by its length; `provider_overrides` does so for some providers, which are given
    or told by the model's name: `{"openai": 4.0}` or `{"openai": {"chars_per_token": 4.0}}`. With `conservative`,
    `tokens` is the upper bound. `counters` are real tokenizers by the name of their vocabulary.
    `prompts`: how many prompts are remembered with their actual count; with 0 every count is an estimate.
    """

    def __init__(
        self,
        chars_per_token: float | None = None,
        *,
        conservative: bool = False,
        provider_overrides: Mapping[str, float | Mapping[str, float]] | None = None,
        counters: Mapping[str, Callable[[str], float]] | None = None,
        counts: CountStore | None = None,
        learned: FactorStore | None = None,
        tenant: str = "",
        facts: Tables | None = None,
        prompts: int = _MAX_PROMPTS,
    ) -> None:
        self._chars_per_token = (
            None if chars_per_token is None else check_characters("chars_per_token", chars_per_token)
        )
        self._overrides = {
            name.lower(): check_characters(f"provider_overrides[{name!r}]", value)
            for name, value in (provider_overrides or {}).items()
        }
        self._conservative = conservative
        self._text_counters = dict(counters or {})
        self._tables = facts or load_tables()
        self._tenant, self._factor_store = tenant, learned
        self._factors: dict[str, Factor] = {}
        self._models: dict[tuple[str, str], ModelCounter] = {}
        self.cache: CountCache = CountCache(counts, tenant)
        self._prompts = CountCache(counts, tenant, prompts, "p")  # the store keeps these longest

    def in_memory(self) -> HybridTokenEstimator:
        """Returns an estimator that shares what this one has in memory, and does not use its stores: it never waits."""
        made = copy(self)
        vars(made).update(_factor_store=None, cache=self.cache.in_memory(), _prompts=self._prompts.in_memory())
        return made

    def has_counted(self, model: str, provider: str) -> bool:
        """Returns whether the factor of a model is in memory."""
        return (provider, model) in self._models

    # ── counting ──────────────────────────────────────────────────────────────────────────────────────────────────

    def estimate_text(self, text: str, model: str = "", provider: str = "") -> Estimate:
        """Counts a text without the framing of a message."""
        counter = self._counter(model, provider)
        tokens, rough = counter.counter.measure_text(text if type(text) is str else check_text(text))
        error = text_features.text_error(tokens, rough, counter.constants)
        return self._estimate(counter, tokens * counter.constants[TEXT], error)

    def estimate_message(self, message: Any, model: str = "", provider: str = "", *, protocol: str = "") -> Estimate:
        """Counts a message of any kind with its framing. The same content is counted only once."""
        messages = read_conversation(message, (), protocol).request.messages
        counter = self._counter(model, provider)
        counts = self._count_messages(counter, messages, [digest_message(one) for one in messages])
        return self._estimate(counter, *count_cache.sum_counts(counts))

    def estimate_conversation(
        self, request: AnyConversation, model: str = "", provider: str = "", tools: AnyTools = (), *, protocol: str = ""
    ) -> Estimate:
        """Counts everything that is sent: messages, tools, the response format, and what the provider adds.

        `request`: a `Request`, a body of any protocol, or messages of any kind. `protocol`: if it cannot be told by
        its shape.
        """
        return self.breakdown(request, model, provider, tools, protocol=protocol, lines=False).total

    def breakdown(
        self,
        request: AnyConversation,
        model: str = "",
        provider: str = "",
        tools: AnyTools = (),
        *,
        protocol: str = "",
        lines: bool = True,
    ) -> Breakdown:
        """Counts the same as `estimate_conversation`, with a line for each part of the prompt."""
        canonical = read_conversation(request, tools, protocol).request
        counter = self._counter(model or canonical.model, provider, refresh=True)
        prefixes, frame, counts = self._count_request(counter, canonical)
        total = self._total(counter, canonical, prefixes, frame, counts)
        if not lines:
            return Breakdown(counter.family.name, [], total)
        messages = enumerate(canonical.messages)
        files = {at: counter.split_message(message).files for at, message in messages if has_files(message)}
        rows = list_line_counts(canonical, counts, counter.split_frame(canonical), files)
        return build_breakdown(counter.family.name, total, rows, partial(self._estimate, counter))

    def fit(
        self,
        request: T,
        limit: int,
        *,
        reserve: int = 0,
        model: str = "",
        provider: str = "",
        tools: AnyTools = (),
        protocol: str = "",
        by: Bound = "high",
        shorten_results: bool = False,
    ) -> FitResult[T]:
        """Shortens a conversation to a limit, less a reserve for the answer. Takes what `estimate_conversation` takes.

        The oldest turns go first. The system prompt, the tools, the last message of the user and the last round stay,
        and a call goes only together with its result. `by`: the upper bound must be within the limit, or the estimate.
        `shorten_results`: old tool results are shortened before any turn goes.
        """
        room = check_limit(limit, reserve, by)
        conversation = read_conversation(cast("Any", request), tools, protocol)
        canonical = conversation.request
        counter = self._counter(model or canonical.model, provider, refresh=True)
        prefixes, frame, counts = self._count_request(counter, canonical)
        before = found = self._total(counter, canonical, prefixes, frame, counts)
        base, scales = self._scale_known(counter, prefixes, frame, counts)
        estimate = partial(self._estimate_sum, counter, base)
        shortening = Shortening(
            canonical.messages, counts, scales, lambda tokens, error: getattr(estimate(tokens, error), by) <= room
        )
        if getattr(before, by) > room:
            shortening.run(counter.count_message if shorten_results else None)
            found = self._recount(counter, canonical, shortening.messages(), estimate(*shortening.sums))
        while getattr(found, by) > room and shortening.remove_unit():
            # A prefix that the provider counted may be longer than its estimate.
            found = self._recount(counter, canonical, shortening.messages(), estimate(*shortening.sums))
        removed = shortening.list_removed(counter.factor)
        changed = conversation.replace_messages(shortening.messages()) if removed else request
        return FitResult(changed, found, before, room, getattr(found, by) <= room, removed)

    def _recount(self, counter: ModelCounter, request: Request, left: list[Message], estimate: Estimate) -> Estimate:
        """Returns the provider's count of the messages that are left, if it is known; else the estimate."""
        shorter = replace(request, messages=left)
        found = self._total(counter, shorter, *self._count_request(counter, shorter))
        return estimate if found.method == "estimated" else found

    def _scale_known(
        self, counter: ModelCounter, prefixes: list[bytes], frame: Count, counts: list[Count]
    ) -> tuple[Count, list[float]]:
        """Returns the frame as the provider counted it, and by how much each message is longer than estimated.

        Only the total of a prefix is known, so all messages of it have the same share in the difference.
        """
        position, actual = self._find_known(prefixes) or (0, 0.0)
        estimated = (frame[0] + sum(row[0] for row in counts[:position])) * counter.factor
        scale = actual / estimated if actual and estimated else 1.0
        return (frame[0] * scale, frame[1] * scale), [scale] * position + [1.0] * (len(counts) - position)

    def _count_request(self, counter: ModelCounter, request: Request) -> tuple[list[bytes], Count, list[Count]]:
        """Returns the digests of all prefixes, the count of the frame, and the counts of the messages."""
        digests = [digest_message(message) for message in request.messages]
        digest = count_cache.digest_frame(request, counter.name)
        key = counter.salt + digest + (b"+" if adds_system(request, counter.family) else b"")
        frame = self.cache.get_or_count([key], lambda _: counter.count_frame(request))[0]
        counts = self._count_messages(counter, request.messages, digests)
        return count_cache.digest_prefixes(digest, digests), frame, counts

    def _count_messages(
        self, counter: ModelCounter, messages: Sequence[Message], digests: Sequence[bytes]
    ) -> list[Count]:
        salt = counter.salt  # counts of different families and ways to count are kept apart
        keys = [salt + digest for digest in digests]
        return self.cache.get_or_count(keys, lambda position: counter.count_message(messages[position]))

    def _total(
        self, counter: ModelCounter, request: Request, prefixes: list[bytes], frame: Count, counts: list[Count]
    ) -> Estimate:
        known = self._find_known(prefixes)
        if known is None:
            return self._estimate_sum(counter, frame, *count_cache.sum_counts(counts))
        position, actual = known
        if position == len(prefixes) - 1:
            return Estimate(round(actual), "actual", 1.0, round(actual), round(actual))
        reply = self._count_reply(counter, prefixes[position], request.messages[position])
        tail = counts[position + (reply is not None) :]
        fixed = actual + (0.0 if reply is None else reply)
        return self._estimate(counter, sum(row[0] for row in tail), _SEAM_ERROR + sum(row[1] for row in tail), fixed)

    def _find_known(self, prefixes: list[bytes]) -> tuple[int, float] | None:
        """Returns the messages of the longest prefix that the provider counted, and its count."""
        last = len(prefixes) - 1
        known = self._prompts.get(prefixes[: -_MAX_NEW_MESSAGES - 1 : -1])
        positions = range(last, max(-1, last - _MAX_NEW_MESSAGES), -1)
        return next(((at, known[prefixes[at]][0]) for at in positions if prefixes[at] in known), None)

    def _estimate_sum(self, counter: ModelCounter, frame: Count, amount: float, error: float) -> Estimate:
        return self._estimate(counter, frame[0] + amount, text_features.combine_errors(frame[1], error))

    def _count_reply(self, counter: ModelCounter, prompt: bytes, message: Message) -> float | None:
        """Returns the provider's count of the answer to this prompt; None if the message is not that answer."""
        if message.role != "assistant":
            return None
        key = _reply_key(prompt, count_cache.digest_reply(message.parts))
        found = self._prompts.get([key]).get(key)
        if found is None:
            return None
        reasons = found[1] or any(isinstance(part, Reasoning) for part in message.parts)
        if reasons and found[0] > _MAX_REPLY_FACTOR * counter.count_message(message)[0] + _MAX_REPLY_EXTRA:
            return None  # some of the reasoning is in the count of the reply, and was not sent back
        return found[0] + counter.count_reread_reasoning(message, found[1])

    def _estimate(self, counter: ModelCounter, amount: float, error: float, fixed: float | None = None) -> Estimate:
        amount *= counter.factor
        known = fixed or 0.0
        least = amount - counter.low * error
        low = floor(known + least) if least > 0.0 else floor(known)
        high = ceil(known + amount + counter.high * error)
        total = round(known + amount)
        confidence = 1 - (high - low) / (2 * total) if high - low < 2 * total else 0.0
        confidence = int(confidence * 1000 + 0.5) / 1000  # `round` takes three times as long
        shown = high if self._conservative else total
        return Estimate(shown, "estimated" if fixed is None else "hybrid", confidence, low, high)

    # ── learning ──────────────────────────────────────────────────────────────────────────────────────────────────

    def calibrate(
        self,
        request: AnyConversation,
        seen: Turn | Usage | int,
        model: str = "",
        provider: str = "",
        tools: AnyTools = (),
        *,
        protocol: str = "",
        learn: bool = True,
    ) -> None:
        """Learns from a provider's report for this request: a turn, its usage, or only the input tokens.

        The prompt is remembered with its count. With `learn`, the report also corrects the model's factor, unless the
        request has fields that cannot be counted here. Nothing is learned if a part of the prompt is on the server.
        """
        outcome = read_outcome(seen)
        if outcome.input is None or outcome.ran_tools:
            return  # no count, or one that includes the results of provider tools
        canonical = read_conversation(request, tools, protocol).request
        if has_hidden_context(canonical):
            return  # the count is of more than the request shows
        learn = learn and not list_uncounted_fields(canonical)
        counter = self._counter(model or canonical.model, provider, refresh=learn)
        if not learn:  # nothing needs to be counted
            self._remember_prompt(count_cache.digest_request(canonical, counter.name), outcome)
            return
        prefixes, frame, counts = self._count_request(counter, canonical)
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
        self,
        request: AnyConversation,
        limit: int,
        model: str = "",
        provider: str = "",
        tools: AnyTools = (),
        *,
        protocol: str = "",
    ) -> Diagnostic | None:
        """Returns a warning from 90% of a model's input limit on; never refuses. A limit of 0 is unknown."""
        check_tokens("limit", limit, 0)
        return warning(self.estimate_conversation(request, model, provider, tools, protocol=protocol), limit)

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

    def _find_override(self, model: str, provider: str) -> float | None:
        """Returns the override of the provider; if none is given, of the one that the model's name tells."""
        if not self._overrides:
            return None
        from penstock._providers.model_identity import identify  # noqa: PLC0415 — reads tables that few need

        names = [provider]
        if not provider:
            known = identify(model)
            names = [model.partition("/")[0], known.provider, known.maker]
        return next((self._overrides[name.lower()] for name in names if name.lower() in self._overrides), None)

    def _build_counter(self, model: str, provider: str) -> ModelCounter:
        family = self._tables.find_family(model, provider)
        chars = self._find_override(model, provider) or self._chars_per_token
        count = self._text_counters.get(family.vocabulary)
        method = family.vocabulary if count is not None else "classes"
        if chars:
            count, method = partial(count_by_length, chars), str(chars)
        salt = digest_bytes(count_cache.encode_stable((self._tables.version, family.name, method)))
        counter = FeatureCounter(family, self._tables.pictures, count)
        return ModelCounter(f"{provider}/{model}", family, counter, salt, exact=count is not None)


def _reply_key(prompt: bytes, reply: bytes) -> bytes:
    return digest_bytes(prompt + reply, key=b"reply")
