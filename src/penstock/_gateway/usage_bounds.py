"""What a request may use at most, for its reservation, and what it has used, for its settlement (`limits`).

Input is bounded by the estimate's high bound, output by the output limit. An alias has several targets: the bound is
that of the most expensive one. Nothing is estimated for callers without a limit of tokens or cost.
"""

from __future__ import annotations

import logging
import math
import sys
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
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
from penstock.events import Finish, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._engines.engine_interface import DecisionLog
    from penstock._engines.model_resolution import Target
    from penstock._engines.reply import ModelReply
    from penstock._gateway.catalogue import ModelCatalogue
    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.journal import AuxRequest
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
MAX_OPTION_BYTES = 64  # of a field that is passed on: a larger one counts as input
BYTES_PER_TOKEN = 3  # of text whose tokens nobody has counted: four in English, three in Chinese
UNSEEN_RATE = 3_000  # tokens a second: no provider streams faster
_NOTHING = Amounts()
# Names of output limits, and of the number of answers, among fields that are passed on as they are.
_OTHER_LIMITS = frozenset(
    "max_tokens max_completion_tokens max_output_tokens max_new_tokens max_tokens_to_sample max_length max_gen_len "
    "num_predict n_predict best_of".split()
)
_NESTED = ("options", "extra_body", "parameters", "sampling_params", "generation_config")  # objects with such fields
_MARKS = "_"  # the name of notes on how a request was written
log = logging.getLogger("penstock.limits")


def highest_cost(prices: Prices, input: int, output: int, body: bytes, factor: float = 1.0) -> tuple[int, int]:
    """Return the most that tokens may cost, in micro-dollars: input, output. `body` tells which prices may apply."""
    rates = choose_tier(prices, Usage(input=input))
    costs = [input * max(rates.input or 0.0, rates.written or 0.0) / MICRO]
    made = [output * max(rates.output or 0.0, rates.reasoning or 0.0) / MICRO]
    if b'"1h"' in body:  # cache entries that are kept for an hour
        costs.append(input * max(rates.written_1h or 0.0, 2 * (rates.input or 0.0)) / MICRO)
    if b"audio" in body:
        costs.append(input * (prices.audio_input or 0.0) / MICRO)
        made.append(output * (prices.audio_output or 0.0) / MICRO)
    return micro_dollars(max(costs, default=0.0) * factor), micro_dollars(max(made, default=0.0) * factor)


def micro_dollars(dollars: float) -> int:
    """Return dollars in micro-dollars, rounded up."""
    return math.ceil(round(dollars * MICRO, 3))


class TextInput(NamedTuple):
    """The input of embeddings and rerank. `query` is read with each text: Voyage and Jina charge for that.

    `others`: fields that are passed on as they are. Servers may find further inputs there (`messages`, `texts`).
    """

    texts: Sequence[Any]
    query: str = ""
    others: Mapping[str, Any] = MappingProxyType({})

    @property
    def other_bytes(self) -> int:
        """The bytes of fields that may hold an input."""
        sizes = [len(msgspec.json.encode(value)) for value in self.others.values()]
        return sum(size for size in sizes if size > MAX_OPTION_BYTES)


