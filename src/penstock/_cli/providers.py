"""`penstock providers`: who can be asked, how, and whose key is there. Leans on `penstock.providers`; asks nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._cli.common_options import add_config_option, load_config
from penstock._engines.environ import LIVE

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from penstock._engines.config import Config
    from penstock._providers.registry import Provider

EPILOG = """\
examples:
  penstock providers
  penstock providers --ready
  penstock providers azure bedrock
  penstock providers --json | jq '.[] | select(.endpoints.rerank)'

A provider is ready when its key is in the environment or the configuration, or when it needs none. No key is printed.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    parser.epilog = EPILOG
    parser.add_argument("names", metavar="NAME", nargs="*", help="only these, with all that is known of them")
    add_config_option(parser)
    parser.add_argument("--ready", action="store_true", help="only those that can be asked as things are")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")


def run(options: Namespace) -> int:
    """Print the table."""
    from penstock._cli.terminal import Column, print_table
    from penstock._providers.registry import providers

    config = load_config(options).engine
    names = options.names or dict.fromkeys([*providers(), *config.providers])
    chosen = {row.name: row for row in map(config.provider, names)}.values()
    rows = [row for row in chosen if not options.ready or is_ready(row, LIVE, config)]
    if options.json:
        _print_json([describe_provider(row, LIVE, config) for row in rows])
    elif options.names:
        for row in rows:
            _print_row(row, config)
    else:
        columns = (
            Column("name", "bold"),
            Column("speaks"),
            Column("key", "dim"),
            Column("has", shrinks=True),
            Column("title", "dim", shrinks=True),
        )
        cells = [
            (row.name, row.protocol, describe_key(row, LIVE, config), " ".join(row.endpoints), row.title)
            for row in rows
        ]
        print_table(columns, cells)
    return 0


def is_ready(row: Provider, env: Mapping[str, str], config: Config) -> bool:
    """Whether it can be asked as things are."""
    from penstock._engines.config_problems import describe_missing_key

    if row.name in config.providers:
        return not describe_missing_key(row, config, env)
    return row.configured(env) or row.credentials[0].scheme == "none"


def describe_key(row: Provider, env: Mapping[str, str], config: Config) -> str:
    """Where its key is, or which variable is missing; never the key."""
    from penstock._engines.credentials import find_stored_key

    account = config.account(row.name)
    if account.key:
        return "in the configuration"
    if account.env:
        return f"{account.env} is set" if env.get(account.env) else f"needs {account.env}"
    there = next((name for name in row.env if env.get(name)), "")
    if there:
        return f"{there} is set"
    stored = find_stored_key(row, account, env)
    if stored.key or stored.refusal:
        return "stored by penstock setup" if stored.key else "stored for another address"
    if row.credentials[0].optional:
        return "none needed"
    return f"needs {row.env[0]}" if row.env else "needs a key"


def describe_provider(row: Provider, env: Mapping[str, str], config: Config) -> dict[str, Any]:
    """All of a row as JSON, and whether it is ready."""
    import msgspec

    made: dict[str, Any] = msgspec.to_builtins(row)
    key, auth = describe_key(row, env, config), row.auth
    return {**made, "ready": is_ready(row, env, config), "key": key, "auth": auth, "env": list(row.env)}


def _print_row(row: Provider, config: Config) -> None:
    from penstock._cli.terminal import create_printer, wants_color

    put = create_printer(color=wants_color()).print_line
    put([(row.name, "bold"), (f"  {row.title}", "")])
    facts = {
        "address": row.base_url,
        "speaks": row.protocol,
        "auth": ", ".join(one.scheme for one in row.credentials),
        "key": describe_key(row, LIVE, config),
        "also called": ", ".join(row.names),
        "sdk": row.sdk,
        "responses only": ", ".join(row.responses_only),
        "refuses": ", ".join(row.refuses),
    }
    for name, value in facts.items():
        if value:
            put([(f"  {name:<16}", "dim"), (value, "")])
    for name, setting in row.settings.items():
        said = " or ".join(setting.env) or "follows from the others"
        default = f" (default {setting.default})" if setting.default else ""
        put([(f"  {{{name}}}".ljust(18), "dim"), (f"{said}{default}", "")])
    for operation, place in row.endpoints.items():
        put([(f"  {operation:<16}", "dim"), (f"{place.method} {place.path}", ""), (f"  {place.protocol}", "dim")])


def _print_json(value: Any) -> None:
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
