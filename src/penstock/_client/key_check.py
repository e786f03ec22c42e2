"""Checks a provider's key with one request: the list of models, or the smallest answer where the list needs no key.

The smallest answer is also asked for if there is no list, and the configuration names models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock._client.api import Client
from penstock._http.request_options import RequestOptions, Timeouts
from penstock._providers.models import models as packaged_models
from penstock._providers.registry import providers
from penstock.errors import InputError, ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock._engines.config import Account, Config
    from penstock._providers.models import Model
    from penstock._providers.registry import Provider

CHECK_TIMEOUT = 20.0  # seconds for the request that checks a key
KEY_ACCEPTED = frozenset({"rate-limit", "too-large"})  # refusals that only a known key gets
KEY_REFUSED = frozenset({"auth", "permission"})  # refusals because of the key
NO_LIST = frozenset({404, 405, 501})  # statuses of a server without a list of models
CHECK_TOKENS = 16  # the most that the smallest answer may have


class ModelNotAskedError(InputError):
    """Only an answer of a model can prove the key, and the caller wants no model asked. `model`: the one to ask."""

    def __init__(self, reason: str, model: str) -> None:
        super().__init__(reason)
        self.model = model


def with_key(account: Account, key: str) -> Account:
    """Returns the account with this key in place of all others."""
    return replace(account, key=key, keys=(), key_file="", env="")


async def send_key_check(
    row: Provider, config: Config, env: Mapping[str, str] | None = None, *, ask_model: bool = True
) -> tuple[str, list[Model]]:
    """Sends one request with the configured key. Returns what proves that the key is good, and the models, if listed.

    Raises `ProviderError` if the provider refuses, and `InputError` if there is no way to check. Without `ask_model` no
    model is asked for an answer, which may cost something: `ModelNotAskedError` is raised instead.
    """
    once, names = replace(config, retries=0), [*config.account(row.name).models]
    limits = Timeouts(connect=CHECK_TIMEOUT, first_byte=CHECK_TIMEOUT, between_bytes=CHECK_TIMEOUT, total=CHECK_TIMEOUT)
    reason = "its list of models is open to everybody, so it proves no key" if row.open_models else "it lists no models"
    async with Client(once, env=env, options=RequestOptions(timeouts=limits), tracing=False) as client:
        if row.endpoint("models") is not None and not row.open_models:
            try:
                found = await client.list_models(row.name)
            except ProviderError as error:
                if error.status not in NO_LIST or not names:
                    raise
                reason = f"it lists no models ({error.status})"
            else:
                return f"{len(found)} models", found
        model = choose_check_model(row, names)
        if not ask_model:
            raise ModelNotAskedError(reason, model)
        await client.chat(f"{row.name}/{model}", "Say ok.", max_tokens=CHECK_TOKENS)
        return f"{model} answered", []


def choose_check_model(row: Provider, names: Sequence[str]) -> str:
    """Returns the model whose answer costs least; the first of `names` if no price is known.

    A custom provider may take over the facts of another, but it need not have the other's models: the first named
    one is asked there.
    """
    if names and row.name not in providers():
        return names[0]
    rows = [one for one in packaged_models(row) if one.chat and one.prices is not None and one.prices.input]
    if not rows and not names:
        raise InputError(f"no model of {row.name} is known to check the key with")
    return min(rows, key=lambda one: one.prices.input or 0.0 if one.prices else 0.0).id if rows else names[0]
