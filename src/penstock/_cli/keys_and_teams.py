"""`penstock keys` manages gateway keys, `penstock teams` their teams. A key is shown once, when it is created."""

from __future__ import annotations

import getpass
import os
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._cli.common_options import load_config, print_message
from penstock._cli.terminal import print_json
from penstock._gateway.key_editor import KeyEditor, parse_duration, parse_expiry
from penstock._gateway.keys import open_key_store
from penstock._store.key_records import Key, Limit, Team, describe_record
from penstock.errors import InputError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping

    from penstock._gateway.config import GatewayConfig
    from penstock._store.key_store import KeyStore


class KeyCommand:
    """One command line: its options, the configuration, and the store that it changes."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.config: GatewayConfig = load_config(options)
        store = open_key_store(self.config, os.environ)
        if store is None:
            raise InputError('access.keys_file: "memory" keeps no keys; name a file')
        self.store: KeyStore = store
        self.editor = KeyEditor(store, _find_actor(), self.config)

    @property
    def name(self) -> str:
        if not self.options.name:
            kind = self.options.command.removesuffix("s")
            raise InputError(f"{self.options.command} {self.options.action} needs the name of a {kind}")
        return str(self.options.name)

    def print_result(self, result: Mapping[str, Any], message: str) -> None:
        if self.options.json:
            print_json({**result, "file": self.store.location})
        else:
            print_message(message)


def _find_actor() -> str:
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):  # a container may have no name for its user
        return "cli"


def run_keys(options: Namespace) -> int:
    """Adds, lists, edits, rotates, revokes or resets keys."""
    actions = {"add": _add_key, "list": _list_keys, "edit": _edit_key, "rotate": _rotate_key, "revoke": _revoke_key}
    return _run(options, {**actions, "reset": _reset_keys})


def run_teams(options: Namespace) -> int:
    """Adds, lists, edits or removes teams."""
    return _run(options, {"add": _add_team, "list": _list_teams, "edit": _edit_team, "remove": _remove_team})


def _run(options: Namespace, actions: Mapping[str, Callable[[KeyCommand], int | None]]) -> int:
    command = KeyCommand(options)
    try:
        return actions[options.action](command) or 0
    finally:
        command.store.close()


def _read_fields(options: Namespace) -> dict[str, Any]:
    """Returns the fields that the options set. Options that were not given change nothing."""
    fields = {name: getattr(options, name, None) for name in ("tenant", "team", "role", "note", "max_output")}
    fields = {name: value for name, value in fields.items() if value is not None}
    if options.models:
        fields["models"] = options.models
    if getattr(options, "expires", None) is not None:
        fields["expires"] = parse_expiry(options.expires)
    if getattr(options, "inspect_all", False):
        fields["inspect"] = "all"
    if getattr(options, "inspect_keep", None) is not None:
        fields["inspect_keep"] = options.inspect_keep == "on"
    if getattr(options, "admin", False):
        fields["role"] = "admin"
    amounts = {name: getattr(options, name) for name in Limit.__struct_fields__}
    limits = {name: value for name, value in amounts.items() if value is not None}
    return {**fields, "limits": limits} if limits else fields


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


def _add_key(command: KeyCommand) -> None:
    secret, _ = command.editor.create(command.name, _read_fields(command.options))
    _print_secret(secret, command)


def _edit_key(command: KeyCommand) -> None:
    fields = _read_fields(command.options)
    if not fields:
        raise InputError("keys edit needs an option that says what to change, such as --day-cost 5 or --expires 90d")
    key = command.editor.edit(command.name, fields)
    shown = {"name": command.name, **describe_record(key)}
    command.print_result(shown, f"the key {command.name!r} is changed: {_describe_key(key)}")


def _rotate_key(command: KeyCommand) -> None:
    """Replaces a key by a new one with the same name, models and limits. The old one ends at once, or after a time."""
    overlap = parse_duration(command.options.overlap) if command.options.overlap is not None else 0.0
    secret, key = command.editor.rotate(command.name, overlap)
    _print_secret(secret, command)
    if key.previous and not command.options.json:
        print_message(f"the old key works until {key.previous[-1].expires:%Y-%m-%d %H:%M:%S} UTC")


def _print_secret(secret: str, command: KeyCommand) -> None:
    if not command.options.json:
        print(secret)
    message = f"the key {command.name!r} is shown this once; its hash is in {command.store.location}"
    command.print_result({"name": command.name, "key": secret}, message)


def _revoke_key(command: KeyCommand) -> None:
    command.editor.revoke(command.name)
    message = f"the key {command.name!r} is revoked; requests with it are refused"
    command.print_result({"name": command.name, "revoked": True}, message)


def _reset_keys(command: KeyCommand) -> int:
    options, config, where = command.options, command.config, command.store.location
    if options.name:
        raise InputError(
            f"keys reset deletes all keys and takes no name; `penstock keys revoke {options.name}` ends one"
        )
    if config.keys:
        names = ", ".join(f"[keys.{name}]" for name in config.keys)
        raise InputError(f"{config.path} has keys too: take {names} out of it first")
    if not options.yes and not _confirm_reset(where):
        print_message("nothing was changed")
        return 1
    command.store.reset(actor=_find_actor())
    if options.json:
        print_json({"reset": True, "file": where})
        return 0
    print_message("all keys are deleted; a gateway that is started now serves this machine without a key")
    print_message("gateways that are running stay closed until they are restarted")
    return 0


def _confirm_reset(where: str) -> bool:
    if not sys.stdin.isatty():
        raise InputError(f"keys reset deletes every key in {where}; say --yes if that is what you want")
    effect = "Programs on this machine can then use the gateway without a key."
    print(f"This deletes every key and team in {where}. {effect}", file=sys.stderr)
    print("Type yes to go on: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() == "yes"


def _list_keys(command: KeyCommand) -> None:
    records = command.editor.read()
    rows = _locate(command, records.keys, command.config.keys)
    if command.options.json:
        _print_rows(rows)
        return
    if not rows:
        closed = "; until then, or `penstock keys reset`, the gateway stays closed" if records.required else ""
        print(f"there are no keys: `penstock keys add NAME` makes one{closed}")
    _print_table(rows, _describe_key)


def _locate(command: KeyCommand, stored: Mapping[str, Any], configured: Mapping[str, Any]) -> dict[str, Any]:
    """Returns records by name, each with the place where it is."""
    rows = {name: (record, command.store.location) for name, record in stored.items()}
    return rows | {name: (record, str(command.config.path)) for name, record in configured.items()}


def _print_rows(rows: Mapping[str, tuple[Key | Team, str]]) -> None:
    listed = {name: {**describe_record(record), "in": path} for name, (record, path) in rows.items()}
    print(msgspec.json.format(msgspec.json.encode(listed)).decode())


def _print_table(rows: Mapping[str, tuple[Any, str]], describe: Callable[[Any], str]) -> None:
    width = max([4, *map(len, rows)])
    for name, (record, path) in sorted(rows.items()):
        print(f"{name:<{width}}  {describe(record)}  {path}")


def _describe_key(key: Key) -> str:
    team = f"team={key.team}" if key.team else ""
    role = key.role if key.role != "user" else ""
    output = f"max_output={key.max_output}" if key.max_output else ""
    expires = f"expires {key.expires:%Y-%m-%d %H:%M}" if key.expires else ""
    overlap = f"old key until {key.previous[-1].expires:%Y-%m-%d %H:%M}" if key.previous else ""
    inspects = ", ".join(["inspects all"] * (key.inspect == "all") + ["turns are kept"] * key.inspect_keep)
    shown = [key.created, ", ".join(key.models), *_describe_limits(key.limits), output, team, role]
    return "  ".join(filter(None, [*shown, expires, overlap, inspects, key.note]))


def _describe_limits(limit: Limit | None) -> list[str]:
    limits: dict[str, float] = msgspec.to_builtins(limit) if limit else {}
    return [f"{name}={value:g}" for name, value in limits.items() if value]


# ── teams ─────────────────────────────────────────────────────────────────────────────────────────


def _add_team(command: KeyCommand) -> None:
    team = command.editor.add_team(command.name, _read_fields(command.options))
    shown = {"name": command.name, **describe_record(team)}
    command.print_result(shown, f"the team {command.name!r} is there; `penstock keys add NAME --team` gives it keys")


def _edit_team(command: KeyCommand) -> None:
    fields = _read_fields(command.options)
    if not fields:
        raise InputError("teams edit needs an option that says what to change, such as --month-cost 100")
    team = command.editor.edit_team(command.name, fields)
    shown = {"name": command.name, **describe_record(team)}
    command.print_result(shown, f"the team {command.name!r} is changed: {_describe_team(team)}")


def _remove_team(command: KeyCommand) -> None:
    command.editor.remove_team(command.name)
    command.print_result({"name": command.name, "removed": True}, f"the team {command.name!r} is removed")


def _list_teams(command: KeyCommand) -> None:
    rows = _locate(command, command.editor.read().teams, command.config.teams)
    if command.options.json:
        _print_rows(rows)
        return
    if not rows:
        print("there are no teams: `penstock teams add NAME` makes one")
    _print_table(rows, _describe_team)


def _describe_team(team: Team) -> str:
    return "  ".join(filter(None, [team.created, ", ".join(team.models), *_describe_limits(team.limits), team.note]))
