"""Costs: the prices of models, the cost of an answer, and the sums of a client with its budget.

The gateway uses the same functions for its journal. Prices are dollars for a million tokens.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import msgspec
from msgspec.structs import astuple, replace

from penstock._client.parameter_values import check_value
from penstock._engines.model_resolution import best_pattern
from penstock._http.request_options import find_json_problem
from penstock._lenient_fields import as_object
from penstock._printable_text import printable
from penstock._protocols import MODULES, protocol
from penstock._providers.models import model as model_of
from penstock._providers.registry import ConfiguredPrices, Prices
from penstock.errors import BudgetExceeded, InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock._engines.config import Config
    from penstock._engines.reply import ModelReply
    from penstock.events import Usage

MILLION = 1_000_000
HOUR_FACTOR = 2.0  # of the input price: Anthropic's price of a cache entry that is kept for an hour
_MAX_PRICES = 1000  # models whose prices are cached; clients of a gateway choose their names
log = logging.getLogger("penstock.client")


CostParts: TypeAlias = tuple[float, float, float, float]  # dollars: input, output, cached, written


class Cost(float):
    """US dollars. The parts are `input` (neither cached nor written), `output`, `cached` and `written`.

    Examples:
        >>> cost = Cost(input=0.003, output=0.0015)
        >>> print(cost)
        $0.004500
        >>> cost.output
        0.0015
    """

    __slots__ = ("cached", "input", "output", "written")

    input: float
    output: float
    cached: float
    written: float

    def __new__(cls, input: float = 0.0, output: float = 0.0, cached: float = 0.0, written: float = 0.0) -> Self:
        """Returns the sum of the parts."""
        self = super().__new__(cls, input + output + cached + written)
        self.input, self.output, self.cached, self.written = input, output, cached, written
        return self

    @property
    def parts(self) -> CostParts:
        """Input, output, cached, written."""
        return self.input, self.output, self.cached, self.written

    def __add__(self, other: float, /) -> Cost:
        """Adds the parts of another cost; a plain number counts as input."""
        more = other if isinstance(other, Cost) else Cost(other)
        return Cost(*(one + two for one, two in zip(self.parts, more.parts, strict=True)))

    def __radd__(self, other: float, /) -> Cost:
        return self + other

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={getattr(self, name):.6g}" for name in ("input", "output", "cached", "written"))
        return f"Cost({parts})"

    def __str__(self) -> str:
        return f"${float(self):.6f}"


def sum_costs(costs: Iterable[Cost | None]) -> Cost | None:
    """Returns the sum; None if no cost is known."""
    known = [cost for cost in costs if cost is not None]
    return sum(known, Cost()) if known else None


# ── one answer ────────────────────────────────────────────────────────────────────────────────────


class PricedTokens(NamedTuple):
    """Tokens with prices of their own, as the provider's usage object counts them."""

    written_1h: int = 0
    audio_input: int = 0
    audio_output: int = 0


_NO_PRICED_TOKENS = PricedTokens()


def usage_cost(prices: Prices | None, usage: Usage | None, steps: Sequence[Usage] = ()) -> Cost | None:
    """Returns the cost of an answer; None if the usage or a price that it needs is unknown.

    `steps`: the usage of each step of an answer with several. Each of them has its own prompt, and so its own tier.
    """
    if prices is None or usage is None or usage.input is usage.output is None:
        return None
    if usage.summed and steps and prices.tiers:
        costs = [usage_cost(prices, replace(step, summed=False)) for step in steps]
        return None if None in costs else sum_costs(costs)
    rates = choose_tier(prices, usage)
    details = read_priced_tokens(usage)
    cached, written, output = usage.cached or 0, usage.written or 0, usage.output or 0
    plain = max((usage.input or 0) - cached - written, 0)
    if (rates.input is None and usage.input) or (rates.output is None and output):
        return None
    rate_in, rate_out = rates.input or 0.0, rates.output or 0.0
    audio_in, audio_out = min(details.audio_input, plain), min(details.audio_output, output)
    reasoning = min(usage.reasoning or 0, output - audio_out)
    hour = min(details.written_1h, written)
    return Cost(
        (_amount(plain - audio_in, rate_in) + _amount(audio_in, rates.audio_input, rate_in)),
        _amount(output - audio_out - reasoning, rate_out)
        + _amount(reasoning, rates.reasoning, rate_out)
        + _amount(audio_out, rates.audio_output, rate_out),
        _amount(cached, rates.cached, rate_in),
        _amount(written - hour, rates.written, rate_in) + _amount(hour, rates.written_1h, rate_in * HOUR_FACTOR),
    )


def _amount(tokens: int, price: float | None, default: float = 0.0) -> float:
    return tokens * (default if price is None else price) / MILLION


def choose_tier(prices: Prices, usage: Usage) -> Prices:
    """Returns the prices for the length of the prompt. A price that the tier lacks stays."""
    if usage.summed or not prices.tiers:  # of a sum, the length of no prompt is known
        return prices
    reached = [tier for tier in prices.tiers if (usage.input or 0) > tier.above]
    if not reached:
        return prices
    tier = max(reached, key=lambda one: one.above)
    names = ("input", "output", "cached", "written")
    return replace(prices, **{name: value for name in names if (value := getattr(tier, name)) is not None})


def read_priced_tokens(usage: Usage) -> PricedTokens:
    """Returns the tokens of one-hour cache entries and of audio, from the provider's own usage object.

    Each protocol knows the fields of its own object.
    """
    if not usage.extra:
        return _NO_PRICED_TOKENS
    counts: dict[str, int] = {}
    for name, details in usage.extra.items():
        read = protocol(name).priced_tokens if name in MODULES else None
        if read is not None:
            for kind, tokens in read(as_object(details)).items():
                counts[kind] = counts.get(kind, 0) + tokens
    return PricedTokens(**counts)


