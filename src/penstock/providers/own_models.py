"""Facts about models that a configuration gives, as `[providers.NAME.models."MODEL"]`. They go before all others."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Dollars: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
# The form in which a model takes reasoning settings. `adaptive`: it decides, guided by an effort; `budget`: a number of
# tokens; `effort`: a word; `level`: a word of Gemini's `thinkingLevel`; `switch`: on or off; `none`: it takes none.
Form: TypeAlias = Literal["adaptive", "budget", "effort", "level", "switch", "none"]


class Prices(msgspec.Struct, frozen=True, omit_defaults=True):
    """Dollars for a million tokens; None is unknown. `cached` and `written`: read from, and put into, the cache."""

    input: Dollars | None = None
    output: Dollars | None = None
    cached: Dollars | None = None
    written: Dollars | None = None


class OwnPrices(Prices, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Prices as a configuration gives them: a misspelt one is an error."""


class OwnModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One model. What is left out is taken from the provider's list and the table of facts."""

    name: str = ""
    context: Tokens = 0  # the window: prompt and answer together
    max_input: Tokens = 0
    max_output: Tokens = 0
    vision: bool | None = None
    tools: bool | None = None
    thinking: Form | Literal[""] = ""
    prices: OwnPrices | None = None
