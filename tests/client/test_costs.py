"""What answers cost: every kind of token has its price, and one function computes it for client and gateway."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import Cost
from penstock.errors import InputError
from penstock.events import Usage
from penstock.gateway import Config
from penstock.providers import Prices
from tests.support.client_parts import PriceList, PriceTier, read_priced_tokens, read_prices, sum_costs, usage_cost
from tests.support.each_case import each

if TYPE_CHECKING:
    from penstock.events import Extra

FULL = Prices(1.0, 10.0, 0.1, 1.25, 2.5, 20.0, 3.0, 30.0)
CLAUDE: Extra = {"anthropic": {"cache_creation": {"ephemeral_1h_input_tokens": 100, "ephemeral_5m_input_tokens": 50}}}
CONVERSE: Extra = {"bedrock": {"cacheDetails": [{"ttl": "1h", "inputTokens": 100}, {"ttl": "5m", "inputTokens": 50}]}}
CHAT: Extra = {
    "openai-chat": {"prompt_tokens_details": {"audio_tokens": 30}, "completion_tokens_details": {"audio_tokens": 20}}
}
RESPONSES: Extra = {
    "responses": {"input_tokens_details": {"audio_tokens": 30}, "output_tokens_details": {"audio_tokens": 20}}
}
GEMINI: Extra = {
    "gemini": {
        "promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 30}, {"modality": "TEXT", "tokenCount": 5}],
        "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 20}],
    }
}

# usage → micro-dollars of input, output, cached, written
KINDS: dict[str, tuple[Usage, tuple[float, float, float, float]]] = {
    "plain": (Usage(100, 10), (100, 100, 0, 0)),
    "cached and written": (Usage(100, 10, cached=40, written=20), (40, 100, 4, 25)),
    "reasoning": (Usage(100, 10, reasoning=4), (100, 60 + 80, 0, 0)),
    "an hour, Claude": (Usage(200, 0, written=150, extra=CLAUDE), (50, 0, 0, 50 * 1.25 + 100 * 2.5)),
    "an hour, Converse": (Usage(200, 0, written=150, extra=CONVERSE), (50, 0, 0, 50 * 1.25 + 100 * 2.5)),
    "audio, Chat": (Usage(100, 50, extra=CHAT), (70 + 90, 300 + 600, 0, 0)),
    "audio, Responses": (Usage(100, 50, extra=RESPONSES), (70 + 90, 300 + 600, 0, 0)),
    "audio, Gemini": (Usage(100, 50, extra=GEMINI), (70 + 90, 300 + 600, 0, 0)),
    "audio and reasoning": (Usage(100, 50, reasoning=40, extra=CHAT), (160, 0 + 30 * 20 + 600, 0, 0)),
    "no output": (Usage(100), (100, 0, 0, 0)),
    "more cached than there is": (Usage(100, 0, cached=150), (0, 0, 15, 0)),
    "more of an hour than is written": (Usage(100, 0, written=60, extra=CLAUDE), (40, 0, 0, 150)),
}


@each("kind", KINDS)
def test_every_kind_of_token_has_its_price(kind: str) -> None:
    usage, parts = KINDS[kind]
    cost = usage_cost(FULL, usage)
    assert cost is not None
    found = (cost.input, cost.output, cost.cached, cost.written)
    assert found == pytest.approx(tuple(part / 1e6 for part in parts))
    assert float(cost) == pytest.approx(sum(parts) / 1e6)


def test_prices_that_are_missing() -> None:
    few = Prices(1.0, 10.0)
    cost = usage_cost(few, Usage(300, 50, cached=40, written=150, reasoning=10, extra={**CLAUDE, **CHAT}))
    assert cost is not None
    # Cached and audio tokens cost what others do; an hour in Claude's cache costs twice the input.
    assert (cost.input, cost.cached) == pytest.approx((110e-6, 40e-6))
    assert (cost.output, cost.written) == pytest.approx((500e-6, 50e-6 + 200e-6))
    assert usage_cost(Prices(input=1.0), Usage(100)) == pytest.approx(1e-4)  # embeddings
    assert usage_cost(Prices(input=1.0), Usage(100, 1)) is None
    assert usage_cost(Prices(output=1.0), Usage(100, 1)) is None
    assert usage_cost(None, Usage(100, 1)) is None
    assert usage_cost(FULL, None) is None
    assert usage_cost(FULL, Usage()) is None


TIERED = Prices(1.0, 2.0, 0.1, tiers=(PriceTier(200_000, 3.0, 5.0), PriceTier(500_000, 7.0, cached=0.7)))


@each(
    "tokens, rates",
    [(200_000, (1.0, 2.0, 0.1)), (200_001, (3.0, 5.0, 0.1)), (500_000, (3.0, 5.0, 0.1)), (500_001, (7.0, 2.0, 0.7))],
)
def test_long_prompts_cost_more(tokens: int, rates: tuple[float, float, float]) -> None:
    cost = usage_cost(TIERED, Usage(tokens, 100, cached=1000))
    assert cost is not None
    found = (cost.input / (tokens - 1000), cost.output / 100, cost.cached / 1000)
    assert found == pytest.approx(tuple(rate / 1e6 for rate in rates))


def test_steps_have_their_own_prompts() -> None:
    """Three short prompts are no long one, whatever their sum."""
    steps = [Usage(100_000, 10, step=number, summed=False) for number in (1, 2, 3)]
    total = Usage(300_000, 30, summed=True)
    assert usage_cost(TIERED, total, steps) == pytest.approx(0.30006)
    assert usage_cost(TIERED, total) == pytest.approx(0.30006)
    long = [Usage(300_000, 10, step=1), Usage(100_000, 10, step=2)]
    assert usage_cost(TIERED, Usage(400_000, 20, summed=True), long) == pytest.approx(0.9 + 50e-6 + 0.1 + 20e-6)


@each(
    "provider, model, usage, dollars",
    [
        (
            "anthropic",
            "claude-sonnet-4-5",
            Usage(1000, 100, cached=400, written=200),
            (400 * 3 + 1500 + 120 + 750) / 1e6,
        ),
        ("gemini", "gemini-2.5-pro", Usage(200_000, 1000), 0.25 + 0.01),
        ("gemini", "gemini-2.5-pro", Usage(300_000, 1000), 0.75 + 0.015),
        ("gemini", "gemini-2.5-flash", Usage(100, 0, extra=GEMINI), (70 * 0.3 + 30 * 1.0) / 1e6),
        ("openai", "gpt-5.4", Usage(272_001, 0), 272_001 * 5 / 1e6),
        ("openai", "gpt-5.5", Usage(272_000, 1000, cached=72_000), (200_000 * 5 + 72_000 * 0.5 + 1000 * 30) / 1e6),
        ("openai", "gpt-5.5", Usage(300_000, 1000, cached=100_000), (200_000 * 10 + 100_000 + 1000 * 45) / 1e6),
        ("openai", "gpt-5.5-pro", Usage(300_000, 1000), (300_000 * 60 + 1000 * 270) / 1e6),
        ("anthropic", "claude-sonnet-4-6", Usage(300_000, 1000), (300_000 * 3 + 1000 * 15) / 1e6),  # the whole window
        ("anthropic", "no-such-model-at-all", Usage(1, 1), None),
        ("a-provider-of-ones-own", "x", Usage(1, 1), None),
    ],
)
def test_the_table_of_models(provider: str, model: str, usage: Usage, dollars: float | None) -> None:
    listed = PriceList(Config())
    for found in (listed.cost(provider, model, usage), listed.dollars(provider, model, usage)):
        assert found == (None if dollars is None else pytest.approx(dollars))
    assert listed.cost(provider, model, None) is None
    assert type(listed.dollars("anthropic", "claude-sonnet-4-5", Usage(1, 1))) is float  # databases take no subclass


@each(
    "provider, model, price",
    [
        ("mine", "my-model", 1.0),
        ("openai", "my-model", 1.0),
        ("openai", "gpt-5", 2.0),
        ("openai", "gpt-5-mini", 3.0),
        ("openai", "o4", 4.0),
        ("openrouter", "anthropic/claude-sonnet-4.5", 5.0),
        ("mine", "gpt-5", 3.0),
        ("anthropic", "claude-sonnet-4-5", 3.0),
    ],
)
def test_prices_of_your_own(provider: str, model: str, price: float) -> None:
    """An exact name wins, with the provider first; then the longest pattern, as with aliases; then the table."""
    custom: dict[str, Any] = {
        "my-model": {"input": 1.0, "output": 1.0},
        "openai/gpt-5": {"input": 2.0, "output": 1.0},
        "gpt-5*": Prices(3.0, 1.0),
        "openai/o*": {"input": 4.0, "output": 1.0},
        "openrouter/anthropic/*": {"input": 5.0, "output": 1.0},
    }
    found = PriceList(Config(), custom).prices(provider, model)
    assert found is not None
    assert found.input == price


@each(
    "prices, message",
    [
        ({"m": {"inptu": 1.0}}, "prices of 'm'.*inptu"),
        ({"m": {"input": -1.0}}, "prices of 'm'.*input"),
        ({"m": {"input": "1"}}, "prices of 'm'.*input"),
        ({"m": 3.0}, "prices of 'm'"),
        ({"": {"input": 1.0}}, "name of a model"),
        ({"m": {"tiers": [{"input": 1.0}]}}, "above"),
    ],
)
def test_wrong_prices_are_named(prices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_prices(prices)


def test_prices_of_a_configuration_win_over_the_table() -> None:
    config = Config.read({"providers": {"openai": {"models": {"gpt-5": {"prices": {"input": 9.0, "output": 9.0}}}}}})
    assert PriceList(config).cost("openai", "gpt-5", Usage(1_000_000)) == pytest.approx(9.0)
    own = {"gpt-5": {"input": 8.0, "output": 8.0}}
    assert PriceList(config, own).cost("openai", "gpt-5", Usage(1_000_000)) == pytest.approx(8.0)


def test_a_cost_is_a_number_with_parts() -> None:
    one = Cost(1.0, 2.0, 0.5, 0.25)
    assert one == 3.75
    total = sum([one, Cost(0.25)], Cost())
    assert isinstance(total, Cost)
    assert (float(total), total.input, total.output) == (4.0, 1.25, 2.0)
    assert isinstance(sum([one, one]), Cost)
    assert str(one) == "$3.750000"
    assert f"{one:.2f}" == "3.75"
    for same in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):  # noqa: S301 — our own
        assert (same, same.output, same.written) == (3.75, 2.0, 0.25)
    assert sum_costs([None, one]) == one
    assert sum_costs([None]) is None


def test_odd_usage_objects_count_nothing() -> None:
    odd: Extra = {
        "anthropic": {"cache_creation": "x"},
        "gemini": {"promptTokensDetails": {"modality": 1}},
        "openai-chat": {},
    }
    assert read_priced_tokens(Usage(1, 1, extra=odd)) == (0, 0, 0)
