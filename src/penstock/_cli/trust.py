"""`penstock trust` allows a `penstock.toml` to decide where keys and data go.

Trust is given to the content of a file, so a changed file needs it again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock._cli.common_options import print_message
from penstock._cli.terminal import print_json
from penstock._gateway import config_trust
from penstock._gateway.config import FILE, parse_config
from penstock.errors import InputError

if TYPE_CHECKING:
    from argparse import Namespace


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
