"""What a request may use at most, for its reservation, and what it has used, for its settlement (`limits`).

Input is bounded by the estimate's high bound, output by the output limit. An alias has several targets: the bound is
that of the most expensive one. Nothing is estimated for callers without a limit of tokens or cost.
"""

from __future__ import annotations

import logging
import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from penstock import _lenient_fields as lenient
from penstock._client.costs import choose_tier
from penstock._gateway.callers import make_refusal
from penstock._gateway.limits import MICRO, LimitSlot, UsageBound, describe_scope
from penstock._gateway.upstream import FREE
from penstock._providers.models import output_limit
from penstock._request_writer import MIN_ANSWER_TOKENS
from penstock._store.limit_store import Amounts
from penstock._tokens.hidden_additions import has_hidden_context
from penstock.events import Fault, Finish, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._engines.model_resolution import Target
    from penstock._engines.reply import ModelReply
    from penstock._gateway.catalogue import ModelCatalogue
    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.relay import ReplyCapture
    from penstock._gateway.token_estimators import TokenEstimators
    from penstock._gateway.upstream import GatewayUpstream
    from penstock._providers.registry import Prices
    from penstock._tokens.estimate import HybridTokenEstimator
    from penstock.request import Request

T = TypeVar("T")
SHORT_PROMPT = 8 * 1024  # bytes of a body that is counted on the event loop: a thread would cost more
UNKNOWN_OUTPUT = 8_192  # tokens: the output limit where neither the request, the key nor the model has one
MIN_BUDGET = 1_024  # reasoning tokens: the smallest budget that Claude takes
BYTES_PER_TOKEN = 3  # of text whose tokens nobody has counted: four in English, three in Chinese
# Faults after which a request may have been answered, and charged, although nothing of the answer arrived.
_UNSURE_FAULTS = frozenset({"cancelled", "timeout", "network", "truncated"})
# Names of output limits, and of the number of answers, among fields that are passed on as they are.
_OTHER_LIMITS = frozenset(
    "max_tokens max_completion_tokens max_output_tokens max_new_tokens max_tokens_to_sample max_length max_gen_len "
    "num_predict n_predict best_of".split()
)
_NESTED = ("options", "extra_body", "parameters", "sampling_params", "generation_config")  # objects with such fields
_MARKS = "_"  # the name of notes on how a request was written
log = logging.getLogger("penstock.limits")


def highest_cost(prices: Prices, input: int, output: int, body: bytes) -> tuple[int, int]:
    """Return the most that tokens may cost, in micro-dollars: input, output. `body` tells which prices may apply."""
    rates = choose_tier(prices, Usage(input=input))
    costs = [input * max(rates.input or 0.0, rates.written or 0.0) / MICRO]
    made = [output * max(rates.output or 0.0, rates.reasoning or 0.0) / MICRO]
    if b'"1h"' in body:  # cache entries that are kept for an hour
        costs.append(input * max(rates.written_1h or 0.0, 2 * (rates.input or 0.0)) / MICRO)
    if b"audio" in body:
        costs.append(input * (prices.audio_input or 0.0) / MICRO)
        made.append(output * (prices.audio_output or 0.0) / MICRO)
    return micro_dollars(max(costs, default=0.0)), micro_dollars(max(made, default=0.0))


def micro_dollars(dollars: float) -> int:
    """Return dollars in micro-dollars, rounded up."""
    return math.ceil(round(dollars * MICRO, 3))


