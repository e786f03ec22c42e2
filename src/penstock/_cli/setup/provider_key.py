"""A provider's key from the terminal: chosen, entered unseen, checked with one request, stored. Never shown."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock._cli.common_options import find_command
from penstock._engines.credentials import address_origin
from penstock._engines.environ import LIVE
from penstock._http.header_fields import check_key
from penstock._providers.models import models
from penstock._providers.registry import Provider, providers
from penstock._store.provider_keys import ProviderKeys
from penstock.errors import InputError, PenstockError, ProviderError

if TYPE_CHECKING:
    from argparse import Namespace

    from penstock._client.api import Client
    from penstock._engines.config import Config

TIMEOUT = 20.0  # seconds for the request that checks a key
_KEY_ACCEPTED = frozenset({"rate-limit", "too-large"})  # refusals that only a known key gets


def list_keys() -> int:
    """The names of what is stored, and where. Never a key."""
    from penstock._cli.terminal import Column, print_table

    store = ProviderKeys.of(LIVE)
    rows = store.read()
    if not rows:
        print_line(f"no key is stored: `{find_command()} setup` stores one")
        return 0
    places = {"keyring": "keyring of the system", "file": str(store.path)}
    shown = [
        (name, places[row.place], row.origin, row.added, _overruled_by(name)) for name, row in sorted(rows.items())
    ]
    titles = (
        Column("provider", "bold"),
        Column("stored in"),
        Column("for"),
        Column("since", "dim"),
        Column("", "yellow"),
    )
    print_table(titles, shown)
    return 0


def _overruled_by(name: str) -> str:
    row = providers().get(name)
    there = next((one for one in row.env if LIVE.get(one)), "") if row else ""
    return f"not used: {there} is set" if there else ""


def remove_key(name: str) -> int:
    """Forget one."""
    if not ProviderKeys.of(LIVE).remove(name):
        raise InputError(f"no key of {name!r} is stored; `{find_command()} setup --list` shows what is")
    print_line(f"the key of {name} is removed; running gateways stop using it within a second")
    return 0


def add_key(options: Namespace, config: Config) -> int:
    """Ask, check, store."""
    row = config.provider(options.provider) if options.provider else _choose_provider(config)
    _refuse_keyless(row)
    key = _read_key(row, from_stdin=options.key_stdin)
    if not options.no_check and not _check_key(row, key, config):
        return 1
    store = ProviderKeys.of(LIVE)
    origin = address_origin(row, config.account(row.name), LIVE)
    _, why = store.add(row.name, key, origin=origin, keyring=not options.file)
    where = f"{store.path}, which only you can read ({why})" if why else "the keyring of the system"
    bound = f"; it is sent to {origin} only" if origin else ""
    print_line(f"the key of {row.name} is stored in {where}{bound}")
    _print_key_url(row)
    return 0


def _refuse_keyless(row: Provider) -> None:
    if row.engine != "native" or row.auth == "none":
        raise InputError(f"{row.name} needs no key")


def _print_key_url(row: Provider) -> None:
    """What a person must know afterwards."""
    overruled = _overruled_by(row.name)
    if overruled:
        print_line(f"{overruled.removeprefix('not used: ')}, and goes before the stored key")
    elif not row.configured(LIVE):
        lacking = [
            one.env[0] for one in row.settings.values() if one.env and not one.default and not LIVE.get(one.env[0])
        ]
        print_line(f"its address needs more: set {', '.join(lacking)}, or settings under [providers.{row.name}]")
    else:
        run = find_command()
        print_line(f"gateways, clients and commands use it from now on: `{run} models {row.name}`, `{run} serve`")


def _choose_provider(config: Config) -> Provider:
    """Ask for a provider: a number of the list, or any name."""
    from penstock._cli.terminal import Column, print_table

    rows = [row for row in providers().values() if row.keys_url]
    if sys.stdin is not None and sys.stdin.isatty():
        print_table(
            (Column("", "dim"), Column("provider", "bold"), Column(""), Column("where keys are made", "dim")),
            [(str(number), row.name, row.title, row.keys_url) for number, row in enumerate(rows, 1)],
        )
    said = ask_user(
        "Number or name of the provider: ", f"give --provider NAME (`{find_command()} providers` lists them)"
    )
    if said.isdigit() and 1 <= int(said) <= len(rows):
        return rows[int(said) - 1]
    if not said:
        raise InputError("no provider was chosen; nothing was changed")
    return config.provider(said)


def _read_key(row: Provider, *, from_stdin: bool) -> str:
    if from_stdin:
        key = sys.stdin.readline().strip()
    elif sys.stdin is None or not sys.stdin.isatty():
        raise InputError(f"the key of {row.name}: there is no terminal to ask; give --key-stdin and pipe it in")
    else:
        from getpass import getpass

        if row.keys_url:
            print_line(f"keys of {row.title} are made at {row.keys_url}")
        key = getpass(f"Key of {row.title} (not shown): ", sys.stderr).strip()
    if not key:
        raise InputError("the key is empty; nothing was changed")
    check_key(key, f"the key of {row.name}")
    return key


# ── one request ───────────────────────────────────────────────────────────────────────────────────


def _check_key(row: Provider, key: str, config: Config) -> bool:
    """Whether the provider takes the key. One request; says what came of it."""
    from penstock._redaction import redact

    print_line(f"asking {row.title} whether it takes the key …")
    try:
        said = asyncio.run(_send_check(row, key, config))
    except ProviderError as error:
        message = redact(str(error), [key])
        if error.kind in _KEY_ACCEPTED:
            print_line(f"it knows the key, but refuses for now: {message}")
            return True
        print_line(f"the key was not stored: {message}")
        print_line(_advice(row, error))
        return False
    except PenstockError as error:
        print_line(f"the key was not stored: {redact(str(error), [key])}")
        print_line("--no-check stores it unchecked")
        return False
    print_line(said)
    return True


def _advice(row: Provider, error: ProviderError) -> str:
    made = f"; keys are made at {row.keys_url}" if row.keys_url else ""
    if error.kind in {"auth", "permission"}:
        return f"check that the whole key was copied, and that it is one of {row.title}{made}"
    return "the key may be good: try again later, or store it unchecked with --no-check"


async def _send_check(row: Provider, key: str, config: Config) -> str:
    from penstock._client.api import Client
    from penstock._engines.options import RequestOptions, Timeouts

    account = replace(config.account(row.name), key=key)
    once = replace(config, providers={**config.providers, row.name: account}, retries=0)
    limits = Timeouts(connect=TIMEOUT, first_byte=TIMEOUT, between_bytes=TIMEOUT, total=TIMEOUT)
    async with Client(once, options=RequestOptions(timeouts=limits)) as client:
        if row.endpoint("models") is not None and not row.open_models:
            found = await client.list_models(row.name)
            return f"the key is good: {len(found)} models"
        return await _smallest_question(client, row)


async def _smallest_question(client: Client, row: Provider) -> str:
    """For a provider whose list of models proves nothing: an answer of a few tokens, by its cheapest model."""
    rows = [one for one in models(row) if one.chat and one.prices is not None and one.prices.input]
    if not rows:
        raise InputError(f"no model of {row.name} is known to check the key with")
    cheapest = min(rows, key=lambda one: one.prices.input or 0.0 if one.prices else 0.0)
    await client.chat(f"{row.name}/{cheapest.id}", "Say ok.", max_tokens=16)
    return f"the key is good: {cheapest.id} answered"


def print_line(text: str) -> None:
    """A line for the person."""
    print(f"penstock: {text}", file=sys.stderr)


def ask_user(question: str, otherwise: str) -> str:
    """A line from the person. Without a terminal that is an error: it says which option answers the question."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise InputError(f"{question.rstrip(': ?')}: there is no terminal to ask; {otherwise}")
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def confirm(question: str, *, yes: bool) -> bool:
    """Whether to go on."""
    return yes or ask_user(f"{question} [y/N] ", "give --yes to agree, or --print to see it only").lower() in {
        "y",
        "yes",
    }
