"""`penstock setup AGENT`: shows what will be written, asks, keeps a backup, writes; or prints; or undoes."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._cli.common_options import find_command
from penstock._cli.serve import base_url
from penstock._cli.setup.agent_plan import ANY, KEY_VARIABLE, AgentPlan, GatewayAddress, choose_model
from penstock._cli.setup.agents import AGENTS
from penstock._cli.setup.config_files import (
    Edited,
    FileEdit,
    Form,
    UneditableError,
    ValueChange,
    diff_lines,
    edit_file,
    undo_changes,
    write_file,
    write_text,
)
from penstock._cli.setup.provider_key import confirm, print_line
from penstock._cli.terminal import create_printer, wants_color
from penstock._engines.environ import LIVE
from penstock._gateway.config import FILE, GatewayConfig
from penstock._store import provider_keys
from penstock.errors import InputError

if TYPE_CHECKING:
    from argparse import Namespace


GATEWAY = "gateway"


def set_up_agent(options: Namespace, config: GatewayConfig) -> int:
    """One agent, or the gateway's own file."""
    backup = AgentBackup(config.data or Path(), options.agent)
    if options.undo:
        return _undo_setup(options.agent, backup)
    if options.agent == GATEWAY:
        return _write_files(
            options, config, backup, AgentPlan(f"{find_command()} serve"), _gateway_file_edit(options, config)
        )
    at = find_gateway(options, config)
    plan = AGENTS[options.agent].plan(at)
    if options.print:
        _print_plan(plan)
        return 0
    edits = _plan_edits(plan)
    if edits is None:
        _print_plan(plan)
        return 1
    _note_window(at)
    return _write_files(
        options, config, backup, plan, [*edits, *_gateway_file_edit(options, config, only_existing=True)]
    )


def find_gateway(options: Namespace, config: GatewayConfig) -> GatewayAddress:
    """Where the agent is pointed, and with which models."""
    choice = choose_model(
        config.engine, LIVE, model=options.model or "", small=options.small_model or "", context=options.context or 0
    )
    base = (options.url or base_url(config.serve.host, config.serve.port)).rstrip("/").removesuffix("/v1")
    return GatewayAddress(
        base=base,
        model=choice.model,
        small=choice.small,
        context=choice.context,
        output=choice.output,
        small_context=choice.small_context,
        small_output=choice.small_output,
        key=_gateway_key(options, config),
        home=Path.home(),
        env=os.environ,
    )


def _gateway_key(options: Namespace, config: GatewayConfig) -> str:
    from penstock._gateway.keys import KeyRing

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


def _plan_edits(plan: AgentPlan) -> list[tuple[FileEdit, Edited]] | None:
    """What each file becomes; None if one cannot be edited, which is said."""
    try:
        return [(one, edit_file(one)) for one in plan.files]
    except UneditableError as error:
        print_line(str(error))
        print_line("nothing was changed; these are the settings, to be put in by hand:")
        return None


