"""Checks a provider's key with one request: the list of models, or the smallest answer where the list needs no key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock._client.api import Client
from penstock._http.request_options import RequestOptions, Timeouts
from penstock._providers.models import models as packaged_models
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engines.config import Account, Config
    from penstock._providers.models import Model
    from penstock._providers.registry import Provider

CHECK_TIMEOUT = 20.0  # seconds for the request that checks a key
KEY_ACCEPTED = frozenset({"rate-limit", "too-large"})  # refusals that only a known key gets


def with_key(account: Account, key: str) -> Account:
    """Returns the account with this key in place of all others."""
    return replace(account, key=key, keys=(), key_file="", env="")


async def send_key_check(
    row: Provider, config: Config, env: Mapping[str, str] | None = None
) -> tuple[str, list[Model]]:
    """Sends one request with the configured key. Returns what proves that the key is good, and the models, if listed.

    Raises `ProviderError` if the provider refuses, and `InputError` if there is no way to check.
    """
    once = replace(config, retries=0)
    limits = Timeouts(connect=CHECK_TIMEOUT, first_byte=CHECK_TIMEOUT, between_bytes=CHECK_TIMEOUT, total=CHECK_TIMEOUT)
    async with Client(once, env=env, options=RequestOptions(timeouts=limits), tracing=False) as client:
        if row.endpoint("models") is not None and not row.open_models:
            found = await client.list_models(row.name)
            return f"{len(found)} models", found
        return await _ask_cheapest_model(client, row), []


async def _ask_cheapest_model(client: Client, row: Provider) -> str:
    """Asks for an answer of a few tokens, for a provider that lists its models without a key."""
    rows = [one for one in packaged_models(row) if one.chat and one.prices is not None and one.prices.input]
    if not rows:
        raise InputError(f"no model of {row.name} is known to check the key with")
    cheapest = min(rows, key=lambda one: one.prices.input or 0.0 if one.prices else 0.0)
    await client.chat(f"{row.name}/{cheapest.id}", "Say ok.", max_tokens=16)
    return f"{cheapest.id} answered"
