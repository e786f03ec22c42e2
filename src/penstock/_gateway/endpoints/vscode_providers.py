"""`/vscode/providers`, `/vscode/keys`, `/vscode/status`: how the VS Code extension sets up the gateway that it started.

Only a gateway with `editor_keys.SWITCH` has these routes; others answer 404. Only the key that the gateway was started
with (PENSTOCK_GATEWAY_KEY) opens them, and no page in a browser may ask. Keys come in, and never go out.
"""

from __future__ import annotations

import asyncio
import hmac
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock._client.key_check import KEY_ACCEPTED, KEY_REFUSED, send_key_check
from penstock._engines.config import check_account
from penstock._engines.credentials import address_origin, find_stored_key
from penstock._engines.engine_pool import preload_http_client
from penstock._engines.model_resolution import REPLAY, list_configured_providers
from penstock._gateway.callers import make_refusal
from penstock._gateway.editor_keys import EditorProvider
from penstock._gateway.keys import VARIABLE, hash_key
from penstock._providers.registry import COMPATIBLE, providers
from penstock._redaction import redact
from penstock._version import __version__
from penstock.errors import InputError, PenstockError, ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._engines.config import Config
    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.services import Services
    from penstock._providers.registry import Provider, Setting

_KEY_FORMS = {
    "aws": "ACCESS_KEY_ID:SECRET_ACCESS_KEY",
    "google": "the JSON of a service account, in one line",
}


class WindowProviders(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `PUT /vscode/keys`: all that a window has."""

    window: str
    providers: tuple[EditorProvider, ...] = ()


class ProviderCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /vscode/providers/check`. Without `key` the key that the gateway has is tested."""

    provider: str
    key: str = ""
    base_url: str = ""
    settings: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"ProviderCheck(provider={self.provider!r})"


def _admit_owner(services: Services, incoming: IncomingRequest) -> None:
    """Raise unless the program that started this gateway asks."""
    secret = services.env.get(VARIABLE, "")
    if not services.editor_keys.enabled or not secret:
        raise make_refusal(404, "not-found", "nothing is served at this address", code="not_found")
    if "origin" in incoming.headers or "sec-fetch-site" in incoming.headers:
        raise make_refusal(403, "permission", "a page in a browser may not ask here", code="origin_not_allowed")
    if not hmac.compare_digest(incoming.caller.key_hash, hash_key(secret)):
        reason = "only the program that started this gateway may ask here"
        raise make_refusal(403, "permission", reason, code="key_not_allowed")
    if services.config.serve.workers > 1:
        reason = "keys of an editor are kept in one process: start the gateway without workers"
        raise make_refusal(409, "invalid", reason, code="several_workers")


def _read_body(incoming: IncomingRequest, form: Any) -> Any:
    """Read a body. The error does not quote it: it may hold a key."""
    try:
        return msgspec.json.decode(incoming.raw, type=form)
    except (msgspec.MsgspecError, UnicodeError) as error:
        reason = str(error) if isinstance(error, msgspec.ValidationError) else "it is not JSON"
        raise InputError(f"the body: {reason}") from None


async def put_keys(services: Services, incoming: IncomingRequest) -> bytes:
    """`PUT /vscode/keys`: replace what a window gives. It counts from the next request on."""
    _admit_owner(services, incoming)
    body: WindowProviders = _read_body(incoming, WindowProviders)
    if body.providers:
        await asyncio.to_thread(preload_http_client)
    if services.editor_keys.set_window(body.window, body.providers):
        services.apply_providers()
    return _encode({"problems": services.editor_keys.problems, **_revision(services)})


async def delete_keys(services: Services, incoming: IncomingRequest) -> bytes:
    """`DELETE /vscode/keys?window=ID`: forget a window."""
    _admit_owner(services, incoming)
    if services.editor_keys.remove(incoming.query.get("window", "")):
        services.apply_providers()
    return _encode(_revision(services))


async def report_status(services: Services, incoming: IncomingRequest) -> bytes:
    """`GET /vscode/status`: whether the configuration file was accepted, and what needs a restart."""
    _admit_owner(services, incoming)
    path = services.config.path
    status = services.config_status
    file = {"path": str(path) if path else "", "error": status.error, "restart_needed": list(status.restart_needed)}
    return _encode({"penstock": __version__, "config": file, **_revision(services)})


def _revision(services: Services) -> dict[str, int]:
    """The number of changes of keys and configuration: another number means that the list of models may be another."""
    return {"revision": services.revision}


def _encode(fields: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"version": 1, **fields})


# ── the list of providers ─────────────────────────────────────────────────────────────────────────


async def list_providers(services: Services, incoming: IncomingRequest) -> bytes:
    """`GET /vscode/providers`: all providers of the table, and own servers. Never a key."""
    _admit_owner(services, incoming)
    return _encode({"providers": list(_provider_rows(services)), **_revision(services)})


