"""Facts about models: limits, prices, capabilities, and the source of each.

The facts are in `models.json`, one model a line, from models.dev (MIT, © models.dev), or in tables that the user has
refreshed. The facts of a provider's own list (`listing`) replace them. `source` names the source of each field.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock._protocols import protocol
from penstock._providers.fim import FIM, fills_in
from penstock._providers.model_facts import LETTERS, PACKAGED_SOURCE, RefreshedFacts, find_tables, set_refreshed_facts
from penstock._providers.model_identity import identify, kind
from penstock._providers.registry import ConfiguredModel, Prices, PriceTier, Provider, providers
from penstock._providers.registry import provider as provider_of
from penstock._providers.thinking import Thinking, thinking_in_form, thinking_of, without_thinking
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# sources of facts
FACTS, NAME, PROVIDER, CONFIGURATION = PACKAGED_SOURCE, "its name", "the provider", "the configuration"
SOURCED_FIELDS = ("context", "max_input", "max_output", "prices", "capabilities")
MIN_FRACTION = 0.01  # of a context window: the smallest policy that makes sense
Policy: TypeAlias = Literal["context-window", "reserve-output"] | float


class Model(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model of one provider. Limits are tokens, 0 if unknown. `source`: where each field comes from.

    `thinking`: how it takes reasoning settings; None if nothing is known.
    """

    id: str
    provider: str
    name: str = ""
    family: str = ""
    version: str = ""
    context: int = 0
    max_input: int = 0
    max_output: int = 0
    prices: Prices | None = None
    capabilities: frozenset[str] = frozenset()
    thinking: Thinking | None = None
    source: dict[str, str] = {}

    @property
    def chat(self) -> bool:
        """True if it is a chat model."""
        return "chat" in self.capabilities


class ModelFact(msgspec.Struct, frozen=True):
    """A line of the table: the facts of one model, under short keys."""

    id: str
    name: str = ""
    ctx: int = 0
    inp: int = 0
    out: int = 0
    price: tuple[float | None, ...] = ()
    audio: tuple[float | None, ...] = ()  # prices of audio: input, output
    think: float | None = None  # the price of reasoning
    tiers: tuple[tuple[float | None, ...], ...] = ()  # each: tokens, then prices as in `price`
    can: str = ""


_PRICE_FIELDS = ("input", "output", "cached", "written")  # as they stand in `price`


def models(provider: Provider | str) -> Sequence[Model]:
    """Returns the known models of a provider: those of the table and those of the configuration."""
    row = provider_of(provider) if isinstance(provider, str) else provider
    known = _table_models(row.name, row.facts or row.name)
    if not row.models and not row.fim_models:
        return tuple(known.values())
    return tuple(model(row, name) for name in dict.fromkeys([*known, *row.models]))


def model(provider: Provider | str, id: str) -> Model:
    """Returns the facts of a model. An unknown model has only its name, and is not an error.

    A provider's name may be unknown, too, because programs name their own providers. The facts are then those of the
    model's maker, without prices.

    Examples:
        >>> known = model("anthropic", "claude-sonnet-4-5")
        >>> known.context, known.prices.output  # tokens; dollars for a million tokens
        (200000, 15.0)
    """
    if isinstance(provider, str) and provider not in providers():
        return _maker_model(provider, id)
    row = provider_of(provider) if isinstance(provider, str) else provider
    known = _table_models(row.name, row.facts or row.name).get(id) or _maker_model(row.name, id)
    if fills_in(row, id):
        known = replace(known, capabilities=known.capabilities | {FIM})
    return with_configured(known, row.models.get(id))


def with_configured(known: Model, configured: ConfiguredModel | None) -> Model:
    """Returns the model with the facts of the configuration."""
    if configured is None:
        return known
    fields = {name: getattr(configured, name) for name in ("context", "max_input", "max_output", "prices")}
    facts: dict[str, Any] = {name: value for name, value in fields.items() if value}
    form = configured.thinking
    switches = {"images": configured.vision, "tools": configured.tools, FIM: configured.fim}
    switches["reasoning"] = form != "none" if form else None
    if any(value is not None for value in switches.values()):
        facts["capabilities"] = _switch_capabilities(known, switches)
    if form and (known.thinking is None or known.thinking.form != form):
        facts["thinking"] = thinking_in_form(form, known.thinking)
    source = {**known.source, **dict.fromkeys(facts, CONFIGURATION)}
    return replace(known, **facts, name=configured.name or known.name, source=source)


def _switch_capabilities(known: Model, switches: Mapping[str, bool | None]) -> frozenset[str]:
    """Returns the capabilities with some switched on or off. A model known only by its name may call tools."""
    guessed = {"tools"} if known.source.get("capabilities") == NAME and known.chat else set[str]()
    off = {name for name, value in switches.items() if value is False}
    return (known.capabilities | guessed | {name for name, value in switches.items() if value}) - off


