"""Caches of what does not change between requests: the targets of a model name, request options, request plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock._engines.environ import EnvironmentChanges
from penstock._engines.model_resolution import Target, resolve_targets
from penstock._engines.options import RequestOptions
from penstock._engines.request_plan import RequestPlan, plan_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engines.config import Config

_MAX_CACHED = 200  # model names, and plans
_TIMEOUT_SLACK = 0.05  # seconds that may pass before a first attempt without a shorter timeout


class PlanCache:
    """Targets, options and plans of one configuration. They are made anew when the environment has changed."""

    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        self._config, self._env = config, env
        self._env_changes = EnvironmentChanges(env)
        self._default_options = RequestOptions.read(config.options)
        self._provider_options: dict[str, RequestOptions] = {}  # over the default options
        self._targets: dict[str, list[Target]] = {}
        self._plans: dict[tuple[str, str, str, bool], RequestPlan] = {}

    def targets(self, name: str) -> list[Target]:
        """Returns the targets of a model name, as `resolve_targets` does."""
        if self._env_changes.any():
            self._targets.clear()
            self._plans.clear()
        found = self._targets.get(name)
        if found is None:
            found = resolve_targets(name, self._config, self._env)
            if len(self._targets) >= _MAX_CACHED:
                self._targets.clear()
            self._targets[name] = found
        return found

    def total_timeout(self, options: RequestOptions | None) -> float:
        """Returns the seconds that a call may take, all attempts together."""
        chosen = self._default_options if options is None else options.over(self._default_options)
        return chosen.timeouts.total

    def options(self, target: Target, options: RequestOptions | None, left: float) -> RequestOptions:
        """Returns the call's options over the provider's over the configuration's. `left` limits the total timeout."""
        name = target.provider.name
        merged = self._provider_options.get(name)
        if merged is None:
            configured = RequestOptions.read(self._config.account(name).options)
            merged = self._provider_options[name] = configured.over(self._default_options)
        if options is not None:
            merged = options.over(merged)
        if left < merged.timeouts.total - _TIMEOUT_SLACK:
            merged = replace(merged, timeouts=replace(merged.timeouts, total=max(left, 0.001)))
        return merged

    def plan(
        self, target: Target, operation: str, options: RequestOptions | None, left: float, *, stream: bool
    ) -> RequestPlan:
        """Returns the plan for a target. A plan with a call's own options, or with a shorter timeout, is not cached."""
        name = target.provider.name
        chosen = self.options(target, options, left)
        cacheable = chosen is self._provider_options.get(name)
        key = (name, target.model, operation, stream)
        found = self._plans.get(key) if cacheable else None
        if found is None:
            account = self._config.account(name)
            found = plan_request(target, operation, options=chosen, account=account, env=self._env, stream=stream)
            if cacheable:
                if len(self._plans) >= _MAX_CACHED:
                    self._plans.clear()
                self._plans[key] = found
        return found
