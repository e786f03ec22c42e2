"""Stores a provider's key: reads it from the terminal, checks it with one request, and never shows it."""

from __future__ import annotations

import asyncio
import sys
from getpass import getpass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock._cli.common_options import find_command, print_message
from penstock._cli.suggestions import suggest
from penstock._cli.terminal import Column, print_json, print_table
from penstock._engines.credentials import address_origin
from penstock._engines.environ import LIVE
from penstock._http.header_fields import check_key
from penstock._providers.registry import Provider, providers
from penstock._redaction import redact
from penstock._store.provider_keys import ProviderKeys
from penstock.errors import InputError, PenstockError, ProviderError

if TYPE_CHECKING:
    from argparse import Namespace

    from penstock._engines.config import Config


def list_keys(*, as_json: bool) -> int:
    """Prints whose keys are stored, and where. Never prints a key."""
    store = ProviderKeys.of(LIVE)
    rows = store.read()
    if as_json:
        fields = [
            {
                "provider": name,
                "stored_in": row.place,
                "for": row.origin,
                "added": row.added,
                "used": not _overruled_by(name),
            }
            for name, row in sorted(rows.items())
        ]
        print_json(fields)
        return 0
    if not rows:
        print_message(f"no key is stored: `{find_command()} setup` stores one")
        return 0
    locations = {"keyring": "keyring of the system", "file": str(store.path)}
    cells = [
        (name, locations[row.place], row.origin, row.added, _overruled_by(name)) for name, row in sorted(rows.items())
    ]
    styles = {"provider": "bold", "stored in": "", "for": "", "since": "dim", "": "yellow"}
    print_table([Column(title, style) for title, style in styles.items()], cells)
    return 0


def _overruled_by(name: str) -> str:
    row = providers().get(name)
    variable = next((name for name in row.env if LIVE.get(name)), "") if row else ""
    return f"not used: {variable} is set" if variable else ""


def remove_key(name: str, *, as_json: bool) -> int:
    """Removes the stored key of a provider."""
    store = ProviderKeys.of(LIVE)
    if not store.remove(name):
        hint = suggest(name, store.read()) or f"; `{find_command()} setup --list` shows what is"
        raise InputError(f"no key of {name!r} is stored{hint}")
    if as_json:
        print_json({"provider": name, "removed": True})
        return 0
    print_message(f"the key of {name} is removed; running gateways stop using it within a second")
    return 0


def add_key(options: Namespace, config: Config) -> int:
    """Reads a key, checks it and stores it."""
    row = config.provider(options.provider) if options.provider else _choose_provider(config)
    if row.engine != "native" or row.auth == "none":
        raise InputError(f"{row.name} needs no key")
    key = _read_key(row, from_stdin=options.key_stdin)
    if not options.no_check and not _check_key(row, key, config):
        return 1
    store = ProviderKeys.of(LIVE)
    origin = address_origin(row, config.account(row.name), LIVE)
    stored, why = store.add(row.name, key, origin=origin, keyring=not options.file)
    if options.json:
        about = {"provider": row.name, "stored_in": stored.place, "for": origin, "checked": not options.no_check}
        print_json({**about, "used": not _overruled_by(row.name)})
        return 0
    where = f"{store.path}, which only you can read ({why})" if why else "the keyring of the system"
    bound = f"; it is sent to {origin} only" if origin else ""
    print_message(f"the key of {row.name} is stored in {where}{bound}")
    _print_key_status(row)
    return 0


def _print_key_status(row: Provider) -> None:
    """Prints whether the stored key is used now, or what is missing."""
    overruled = _overruled_by(row.name)
    if overruled:
        print_message(f"{overruled.removeprefix('not used: ')}, and goes before the stored key")
    elif not row.configured(LIVE):
        lacking = [
            one.env[0] for one in row.settings.values() if one.env and not one.default and not LIVE.get(one.env[0])
        ]
        print_message(f"its address needs more: set {', '.join(lacking)}, or settings under [providers.{row.name}]")
    else:
        run = find_command()
        print_message(f"gateways, clients and commands use it from now on: `{run} models {row.name}`, `{run} serve`")


def _choose_provider(config: Config) -> Provider:
    """Asks for a provider: a number of the list, or any name."""
    rows = [row for row in providers().values() if row.keys_url]
    if sys.stdin is not None and sys.stdin.isatty():
        print_table(
            (Column("", "dim"), Column("provider", "bold"), Column(""), Column("where keys are made", "dim")),
            [(str(number), row.name, row.title, row.keys_url) for number, row in enumerate(rows, 1)],
        )
    otherwise = f"give --provider NAME (`{find_command()} providers` lists them)"
    answer = _ask_user("Number or name of the provider: ", otherwise)
    if answer.isdigit() and 1 <= int(answer) <= len(rows):
        return rows[int(answer) - 1]
    if not answer:
        raise InputError("no provider was chosen; nothing was changed")
    return config.provider(answer)


def _read_key(row: Provider, *, from_stdin: bool) -> str:
    if from_stdin:
        key = sys.stdin.readline().strip()
    elif sys.stdin is None or not sys.stdin.isatty():
        raise InputError(f"the key of {row.name}: there is no terminal to ask; give --key-stdin and pipe it in")
    else:
        if row.keys_url:
            print_message(f"keys of {row.title} are made at {row.keys_url}")
        key = getpass(f"Key of {row.title} (not shown): ", sys.stderr).strip()
    if not key:
        raise InputError("the key is empty; nothing was changed")
    check_key(key, f"the key of {row.name}")
    return key


# ── one request ───────────────────────────────────────────────────────────────────────────────────


def _check_key(row: Provider, key: str, config: Config) -> bool:
    """Sends one request with the key and prints the outcome. Returns True if the key may be stored."""
    from penstock._client.key_check import KEY_ACCEPTED

    print_message(f"asking {row.title} whether it takes the key …")
    try:
        print_message(asyncio.run(_send_check(row, key, config)))
    except ProviderError as error:
        message = redact(str(error), [key])
        if error.kind in KEY_ACCEPTED:
            print_message(f"it knows the key, but refuses for now: {message}")
            return True
        print_message(f"the key was not stored: {message}")
        print_message(_advice(row, error))
        return False
    except PenstockError as error:
        print_message(f"the key was not stored: {redact(str(error), [key])}")
        print_message("--no-check stores it unchecked")
        return False
    return True


def _advice(row: Provider, error: ProviderError) -> str:
    source = f"; keys are made at {row.keys_url}" if row.keys_url else ""
    if error.kind in {"auth", "permission"}:
        return f"check that the whole key was copied, and that it is one of {row.title}{source}"
    return "the key may be good: try again later, or store it unchecked with --no-check"


async def _send_check(row: Provider, key: str, config: Config) -> str:
    from penstock._client.key_check import send_key_check, with_key

    account = with_key(config.account(row.name), key)
    proof, _ = await send_key_check(row, replace(config, providers={**config.providers, row.name: account}))
    return f"the key is good: {proof}"


def _ask_user(question: str, otherwise: str) -> str:
    """Reads a line from the user. Without a terminal, the error names the option that answers the question."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise InputError(f"{question.rstrip(': ?')}: there is no terminal to ask; {otherwise}")
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def confirm(question: str, *, yes: bool) -> bool:
    """Asks the user a question. Returns True for yes."""
    otherwise = "give --yes to agree, or --print to see it only"
    return yes or _ask_user(f"{question} [y/N] ", otherwise).lower() in {"y", "yes"}
