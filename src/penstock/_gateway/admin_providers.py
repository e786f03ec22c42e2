"""The admin API's routes of providers: the list, their keys (store, remove), and a test with one request.

`admin_custom_providers` has the routes of custom providers.

Keys are stored where `penstock setup` stores them, and are never sent back: at most their last characters are.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from penstock._client.key_check import KEY_REFUSED, with_key
from penstock._engines.credentials import address_origin, find_stored_key, shown_address
from penstock._engines.engine_pool import preload_http_client
from penstock._engines.environ import LIVE
from penstock._engines.model_resolution import REPLAY
from penstock._gateway.admin_calls import AdminCall, AdminRoute
from penstock._gateway.custom_provider_validation import check_resolved_host, describe_exposure, list_templates
from penstock._gateway.endpoints.vscode_providers import find_key_source, has_provider_key
from penstock._gateway.key_editor import KeyEditError, explain_error, record_tag
from penstock._gateway.provider_audit import apply_after_change, write_audit
from penstock._gateway.provider_test import (
    SKIP_TEST_HINT,
    ProviderTest,
    ProviderTestOptions,
    send_test_request,
)
from penstock._http.header_fields import check_key
from penstock._providers.registry import COMPATIBLE, STORED, providers
from penstock._redaction import redact
from penstock._store.key_records import RecordChange
from penstock._store.provider_keys import ProviderKeys
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock._engines.config import Account
    from penstock._providers.registry import Provider
    from penstock._store.custom_providers import CustomProvider
    from penstock._store.provider_keys import StoredKey

SHOWN_CHARACTERS = 4  # of a key that is stored: enough to tell two keys apart
MIN_SHOWN_LENGTH = 20  # of a key whose last characters are shown
Form = TypeVar("Form")
KeySource: TypeAlias = Literal["stored", "configuration", "environment", "editor", ""]


class ProviderView(msgspec.Struct, frozen=True, kw_only=True):
    """A provider. `source`: where its key is; `variable`: in which variable. `ending`: the end of a long key.

    `stored`: a key is stored; `used`: and it is the one that is sent. `origin`: the scheme, host and port that it is
    sent to; `address`: the whole address of the API. `problem`: what does not work; `warning`: what is not safe.

    `custom`: it was added here; `base_url`, `like`, `models` and `etag` are empty for others.
    """

    name: str
    title: str
    keys_url: str = ""
    key_needed: bool = False
    has_key: bool = False
    source: KeySource = ""
    variable: str = ""
    stored: bool = False
    used: bool = False
    ending: str = ""
    added: str = ""
    origin: str = ""
    address: str = ""
    problem: str = ""
    warning: str = ""
    custom: bool = False
    base_url: str = ""
    like: str = ""
    models: tuple[str, ...] = ()
    etag: str = ""


class ProviderName(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that a custom one can behave like."""

    name: str
    title: str


class ProviderPage(msgspec.Struct, frozen=True):
    """All providers, by name. `templates`: what a custom provider can behave like.

    `error`: which file is not used, and why.
    """

    data: list[ProviderView]
    templates: list[ProviderName]
    error: str


class NewProviderKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to store. It replaces the one that is stored. `check`: it is tested first, and stored if it is good."""

    name: str
    key: str
    check: bool = True

    def __repr__(self) -> str:
        return f"NewProviderKey(name={self.name!r})"


# ── providers ─────────────────────────────────────────────────────────────────────────────────────


def _list_providers(call: AdminCall) -> ProviderPage:
    templates = [ProviderName(name=row.name, title=row.title) for row in list_templates()]
    stored, key_error = read_stored_keys(call)
    errors = filter(None, (call.services.custom_providers.error, key_error))
    return ProviderPage(list(_provider_views(call, stored)), templates, "; ".join(errors))


def _provider_views(call: AdminCall, stored: Mapping[str, StoredKey]) -> Iterator[ProviderView]:
    services = call.services
    config, custom_rows = services.config.engine, services.custom_providers.rows
    for name in sorted({*providers(), *config.providers, *custom_rows}):
        if name in {REPLAY, COMPATIBLE}:
            continue
        custom = _custom_fields(custom_rows[name]) if name in custom_rows else {}
        problem = services.custom_providers.problems.get(name, "") or services.editor_keys.problems.get(name, "")
        if not config.has(name):
            if custom:  # it cannot be used
                yield _unusable_view(name, custom_rows[name], problem)
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
            address=redact(shown_address(row, account, services.env), services.secrets),
            problem=problem or key.refusal,
            **custom,
        )


def _custom_fields(custom: CustomProvider) -> dict[str, Any]:
    return {
        "custom": True,
        "base_url": custom.base_url,
        "like": custom.like,
        "models": custom.models,
        "etag": record_tag(custom),
        "warning": describe_exposure(custom.base_url),
    }


def _unusable_view(name: str, row: CustomProvider, problem: str) -> ProviderView:
    return ProviderView(
        name=name, title=row.title or name, address=row.base_url, problem=problem, **_custom_fields(row)
    )


def _ending(key: str) -> str:
    return key[-SHOWN_CHARACTERS:] if len(key) >= MIN_SHOWN_LENGTH else ""


def _needs_key(row: Provider) -> bool:
    return not any(one.optional or one.ambient or one.scheme == "none" for one in row.credentials)


def open_key_store(call: AdminCall) -> ProviderKeys:
    """Return the stored keys of providers. Raises if this gateway would not use them."""
    if call.services.env is not LIVE:  # stored keys would not be used
        reason = "this gateway runs inside a program that gives it its variables: it does not use stored keys"
        raise KeyEditError(reason, status=409)
    return ProviderKeys.of(LIVE)


def read_stored_keys(call: AdminCall) -> tuple[dict[str, StoredKey], str]:
    """Return which keys are stored, and why that is not known: then none are used."""
    if call.services.env is not LIVE:
        return {}, ""
    try:
        return open_key_store(call).read(), ""
    except (InputError, OSError) as error:
        return {}, str(error)


def _find_provider(call: AdminCall, name: str) -> Provider:
    config = call.services.config.engine
    if not config.has(name) or name in {REPLAY, COMPATIBLE}:
        reason = f"name: there is no provider {name[:100]!r}; POST /admin/custom-providers adds a custom provider"
        raise KeyEditError(reason, status=404, field="name")
    return config.provider(name)


def show_provider(call: AdminCall, name: str) -> ProviderView:
    """Return the provider as it is listed."""
    return next(view for view in _provider_views(call, read_stored_keys(call)[0]) if view.name == name)


def read_body(call: AdminCall, form: type[Form]) -> Form:
    """Return the body of a request. The error names the field."""
    try:
        return msgspec.convert(call.body, form)
    except msgspec.ValidationError as error:
        path, reason = explain_error(error)
        field = path.partition("[")[0]
        known = field in getattr(form, "__struct_fields__", ())
        raise KeyEditError(f"{field or 'the body'}: {reason}", field=field if known else "") from None


def _add_provider_key(call: AdminCall) -> ProviderView:
    given = read_body(call, NewProviderKey)
    row, key = _find_provider(call, given.name), given.key.strip()
    open_key_store(call)
    check_new_key(row, key)
    preload_http_client()
    if given.check:
        config = call.services.upstream.router.config
        config = replace(config, providers={**config.providers, row.name: with_key(config.account(row.name), key)})
        result = send_test_request(call, row, config, key)
        if not result.ok and result.kind in KEY_REFUSED:
            raise KeyEditError(f"key: {result.message}", field="key")
        if not result.ok:
            settings = " Settings of a provider stand in penstock.toml." if result.kind == "config" else ""
            raise KeyEditError(f"name: {result.message}{settings} {SKIP_TEST_HINT}", field="name")
    with apply_after_change(call):
        store_key(call, row, call.services.config.engine.account(row.name), key)
    return show_provider(call, row.name)


def store_key(call: AdminCall, row: Provider, account: Account, key: str) -> None:
    """Store a key for the address of an account. The row of the audit log is written first."""
    store, origin = open_key_store(call), address_origin(row, account, call.services.env)
    before = store.read().get(row.name)
    change = RecordChange(
        "provider", row.name, {"added": before.added} if before is not None else None, {"origin": origin}
    )
    with ExitStack() as undo:
        undo.callback(write_audit(call, "provider.add-key", change))
        store.add(row.name, key, origin=origin)
        undo.pop_all()
    _wait_for_key(call, row.name, key)


def check_new_key(row: Provider, key: str) -> None:
    """Raise unless a key can be stored and sent."""
    if row.engine != "native" or row.auth == "none":
        raise KeyEditError(f"name: {row.title} needs no key", field="name", status=409)
    if not key:
        raise KeyEditError("key: it is empty", field="key")
    try:
        check_key(key, "key")
    except InputError as error:
        raise KeyEditError(redact(str(error), [key]), field="key") from None


def _wait_for_key(call: AdminCall, name: str, key: str) -> None:
    """Wait until this process has read the stored keys again, which it does four times a second."""
    until = time.monotonic() + 2.0
    while call.services.env.get(f"{STORED}{name}", "") != key and time.monotonic() < until:
        time.sleep(0.05)


def _remove_provider_key(call: AdminCall) -> None:
    row = _find_provider(call, call.name)
    with apply_after_change(call):
        if not remove_key(call, row.name):
            raise KeyEditError(f"no key of {row.title} is stored here", status=404)


def remove_key(call: AdminCall, name: str) -> bool:
    """Remove the stored key of a provider. The row of the audit log is written first. Return False if there is none."""
    store = open_key_store(call)
    if name not in store.read():
        return False
    with ExitStack() as undo:
        undo.callback(write_audit(call, "provider.remove-key", RecordChange("provider", name, {"stored": True}, None)))
        if not store.remove(name):  # somebody else has removed it
            return False
        undo.pop_all()
    _wait_for_key(call, name, "")
    return True


def _test_provider(call: AdminCall) -> ProviderTest:
    options = read_body(call, ProviderTestOptions)
    row, config = _find_provider(call, call.name), call.services.upstream.router.config
    if row.name in call.services.custom_providers.rows and row.name not in call.services.file_engine.providers:
        try:
            check_resolved_host(config.account(row.name).base_url)
        except InputError as error:
            message = str(error).removeprefix("base_url: ")
            return ProviderTest(ok=False, kind="config", message=f"{message}.", seconds=0.0)
        row = replace(row, open_models=False)
    return send_test_request(call, row, config, ask_model=options.ask_model)


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
        owner=True,
    ),
    AdminRoute(
        "DELETE",
        "/admin/providers/{name}",
        "Remove the stored key of a provider",
        _remove_provider_key,
        None,
        status=204,
        owner=True,
    ),
    AdminRoute(
        "POST",
        "/admin/providers/{name}/test",
        "Send one request to a provider",
        _test_provider,
        ProviderTest,
        ProviderTestOptions,
        owner=True,
    ),
)