@lru_cache(1000)
def _maker_model(provider: str, id: str) -> Model:
    """Returns the facts of the model's maker, without the price; else what the name tells."""
    identity = identify(id)
    maker = identify(identity.name).provider
    rows: Mapping[str, Model] = _table_models(maker, maker) if maker in providers() else {}
    family, version, name = identity.family, identity.version, identity.name
    spellings = (name, f"{family}-{version}", family, name.lower().replace(".", "-"))
    found = next((rows[spelling] for spelling in spellings if spelling in rows), None)
    if found is not None:
        source = {name: found.source[name] for name in found.source if name != "prices"}
        return replace(found, id=id, provider=provider, prices=None, source=source)
    thinking = thinking_of(id)
    return Model(
        id=id,
        provider=provider,
        name=id,
        family=family,
        version=version,
        capabilities=frozenset({kind(id)}),
        thinking=thinking,
        source={"capabilities": NAME, **({"thinking": thinking.source} if thinking else {})},
    )


def default_limit(maximum: int) -> int:
    """Returns the output limit that is sent if the protocol requires one and the caller gives none."""
    return maximum // 2


def output_limit(model: Model, provider: Provider | None = None) -> int:
    """Returns the output limit of a request that sets none: the default limit, else the maximum; 0 if unknown.

    `provider`: for one that is not in the table.
    """
    row = provider or providers().get(model.provider)
    endpoint = row.endpoint("chat", model.id) if row is not None else None
    if endpoint is None or not protocol(endpoint.protocol).requires_limit:
        return model.max_output
    return default_limit(model.max_output)


def max_input_tokens(
    model: Model, policy: Policy = "reserve-output", provider: Provider | None = None, max_output: int | None = None
) -> int:
    """Returns how long a prompt may be; 0 if nothing is known. A fraction is of the context window.

    `reserve-output` leaves room for the `output_limit`, and at least half of the window for the prompt; with
    `max_output`, the limit that a request sets, it leaves room for that. If the window is unknown, the longest prompt
    that the provider names counts.
    """
    if isinstance(policy, int | float) and not isinstance(policy, bool):
        if not MIN_FRACTION <= policy <= 1:
            raise InputError(f"a fraction of the context window is from {MIN_FRACTION} to 1, not {policy!r}")
        limit = int(model.context * policy)
    elif policy == "context-window":
        limit = model.context
    elif policy == "reserve-output":
        if max_output is None or max_output <= 0:
            reserved = max(model.context - output_limit(model, provider), model.context // 2)
        else:
            reserved = max(model.context - min(max_output, model.max_output or max_output), 1)
        limit = min(model.max_input or reserved, reserved)
    else:
        raise InputError(f"unknown policy {policy!r}; known are: context-window, reserve-output, or a fraction")
    return limit if model.context else model.max_input


def detail(model: Model) -> str:
    """Describes the model in one line: its window, its price, its capabilities."""
    facts = [
        f"{_format_count(count)} {name}"
        for count, name in ((model.context, "context"), (model.max_output, "output"))
        if count
    ]
    if model.prices and model.prices.input is not None and model.prices.output is not None:
        facts.append(f"${model.prices.input:g} in, ${model.prices.output:g} out per million")
    facts.extend(name for name in ("reasoning", "tools", "images") if name in model.capabilities)
    return " · ".join(facts)


def _format_count(count: int) -> str:
    for size, letter in ((1_000_000, "M"), (1_000, "K")):
        if count >= size:
            return f"{count / size:.3g}{letter}"
    return str(count)


def use_refreshed_facts(facts: RefreshedFacts | None) -> None:
    """Uses these facts in place of those of the package, model by model. None: only those of the package."""
    set_refreshed_facts(facts)
    _table_models.cache_clear()
    _maker_model.cache_clear()


@cache
def _table_models(provider: str, table: str) -> Mapping[str, Model]:
    """Returns the models of one table as the provider's. A table is decoded when it is first used."""
    found: dict[str, Model] = {}
    for data, source in find_tables(table):
        lines = msgspec.json.decode(data, type=list[ModelFact])
        found.update((line.id, _model_from_fact(provider, line, source)) for line in lines)
    return found


def _model_from_fact(provider: str, line: ModelFact, source: str) -> Model:
    identity = identify(line.id)
    capabilities = frozenset(LETTERS[letter] for letter in line.can)
    thinking = thinking_of(line.id)
    row = Model(
        id=line.id,
        provider=provider,
        name=line.name or line.id,
        family=identity.family,
        version=identity.version,
        context=line.ctx,
        max_input=line.inp,
        max_output=line.out,
        prices=_prices_from_fact(line),
        capabilities=capabilities,
        thinking=thinking if "reasoning" in capabilities else without_thinking(thinking),
    )
    return _with_sources(row, source)


def _prices_from_fact(line: ModelFact) -> Prices | None:
    if not line.price:
        return None
    fields: dict[str, Any] = {**dict(zip(_PRICE_FIELDS, line.price, strict=False)), "reasoning": line.think}
    fields |= zip(("audio_input", "audio_output"), line.audio, strict=False)
    tiers = tuple(PriceTier(int(above or 0), *prices) for above, *prices in line.tiers)
    return Prices(**fields, tiers=tiers)


def _with_sources(row: Model, facts: str) -> Model:
    """Returns the model with the source of each field that is known."""
    source = {name: facts for name in SOURCED_FIELDS if getattr(row, name)}
    if row.thinking is not None:
        source["thinking"] = row.thinking.source
    return replace(row, source=source)
