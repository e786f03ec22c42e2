"""`penstock trust`: lets the `penstock.toml` of a folder decide where keys and data go. Once per content."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from penstock._gateway.config_trust import Trusted, TrustStore

EPILOG = """\
examples:
  penstock trust
  penstock trust ~/work/penstock.toml
  penstock trust --list
  penstock trust --remove

A penstock.toml that was found in the current folder may hold aliases, limits, timeouts and the like. Settings that
decide where keys, texts or data go, or who may connect, are refused until you have read the file and trusted it. When
it changes it must be trusted again. A file that is named, by --config or PENSTOCK_CONFIG, needs no trust.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    parser.epilog = EPILOG
    parser.add_argument("path", metavar="PATH", nargs="?", type=Path, default=Path(), help="a file, or its folder")
    parser.add_argument("--list", action="store_true", help="show what is trusted")
    parser.add_argument("--remove", action="store_true", help="trust a file no more")


def run(options: Namespace) -> int:
    """Trust a file, or show what is trusted, or take trust away."""
    from penstock._gateway.config import FILE
    from penstock._gateway.config_trust import TrustStore
    from penstock._store.sqlite import data_folder

    store = TrustStore(data_folder(os.environ))
    path: Path = options.path / FILE if options.path.is_dir() else options.path
    if options.list:
        _list_trusted(store)
    elif options.remove:
        _remove_trust(store, path)
    else:
        _trust_file(store, path)
    return 0


def _trust_file(store: TrustStore, path: Path) -> None:
    from penstock._gateway.config import parse_config
    from penstock._gateway.config_trust import locate_settings, sensitive_settings
    from penstock._gateway.toml_locations import TomlLocations

    data = path.read_bytes()
    text, raw = parse_config(data, path)
    place = TomlLocations(text, path)
    for keys in sensitive_settings(raw):
        print(f"{path}:{place.line(keys)}: {'.'.join(keys)}", file=sys.stderr)
    store.add(path, data)  # the bytes whose settings were shown
    print(f"penstock: {locate_settings(path)} is trusted as it is now", file=sys.stderr)


def _remove_trust(store: TrustStore, path: Path) -> None:
    from penstock._gateway.config_trust import locate_settings
    from penstock.errors import InputError

    if not store.remove(path):
        raise InputError(f"{locate_settings(path)} was not trusted; `penstock trust --list` shows what is")
    print(f"penstock: {locate_settings(path)} is not trusted any more", file=sys.stderr)


def _list_trusted(store: TrustStore) -> None:
    rows = store.read()
    if not rows:
        print("nothing is trusted: `penstock trust` trusts the penstock.toml of this folder")
    for one in rows:
        print(f"{one.sha256[:12]}  {one.time}  {one.path}{_file_state(one)}")


def _file_state(one: Trusted) -> str:
    """Whether the file is still the one that was trusted."""
    from penstock._gateway.config_trust import content_hash

    try:
        return "" if content_hash(Path(one.path).read_bytes()) == one.sha256 else "  (another content)"
    except OSError:
        return "  (no such file)"
