"""The admin API's check of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock._gateway.admin_calls import AdminRoute
from penstock._gateway.lifecycle import list_config_problems
from penstock._redaction import redact
from penstock._store.custom_providers import CUSTOM_PROVIDERS_FILE

if TYPE_CHECKING:
    from penstock._gateway.admin_calls import AdminCall


class ProblemView(msgspec.Struct, frozen=True, kw_only=True):
    """A problem of the configuration. `setting`: its path in the file; `line`: there, 0 if it is not in the file."""

    setting: str
    line: int
    message: str


class ConfigCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The check of the configuration. `error`: why the file as it is now is not used; the last good one is.

    `restart_needed`: settings that have changed and count after a restart.
    """

    path: str
    error: str
    restart_needed: list[str]
    problems: list[ProblemView]


def _check_config(call: AdminCall) -> ConfigCheck:
    services = call.services
    config, status = services.config, services.config_status
    problems = [
        ProblemView(setting=".".join(problem.keys), line=line, message=redact(problem.message, services.secrets))
        for problem, line in list_config_problems(config, services.env)
    ]
    own = services.custom_providers
    found = [own.error, *(f"{name}: {problem}" for name, problem in own.problems.items())]
    problems += [ProblemView(setting=CUSTOM_PROVIDERS_FILE, line=0, message=words) for words in found if words]
    return ConfigCheck(
        path=str(config.path or ""),
        error=redact(status.error, services.secrets),
        restart_needed=list(status.restart_needed),
        problems=problems,
    )


CHECK_ROUTES = (AdminRoute("GET", "/admin/check", "Check the configuration", _check_config, ConfigCheck, owner=True),)
