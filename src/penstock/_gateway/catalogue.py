"""The models that clients can ask for: aliases, models that configured providers list, packaged streams.

Lists are asked from providers and cached. If a provider cannot be asked, the packaged table of models is used.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock._engines import model_resolution as resolution
from penstock._engines.config_problems import find_missing_keys
from penstock._engines.model_resolution import REPLAY, Target
from penstock._gateway.callers import Caller, make_refusal
from penstock._providers.models import Model, max_input_tokens, output_limit
from penstock._providers.models import model as find_model
from penstock._providers.models import models as packaged_models
from penstock._replay import describe_scripts
from penstock.errors import InputError, ProviderError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._gateway.upstream import GatewayUpstream
    from penstock._providers.registry import Provider

log = logging.getLogger("penstock.catalogue")
DEFAULT_ALIAS = "default"  # for requests that name no model
LIST_LIFETIME = 300.0  # seconds that a list is cached
LIST_TIMEOUT = 5.0  # seconds that a provider has to return its list
_MAX_LIMITS = 1_000  # names whose input limit is cached; clients choose them
_REPLAY_CAPABILITIES = frozenset({"chat", "tools", "reasoning", "images", "temperature"})


class ModelEntry(msgspec.Struct, frozen=True):
    """A name that clients can ask for, and its model. The limits apply to requests that set none; 0 is unknown."""

    name: str
    model: Model
    max_input: int = 0
    max_output: int = 0


class InputLimit(NamedTuple):
    """How long a prompt may be, in tokens, at the first provider of a name; 0 is unknown."""

    provider: str
    model: str
    tokens: int


def _replay_model(name: str) -> Model:
    """Return the model that plays a packaged stream."""
    return Model(
        id=name,
        provider=REPLAY,
        name=f"Replay: {name}",
        family="replay",
        context=200_000,
        max_output=32_000,
        capabilities=_REPLAY_CAPABILITIES,
        version="1",
    )


class ModelCatalogue:
    """Lists models and resolves their names, with the configuration that `upstream` has now."""

    def __init__(self, upstream: GatewayUpstream) -> None:
        self._upstream = upstream
        self._entries: list[ModelEntry] = []
        self._names: set[str] = set()
        self._expires = 0.0
        self._router: object = None  # the router that the list was made with
        self._lock = asyncio.Lock()
        self._configured: set[tuple[str, str]] = set()
        self._configured_router: object = None
        self._listed: dict[tuple[str, str], Model] = {}  # what providers' lists say, by provider and id
        self._limits: dict[tuple[str, int | None], InputLimit] = {}
        self._limits_router: object = None

    # ── lists ─────────────────────────────────────────────────────────────────────────────────────

    async def entries(self, caller: Caller) -> list[ModelEntry]:
        """Return the models that a caller may use."""
        async with self._lock:
            if time.monotonic() > self._expires or self._router is not self._upstream.router:
                self._entries = await self._list_all()
                self._names = {entry.name for entry in self._entries}
                self._expires, self._router = time.monotonic() + LIST_LIFETIME, self._upstream.router
        return [entry for entry in self._entries if caller.may_use(entry.name)]

    def configured_entries(self) -> list[ModelEntry]:
        """Return the models that are known without a request to a provider."""
        config = self._upstream.router.config
        named = (
            self._provider_entry(row, find_model(row, name), name)
            for row in resolution.list_configured_providers(config, self._upstream.router.env)
            for name in config.account(row.name).models
        )
        return [*self._aliases(), *named, *self._replay_models()]

    async def find(self, caller: Caller, name: str) -> ModelEntry:
        """Return a model by its name. A model that is not listed is accepted if its provider is configured."""
        for entry in await self.entries(caller):
            if entry.name == name:
                return entry
        return self._target_entry(name, self.target(name))

    async def _list_all(self) -> list[ModelEntry]:
        router = self._upstream.router
        lists = await asyncio.gather(
            *(self._list_provider(row) for row in resolution.list_configured_providers(router.config, router.env))
        )
        listed = [entry for entries in lists for entry in entries]
        self._listed = {(entry.model.provider, entry.model.id): entry.model for entry in listed}
        self._limits = {}
        entries = [*self._aliases(), *listed, *self._replay_models()]
        return list({entry.name: entry for entry in entries}.values())

    async def _list_provider(self, row: Provider) -> list[ModelEntry]:
        names = self._upstream.router.config.account(row.name).models
        if names and not isinstance(names, dict):
            return [self._provider_entry(row, find_model(row, name), name) for name in names]
        try:
            async with asyncio.timeout(LIST_TIMEOUT):
                models = await self._upstream.client.list_models(row.name, chat=False)
        except (ProviderError, InputError, TimeoutError):
            models = list(packaged_models(row))
        return [self._provider_entry(row, model) for model in models]

    def _aliases(self) -> Iterator[ModelEntry]:
        for name in self._upstream.router.config.aliases:
            if resolution.is_pattern(name):
                continue  # it matches names that clients choose
            try:
                target = self._targets(name)[0]
            except InputError as error:
                log.warning("the alias %s is not listed: %s", name, error)
            else:
                yield self._target_entry(name, target)

    def _replay_models(self) -> list[ModelEntry]:
        row = self._upstream.router.config.provider(REPLAY)
        return [self._provider_entry(row, _replay_model(name)) for name in describe_scripts()]

    def _provider_entry(self, row: Provider, model: Model, name: str = "") -> ModelEntry:
        return self._entry(f"{row.name}/{name or model.id}", model, row)

    def _target_entry(self, name: str, target: Target) -> ModelEntry:
        return self._entry(name, self.target_model(target), target.provider)

    def target_model(self, target: Target) -> Model:
        """Return what is known of a model.

        The list of its provider counts where the packaged facts have no window, and for self-hosted servers: their
        owner chooses the window.
        """
        if target.provider.name == REPLAY:
            return _replay_model(target.model)
        known = find_model(target.provider, target.model)
        if known.context and not target.provider.local:
            return known
        return self._listed.get((target.provider.name, target.model), known)

    def _entry(self, name: str, model: Model, row: Provider) -> ModelEntry:
        max_input = max_input_tokens(model, self._upstream.config.features.max_input, row)
        return ModelEntry(name, model, max_input, output_limit(model, row))

    def input_limit(self, name: str, max_output: int | None = None) -> InputLimit:
        """Return the input limit of a model, for a request with this output limit.

        Cached, because every turn asks for it.
        """
        if self._limits_router is not self._upstream.router or len(self._limits) >= _MAX_LIMITS:
            self._limits, self._limits_router = {}, self._upstream.router
        found = self._limits.get((name, max_output))
        if found is None:
            found = self._limits[name, max_output] = self._find_limit(name, max_output)
        return found

    def _find_limit(self, name: str, max_output: int | None) -> InputLimit:
        targets = self.find_targets(name)
        if not targets:
            return InputLimit("", "", 0)
        target = targets[0]
        policy = self._upstream.config.features.max_input
        limit = max_input_tokens(self.target_model(target), policy, target.provider, max_output)
        return InputLimit(target.provider.name, target.model, limit)

    # ── names ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def default_model(self) -> str:
        """The model of a request that names none: the alias `default`, else the first alias or configured model.

        Without any configuration it is a packaged stream.
        """
        config = self._upstream.router.config
        if DEFAULT_ALIAS in config.aliases:
            return DEFAULT_ALIAS
        names = [name for name in config.aliases if not resolution.is_pattern(name)]
        names += [f"{name}/{model}" for name, account in config.providers.items() for model in account.models]
        if names or config.aliases or resolution.list_configured_providers(config, self._upstream.router.env):
            return names[0] if names else DEFAULT_ALIAS
        return f"{REPLAY}/{resolution.DEFAULT_STREAM}"

    def target(self, name: str) -> Target:
        """Return the first provider and model that a name resolves to, or raise a 404 refusal."""
        try:
            return self._targets(name)[0]
        except InputError as error:
            raise make_refusal(404, "not-found", str(error), code="model_not_found") from None

    def is_known(self, name: str) -> bool:
        """Return whether a name resolves to a provider."""
        return bool(self.find_targets(name))

    def is_listed(self, provider: str, model: str) -> bool:
        """Return whether a model is in the last list, in the packaged table, or a packaged stream."""
        if provider == REPLAY:
            return model in describe_scripts()
        config = self._upstream.router.config
        if not config.has(provider):
            return False
        rows = packaged_models(config.provider(provider))
        return f"{provider}/{model}" in self._names or any(row.id == model for row in rows)

    def is_configured(self, provider: str, model: str) -> bool:
        """Return whether the configuration names a model: under its provider, or as the target of an alias."""
        if self._configured_router is not self._upstream.router:
            self._configured_router = self._upstream.router
            config = self._upstream.router.config
            self._configured = {(name, one) for name, account in config.providers.items() for one in account.models}
            for name in (*config.aliases, *config.fallbacks):
                self._configured |= {(target.provider.name, target.model) for target in self.find_targets(name)}
        return (provider, model) in self._configured

    def lacks_keys(self) -> bool:
        """Return whether a configured provider has no key. Never true if callers send their own provider keys."""
        router = self._upstream.router
        return not self._upstream.config.forward and bool(find_missing_keys(router.config, router.env))

    def _targets(self, name: str) -> list[Target]:
        return self._upstream.router.targets(name)

    def find_targets(self, name: str) -> list[Target]:
        """Return all targets of a name; none if it is unknown."""
        try:
            return self._targets(name)
        except InputError:
            return []
