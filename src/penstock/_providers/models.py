"""What is known of models: limits, prices, capabilities, and who says so.

The facts stand in `models.json`, one model a line, from models.dev (MIT, © models.dev). What a provider's own list says
goes before them (`listing`); `source` tells for each field which it was.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock._protocols import protocol
from penstock._providers.identity import Identity, identify, kind
from penstock._providers.registry import ConfiguredModel, Prices, Provider, providers
from penstock._providers.registry import provider as provider_of
from penstock._providers.thinking import Thinking, thinking_in_form, thinking_of, without_thinking
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# who may have told
FACTS, NAME, PROVIDER, CONFIGURATION = "models.dev 2026-07", "its name", "the provider", "the configuration"
SAID = ("context", "max_input", "max_output", "prices", "capabilities")
_RAW = dict[str, msgspec.Raw]
Policy: TypeAlias = Literal["context-window", "reserve-output"] | float
Capability: TypeAlias = Literal[
    "chat",
    "tools",
    "reasoning",
    "images",
    "documents",
    "audio",
    "video",
    "image-output",
    "audio-output",
    "temperature",
    "completion",
    "fim",
    "embeddings",
    "rerank",
    "structured",
]


class Model(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model as one provider offers it. Limits in tokens, 0 unknown; `source`: which field was told by whom.

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
        """Whether it can be talked to."""
        return "chat" in self.capabilities


class _Fact(msgspec.Struct, frozen=True):
    """A line of the table: what is known of one model, in short words."""

    id: str
    name: str = ""
    ctx: int = 0
    inp: int = 0
    out: int = 0
    price: tuple[float | None, ...] = ()
    can: str = ""


# What one letter of a line stands for.
LETTERS: dict[str, Capability] = {
    "c": "chat", "t": "tools", "r": "reasoning", "i": "images", "d": "documents", "a": "audio", "v": "video",
    "I": "image-output", "A": "audio-output", "T": "temperature", "e": "embeddings", "k": "rerank",
}  # fmt: skip


def models(provider: Provider | str) -> Sequence[Model]:
    """The models of a provider that are known: those of the table of facts, and those of the configuration."""
    row = provider_of(provider) if isinstance(provider, str) else provider
    known = _known(row.name, row.facts or row.name)
    if not row.models:
        return tuple(known.values())
    return tuple(model(row, name) for name in dict.fromkeys([*known, *row.models]))


def model(provider: Provider | str, id: str) -> Model:
    """What is known of a model, which may be nothing but its name: an unknown model is no error."""
    row = provider_of(provider) if isinstance(provider, str) else provider
    found = _known(row.name, row.facts or row.name).get(id)
    made = found if found is not None else _elsewhere(row.name, id)
    return with_configured(made, row.models.get(id))


def with_configured(known: Model, own: ConfiguredModel | None) -> Model:
    """A model with the facts that the configuration gives of it."""
    if own is None:
        return known
    limits = {name: getattr(own, name) for name in ("context", "max_input", "max_output", "prices")}
    given: dict[str, Any] = {name: value for name, value in limits.items() if value}
    switches = {"images": own.vision, "tools": own.tools, "reasoning": own.thinking != "none" if own.thinking else None}
    if any(value is not None for value in switches.values()):
        given["capabilities"] = _switched(known, switches)
    if own.thinking and (known.thinking is None or known.thinking.form != own.thinking):
        given["thinking"] = thinking_in_form(own.thinking, known.thinking)
    return replace(
        known, **given, name=own.name or known.name, source={**known.source, **dict.fromkeys(given, CONFIGURATION)}
    )


def _switched(known: Model, switches: Mapping[str, bool | None]) -> frozenset[str]:
    """Capabilities with some of them put on or off. A model known by its name only may well call tools."""
    guessed = {"tools"} if known.source.get("capabilities") == NAME and known.chat else set[str]()
    off = {name for name, value in switches.items() if value is False}
    return (known.capabilities | guessed | {name for name, value in switches.items() if value}) - off


@lru_cache(1000)
def _elsewhere(provider: str, id: str) -> Model:
    """A model that only its maker tells about. Limits and abilities go with it, the price does not."""
    who = identify(id)
    plain = Model(id=id, provider=provider, name=id, family=who.family, version=who.version)
    makers = identify(who.name).provider
    rows: Mapping[str, Model] = _known(makers, makers) if makers in providers() else {}
    found = next((rows[name] for name in _spellings(who) if name in rows), None)
    if found is None:
        thinking = thinking_of(id)
        source = {"capabilities": NAME, **({"thinking": thinking.source} if thinking else {})}
        return replace(plain, capabilities=frozenset({kind(id)}), thinking=thinking, source=source)
    row = replace(found, id=id, provider=provider, prices=None)
    return replace(row, source=_label_sources(row, FACTS))


def _spellings(who: Identity) -> tuple[str, ...]:
    """How a maker may write its model's name."""
    return (who.name, f"{who.family}-{who.version}", who.family, who.name.lower().replace(".", "-"))


