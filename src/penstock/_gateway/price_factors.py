"""Fields of a request that change its price: a tier of service, a faster mode, a country.

Each value has a factor on the prices of the model, in tables.toml (`price_factors`) or in `prices.factors` of the
configuration. A factor is the highest that a vendor asks for any model, so that a budget is never exceeded.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

from penstock import _lenient_fields as lenient
from penstock._gateway import read_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock._engines.engine_interface import UpstreamRequest
    from penstock.request import Request

NO_TIER = "auto"  # what a request without a tier of service gets
_TIERS = ("service_tier", "serviceTier")
_LATENCY = ("performanceConfig", "performance_config")  # objects of Bedrock, with the field `latency`
_FIELDS = frozenset({*_TIERS, *_LATENCY, "speed", "inference_geo", "inferenceGeo"})
_GROUPS = {"serviceTier": "service_tier", "inferenceGeo": "inference_geo"} | dict.fromkeys(_LATENCY, "latency")
# Objects in which servers look for further settings. `_` holds notes on how a request was written.
_NESTED = frozenset(
    "options extra_body extraBody parameters sampling_params generation_config generationConfig _".split()
)
_SETTINGS = _FIELDS | _NESTED
_PREFIX = "service_tier_"  # of the names of Google's values


@cache
def known_factors() -> dict[str, float]:
    """Return the factor of each value that vendors document."""
    return cast("dict[str, float]", read_tables()["price_factors"])


class PriceFactors:
    """Finds the factor of a request. `custom`: factors of the configuration, which win."""

    def __init__(self, custom: Mapping[str, float]) -> None:
        self._factors = known_factors() | {value.lower(): factor for value, factor in custom.items()}
        self._default = self._factors[NO_TIER]

    def of_request(self, request: Request) -> tuple[float, list[str]]:
        """Return the highest factor that a request may get at any target, and the values whose factor is unknown."""
        rows = [*(request.extra or {}).values(), *request.options.values()]
        found = [one for row in rows for one in _find_fields(row)]
        if request.settings.tier:
            found.append(("service_tier", request.settings.tier))
        return self._multiply(found)

    def of_upstream(self, upstream: UpstreamRequest) -> float:
        """Return the factor of what is sent to a provider. Values without one are not counted."""
        if upstream.provider.engine != "native" and upstream.request is not None:  # the engine writes the body
            return self.of_request(upstream.request)[0]
        if _SETTINGS.isdisjoint(upstream.body):  # almost all
            return self._default
        return self._multiply(_find_fields(upstream.body))[0]

    def _multiply(self, found: Iterable[tuple[str, str]]) -> tuple[float, list[str]]:
        """Return the product over the fields. Of a field that is there twice, the highest factor counts."""
        highest: dict[str, float] = {}
        unknown: list[str] = []
        for field, value in found:
            factor = self._factors.get(value)
            if factor is None:
                unknown.append(value)
            else:
                highest[field] = max(factor, highest.get(field, 0.0))
        result = highest.pop("service_tier", self._default)
        for factor in highest.values():
            result *= factor
        return result, unknown


def _find_fields(row: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields that change the price, and their values in lower case."""
    for name, value in lenient.as_object(row).items():
        if name in _NESTED:
            yield from _find_fields(value)
        elif name in _FIELDS and value is not None:
            given: Any = lenient.as_object(value).get("latency", "standard") if name in _LATENCY else value
            text = given.lower().removeprefix(_PREFIX) if isinstance(given, str) else repr(given)
            if text and text != "unspecified":
                yield _GROUPS.get(name, name), text
