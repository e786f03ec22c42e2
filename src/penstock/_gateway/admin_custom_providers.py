"""The admin API's routes of custom providers, which an admin adds: add, replace and remove one.

They are kept in `custom-providers.json`, their keys where all keys of providers are. A key is bound to the origin of
the address that it was given for: a provider whose address changes has no key until one is given again.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from penstock._client.key_check import KEY_REFUSED, with_key
from penstock._engines.config import Config
from penstock._engines.credentials import address_origin, url_origin
from penstock._engines.engine_pool import preload_http_client
from penstock._engines.environ import LIVE
from penstock._gateway.admin_calls import AdminRoute
from penstock._gateway.admin_providers import (
    ProviderView,
    check_new_key,
    open_key_store,
    read_body,
    read_stored_keys,
    remove_key,
    show_provider,
    store_key,
)
from penstock._gateway.custom_provider_validation import (
    check_custom_name,
    check_custom_provider,
    check_resolved_host,
    make_account,
)
from penstock._gateway.key_editor import KeyEditError, record_tag
from penstock._gateway.provider_audit import AuditLogError, apply_after_change, write_audit
from penstock._gateway.provider_test import NO_LIST_KIND, SKIP_TEST_HINT, send_test_request
from penstock._providers.registry import COMPATIBLE
from penstock._store.custom_providers import CustomProvider
from penstock._store.key_records import RecordChange
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from penstock._gateway.admin_calls import AdminCall
    from penstock._providers.registry import Provider
    from penstock._store.custom_providers import CustomProvidersFile, Rows

log = logging.getLogger("penstock.admin")
_FIELDS = frozenset({"name", "base_url", "like", "title", "models", "key"})


class CustomProviderFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A custom provider: all that it has. `like`: the provider that it behaves like.

    `models`: in place of the list that it gives. `key`: empty keeps the one that is stored, unless the address is
    another one. `check`: one request is sent first, and nothing is stored if it fails.
    """

    base_url: str
    like: str = COMPATIBLE
    title: str = ""
    models: tuple[str, ...] = ()
    key: str = ""
    check: bool = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.base_url!r})"


