"""Loads what a store knows of earlier turns before a request is converted, so that the conversion itself does no IO.

Leans on `messages.convert.state_keys` for what to look up. A store with `aget` is awaited; any other is asked directly.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.messages.convert import state_keys

if TYPE_CHECKING:
    from penstock.messages.options import ConvertOptions
    from penstock.request import Request

Run: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Does some work, such as in a thread, and gives what it gives."""


async def load_state(request: Request, source: str, convert: ConvertOptions, run: Run | None = None) -> ConvertOptions:
    """The options with the rows that were found (`state`) in place of the store. Nothing to look up costs nothing."""
    store = convert.get("store")
    if store is None:
        return convert
    options = convert.copy()
    del options["store"]
    if run is None:
        keys = state_keys(request, source, **options)
    else:
        keys = await run(lambda: state_keys(request, source, **options))
    if keys:
        tenant = options.get("tenant", "")
        aget = getattr(store, "aget", None)
        options["state"] = store.get(tenant, keys) if aget is None else await aget(tenant, keys)
    return options