@dataclass(eq=False)
class UsageBounds:
    """Computes bounds and settlements with the gateway's prices, models and estimators."""

    upstream: GatewayUpstream
    catalogue: ModelCatalogue
    estimators: TokenEstimators

    def is_free(self, model: str) -> bool:
        """Return whether a model certainly costs nothing: packaged streams, servers of one's own, prices of 0."""
        targets = self.catalogue.find_targets(model)
        return bool(targets) and all(map(self._is_free_target, targets))

    def _is_free_target(self, target: Target) -> bool:
        prices = self.upstream.price_list.limit_prices(target.provider.name, target.model)
        if prices is not None:
            return prices.input == 0 and prices.output == 0
        return target.provider.local

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
        factor = self._price_factor(request, prices) if slot.counts("cost") else 1.0
        inputs = await self._estimate_turn(incoming, request, targets)
        limits = [self._output_limit(slot, request, target) for target in targets]
        if clamp and not request.settings.max_output and limits:
            rooms = [self._room(one, used) for one, used in zip(targets, inputs, strict=True)]
            limit = max(map(min, limits, rooms))
            limits = [min(one, limit) for one in limits]
            _clamp(slot, request, limit, "the model's maximum")
        bounds = [
            UsageBound(used, made, *highest_cost(price, used, made, incoming.raw, factor))
            for used, made, price in zip(inputs, _times(limits, request.settings.choices), prices, strict=True)
        ]
        await slot.reserve(_largest(bounds))

    async def reserve_texts(self, slot: LimitSlot, incoming: IncomingRequest, model: str, input: TextInput) -> None:
        """Reserve for a request that has an input only: embeddings, rerank."""
        if not slot.rules:
            return
        if not slot.counts("tokens", "cost"):
            await slot.reserve(UsageBound())
            return
        bounds: list[UsageBound] = []
        for target in self.catalogue.find_targets(model):
            prices = self._prices(slot, target) if slot.counts("cost") else FREE
            used = await self._estimate_texts(incoming, input, target)
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

        # The conversation may be longer than the body: earlier turns come from the store of responses.
        return await self._estimate(
            incoming, estimate, lambda: [max(len(incoming.raw), _count_bytes(request))] * len(targets), targets
        )

    async def _estimate_texts(self, incoming: IncomingRequest, input: TextInput, target: Target) -> int:
        def count(text: Any, estimator: HybridTokenEstimator) -> float:
            if isinstance(text, str):
                return estimator.estimate_text(text, target.model, target.provider.name).high
            items: list[Any] = text if isinstance(text, list) else []  # pyright: ignore[reportUnknownVariableType]
            is_tokens = bool(items) and all(type(one) is int for one in items)
            return len(items) if is_tokens else len(msgspec.json.encode(text))  # no token is shorter than a byte

        def estimate(estimator: HybridTokenEstimator) -> int:
            counts = [count(text, estimator) for text in input.texts]
            if input.query:
                counts.append(count(input.query, estimator) * len(input.texts))
            return math.ceil(sum(counts)) + input.other_bytes

        most = len(incoming.raw) + len(input.query.encode()) * len(input.texts)
        return await self._estimate(incoming, estimate, lambda: most, [target])

    async def _estimate(
        self,
        incoming: IncomingRequest,
        count: Callable[[HybridTokenEstimator], T],
        bound: Callable[[], T],
        targets: list[Target],
    ) -> T:
        """Count in a thread, or at once if the prompt is short and the targets were counted for before.

        A prompt that cannot be counted is bounded by its bytes (`bound`): no token is shorter.
        """
        tenant, size = incoming.caller.tenant, incoming.prompt_bytes
        try:
            quick = self.estimators.find_in_memory(tenant) if size <= SHORT_PROMPT else None
            if quick is not None and all(quick.has_counted(one.model, one.provider.name) for one in targets):
                return count(quick)
            return await self.estimators.run(tenant, count, size)
        except Exception as error:  # noqa: BLE001 — the request is limited all the same
            log.warning("a prompt could not be estimated, its bytes are reserved: %s", error)
            return bound()

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

    def _price_factor(self, request: Request, prices: list[Prices]) -> float:
        """Return the factor on the prices, or raise a refusal if a tier that the request asks for has none."""
        price_list = self.upstream.price_list
        factor, unknown = price_list.factors.of_request(request)
        if unknown and price_list.refuses_unknown and any(one.input or one.output for one in prices):
            value = unknown[0][:100]
            reason = (
                f"no price is known for the tier of service or speed {value!r}, and cost is limited; set "
                f'`prices.factors."{value}"` in the configuration to its factor on the prices of the model, '
                "or leave it out"
            )
            raise make_refusal(403, "permission", reason, code="tier_without_price")
        return factor

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
        self, slot: LimitSlot, reply: ModelReply | None, answer: ReplyCapture | None, *, stream: bool
    ) -> Usage | None:
        """Return what the answer of a turn has used: as the provider reports it, else a fair bound.

        None without an answer, or if nothing is limited.
        """
        bound = slot.bound
        if bound is None or reply is None or not slot.counts("tokens", "cost"):
            return None
        usage = reply.usage or Usage()
        if isinstance(reply.end, Finish) and usage.input is not None and usage.output is not None:
            return usage
        was_read = stream or isinstance(reply.end, Finish)  # a body that is not complete may be of any length
        read = answer.count_bytes() if answer is not None and was_read else None
        made = bound.output if read is None else min(-(-read // BYTES_PER_TOKEN), bound.output)
        known = bound.input if usage.input is None else usage.input
        return replace(usage, input=known, output=max(made, usage.output or 0), exact=False)

    def unanswered_usage(self, slot: LimitSlot, record: DecisionLog | None, *, stream: bool) -> Amounts:
        """Return what attempts without an answer may have used: providers charge for what they generate.

        The input counts as reserved. So does the output, but of a stream only what can come in the time of the attempt.
        """
        tokens = cost = 0
        bound = slot.bound
        if bound is None or record is None or not slot.counts("tokens", "cost"):
            return Amounts()
        for attempt in record.attempts:
            if attempt.unsure:
                longest = math.ceil((attempt.end - attempt.start) * UNSEEN_RATE)
                output = min(bound.output, longest) if stream else bound.output
                tokens += bound.input + output
                cost += bound.input_cost + (-(-bound.output_cost * output // bound.output) if output else 0)
        return Amounts(1, tokens, cost)

    def aux_usage(self, slot: LimitSlot, aux_request: AuxRequest) -> Usage | None:
        """Return what an auxiliary request has used. Attempts without an answer count as reserved."""
        bound, usage = slot.bound, aux_request.usage
        if bound is None:
            return usage
        unanswered = aux_request.count_unanswered()
        if usage is None and aux_request.fault is None:
            unanswered += 1  # an answer that reports nothing
        if not unanswered:
            return usage or Usage(input=0, output=0, exact=False)
        known = usage or Usage()
        return replace(known, input=(known.input or 0) + unanswered * bound.input, exact=False)

    def settle_slot(
        self, slot: LimitSlot, usage: Usage | None, dollars: float | None, unanswered: Amounts = _NOTHING
    ) -> None:
        """Free a slot with the usage of its request. `dollars`: its cost; None if it is unknown.

        `unanswered`: what attempts without an answer may have used besides.
        """
        bound, tokens, cost = slot.bound, unanswered.tokens, unanswered.cost
        if bound is not None and usage is not None:
            used = (usage.input or 0) + (usage.output or 0)
            tokens += used
            if slot.counts("cost") and used:
                # Without a provider nothing was answered; without a price the reservation counted with none.
                reserved = bound.input_cost + (bound.output_cost if usage.output else 0)
                cost += reserved if dollars is None else micro_dollars(dollars)
        slot.release(Amounts(1, tokens, cost))


def _count_bytes(request: Request) -> int:
    """Return the bytes of all that a request holds."""
    return len(msgspec.msgpack.encode((request.messages, request.tools), enc_hook=repr))


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
    if len(bounds) <= 1:
        return bounds[0] if bounds else UsageBound()
    names = UsageBound.__struct_fields__
    return UsageBound(*[max(getattr(bound, name) for bound in bounds) for name in names])
