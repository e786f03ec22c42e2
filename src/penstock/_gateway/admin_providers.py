"""The admin API's routes of providers: their keys (list, store, remove), a test with one request, and the check of the
configuration.

Keys are stored where `penstock setup` stores them, and are never sent back: at most their last characters are.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from penstock._client.key_check import send_key_check, with_key
from penstock._engines.credentials import address_origin, find_stored_key
from penstock._engines.environ import LIVE
from penstock._engines.model_resolution import REPLAY
from penstock._gateway.admin_calls import AdminCall, AdminRoute
from penstock._gateway.callers import make_refusal
from penstock._gateway.endpoints.vscode_providers import explain_check_failure, find_key_source, has_provider_key
from penstock._gateway.key_editor import KeyEditError
from penstock._gateway.lifecycle import list_config_problems
from penstock._http.header_fields import check_key
from penstock._providers.registry import COMPATIBLE, providers
from penstock._redaction import redact
from penstock._store.key_records import RecordChange
from penstock._store.provider_keys import ProviderKeys
from penstock.errors import InputError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engines.config import Config
    from penstock._providers.registry import Provider
    from penstock._store.provider_keys import StoredKey

SHOWN_CHARACTERS = 4  # of a key that is stored: enough to tell two keys apart
MIN_SHOWN_LENGTH = 20  # of a key whose last characters are shown
MAX_CHECKS = 4  # requests to providers at once
check_slots: threading.BoundedSemaphore = threading.BoundedSemaphore(MAX_CHECKS)
KeySource: TypeAlias = Literal["stored", "configuration", "environment", "editor", ""]


class ProviderView(msgspec.Struct, frozen=True, kw_only=True):
    """A provider. `source`: where its key is; `variable`: in which variable. `ending`: the end of a long key.

    `stored`: a key is stored; `used`: and it is the one that is sent. `origin`: the address that it is sent to.
    """

    name: str
    title: str
    keys_url: str
    key_needed: bool
    has_key: bool
    source: KeySource
    variable: str
    stored: bool
    used: bool
    ending: str
    added: str
    origin: str
    problem: str


class ProviderPage(msgspec.Struct, frozen=True):
    """All providers, by name."""

    data: list[ProviderView]


class NewProviderKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to store. It replaces the one that is stored. `check`: it is tested first, and stored if it is good."""

    name: str
    key: str
    check: bool = True

    def __repr__(self) -> str:
        return f"NewProviderKey(name={self.name!r})"