def _provider_rows(services: Services) -> Iterator[dict[str, Any]]:
    config, env = services.config.engine, services.env
    configured = {row.name for row in list_configured_providers(config, env)}
    merged = services.editor_keys.merged()
    own = [name for name in (*config.providers, *merged) if name not in providers()]
    for name in (*providers(), *dict.fromkeys(own)):
        if name in {REPLAY, COMPATIBLE}:
            continue
        given = merged.get(name)
        row = config.provider(name) if config.has(name) else None
        problem = services.editor_keys.problems.get(name, "")
        if row is None:  # an own server with a problem
            yield {"name": name, "label": given.title if given and given.title else name, "own": True,
                   "configured": False, "source": "", "problem": problem}  # fmt: skip
            continue
        account = config.account(name)
        source, variable = find_key_source(services, row, editor=given is not None and not problem)
        yield {
            "name": name,
            "label": row.title,
            "keys_url": row.keys_url,
            "needs_key": not any(one.optional or one.ambient or one.scheme == "none" for one in row.credentials),
            "key_form": _KEY_FORMS.get(row.auth, ""),
            "local": row.local,
            "own": name not in providers(),
            "configured": name in configured and not (account.only_facts and not source),
            "has_key": has_provider_key(services, row),
            "source": source,
            "variable": variable,
            "keys": len(given.keys) if given is not None else 0,
            "base_url": account.base_url or row.base_url,
            "origin": address_origin(row, account, env),
            "settings": [_describe_setting(name, one) for name, one in row.settings.items()],
            "problem": problem,
        }


def has_provider_key(services: Services, row: Provider) -> bool:
    """Return whether there is a key for a provider, wherever it comes from."""
    account = services.config.engine.account(row.name)
    if account.configured_keys(services.env):
        return True
    stated = account.variables or account.key_file  # then no other variable is used
    in_variable = not stated and any(services.env.get(name) for name in row.env)
    return in_variable or bool(find_stored_key(row, account, services.env).key)


def _describe_setting(name: str, setting: Setting) -> dict[str, Any]:
    return {
        "name": name,
        "about": setting.about,
        "default": setting.default,
        "required": not setting.default and not setting.of,
        "variable": setting.env[0] if setting.env else "",
    }


def find_key_source(services: Services, row: Provider, *, editor: bool) -> tuple[str, str]:
    """Return where a provider's key is (editor, configuration, environment, stored; or empty), and the variable."""
    if editor:
        return "editor", ""
    account = services.file_engine.account(row.name)
    if row.name in services.file_engine.providers and not account.only_facts:
        return "configuration", next((name for name in account.variables if services.env.get(name)), "")
    variable = next((name for name in row.env if services.env.get(name)), "")
    if variable:
        return "environment", variable
    return ("stored", "") if find_stored_key(row, account, services.env).key else ("", "")


# ── one request that proves a key ─────────────────────────────────────────────────────────────────


async def check_provider(services: Services, incoming: IncomingRequest) -> bytes:
    """`POST /vscode/providers/check`: send one request to a provider. The answer says in words what came of it."""
    _admit_owner(services, incoming)
    body: ProviderCheck = _read_body(incoming, ProviderCheck)
    label = body.provider
    try:
        row, config = _checked_provider(services, body)
        label = row.title
        proof, models = await send_key_check(row, config, services.env)
    except PenstockError as error:
        return _encode(explain_check_failure(error, label, lambda text: _clean(services, body, text)))
    found = {"models": [model.id for model in models]} if models else {}
    return _encode({"ok": True, "kind": "", "message": f"{label} answers: {proof}.", **found})


def explain_check_failure(error: PenstockError, label: str, clean: Callable[[str], str]) -> dict[str, Any]:
    """Return the answer for a check that failed. A refusal that only a known key gets counts as a good key."""
    if not isinstance(error, ProviderError):
        return {"ok": False, "kind": "config", "message": f"{clean(str(error))}."}
    status = f"{error.status}: " if error.status else ""
    said = f"({status}{clean(error.message)})"
    if error.kind in KEY_ACCEPTED:
        return {"ok": True, "kind": error.kind, "message": f"{label} knows the key, but refuses for now {said}."}
    if error.kind in KEY_REFUSED:
        advice = f"Check that the whole key was copied, and that it is one of {label}."
        return {"ok": False, "kind": error.kind, "message": f"{label} refused the key {said}. {advice}"}
    return {"ok": False, "kind": error.kind, "message": f"{label} could not be asked {said}."}


def _clean(services: Services, body: ProviderCheck, text: str) -> str:
    """Return a message without keys."""
    return redact(text, [*filter(None, [body.key.strip()]), *services.secrets]).rstrip(". ")


def _checked_provider(services: Services, body: ProviderCheck) -> tuple[Provider, Config]:
    """Return the provider to ask, and the configuration to ask it with."""
    config = services.upstream.router.config
    keys = (body.key.strip(),) if body.key.strip() else ()
    asked = EditorProvider(name=body.provider, keys=keys, base_url=body.base_url, settings=body.settings)
    if keys or body.base_url or body.settings or not config.has(body.provider):
        account = asked.account(config.account(body.provider))
        if config.has(body.provider):
            check_account(account, config.provider(body.provider))
        else:
            asked.check()
        config = replace(config, providers={**config.providers, body.provider: account})
    return config.provider(body.provider), config
