"""Which models there are to ask for: aliases, what configured providers list, packaged streams. Kept for a while.

Leans on the client for lists, and on the table of facts where a provider cannot be asked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from penstock.engines.model_resolution import REPLAY, is_pattern, known, targets
from penstock.errors import InputError, ProviderError
from penstock.gateway.callers import refused
from penstock.providers.models import Model, max_input_tokens, output_limit
from penstock.providers.models import model as facts_of
from penstock.providers.models import models as table
from penstock.replay import offered

if TYPE_CHECKING:
    from penstock.engines.model_resolution import Target
    from penstock.gateway.callers import Caller
    from penstock.gateway.services import Services
    from penstock.providers.registry import Provider

log = logging.getLogger("penstock.catalogue")
FRESH = 300.0  # seconds that a list is good for
PATIENCE = 5.0  # seconds that a provider has to give its list
_PLAYED = frozenset({"chat", "tools", "reasoning", "images", "temperature"})


class Entry(msgspec.Struct, frozen=True):
    """A name to ask for, and the model that it means. Limits of requests that set none; 0 unknown."""

    name: str
    model: Model
    max_input: int = 0
    max_output: int = 0


class Catalogue:
    """The list, made when it is asked for."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._made: list[Entry] = []
        self._names: set[str] = set()
        self._until = 0.0
        self._of: object = None  # the router that it was made with
        self._lock = asyncio.Lock()

    async def entries(self, caller: Caller) -> list[Entry]:
        """What a caller may ask for."""
        async with self._lock:
            if time.monotonic() > self._until or self._of is not self._services.router:
                self._made = await self._make()
                self._names = {entry.name for entry in self._made}
                self._until, self._of = time.monotonic() + FRESH, self._services.router
        return [entry for entry in self._made if caller.may(entry.name)]

    def said(self) -> list[Entry]:
        """What is known without asking anybody."""
        config = self._services.router.config
        named = (
            self._entry(f"{row.name}/{name}", facts_of(row, name), row)
            for row in known(config, self._services.router.env)
            for name in config.account(row.name).models
        )
        return [*self._aliases(), *named, *self._played()]

    def lists(self, provider: str, model: str) -> bool:
        """Whether a provider's model is in the list that was last made, in the table of facts, or a packaged stream."""
        if provider == REPLAY:
            return model in offered()
        config = self._services.router.config
        if not config.has(provider):
            return False
        return f"{provider}/{model}" in self._names or any(row.id == model for row in table(config.provider(provider)))

    async def find(self, caller: Caller, name: str) -> Entry:
        """A model by its name; one that is not listed but means somebody is a model too."""
        for entry in await self.entries(caller):
            if entry.name == name:
                return entry
        target = self.target(name)
        return self._entry(name, facts_of(target.provider, target.model), target.provider)

    def _entry(self, name: str, model: Model, row: Provider) -> Entry:
        policy = self._services.config.features.max_input
        return Entry(name, model, max_input_tokens(model, policy, row) or model.max_input, output_limit(model, row))

    def target(self, name: str) -> Target:
        """Who is asked first for a name; one that means nobody is not found."""
        try:
            return targets(name, self._services.router.config, self._services.env)[0]
        except InputError as error:
            raise refused(404, "not-found", str(error), code="model_not_found") from None

    async def _make(self) -> list[Entry]:
        router = self._services.router
        rows = known(router.config, router.env)
        lists = await asyncio.gather(*(self._list(row) for row in rows))
        made = [*self._aliases(), *(entry for entries in lists for entry in entries), *self._played()]
        return list({entry.name: entry for entry in made}.values())

    def _aliases(self) -> list[Entry]:
        made: list[Entry] = []
        for name in self._services.router.config.aliases:
            if is_pattern(name):
                continue  # it stands for names that clients have of their own
            try:
                target = targets(name, self._services.router.config, self._services.env)[0]
            except InputError as error:
                log.warning("the alias %s is not listed: %s", name, error)
            else:
                made.append(self._entry(name, facts_of(target.provider, target.model), target.provider))
        return made

    async def _list(self, row: Provider) -> list[Entry]:
        said = self._services.router.config.account(row.name).models
        if said and not isinstance(said, dict):
            return [self._entry(f"{row.name}/{name}", facts_of(row, name), row) for name in said]
        try:
            async with asyncio.timeout(PATIENCE):
                found = await self._services.client.list_models(row.name, chat=False)
        except (ProviderError, InputError, TimeoutError):
            found = list(table(row))
        return [self._entry(f"{row.name}/{model.id}", model, row) for model in found]

    def _played(self) -> list[Entry]:
        row = self._services.router.config.provider(REPLAY)
        plain = Model(id="", provider=REPLAY, context=200_000, max_output=32_000, capabilities=_PLAYED, version="1")
        return [
            self._entry(f"{REPLAY}/{name}", replace(plain, id=name, name=f"Replay: {name}", family="replay"), row)
            for name in offered()
        ]
