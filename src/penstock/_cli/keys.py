"""`penstock keys`: makes, lists, revokes and resets gateway keys. A key is shown once, when it is made."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from penstock._cli.common_options import add_config_option, load_config

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from penstock._gateway.config import GatewayConfig, Key
    from penstock._gateway.keys import KeyFile

EPILOG = """\
examples:
  penstock keys add laptop
  penstock keys add ci --model 'openai/*' --model fast --requests 60 --tokens 200000
  penstock keys list
  penstock keys revoke ci
  penstock keys reset

The first key closes the gateway to whoever has none. It stays closed when the last key is revoked; `reset` deletes all
keys and returns to local use without keys, from the next start of the gateway on. A running gateway sees a change
within a second, and ends what a revoked key has running. Keys are sent as Authorization: Bearer, x-api-key,
x-goog-api-key, api-key, x-penstock-key, or ?key=.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    parser.epilog = EPILOG
    parser.add_argument("action", choices=("add", "list", "revoke", "reset"), help="what to do")
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="the key's name")
    add_config_option(parser)
    parser.add_argument(
        "--model", metavar="PATTERN", action="append", dest="models", help="what it may use (default: everything)"
    )
    parser.add_argument("--tenant", metavar="NAME", default="", help="whose state it sees (default: the key's name)")
    parser.add_argument("--inspect-all", action="store_true", help="it sees everybody's turns in the inspector")
    parser.add_argument("--note", metavar="TEXT", default="", help="what it is for")
    parser.add_argument("--requests", metavar="N", type=int, default=0, help="requests a minute")
    parser.add_argument("--tokens", metavar="N", type=int, default=0, help="tokens a minute")
    parser.add_argument("--concurrent", metavar="N", type=int, default=0, help="requests at once")
    parser.add_argument("--day-requests", metavar="N", type=int, default=0, help="requests a day")
    parser.add_argument("--day-tokens", metavar="N", type=int, default=0, help="tokens a day")
    parser.add_argument("--day-cost", metavar="DOLLARS", type=float, default=0.0, help="dollars a day")
    parser.add_argument("--json", action="store_true", help="the list as JSON")
    parser.add_argument("--yes", action="store_true", help="reset without asking")


def run(options: Namespace) -> int:
    """Do one of the four."""
    from penstock._gateway.keys import open_key_file
    from penstock.errors import InputError

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
    elif options.action == "add":
        _add_key(config, file, options)
    else:
        _revoke_key(config, file, options.name)
    return 0


def _add_key(config: GatewayConfig, file: KeyFile, options: Namespace) -> None:
    import time

    from penstock._gateway.config import Key, Limit
    from penstock._gateway.keys import create_key, hash_key
    from penstock.errors import InputError

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
        created=time.strftime("%Y-%m-%d", time.gmtime()),
    )
    file.add(options.name, key)
    print(secret)
    print(f"penstock: the key {options.name!r} is shown this once; its hash is in {file.path}", file=sys.stderr)


def _revoke_key(config: GatewayConfig, file: KeyFile, name: str) -> None:
    from penstock.errors import InputError

    if name in config.keys:
        raise InputError(f"the key {name!r} stands in {config.path}: take [keys.{name}] out of it")
    file.revoke(name)
    print(f"penstock: the key {name!r} opens nothing any more", file=sys.stderr)


def _reset_keys(config: GatewayConfig, file: KeyFile, options: Namespace) -> int:
    from penstock.errors import InputError

    if options.name:
        raise InputError(
            f"keys reset deletes all keys and takes no name; `penstock keys revoke {options.name}` ends one"
        )
    if config.keys:
        names = ", ".join(f"[keys.{name}]" for name in config.keys)
        raise InputError(f"{config.path} has keys too: take {names} out of it first")
    if not options.yes and not _confirm_reset(file):
        print("penstock: nothing was changed", file=sys.stderr)
        return 1
    file.reset()
    said = "penstock: all keys are deleted; a gateway that is started now serves this machine without a key"
    print(said, "penstock: gateways that are running stay closed until they are restarted", sep="\n", file=sys.stderr)
    return 0


def _confirm_reset(file: KeyFile) -> bool:
    from penstock.errors import InputError

    if not sys.stdin.isatty():
        raise InputError(f"keys reset deletes every key in {file.path}; say --yes if that is what you want")
    print(
        f"This deletes every key in {file.path}. Programs on this machine can then use the gateway without a key.",
        file=sys.stderr,
    )
    print("Type yes to go on: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() == "yes"


def _list_keys(config: GatewayConfig, file: KeyFile, *, as_json: bool) -> None:
    kept = file.read()
    rows = {name: (key, str(file.path)) for name, key in kept.items()}
    rows |= {name: (key, str(config.path)) for name, key in config.keys.items()}
    if as_json:
        import msgspec

        shown = {
            name: {**msgspec.to_builtins(key), "hash": key.hash[:15], "in": place}
            for name, (key, place) in rows.items()
        }
        print(msgspec.json.format(msgspec.json.encode(shown)).decode())
        return
    if not rows:
        closed = "; until then, or `penstock keys reset`, the gateway stays closed" if file.required else ""
        print(f"there are no keys: `penstock keys add NAME` makes one{closed}")
    wide = max([4, *map(len, rows)])
    for name, (key, place) in sorted(rows.items()):
        print(f"{name:<{wide}}  {_describe_key(key)}  {place}")


def _describe_key(key: Key) -> str:
    import msgspec

    limits: dict[str, float] = msgspec.to_builtins(key.limits) if key.limits else {}
    told = [
        key.created,
        ", ".join(key.models),
        *(f"{name}={value:g}" for name, value in limits.items() if value),
        "inspects all" if key.inspect == "all" else "",
        key.note,
    ]
    return "  ".join(filter(None, told))
