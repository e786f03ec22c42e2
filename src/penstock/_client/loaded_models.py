"""Asks a self-hosted server how it has loaded its models (`_providers.loaded_windows` reads the answers)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock._client import embedding_formats
from penstock._engines.model_resolution import Target
from penstock._providers.loaded_windows import (
    MAX_SHOWN,
    read_loaded_windows,
    read_shown_model,
    with_loaded_windows,
)
from penstock.errors import InputError, ProviderError

if TYPE_CHECKING:
    from penstock._engines.router import Router
    from penstock._http.request_options import RequestOptions
    from penstock._providers.models import Model
    from penstock._providers.registry import Provider

TIMEOUT = 2.0  # seconds: the list of models is not delayed for longer


async def find_loaded_windows(
    router: Router, row: Provider, models: list[Model], options: RequestOptions
) -> list[Model]:
    """Returns the models with the windows that their server tells. What cannot be asked changes nothing."""
    loaded = row.endpoints["loaded"]
    shown = [one.id for one in models[:MAX_SHOWN]] if "show" in row.endpoints else []
    asked = [_fetch(router, row, "loaded", "", options), *(_fetch(router, row, "show", id, options) for id in shown)]  # noqa: A001
    windows, *answers = await asyncio.gather(*asked)
    facts = {id: read_shown_model(body) for id, body in zip(shown, answers, strict=True) if body is not None}  # noqa: A001
    return with_loaded_windows(row, models, read_loaded_windows(loaded.protocol, windows), facts)


async def _fetch(router: Router, row: Provider, operation: str, model: str, options: RequestOptions) -> Any:
    """Returns the answer of a server; None if it has none."""
    target = Target(row, model, f"{row.name} was named")
    try:
        async with asyncio.timeout(TIMEOUT):
            _, data, _ = await router.fetch(
                target, operation, lambda _target, _shape: {"model": model} if model else {}, options=options
            )
            return embedding_formats.decode_answer(data)
    except (ProviderError, InputError, TimeoutError):
        return None