def default_limit(maximum: int) -> int:
    """The output limit that is sent where the protocol requires one and the caller gives none."""
    return maximum // 2


def output_limit(model: Model, provider: Provider | None = None) -> int:
    """The output limit of a request that sets none: what is sent for it, else the model's maximum; 0 unknown.

    `provider` for one that is not in the table.
    """
    row = provider or providers().get(model.provider)
    endpoint = row.endpoint("chat", model.id) if row is not None else None
    if endpoint is None or not protocol(endpoint.protocol).requires_limit:
        return model.max_output
    return default_limit(model.max_output)


def max_input_tokens(model: Model, policy: Policy = "reserve-output", provider: Provider | None = None) -> int:
    """How long a prompt may be. A fraction is of the context window; 0 where nothing is known.

    `reserve-output` leaves room for the `output_limit`, and at least half of the window for the prompt.
    """
    if isinstance(policy, int | float) and not isinstance(policy, bool):
        if not 0 < policy <= 1:
            raise InputError(f"a fraction of the context window is over 0 and at most 1, not {policy!r}")
        return int(model.context * policy)
    if policy == "context-window":
        return model.context
    if policy != "reserve-output":
        raise InputError(f"unknown policy {policy!r}; known are: context-window, reserve-output, or a fraction")
    reserved = max(model.context - output_limit(model, provider), model.context // 2)
    return min(model.max_input or reserved, reserved) if model.context else model.max_input


def detail(model: Model) -> str:
    """A line about the model: its window, what it costs, what it can do."""
    told: list[str] = []
    if model.context:
        told.append(f"{_short(model.context)} context")
    if model.max_output:
        told.append(f"{_short(model.max_output)} output")
    if model.prices and model.prices.input is not None and model.prices.output is not None:
        told.append(f"${model.prices.input:g} in, ${model.prices.output:g} out per million")
    told.extend(word for word in ("reasoning", "tools", "images") if word in model.capabilities)
    return " · ".join(told)


def _short(count: int) -> str:
    for size, letter in ((1_000_000, "M"), (1_000, "K")):
        if count >= size:
            return f"{count / size:.3g}{letter}"
    return str(count)


@cache
def _tables() -> Mapping[str, msgspec.Raw]:
    return msgspec.json.decode(files("penstock._providers").joinpath("models.json").read_bytes(), type=_RAW)


@cache
def _known(provider: str, table: str) -> Mapping[str, Model]:
    """The models of one table, as the provider's: each table is read when it is first asked for."""
    lines = msgspec.json.decode(_tables().get(table, b"[]"), type=list[_Fact])
    return {line.id: _model_from_fact(provider, line) for line in lines}


def _model_from_fact(provider: str, line: _Fact) -> Model:
    who = identify(line.id)
    capabilities = frozenset(LETTERS[letter] for letter in line.can)
    thinking = thinking_of(line.id)
    row = Model(
        id=line.id,
        provider=provider,
        name=line.name or line.id,
        family=who.family,
        version=who.version,
        context=line.ctx,
        max_input=line.inp,
        max_output=line.out,
        prices=Prices(*line.price) if line.price else None,
        capabilities=capabilities,
        thinking=thinking if "reasoning" in capabilities else without_thinking(thinking),
    )
    return replace(row, source=_label_sources(row, FACTS))


def _label_sources(row: Model, by: str) -> dict[str, str]:
    """Who told each field that is known."""
    told = {name: by for name in SAID if getattr(row, name)}
    if row.thinking is not None:
        told["thinking"] = row.thinking.source
    return told
