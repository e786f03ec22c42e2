"""Settings that services are made with, derived from the gateway's configuration. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock.engines.config import Account, Config
from penstock.engines.model_resolution import REPLAY
from penstock.fetch import Limits as FetchLimits

if TYPE_CHECKING:
    from penstock.gateway.config import GatewayConfig

RETRY_WAIT = 60.0  # seconds that all pauses before retries of a request may take, where the configuration says nothing


def fetch_limits(config: GatewayConfig) -> FetchLimits:
    """The limits of fetched files."""
    said = config.fetch
    return FetchLimits(size=said.size, seconds=said.seconds, redirects=said.redirects, files=said.files)


def body_total(config: GatewayConfig) -> int:
    """Bytes that all bodies may have. One of the largest size always fits."""
    return max(config.serve.body_total, config.serve.body)


def engine_config(config: GatewayConfig) -> Config:
    """The engines' configuration; packaged streams are played as fast as the gateway is told to."""
    engine = _with_retry_wait(config.engine)
    if config.serve.pace <= 0 or REPLAY in engine.providers:
        return engine
    account = Account(settings={"pace": "natural"})
    return replace(engine, providers={**engine.providers, REPLAY: account})


def _with_retry_wait(engine: Config) -> Config:
    """Waits before retries may take longer than in the library: clients of the gateway see signs of life meanwhile."""
    timeouts = engine.options.get("timeouts", {})
    if not isinstance(timeouts, dict) or "retry_wait" in timeouts:
        return engine
    limits: dict[str, Any] = {"retry_wait": RETRY_WAIT, **timeouts}
    return replace(engine, options={**engine.options, "timeouts": limits})