class NewCustomProvider(CustomProviderFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A custom provider to add. Its models are asked for as `name/model`."""

    name: str


def _add_custom(call: AdminCall) -> ProviderView:
    given = read_body(call, NewCustomProvider)
    file, name = _open_file(call), given.name
    custom = _read_custom(name, given, added=time.strftime("%Y-%m-%d", time.gmtime()), is_new=True)
    _check_free(call, name, _read_file(file))
    _check_before_storing(call, name, custom, given)

    def edit(rows: Rows) -> dict[str, CustomProvider]:
        _check_free(call, name, rows)
        return {**rows, name: custom}

    with apply_after_change(call), _change_file(call, file, name, edit, "provider.add"):
        if given.key.strip():
            store_key(call, _row_of(name, custom), make_account(custom), given.key.strip())
    return show_provider(call, name)


def _replace_custom(call: AdminCall) -> ProviderView:
    given = read_body(call, CustomProviderFields)
    file, name = _open_file(call), call.name
    before = _find_custom(call, _read_file(file))
    if name in call.services.file_engine.providers:
        raise KeyEditError(f"penstock.toml has a provider {name!r}, which goes first: remove this one", status=409)
    custom = _read_custom(name, given, added=before.added)
    _check_before_storing(call, name, custom, given)

    def edit(rows: Rows) -> dict[str, CustomProvider]:
        _find_custom(call, rows)
        return {**rows, name: custom}

    with apply_after_change(call), _change_file(call, file, name, edit, "provider.edit"):
        if given.key.strip():
            store_key(call, _row_of(name, custom), make_account(custom), given.key.strip())
        elif url_origin(custom.base_url) != url_origin(before.base_url):
            _remove_stored_key(call, name, before)
    return show_provider(call, name)


def _remove_custom(call: AdminCall) -> None:
    name = call.name

    def edit(rows: Rows) -> dict[str, CustomProvider]:
        _find_custom(call, rows)
        return {other: row for other, row in rows.items() if other != name}

    with apply_after_change(call), _change_file(call, _open_file(call), name, edit, "provider.remove") as before:
        _remove_stored_key(call, name, before[name])


# ── checks ────────────────────────────────────────────────────────────────────────────────────────


def _open_file(call: AdminCall) -> CustomProvidersFile:
    file = call.services.custom_providers.file
    if file is None:
        reason = "this gateway has no data folder, so it keeps no custom providers: add this one to its configuration"
        raise KeyEditError(reason, status=409)
    return file


def _read_custom(name: str, given: CustomProviderFields, *, added: str, is_new: bool = False) -> CustomProvider:
    """Return the custom provider of a body, or raise what is wrong with it."""
    url = given.base_url.strip()
    scheme, colon, rest = url.partition("://")
    custom = CustomProvider(
        base_url=f"{scheme.lower()}{colon}{rest.rstrip('/')}",
        like=given.like,
        title=given.title.strip(),
        models=tuple(dict.fromkeys(given.models)),
        added=added,
    )
    try:
        if is_new:
            check_custom_name(name)
        check_custom_provider(name, custom)
    except InputError as error:
        raise _to_field_error(error) from None
    return custom


def _to_field_error(error: InputError) -> KeyEditError:
    field = str(error).partition(":")[0]
    return KeyEditError(str(error), field=field if field in _FIELDS else "")


def _check_free(call: AdminCall, name: str, rows: Rows) -> None:
    """Raise if another provider of this gateway has the name."""
    services, reason = call.services, ""
    if name in services.file_engine.providers:
        reason = f"penstock.toml has a provider {name!r} already: choose another name, or change it there"
    elif name in rows:
        reason = f"there is a custom provider {name!r} already: choose another name, or change that one"
    elif name in services.editor_keys.merged():
        reason = f"an editor that uses this gateway has a provider {name!r}: choose another name"
    if reason:
        raise KeyEditError(f"name: {reason}", status=409, field="name")


def _find_custom(call: AdminCall, rows: Rows) -> CustomProvider:
    """Return the custom provider of the path. Raise if there is none, or if the caller has seen another content."""
    custom = rows.get(call.name)
    if custom is None:
        raise KeyEditError(f"there is no custom provider {call.name[:100]!r}", status=404)
    if call.tag is not None and call.tag != record_tag(custom):
        reason = f"the custom provider {call.name!r} was changed by somebody else meanwhile; read it again"
        raise KeyEditError(reason, status=412)
    return custom


def _check_before_storing(call: AdminCall, name: str, custom: CustomProvider, given: CustomProviderFields) -> None:
    """Raise if the address or the key may not be used, or if the provider does not answer."""
    row, key = _row_of(name, custom), given.key.strip()
    if key:
        open_key_store(call)
        check_new_key(row, key)
    try:
        check_resolved_host(custom.base_url)
    except InputError as error:
        raise _to_field_error(error) from None
    preload_http_client()
    if given.check:
        _send_test(call, row, custom, key)


def _send_test(call: AdminCall, row: Provider, custom: CustomProvider, key: str) -> None:
    account = with_key(make_account(custom), key) if key else make_account(custom)
    config = call.services.upstream.router.config
    config = replace(config, providers={**config.providers, row.name: account})
    result = send_test_request(call, replace(row, open_models=False), config, key)
    if result.ok:
        return
    if result.kind == NO_LIST_KIND:
        raise KeyEditError(f"models: {result.message}", field="models")
    if result.kind not in KEY_REFUSED:
        advice = f"Check that its API begins at this address. {SKIP_TEST_HINT}"
        raise KeyEditError(f"base_url: {result.message} {advice}", field="base_url")
    why = result.message if key else f"{row.title} asks for a key: give one, or check the one that is stored"
    raise KeyEditError(f"key: {why}", field="key")


def _row_of(name: str, custom: CustomProvider) -> Provider:
    return Config(providers={name: make_account(custom)}).provider(name)


# ── changes ───────────────────────────────────────────────────────────────────────────────────────


def _read_file(file: CustomProvidersFile) -> dict[str, CustomProvider]:
    with _file_errors(file, "read"):
        return file.read()


@contextmanager
def _change_file(
    call: AdminCall, file: CustomProvidersFile, name: str, edit: Callable[[Rows], Rows], action: str
) -> Generator[Rows]:
    """Change a provider of the file, after a row in the audit log. Both are undone if the caller's next steps fail."""
    with ExitStack() as undo:

        def edit_and_log(rows: Rows) -> Rows:
            after = edit(rows)
            shown = [msgspec.to_builtins(one[name]) if name in one else None for one in (rows, after)]
            undo.callback(write_audit(call, action, RecordChange("provider", name, *shown)))
            return after

        with _file_errors(file, "written"):
            before = file.change(edit_and_log)
        undo.callback(_restore_row, file, name, before.get(name))
        yield before
        undo.pop_all()


def _restore_row(file: CustomProvidersFile, name: str, row: CustomProvider | None) -> None:
    """Give a provider the row that it had before a change; None: it had none."""
    try:
        file.change(lambda rows: {**{one: rows[one] for one in rows if one != name}, **({name: row} if row else {})})
    except (OSError, InputError) as error:
        log.error("the change of %s could not be undone in %s: %s", name, file.path, error)  # noqa: TRY400


@contextmanager
def _file_errors(file: CustomProvidersFile, what: str) -> Generator[None]:
    """Raise what is wrong with the file, or with its size, as a conflict."""
    try:
        yield
    except AuditLogError:
        raise
    except OSError as error:
        raise KeyEditError(f"{file.path} cannot be {what}: {error.strerror or error}", status=409) from error
    except KeyEditError:
        raise
    except InputError as error:
        raise KeyEditError(str(error), status=409) from None


def _remove_stored_key(call: AdminCall, name: str, custom: CustomProvider) -> None:
    """Remove the key of a custom provider, if one is stored for its address and `penstock.toml` does not use it."""
    services = call.services
    if services.env is not LIVE:
        return
    stored, file = read_stored_keys(call)[0].get(name), services.file_engine
    if stored is None or stored.origin != url_origin(custom.base_url):
        return
    if name in file.providers and address_origin(file.provider(name), file.account(name), LIVE) == stored.origin:
        return
    remove_key(call, name)


CUSTOM_PROVIDER_ROUTES = (
    AdminRoute(
        "POST",
        "/admin/custom-providers",
        "Add a custom provider. Its key is never shown again",
        _add_custom,
        ProviderView,
        NewCustomProvider,
        201,
        owner=True,
    ),
    AdminRoute(
        "PUT",
        "/admin/custom-providers/{name}",
        "Replace a custom provider",
        _replace_custom,
        ProviderView,
        CustomProviderFields,
        tagged=True,
        owner=True,
    ),
    AdminRoute(
        "DELETE",
        "/admin/custom-providers/{name}",
        "Remove a custom provider, and its stored key",
        _remove_custom,
        None,
        status=204,
        tagged=True,
        owner=True,
    ),
)
