"""Imports and reads what requests will need before the first one comes: on the event loop it would hold up all."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from penstock.engines.model_resolution import known
from penstock.gateway.doors import DOORS, METHODS
from penstock.gateway.struct_types import build_types
from penstock.protocols import MODULES, request_module
from penstock.providers.models import model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.engines.config import Config

log = logging.getLogger("penstock.gateway")
_NATIVE = ("aiohttp", "penstock.engines.native")
_REPLAY = "penstock.engines.replay"


def preload(config: Config, env: Mapping[str, str]) -> None:
    """Import them now. Not in a thread: msgspec may crash if two threads use a type for the first time at once."""
    for name in modules(config, env):
        try:
            import_module(name)
        except Exception as error:  # noqa: BLE001 — whoever needs the module says what is wrong, and to whom
            log.debug("%s could not be imported at start-up: %s", name, error)
    build_types()
    _load_model_tables()


def _load_model_tables() -> None:
    """Read the facts of models now: it takes a fifth of a second, and the first request needs them."""
    _ = model("openai", "gpt-5").thinking


def modules(config: Config, env: Mapping[str, str]) -> Iterator[str]:
    """The modules of every client protocol, and of the providers that are configured."""
    rows = known(config, env)
    if any(row.engine == "native" for row in rows):
        yield from _NATIVE
    yield _REPLAY
    spoken = {door.protocol for door in (*DOORS.values(), *METHODS.values())}
    for row in rows:
        places = [*row.endpoints.values(), *(special.endpoint for special in row.special)]
        spoken.update([row.protocol, *(name for place in places for name in (place.protocol, place.answer))])
    names = {name for name in (one.partition("@")[0] for one in spoken) if name in MODULES}
    for name in sorted(names):
        yield f"penstock.protocols.{MODULES[name]}"
        yield from filter(None, (request_module(name, direction) for direction in ("read", "write")))
