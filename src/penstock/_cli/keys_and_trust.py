"""`penstock keys` manages gateway keys; `penstock trust` allows a `penstock.toml` to decide where keys and data go.

A key is shown once, when it is created. Trust is given to the content of a file, so a changed file needs it again.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock._cli.common_options import load_config, print_message
from penstock._cli.suggestions import suggest
from penstock._cli.terminal import print_json
from penstock._gateway import config_trust
from penstock._gateway.config import FILE, Key, Limit, parse_config
from penstock._gateway.keys import KeyFile, create_key, hash_key, open_key_file
from penstock.errors import InputError

if TYPE_CHECKING:
    from argparse import Namespace

    from penstock._gateway.config import GatewayConfig


def run_keys(options: Namespace) -> int:
    """Adds, lists, revokes or resets keys."""
    config = load_config(options)
    file = open_key_file(config)
    if file is None:
        raise InputError('access.keys_file: "memory" keeps no keys; name a file')
    if options.action == "list":
        _list_keys(config, file, as_json=options.json)
    elif options.action == "reset":
        return _reset_keys(config, file, options)
    elif not options.name:
        raise InputError(f"keys {options.action} needs the name of a key")
    else:
        {"add": _add_key, "rotate": _rotate_key, "revoke": _revoke_key}[options.action](config, file, options)
    return 0


def _add_key(config: GatewayConfig, file: KeyFile, options: Namespace) -> None:
    if options.name in config.keys:
        raise InputError(f"there is a key {options.name!r} in {config.path} already; choose another name")
    limit = Limit(**{name: getattr(options, name) for name in Limit.__struct_fields__})
    secret = create_key()
    key = Key(
        hash=hash_key(secret),
        models=tuple(options.models or ("*",)),
        tenant=options.tenant,
        note=options.note,
        limits=limit if limit != Limit() else None,
        inspect="all" if options.inspect_all else "own",
        created=_today(),
    )
    file.add(options.name, key)
    _print_secret(secret, file, options)


def _rotate_key(config: GatewayConfig, file: KeyFile, options: Namespace) -> None:
    """Replaces a key by a new one with the same name, models and limits. The old one ends at once."""
    _check_in_file(config, file, options.name)
    secret = create_key()
    file.rotate(options.name, hash_key(secret), _today())
    _print_secret(secret, file, options)


def _print_secret(secret: str, file: KeyFile, options: Namespace) -> None:
    if options.json:
        print_json({"name": options.name, "key": secret, "file": str(file.path)})
        return
    print(secret)
    print_message(f"the key {options.name!r} is shown this once; its hash is in {file.path}")


def _today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def _check_in_file(config: GatewayConfig, file: KeyFile, name: str) -> None:
    """Raises if the key is in the configuration, or nowhere."""
    if name in config.keys:
        raise InputError(f"the key {name!r} stands in {config.path}: take [keys.{name}] out of it")
    rows = file.read()
    if name not in rows:
        known = suggest(name, rows) or f"; there is: {', '.join(sorted(rows)) or 'none'}"
        raise InputError(f"there is no key {name!r} in {file.path}{known}")


def _revoke_key(config: GatewayConfig, file: KeyFile, options: Namespace) -> None:
    _check_in_file(config, file, options.name)
    file.revoke(options.name)
    if options.json:
        print_json({"name": options.name, "revoked": True, "file": str(file.path)})
    else:
        print_message(f"the key {options.name!r} is revoked; requests with it are refused")


def _reset_keys(config: GatewayConfig, file: KeyFile, options: Namespace) -> int:
    if options.name:
        raise InputError(
            f"keys reset deletes all keys and takes no name; `penstock keys revoke {options.name}` ends one"
        )
    if config.keys:
        names = ", ".join(f"[keys.{name}]" for name in config.keys)
        raise InputError(f"{config.path} has keys too: take {names} out of it first")
    if not options.yes and not _confirm_reset(file):
        print_message("nothing was changed")
        return 1
    file.reset()
    if options.json:
        print_json({"reset": True, "file": str(file.path)})
        return 0
    print_message("all keys are deleted; a gateway that is started now serves this machine without a key")
    print_message("gateways that are running stay closed until they are restarted")
    return 0


def _confirm_reset(file: KeyFile) -> bool:
    if not sys.stdin.isatty():
        raise InputError(f"keys reset deletes every key in {file.path}; say --yes if that is what you want")
    effect = "Programs on this machine can then use the gateway without a key."
    print(f"This deletes every key in {file.path}. {effect}", file=sys.stderr)
    print("Type yes to go on: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() == "yes"


def _list_keys(config: GatewayConfig, file: KeyFile, *, as_json: bool) -> None:
    rows = {name: (key, str(file.path)) for name, key in file.read().items()}
    rows |= {name: (key, str(config.path)) for name, key in config.keys.items()}
    if as_json:
        listed = {
            name: {**msgspec.to_builtins(key), "hash": key.hash[:15], "in": path} for name, (key, path) in rows.items()
        }
        print(msgspec.json.format(msgspec.json.encode(listed)).decode())
        return
    if not rows:
        closed = "; until then, or `penstock keys reset`, the gateway stays closed" if file.required else ""
        print(f"there are no keys: `penstock keys add NAME` makes one{closed}")
    width = max([4, *map(len, rows)])
    for name, (key, path) in sorted(rows.items()):
        print(f"{name:<{width}}  {_describe_key(key)}  {path}")


def _describe_key(key: Key) -> str:
    limits: dict[str, float] = msgspec.to_builtins(key.limits) if key.limits else {}
    shown_limits = [f"{name}={value:g}" for name, value in limits.items() if value]
    inspects = "inspects all" if key.inspect == "all" else ""
    return "  ".join(filter(None, [key.created, ", ".join(key.models), *shown_limits, inspects, key.note]))


def run_trust(options: Namespace) -> int:
    """Trusts a file, lists the trusted files, or removes one of them."""
    from penstock._store.data_folder import data_folder

    store = config_trust.TrustStore(data_folder(os.environ))
    path: Path = options.path / FILE if options.path.is_dir() else options.path
    if options.list:
        _list_trusted(store, as_json=options.json)
    elif options.remove:
        if not store.remove(path):
            name = config_trust.locate_settings(path)
            raise InputError(f"{name} was not trusted; `penstock trust --list` shows what is")
        if options.json:
            print_json({"path": str(config_trust.locate_settings(path)), "trusted": False})
        else:
            print_message(f"{config_trust.locate_settings(path)} is not trusted any more")
    else:
        _trust_file(store, path, as_json=options.json)
    return 0


def _trust_file(store: config_trust.TrustStore, path: Path, *, as_json: bool) -> None:
    from penstock._gateway.toml_locations import TomlLocations

    data = path.read_bytes()
    text, raw = parse_config(data, path)
    locations = TomlLocations(text, path)
    settings = [(locations.line_number(keys), ".".join(keys)) for keys in config_trust.sensitive_settings(raw)]
    if not as_json:
        for line, name in settings:
            print(f"{path}:{line}: {name}", file=sys.stderr)
    store.add(path, data)  # the bytes whose settings were shown
    if as_json:
        shown = [{"line": line, "name": name} for line, name in settings]
        print_json({"path": str(config_trust.locate_settings(path)), "trusted": True, "settings": shown})
    else:
        print_message(f"{config_trust.locate_settings(path)} is trusted as it is now")


def _list_trusted(store: config_trust.TrustStore, *, as_json: bool) -> None:
    rows = store.read()
    if as_json:
        print_json([{**msgspec.to_builtins(row), "state": _file_state(row)} for row in rows])
        return
    if not rows:
        print("nothing is trusted: `penstock trust` trusts the penstock.toml of this folder")
    for row in rows:
        state = _file_state(row)
        print(f"{row.sha256[:12]}  {row.time}  {row.path}{f'  ({state})' if state != 'trusted' else ''}")


def _file_state(row: config_trust.Trusted) -> str:
    """Returns `trusted`, or what has become of the file since."""
    try:
        same = config_trust.content_hash(Path(row.path).read_bytes()) == row.sha256
    except OSError:
        return "no such file"
    return "trusted" if same else "another content"
