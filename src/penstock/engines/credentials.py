"""How a provider's requests are signed: by the caller's key, the configuration's, a variable's or a stored one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engines.auth import auth_for
from penstock.engines.stored_key import find_stored_key
from penstock.errors import InputError, provider_error
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engines.auth import Auth
    from penstock.engines.config import Config
    from penstock.engines.job import Job


class Credentials:
    """What signs requests, by provider and key. Kept, because tokens are fetched once and used until they expire."""

    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        self._config, self._env = config, env
        self._known: dict[tuple[str, ...], Auth] = {}

    def auth(self, job: Job) -> Auth:
        """What signs a job; an `AuthError` where its key is missing."""
        row, account = job.provider, self._config.account(job.provider.name)
        key = job.options.key or account.key or (self._env.get(account.env, "") if account.env else "")
        refusal = ""
        if not key and (account.env or not any(self._env.get(name) for name in row.env)):
            stored = find_stored_key(row, account, self._env)
            key, refusal = stored.key, stored.refusal
        if account.env and not key:
            said = f"{row.name} needs a key: {account.env}, which providers.{row.name}.env names, is not set"
            raise provider_error(Fault("auth", refusal or said), provider=row.name, model=job.model)
        if refusal and not any(one.optional or one.ambient or one.scheme == "none" for one in row.credentials):
            raise provider_error(Fault("auth", refusal), provider=row.name, model=job.model)
        named = (row.name, row.base_url, key, *(self._env.get(name, "") for name in (*row.env, row.stored_name)))
        auth = self._known.get(named)
        if auth is None:
            try:
                auth = auth_for(row, key=key, env=self._env, settings=account.settings)
            except InputError as error:
                raise provider_error(Fault("auth", str(error)), provider=row.name, model=job.model) from error
            if not job.options.key:  # a caller's own key is not kept
                self._known[named] = auth
        return auth