@dataclass(eq=False)
class UsageBounds:
    """Computes bounds and settlements with the gateway's prices, models and estimators."""

    upstream: GatewayUpstream
    catalogue: ModelCatalogue
    estimators: TokenEstimators

    # ── before a request ──────────────────────────────────────────────────────────────────────────

    async def reserve_turn(self, slot: LimitSlot, incoming: IncomingRequest, request: Request) -> None:
        """Reserve for a turn, or raise the refusal. Sets the request's output limit if it is clamped."""
        clamp = self.upstream.config.features.clamp_output
        key_limit, asked = slot.caller.max_output, request.settings.max_output
        if clamp:
            _remove_other_limits(request)
        if asked is not None and asked <= 0:  # some servers take it for "no limit"
            asked, request.settings = None, replace(request.settings, max_output=None)
        if clamp and key_limit:
            if not asked or asked > key_limit:
                _clamp(slot, request, key_limit, f"max_output of the key {slot.caller.key!r}")
            _clamp_reasoning(slot, request, key_limit)
        if not slot.rules:
            return
        if not slot.counts("tokens", "cost"):
            await slot.reserve(UsageBound())
            return
        targets = self.catalogue.find_targets(request.model)
        prices = [self._prices(slot, one) if slot.counts("cost") else FREE for one in targets]
        inputs = await self._estimate_turn(incoming, request, targets)
        limits = [self._output_limit(slot, request, target) for target in targets]
        if clamp and not request.settings.max_output and limits:
            rooms = [self._room(one, used) for one, used in zip(targets, inputs, strict=True)]
            limit = max(map(min, limits, rooms))
            limits = [min(one, limit) for one in limits]
            _clamp(slot, request, limit, "the model's maximum")
        bounds = [
            UsageBound(used, made, *highest_cost(price, used, made, incoming.raw))
            for used, made, price in zip(inputs, _times(limits, request.settings.choices), prices, strict=True)
        ]
        await slot.reserve(_largest(bounds))

    async def reserve_texts(
        self, slot: LimitSlot, incoming: IncomingRequest, model: str, texts: Sequence[str | list[int]]
    ) -> None:
        """Reserve for a request that has an input only: embeddings, rerank."""
        if not slot.rules:
            return
        if not slot.counts("tokens", "cost"):
            await slot.reserve(UsageBound())
            return
        bounds: list[UsageBound] = []
        for target in self.catalogue.find_targets(model):
            prices = self._prices(slot, target) if slot.counts("cost") else FREE
            used = await self._estimate_texts(incoming, texts, target)
            bounds.append(UsageBound(used, 0, highest_cost(prices, used, 0, b"")[0]))
        await slot.reserve(_largest(bounds))

    async def _estimate_turn(self, incoming: IncomingRequest, request: Request, targets: list[Target]) -> list[int]:
        """Return the high bound of the prompt for each target."""
        if has_hidden_context(request):  # the provider holds a part of the prompt: it may fill the window
            facts = [self.catalogue.target_model(target) for target in targets]
            return [fact.context or fact.max_input or len(incoming.raw) for fact in facts]

        def estimate(estimator: HybridTokenEstimator) -> list[int]:
            return [
                math.ceil(estimator.estimate_conversation(request, one.model, one.provider.name).high)
                for one in targets
            ]

        return await self._estimate(incoming, estimate, [len(incoming.raw)] * len(targets), targets)

    async def _estimate_texts(self, incoming: IncomingRequest, texts: Sequence[str | list[int]], target: Target) -> int:
        def estimate(estimator: HybridTokenEstimator) -> int:
            model, provider = target.model, target.provider.name
            counts = [
                estimator.estimate_text(text, model, provider).high if isinstance(text, str) else len(text)
                for text in texts
            ]
            return math.ceil(sum(counts))

        return await self._estimate(incoming, estimate, len(incoming.raw), [target])

    async def _estimate(
        self, incoming: IncomingRequest, count: Callable[[HybridTokenEstimator], T], default: T, targets: list[Target]
    ) -> T:
        """Count in a thread, or at once if the prompt is short and the targets were counted for before.

        A prompt that cannot be counted is bounded by its bytes: no token is shorter.
        """
        tenant, size = incoming.caller.tenant, len(incoming.raw)
        try:
            quick = self.estimators.find_in_memory(tenant) if size <= SHORT_PROMPT else None
            if quick is not None and all(quick.has_counted(one.model, one.provider.name) for one in targets):
                return count(quick)
            return await self.estimators.run(tenant, count, size)
        except Exception as error:  # noqa: BLE001 — the request is limited all the same
            log.warning("a prompt could not be estimated, its bytes are reserved: %s", error)
            return default

    def _prices(self, slot: LimitSlot, target: Target) -> Prices:
        """Return the prices that a limit of cost counts with, or raise a refusal if there are none."""
        found = self.upstream.price_list.limit_prices(target.provider.name, target.model)
        if found is not None:
            return found
        name = f"{target.provider.name}/{target.model}"
        rule = next(rule for rule in slot.rules if rule.kind == "cost")
        reason = (
            f"no price is known for the model {name!r}, and {describe_scope(rule.scope)} has a limit of cost; set "
            f'`prices.models."{name}" = {{ input = …, output = … }}` (dollars for a million tokens) in the '
            'configuration, or `prices.unknown` to "flat" or "free"'
        )
        raise make_refusal(403, "permission", reason, code="model_without_price")

    def _output_limit(self, slot: LimitSlot, request: Request, target: Target) -> int:
        """Return the output limit of one choice at a target."""
        facts = self.catalogue.target_model(target)
        limit = request.settings.max_output or slot.caller.max_output
        limit = limit or output_limit(facts, target.provider) or UNKNOWN_OUTPUT
        budget = request.settings.budget or 0
        if budget >= limit:  # a limit that leaves no room for the answer is raised where reasoning counts against it
            limit = budget + MIN_ANSWER_TOKENS
        return min(limit, facts.max_output or limit)

    def _room(self, target: Target, used: int) -> int:
        """Return how long an answer may be beside its prompt: some servers refuse an output limit beyond that."""
        context = self.catalogue.target_model(target).context
        return context - used if context > used else sys.maxsize

    # ── after a request ───────────────────────────────────────────────────────────────────────────

    def turn_usage(
        self, slot: LimitSlot, reply: ModelReply | None, fault: Fault | None, answer: ReplyCapture | None
    ) -> Usage | None:
        """Return what a turn has used: as the provider reports it, else a fair bound. None if nothing is limited."""
        bound = slot.bound
        if bound is None or not slot.counts("tokens", "cost"):
            return None
        if reply is None:
            unsure = fault is not None and fault.kind in _UNSURE_FAULTS
            return Usage(input=bound.input if unsure else 0, output=0, exact=False)
        usage = reply.usage or Usage()
        if isinstance(reply.end, Finish) and usage.input is not None and usage.output is not None:
            return usage
        read = answer.count_bytes() if answer is not None else None
        made = bound.output if read is None else min(-(-read // BYTES_PER_TOKEN), bound.output)
        known = bound.input if usage.input is None else usage.input
        return replace(usage, input=known, output=max(made, usage.output or 0), exact=False)

    def aux_usage(self, slot: LimitSlot, usage: Usage | None, fault: Fault | None) -> Usage | None:
        """Return what an auxiliary request has used: as `turn_usage`."""
        if slot.bound is None or usage is not None:
            return usage
        unused = fault is not None and fault.kind not in _UNSURE_FAULTS
        return Usage(input=0 if unused else slot.bound.input, output=0, exact=False)

    def settle_slot(self, slot: LimitSlot, usage: Usage | None, dollars: float | None) -> None:
        """Free a slot with the usage of its request. `dollars`: its cost; None if it is unknown."""
        bound = slot.bound
        if bound is None or usage is None:
            slot.release()
            return
        tokens, cost = (usage.input or 0) + (usage.output or 0), 0
        if slot.counts("cost") and tokens:
            # Without a provider nothing was answered; without a price the reservation counted with none.
            reserved = bound.input_cost + (bound.output_cost if usage.output else 0)
            cost = reserved if dollars is None else micro_dollars(dollars)
        slot.release(Amounts(1, tokens, cost))


def _clamp(slot: LimitSlot, request: Request, limit: int, source: str) -> None:
    asked = request.settings.max_output
    why = f"the request asks for {asked}" if asked else "the request sets none"
    request.settings = replace(request.settings, max_output=limit)
    slot.decisions += (f"limit: the output limit {limit} is sent, {source}; {why}",)


def _clamp_reasoning(slot: LimitSlot, request: Request, limit: int) -> None:
    """Lower a reasoning budget for which the output limit would be raised. 0 switches reasoning off."""
    budget = request.settings.budget
    if budget and budget >= (request.settings.max_output or limit):
        room = limit - MIN_ANSWER_TOKENS
        fitting = min(budget, room) if room >= MIN_BUDGET else 0
        most = max(request.settings.max_output or limit, fitting + MIN_ANSWER_TOKENS if fitting else 0)
        request.settings = replace(request.settings, budget=fitting, max_output=most)
        slot.decisions += (f"limit: a reasoning budget of {budget} is sent as {fitting}, because of the output limit",)


def _remove_other_limits(request: Request) -> None:
    """Remove output limits that were not read: a server may obey them instead of the one that is reserved."""
    for protocol, fields in (request.extra or {}).items():
        kept = {name: value for name, value in fields.items() if name not in _OTHER_LIMITS}
        kept |= _remove_nested_limits(kept)
        if marks := lenient.get_object(kept, _MARKS):
            other = {name: value for name, value in marks.items() if name != "limits"}
            kept[_MARKS] = {**other, **_remove_nested_limits(other)}
        if kept != fields:
            request.extra = {**(request.extra or {}), protocol: kept}


def _remove_nested_limits(fields: lenient.Object) -> dict[str, lenient.Object]:
    """Return the objects in which servers look for further settings, without output limits."""
    found = {name: lenient.get_object(fields, name) for name in _NESTED if name in fields}
    return {
        name: {field: value for field, value in settings.items() if field not in _OTHER_LIMITS}
        for name, settings in found.items()
        if not _OTHER_LIMITS.isdisjoint(settings)
    }


def _times(limits: list[int], choices: int | None) -> list[int]:
    return [limit * max(choices or 1, 1) for limit in limits]


def _largest(bounds: list[UsageBound]) -> UsageBound:
    """Return a bound that holds for each target."""
    if not bounds:
        return UsageBound()
    names = UsageBound.__struct_fields__
    return UsageBound(*[max(getattr(bound, name) for bound in bounds) for name in names])