class ProviderTest(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one request. `kind` names the error. `seconds`: how long it took."""

    ok: bool
    kind: str
    message: str
    seconds: float


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


# ── providers ─────────────────────────────────────────────────────────────────────────────────────


def _list_providers(call: AdminCall) -> ProviderPage:
    return ProviderPage(list(_provider_views(call)))


def _provider_views(call: AdminCall) -> Iterator[ProviderView]:
    services = call.services
    config, stored = services.config.engine, _read_stored(call)
    for name in sorted({*providers(), *config.providers}):
        if name in {REPLAY, COMPATIBLE} or not config.has(name):
            continue
        row = config.provider(name)
        if row.name != name:  # another name of a provider of the table
            continue
        account = config.account(name)
        source, variable = find_key_source(services, row, editor=name in services.editor_keys.merged())
        key = find_stored_key(row, account, services.env)
        used = bool(key.key) and source in {"stored", "configuration"} and not account.configured_keys(services.env)
        yield ProviderView(
            name=name,
            title=row.title,
            keys_url=row.keys_url,
            key_needed=_needs_key(row),
            has_key=has_provider_key(services, row),
            source="stored" if used else cast("KeySource", source),
            variable=variable,
            stored=name in stored,
            used=used,
            ending=_ending(key.key) if name in stored else "",
            added=stored[name].added if name in stored else "",
            origin=address_origin(row, account, services.env),
            problem=key.refusal or services.editor_keys.problems.get(name, ""),
        )


def _ending(key: str) -> str:
    return key[-SHOWN_CHARACTERS:] if len(key) >= MIN_SHOWN_LENGTH else ""


def _needs_key(row: Provider) -> bool:
    return not any(one.optional or one.ambient or one.scheme == "none" for one in row.credentials)


def _store(call: AdminCall) -> ProviderKeys:
    if call.services.env is not LIVE:  # stored keys would not be used
        reason = "this gateway runs inside a program that gives it its variables: it does not use stored keys"
        raise KeyEditError(reason, status=409)
    return ProviderKeys.of(LIVE)


def _read_stored(call: AdminCall) -> dict[str, StoredKey]:
    return _store(call).read() if call.services.env is LIVE else {}


def _find_provider(call: AdminCall, name: str) -> Provider:
    config = call.services.config.engine
    if not config.has(name) or name in {REPLAY, COMPATIBLE}:
        reason = f"name: there is no provider {name[:100]!r}; a server of your own is added in penstock.toml"
        raise KeyEditError(reason, status=404, field="name")
    return config.provider(name)


def _actor(call: AdminCall) -> str:
    """Return who asks, for the audit log."""
    return f"key:{call.caller.key}" if call.caller.key_hash else call.caller.key


def _show_provider(call: AdminCall, name: str) -> ProviderView:
    return next(view for view in _provider_views(call) if view.name == name)


def _add_provider_key(call: AdminCall) -> ProviderView:
    try:
        given = msgspec.convert(call.body, NewProviderKey)
    except msgspec.ValidationError as error:
        field = next(
            (one for one in ("name", "key", "check") if f"`$.{one}`" in str(error) or f"`{one}`" in str(error)), ""
        )
        raise KeyEditError(f"{field or 'the body'}: {error}", field=field) from None
    row, store = _find_provider(call, given.name), _store(call)
    key = given.key.strip()
    _check_new_key(row, key)
    services = call.services
    account = services.config.engine.account(row.name)
    if given.check:
        config = services.upstream.router.config
        config = replace(config, providers={**config.providers, row.name: with_key(config.account(row.name), key)})
        result = _send_check(call, row, config, key)
        if not result.ok:
            raise KeyEditError(f"key: {result.message}", field="key")
    before = store.read().get(row.name)
    stored, _ = store.add(row.name, key, origin=address_origin(row, account, services.env))
    change = RecordChange(
        "provider", row.name, {"added": before.added} if before is not None else None, {"place": stored.place}
    )
    call.editor.store.add_audit(actor=_actor(call), action="provider.add-key", changes=(change,))
    _wait_for_key(call, row, key)
    return _show_provider(call, row.name)


def _check_new_key(row: Provider, key: str) -> None:
    if row.engine != "native" or row.auth == "none":
        raise KeyEditError(f"name: {row.title} needs no key", field="name", status=409)
    if not key:
        raise KeyEditError("key: it is empty", field="key")
    try:
        check_key(key, "key")
    except InputError as error:
        raise KeyEditError(redact(str(error), [key]), field="key") from None


def _wait_for_key(call: AdminCall, row: Provider, key: str) -> None:
    """Waits until this process has read the stored keys again, which it does four times a second."""
    until = time.monotonic() + 2.0
    while call.services.env.get(row.stored_name, "") != key and time.monotonic() < until:
        time.sleep(0.05)


def _remove_provider_key(call: AdminCall) -> None:
    row = _find_provider(call, call.name)
    if not _store(call).remove(row.name):
        raise KeyEditError(f"no key of {row.title} is stored here", status=404)
    change = RecordChange("provider", row.name, {"stored": True}, None)
    call.editor.store.add_audit(actor=_actor(call), action="provider.remove-key", changes=(change,))
    _wait_for_key(call, row, "")


def _test_provider(call: AdminCall) -> ProviderTest:
    row = _find_provider(call, call.name)
    return _send_check(call, row, call.services.upstream.router.config)


def _send_check(call: AdminCall, row: Provider, config: Config, key: str = "") -> ProviderTest:
    """Sends one request to a provider, and says in words what came of it."""
    if not check_slots.acquire(blocking=False):
        message = f"{MAX_CHECKS} providers are being tested: try again"
        raise make_refusal(503, "overloaded", message, code="busy", retry_after=2.0)
    began = time.monotonic()
    secrets = [*filter(None, [key]), *call.services.secrets]
    try:
        proof, _ = asyncio.run(send_key_check(row, config, call.services.env))
        found = {"ok": True, "kind": "", "message": f"{row.title} answers: {proof}."}
    except PenstockError as error:
        found = explain_check_failure(error, row.title, lambda text: redact(text, secrets).rstrip(". "))
    finally:
        check_slots.release()
    return msgspec.convert({**found, "seconds": round(time.monotonic() - began, 3)}, ProviderTest)


# ── the configuration ─────────────────────────────────────────────────────────────────────────────


def _check_config(call: AdminCall) -> ConfigCheck:
    services = call.services
    config, status = services.config, services.config_status
    problems = [
        ProblemView(setting=".".join(problem.keys), line=line, message=redact(problem.message, services.secrets))
        for problem, line in list_config_problems(config, services.env)
    ]
    return ConfigCheck(
        path=str(config.path or ""),
        error=redact(status.error, services.secrets),
        restart_needed=list(status.restart_needed),
        problems=problems,
    )


PROVIDER_ROUTES = (
    AdminRoute(
        "GET", "/admin/providers", "List providers and where their keys are", _list_providers, ProviderPage, owner=True
    ),
    AdminRoute(
        "POST",
        "/admin/providers",
        "Store the key of a provider. It is never shown again",
        _add_provider_key,
        ProviderView,
        NewProviderKey,
        201,
        changes_providers=True,
        owner=True,
    ),
    AdminRoute(
        "DELETE",
        "/admin/providers/{name}",
        "Remove the stored key of a provider",
        _remove_provider_key,
        None,
        status=204,
        changes_providers=True,
        owner=True,
    ),
    AdminRoute(
        "POST",
        "/admin/providers/{name}/test",
        "Send one request to a provider",
        _test_provider,
        ProviderTest,
        owner=True,
    ),
    AdminRoute("GET", "/admin/check", "Check the configuration", _check_config, ConfigCheck, owner=True),
)