def _gateway_file_edit(
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
        found = propose_gateway_file(path or Path(FILE), options.budget or 0.0)
    except UneditableError as error:
        print_line(f"prompt caching and context management are not switched on: {error}")
        return []
    return [found]


def _note_window(at: GatewayAddress) -> None:
    if not at.context:
        print_line(
            f"the context window of {at.model} is not known: give it with --context, or the agent makes its own guess"
        )


def _write_files(
    options: Namespace,
    config: GatewayConfig,
    backup: AgentBackup,
    plan: AgentPlan,
    edits: list[tuple[FileEdit, Edited]],
) -> int:
    todo = [(one, edited) for one, edited in edits if edited.before != edited.after]
    put = create_printer(color=wants_color()).print_line
    for one, edited in todo:
        for line in diff_lines(one.path, edited):
            put(line)
    _explain_settings(todo)
    if options.print:
        return 0
    if todo:
        if not confirm(f"Write {'this file' if len(todo) == 1 else f'these {len(todo)} files'}?", yes=options.yes):
            print_line("nothing was changed")
            return 1
        backup.save(
            [(FileEdit(one.path.absolute(), one.form, one.values, one.defaults), edited) for one, edited in todo]
        )
        for one, edited in todo:
            trusted = _is_trusted(one.path, edited, config)
            write_file(one.path, edited.after)
            if trusted:
                _trust_again(one.path, config)
            print_line(f"{one.path} is written")
        print_line(f"`{find_command()} setup {options.agent} --undo` takes it back")
    elif edits:
        print_line("everything is set up already; nothing was changed")
    _print_next_steps(plan)
    return 0


def _explain_settings(todo: list[tuple[FileEdit, Edited]]) -> None:
    """What each new setting of `penstock.toml` is for."""
    for _, edited in todo:
        for change in edited.changes:
            if change.path in EXPLANATIONS:
                print_line(f"{'.'.join(change.path)}: {EXPLANATIONS[change.path]}")


def _is_trusted(path: Path, edited: Edited, config: GatewayConfig) -> bool:
    from penstock._gateway.config_trust import TrustStore

    if config.path != path or config.data is None or edited.before is None:
        return False
    return TrustStore(config.data).trusts(path, edited.before.encode("utf-8"))


def _trust_again(path: Path, config: GatewayConfig) -> None:
    """A file that was trusted stays so: the change is the user's own."""
    from penstock._gateway.config_trust import TrustStore

    if config.data is not None:
        TrustStore(config.data).add(path, path.read_bytes())


def _print_next_steps(plan: AgentPlan) -> None:
    """What is left for the person to do."""
    if plan.env:
        print_line("set these variables where the agent is started:")
        for line in _export_lines(plan.env):
            print(line)
    for command in plan.commands:
        print_line("run this once:")
        print(command)
    for note in plan.notes:
        print_line(note)
    print_line(f"start: {plan.start}")


def _export_lines(env: dict[str, str]) -> list[str]:

    return [
        f"$env:{name} = '{value}'" if sys.platform == "win32" else f"export {name}={quote(value)}"
        for name, value in env.items()
    ]


def _print_plan(plan: AgentPlan) -> None:
    """Everything that would be written, on standard output."""
    for one in plan.files:
        comment = "//" if one.form == "json" else "#"
        print(f"{comment} {one.path}")
        print(write_text(one.form, one.whole))
    for line in (*_export_lines(plan.env), *plan.commands):
        print(line)


def _undo_setup(agent: str, backup: AgentBackup) -> int:
    done = backup.restore()
    if not done:
        raise InputError(f"`{find_command()} setup {agent}` has changed nothing, or it was taken back already")
    for line in done:
        print_line(line)
    return 0


EXPLANATIONS: dict[tuple[Any, ...], str] = {
    ("features", "prompt_caching"): "The conversation so far is cached by the provider: long sessions cost a fraction.",
    ("features", "context_management"): "Near the limit of a model's window old tool results go first, then old turns.",
    ("limits", "day_cost"): "Dollars a day and key; above it requests are refused until midnight UTC. 0 is no limit.",
}


def propose_gateway_file(path: Path, budget: float = 0.0) -> tuple[FileEdit, Edited]:
    """The settings that are missing in a file, or a whole new file. What the user has decided stays."""
    features = {"prompt_caching": True, "context_management": True}
    limits = {"limits": {"day_cost": budget}} if budget else {}
    if not path.is_file():
        one = FileEdit(path, "toml", {"features": features, **limits})
        return one, Edited(None, _explain_budget(budget), edit_file(one).changes)
    had = tomllib.loads(path.read_text(encoding="utf-8"))
    missing = {name: value for name, value in features.items() if name not in had.get("features", {})}
    one = FileEdit(path, "toml", limits, {"features": missing} if missing else {})
    return one, edit_file(one)


def _explain_budget(budget: float) -> str:
    lines = ["# The settings of `penstock serve` in this folder. All of them: docs/configuration.md"]
    values = {
        "features": {"prompt_caching": "true", "context_management": "true"},
        "limits": {"day_cost": f"{budget:g}"},
    }
    for table, rows in values.items():
        off = "# " if table == "limits" and not budget else ""
        lines += ["", f"{off}[{table}]"]
        for name, value in rows.items():
            shown = value if budget or table != "limits" else "5"
            lines += [f"# {EXPLANATIONS[table, name]}", f"{off}{name} = {shown}"]
    return "\n".join(lines) + "\n"


# ── backups ──────────────────────────────────────────────────────────────────────────────────────────────────────────

BACKUP_FOLDER = "setup-backups"


class SavedFile(msgspec.Struct, frozen=True):
    """A file as it was, as it was left, and the values that were set in it."""

    path: str
    form: Form
    before: str | None
    after: str
    changes: list[ValueChange]


class AgentBackup:
    """The backup of one agent."""

    def __init__(self, data: Path, agent: str) -> None:
        self.path = data / BACKUP_FOLDER / f"{agent}.json"

    def read(self) -> list[SavedFile]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        try:
            return msgspec.json.decode(data, type=list[SavedFile])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: {error}; it cannot be used to undo anything") from None

    def save(self, edits: list[tuple[FileEdit, Edited]]) -> None:
        """Remember what is about to be written. A second setup is undone together with the first."""
        rows = [*self.read()]
        rows += [
            SavedFile(str(one.path), one.form, edited.before, edited.after, edited.changes) for one, edited in edits
        ]
        provider_keys.replace_file(self.path, msgspec.json.format(msgspec.json.encode(rows)) + b"\n")

    def restore(self) -> list[str]:
        """Put everything back, the last change first. Gives a line for each file."""
        done = [_restore_file(row) for row in reversed(self.read())]
        provider_keys.remove_file(self.path)
        return done


def _restore_file(row: SavedFile) -> str:
    path = Path(row.path)
    if not path.is_file():
        return f"{path}: it is gone already"
    text = path.read_text(encoding="utf-8")
    if text == row.after:
        if row.before is None:
            path.unlink()
            return f"{path}: removed"
        write_file(path, row.before)
        return f"{path}: as it was"
    write_file(path, undo_changes(FileEdit(path, row.form, {}), text, row.changes))
    return f"{path}: the settings are taken back; what was changed since stays"
