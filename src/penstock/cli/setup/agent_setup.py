"""`penstock setup AGENT`: shows what will be written, asks, keeps a backup, writes; or prints; or undoes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.ink import ink, wanted
from penstock.cli.program import find_command
from penstock.cli.setup.agent_plan import ANY, KEY_VARIABLE, Gateway, Plan
from penstock.cli.setup.agents import AGENTS
from penstock.cli.setup.backups import Backup
from penstock.cli.setup.config_files import Edited, FileEdit, UneditableError, diff_lines, edit, write_file, write_text
from penstock.cli.setup.gateway_file import EXPLAINED, propose
from penstock.cli.setup.model_choice import choose_model
from penstock.cli.setup.terminal import agreed, print_line
from penstock.cli.welcome import base_of
from penstock.engines.environ import LIVE
from penstock.errors import InputError
from penstock.gateway.config import FILE

if TYPE_CHECKING:
    from argparse import Namespace

    from penstock.gateway.config import GatewayConfig

GATEWAY = "gateway"


def set_up(options: Namespace, config: GatewayConfig) -> int:
    """One agent, or the gateway's own file."""
    backup = Backup(config.data or Path(), options.agent)
    if options.undo:
        return _undo(options.agent, backup)
    if options.agent == GATEWAY:
        return _write(options, config, backup, Plan(f"{find_command()} serve"), _own_file(options, config))
    at = gateway_of(options, config)
    plan = AGENTS[options.agent].plan(at)
    if options.print:
        _print(plan)
        return 0
    edits = _edits(plan)
    if edits is None:
        _print(plan)
        return 1
    _window_note(at)
    return _write(options, config, backup, plan, [*edits, *_own_file(options, config, only_existing=True)])


def gateway_of(options: Namespace, config: GatewayConfig) -> Gateway:
    """Where the agent is pointed, and with which models."""
    choice = choose_model(
        config.engine, LIVE, model=options.model or "", small=options.small_model or "", context=options.context or 0
    )
    base = (options.url or base_of(config.serve.host, config.serve.port)).rstrip("/").removesuffix("/v1")
    return Gateway(
        base=base, model=choice.model, small=choice.small, context=choice.context, output=choice.output,
        small_context=choice.small_context, small_output=choice.small_output, key=_gateway_key(options, config),
        home=Path.home(), env=os.environ,
    )  # fmt: skip


def _gateway_key(options: Namespace, config: GatewayConfig) -> str:
    from penstock.gateway.keys import KeyRing

    key = os.environ.get(KEY_VARIABLE, "")
    if key:
        return key
    if config.forward:
        raise InputError(
            f"this gateway passes the client's own key on: set {KEY_VARIABLE} to a provider's key, and run this again"
        )
    if not options.url and KeyRing(config, os.environ).required:
        raise InputError(
            f"this gateway asks for a key: `{find_command()} keys add {options.agent}` makes one; then run "
            f"`{KEY_VARIABLE}=pk-penstock-… {find_command()} setup {options.agent}`"
        )
    return ANY


def _edits(plan: Plan) -> list[tuple[FileEdit, Edited]] | None:
    """What each file becomes; None if one cannot be edited, which is said."""
    try:
        return [(one, edit(one)) for one in plan.files]
    except UneditableError as error:
        print_line(str(error))
        print_line("nothing was changed; these are the settings, to be put in by hand:")
        return None


def _own_file(
    options: Namespace, config: GatewayConfig, *, only_existing: bool = False
) -> list[tuple[FileEdit, Edited]]:
    """The settings of `penstock.toml` that an agent profits from."""
    path = config.path
    if path is None and only_existing:
        print_line(
            f"`{find_command()} setup gateway` writes a penstock.toml with prompt caching and context management on"
        )
        return []
    try:
        found = propose(path or Path(FILE), options.budget or 0.0)
    except UneditableError as error:
        print_line(f"prompt caching and context management are not switched on: {error}")
        return []
    return [found]


def _window_note(at: Gateway) -> None:
    if not at.context:
        print_line(
            f"the context window of {at.model} is not known: give it with --context, or the agent makes its own guess"
        )


def _write(
    options: Namespace, config: GatewayConfig, backup: Backup, plan: Plan, edits: list[tuple[FileEdit, Edited]]
) -> int:
    todo = [(one, edited) for one, edited in edits if edited.before != edited.after]
    put = ink(colour=wanted(refused=False))
    for one, edited in todo:
        for line in diff_lines(one.path, edited):
            put(line)
    _explain(todo)
    if options.print:
        return 0
    if todo:
        if not agreed(f"Write {'this file' if len(todo) == 1 else f'these {len(todo)} files'}?", yes=options.yes):
            print_line("nothing was changed")
            return 1
        backup.save(
            [(FileEdit(one.path.absolute(), one.form, one.values, one.defaults), edited) for one, edited in todo]
        )
        for one, edited in todo:
            trusted = _trusted(one.path, edited, config)
            write_file(one.path, edited.after)
            if trusted:
                _trust_again(one.path, config)
            print_line(f"{one.path} is written")
        print_line(f"`{find_command()} setup {options.agent} --undo` takes it back")
    elif edits:
        print_line("everything is set up already; nothing was changed")
    _print_next_steps(plan)
    return 0


def _explain(todo: list[tuple[FileEdit, Edited]]) -> None:
    """What each new setting of `penstock.toml` is for."""
    for _, edited in todo:
        for change in edited.changes:
            if change.path in EXPLAINED:
                print_line(f"{'.'.join(change.path)}: {EXPLAINED[change.path]}")


def _trusted(path: Path, edited: Edited, config: GatewayConfig) -> bool:
    from penstock.gateway.config_trust import TrustStore

    if config.path != path or config.data is None or edited.before is None:
        return False
    return TrustStore(config.data).trusts(path, edited.before.encode("utf-8"))


def _trust_again(path: Path, config: GatewayConfig) -> None:
    """A file that was trusted stays so: the change is the user's own."""
    from penstock.gateway.config_trust import TrustStore

    if config.data is not None:
        TrustStore(config.data).add(path, path.read_bytes())


def _print_next_steps(plan: Plan) -> None:
    """What is left for the person to do."""
    if plan.env:
        print_line("set these variables where the agent is started:")
        for line in _exports(plan.env):
            print(line)
    for command in plan.commands:
        print_line("run this once:")
        print(command)
    for note in plan.notes:
        print_line(note)
    print_line(f"start: {plan.start}")


def _exports(env: dict[str, str]) -> list[str]:
    from shlex import quote

    return [
        f"$env:{name} = '{value}'" if sys.platform == "win32" else f"export {name}={quote(value)}"
        for name, value in env.items()
    ]


def _print(plan: Plan) -> None:
    """Everything that would be written, on standard output."""
    for one in plan.files:
        comment = "//" if one.form == "json" else "#"
        print(f"{comment} {one.path}")
        print(write_text(one.form, one.whole))
    for line in (*_exports(plan.env), *plan.commands):
        print(line)


def _undo(agent: str, backup: Backup) -> int:
    done = backup.restore()
    if not done:
        raise InputError(f"`{find_command()} setup {agent}` has changed nothing, or it was taken back already")
    for line in done:
        print_line(line)
    return 0