# ── prices ────────────────────────────────────────────────────────────────────────────────────────


class PriceList:
    """The prices of models: those of the caller, else of the configuration, else of the table of models. Cached."""

    def __init__(self, config: Config, custom: Mapping[str, Any] | None = None) -> None:
        self._config = config
        self._custom = read_prices(custom or {})
        self._patterns = tuple(self._custom)
        self._known: dict[tuple[str, str], Prices | None] = {}

    def prices(self, provider: str, model: str) -> Prices | None:
        """Returns the prices of a model; None if they are unknown."""
        key = (provider, model)
        if key not in self._known:
            if len(self._known) >= _MAX_PRICES:
                self._known.clear()
            self._known[key] = self._find(provider, model)
        return self._known[key]

    def cost(self, provider: str, model: str, usage: Usage | None, steps: Sequence[Usage] = ()) -> Cost | None:
        """Returns the cost of an answer; None if it is unknown."""
        return usage_cost(self.prices(provider, model), usage, steps) if usage is not None and model else None

    def dollars(self, provider: str, model: str, usage: Usage | None, factor: float = 1.0) -> float | None:
        """Returns the cost as a plain number. `factor`: on the prices."""
        cost = self.cost(provider, model, usage)
        return None if cost is None else float(cost) * factor

    def _find(self, provider: str, model: str) -> Prices | None:
        names = (f"{provider}/{model}", model)
        name = next((one for one in names if one in self._custom), "")
        name = name or next(filter(None, (best_pattern(one, self._patterns) for one in names)), "")
        if name:
            return self._custom[name]
        try:
            return model_of(self._config.provider(provider), model).prices
        except InputError:  # the provider is not configured any more
            return None


def read_prices(given: Mapping[str, Any]) -> dict[str, Prices]:
    """Returns prices by the name or pattern of their models. The error of a wrong value names the model and field."""
    found: dict[str, Prices] = {}
    check_value("prices", given)
    for name, value in given.items():
        if not name:
            raise InputError(f"prices: expected the name of a model or a pattern, found {name!r}")
        if isinstance(value, Prices):
            found[name] = value
            continue
        try:
            found[name] = msgspec.convert(value, ConfiguredPrices)
        except msgspec.ValidationError as error:
            known = ", ".join(ConfiguredPrices.__struct_fields__)
            raise InputError(f"prices of {name!r}: {error}; dollars for a million tokens: {known}") from None
        if problem := find_json_problem(msgspec.to_builtins(found[name])):
            raise InputError(f"prices of {name!r}: expected dollars of at least 0, found {problem}")
    return found


# ── sums ──────────────────────────────────────────────────────────────────────────────────────────


class UsageTotals(msgspec.Struct):
    """Sums of calls, tokens and dollars. Of the `calls`, `cached` … are tokens, and these are calls:

    `unknown`: without usage; `broken`: ended in a fault; `unpriced`: with usage, but without a known price; `hits`:
    answered by the response cache, which adds neither tokens nor costs.
    """

    calls: int = 0
    unknown: int = 0
    broken: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0
    reasoning: int = 0
    cost: float = 0.0
    unpriced: int = 0
    hits: int = 0


class UsageTracker:
    """Counts calls, tokens and costs by provider and model. `budget`: dollars that may be spent."""

    def __init__(self, prices: PriceList, budget: float | None = None) -> None:
        check_value("budget", budget)
        self.by_model: dict[tuple[str, str], UsageTotals] = {}
        self.budget = budget
        self._prices = prices
        self._spent = 0.0

    def add_reply(self, reply: ModelReply, steps: Sequence[Usage] = (), *, hit: bool = False) -> Cost | None:
        """Counts a reply that is complete or closed. Returns its cost. `hit`: the response cache had it."""
        if hit:
            row = self._row(reply.provider, reply.model)
            row.calls, row.hits = row.calls + 1, row.hits + 1
            return Cost()
        cost = self.count(reply.provider, reply.model, reply.usage, steps)
        self._row(reply.provider, reply.model).broken += reply.end is None or hasattr(reply.end, "kind")
        return cost

    def count(self, provider: str, model: str, usage: Usage | None, steps: Sequence[Usage] = ()) -> Cost | None:
        """Counts a call. Returns its cost; None if it is unknown."""
        row = self._row(provider, model)
        cost = self._prices.cost(provider, model, usage, steps)
        row.calls += 1
        row.unknown += usage is None
        for name in ("input", "output", "cached", "written", "reasoning"):
            setattr(row, name, getattr(row, name) + (getattr(usage, name, None) or 0))
        if cost is not None:
            row.cost += float(cost)
            self._spent += float(cost)
        elif usage is not None:
            self._note_unpriced(provider, model, row)
        return cost

    def _note_unpriced(self, provider: str, model: str, row: UsageTotals) -> None:
        """Warns once for each model, if there is a budget: it does not limit such calls."""
        row.unpriced += 1
        if row.unpriced == 1 and self.budget is not None:
            text = (
                "no price is known for %s/%s: its tokens are counted, but not in the budget; Client(prices=…) sets one"
            )
            log.warning(text, printable(provider), printable(model))

    def check_budget(self) -> None:
        """Raises `BudgetExceeded` if the budget is spent."""
        if self.budget is not None and self._spent >= self.budget:
            raise BudgetExceeded(self.budget, self._spent)

    def _row(self, provider: str, model: str) -> UsageTotals:
        return self.by_model.setdefault((provider, model), UsageTotals())

    @property
    def total(self) -> UsageTotals:
        return UsageTotals(*map(sum, zip(*map(astuple, self.by_model.values()), strict=True)))
