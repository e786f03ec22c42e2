"""The engines of a process, which engine sends a request, and what signs it."""

from __future__ import annotations

import time
from importlib import import_module
from typing import TYPE_CHECKING

from penstock._engines.config import Config, choose_engine
from penstock._engines.credentials import AuthCache, KeyRotation, RequestSigner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._engines.engine_interface import Engine, UpstreamRequest
    from penstock._engines.request_plan import RequestPlan

_ENGINES = {"native": "NativeEngine", "sdk": "SdkEngine", "replay": "ReplayEngine"}  # module → class


def preload_http_client() -> None:
    """Imports what the first request to a provider needs. It takes a third of a second: not for the event loop."""
    import_module("aiohttp")


class EnginePool:
    """Creates each engine on first use, and keeps it with its connections. Keeps the tokens that sign requests."""

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        by_name: dict[str, Engine],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.by_name = by_name
        self._config, self._env = config, env
        self._auth = AuthCache(config, env, clock)

    def get(self, name: str) -> Engine:
        """Returns an engine by its name."""
        if name not in self.by_name:  # imported on first use: aiohttp and the SDKs take up to seconds to import
            self.by_name[name] = getattr(import_module(f"penstock._engines.{name}"), _ENGINES[name])()
        return self.by_name[name]

    def choose(self, upstream: UpstreamRequest, plan: RequestPlan, requested: str) -> tuple[Engine, str]:
        """Returns the engine that sends a request, and why it is not the preferred one; empty if it is.

        `requested` is the engine that the call names, if any. The configuration's choice is kept in the plan.
        """
        row = upstream.provider
        if row.engine != "native":
            return self.get(row.engine), ""
        choice = None if requested else plan.engine_choice
        if choice is None:
            choice = choose_engine(row.name, self._config, self._env, requested)
            if not requested:
                plan.engine_choice = choice
        name, setting = choice
        engine = self.get(name)
        problem = engine.unsupported_reason(upstream)
        if problem:
            return self.get("native"), f"native in place of {name}, which {setting} wishes for: {problem}"
        return engine, ""

    def sign(self, upstream: UpstreamRequest, plan: RequestPlan) -> str:
        """Gives a request its signer. The plan keeps the signer, because tokens are used until they expire.

        Returns where the key is configured, if the provider has several; else nothing.
        """
        if upstream.provider.engine != "native":
            return ""
        place, signer = "", plan.signer
        if signer is None:
            rotation = None if upstream.options.key else self.rotation(upstream.provider.name)
            if rotation is None:
                signer = plan.signer = RequestSigner(self._auth.get(upstream), upstream.options, self.get("native"))
            else:
                number = rotation.take(upstream.model)
                place, signer = rotation.places[number], self._key_signer(upstream, plan, rotation, number)
        upstream.sign, upstream.secrets, upstream.same_signature = signer, signer.secrets(), signer.same_signature
        return place

    def rotation(self, provider: str) -> KeyRotation | None:
        """Returns the keys of a provider that has several; else None."""
        return self._auth.rotation(provider)

    def _key_signer(
        self, upstream: UpstreamRequest, plan: RequestPlan, rotation: KeyRotation, number: int
    ) -> RequestSigner:
        """Returns the signer of one of several keys. Prepared request heads hold the key, so each key has its own."""
        key = rotation.keys[number]
        found = plan.key_signers.get(key)
        if found is None:
            auth = self._auth.get(upstream, key.reveal())
            found = plan.key_signers[key] = (RequestSigner(auth, upstream.options, self.get("native")), {})
        if upstream.request_heads is plan.template.request_heads:
            upstream.request_heads = found[1]
        return found[0]

    async def aclose(self) -> None:
        """Closes all connections."""
        for engine in self.by_name.values():
            await engine.aclose()
