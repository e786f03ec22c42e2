"""`penstock setup AGENT`: shows a diff, asks, keeps a backup and writes; `--print` only prints, `--undo` restores."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from penstock._cli.common_options import find_command, print_message
from penstock._cli.serve import base_url
from penstock._cli.setup import config_files
from penstock._cli.setup.agents import AGENTS, ANY, KEY_VARIABLE, AgentPlan, GatewayAddress, choose_model
from penstock._cli.setup.config_files import FileEdit, FileResult, UneditableError
from penstock._cli.setup.provider_key import confirm
from penstock._cli.terminal import create_printer, print_json, wants_color
from penstock._engines.environ import LIVE
from penstock._gateway.config import FILE, GatewayConfig
from penstock._gateway.config_trust import TrustStore
from penstock._gateway.keys import KeyRing
from penstock._store import provider_keys
from penstock.errors import InputError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    FileEdits: TypeAlias = list[tuple[FileEdit, FileResult]]


def set_up_agent(options: Namespace, config: GatewayConfig) -> int:
    """Sets up one agent, or the gateway's configuration file."""
    backup = AgentBackup(config.data or Path(), options.agent)
    if options.undo:
        return _undo_setup(options.agent, backup, as_json=options.json)
    if options.agent == "gateway":
        edits = _gateway_file_edit(options, config)
        return _write_files(options, config, backup, AgentPlan(f"{find_command()} serve"), edits)
    address = _find_gateway(options, config)
    plan = AGENTS[options.agent].plan(address)
    if options.print:
        _print_plan(plan, options)
        return 0
    try:
        edits = [(one, config_files.plan_edit(one)) for one in plan.files]
    except UneditableError as error:
        print_message(str(error))
        print_message("nothing was changed; these are the settings, to be put in by hand:")
        _print_plan(plan, options)
        return 1
    if not address.context:
        unknown = f"the context window of {address.model} is not known"
        print_message(f"{unknown}: give it with --context, or the agent makes its own guess")
    edits += _gateway_file_edit(options, config, only_existing=True)
    return _write_files(options, config, backup, plan, edits)


def _find_gateway(options: Namespace, config: GatewayConfig) -> GatewayAddress:
    choice = choose_model(
        config.engine, LIVE, model=options.model or "", small=options.small_model or "", context=options.context or 0
    )
    base = (options.url or base_url(config.serve.host, config.serve.port)).rstrip("/").removesuffix("/v1")
    key = _gateway_key(options, config)
    return GatewayAddress(**msgspec.structs.asdict(choice), base=base, key=key, home=Path.home(), env=os.environ)


def _gateway_key(options: Namespace, config: GatewayConfig) -> str:
    if key := os.environ.get(KEY_VARIABLE, ""):
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


def _gateway_file_edit(options: Namespace, config: GatewayConfig, *, only_existing: bool = False) -> FileEdits:
    """Returns the edit of `penstock.toml` that switches on what helps an agent; none if that is not possible."""
    path = config.path
    if path is None and only_existing:
        command = f"`{find_command()} setup gateway`"
        print_message(f"{command} writes a penstock.toml with prompt caching and context management on")
        return []
    try:
        return [_propose_gateway_file(path or Path(FILE), options.budget or 0.0)]
    except UneditableError as error:
        print_message(f"prompt caching and context management are not switched on: {error}")
        return []


def _write_files(
    options: Namespace, config: GatewayConfig, backup: AgentBackup, plan: AgentPlan, edits: FileEdits
) -> int:
    """Shows the diff, asks, keeps a backup and writes. Returns the exit code."""
    changed = [(edit, result) for edit, result in edits if result.before != result.after]
    if not options.json:
        _show_diff(changed)
    if options.print:
        if options.json:
            _report_plan(plan, options, [edit.path for edit, _ in changed], written=False)
        return 0
    if changed:
        names = "this file" if len(changed) == 1 else f"these {len(changed)} files"
        if not confirm(f"Write {names}?", yes=options.yes):
            print_message("nothing was changed")
            return 1
        backup.save(changed)
        for edit, result in changed:
            _write_file(edit.path, result, config)
        print_message(f"`{find_command()} setup {options.agent} --undo` takes it back")
    elif edits:
        print_message("everything is set up already; nothing was changed")
    if options.json:
        _report_plan(plan, options, [edit.path for edit, _ in changed], written=bool(changed))
    else:
        _print_next_steps(plan)
    return 0


def _show_diff(changed: FileEdits) -> None:
    print_line = create_printer(color=wants_color()).print_line
    for edit, result in changed:
        for line in config_files.diff_lines(edit.path, result):
            print_line(line)
    sys.stdout.flush()  # messages go to the other stream
    for change in [change for _, result in changed for change in result.changes if change.path in EXPLANATIONS]:
        print_message(f"{'.'.join(change.path)}: {EXPLANATIONS[change.path]}")


def _report_plan(plan: AgentPlan, options: Namespace, files: Sequence[Path], *, written: bool) -> None:
    """Prints what was or would be written, and what is left for the user to do, as JSON."""
    print_json(
        {
            "agent": options.agent,
            "written": written,
            "files": [str(path) for path in files],
            "env": plan.env,
            "commands": list(plan.commands),
            "notes": list(plan.notes),
            "start": plan.start,
        }
    )


def _write_file(path: Path, result: FileResult, config: GatewayConfig) -> None:
    """Writes one file. A trusted `penstock.toml` stays trusted, because the user confirmed the change."""
    store = TrustStore(config.data) if config.path == path and config.data and result.before is not None else None
    trusted = store is not None and store.trusts(path, (result.before or "").encode("utf-8"))
    config_files.write_file(path, result.after)
    if store is not None and trusted:
        store.add(path, path.read_bytes())
    print_message(f"{path} is written")


def _print_next_steps(plan: AgentPlan) -> None:
    """Prints what is left for the user to do."""
    if plan.env:
        print_message("set these variables where the agent is started:")
        print("\n".join(_export_lines(plan.env)))
    for command in plan.commands:
        print_message("run this once:")
        print(command)
    for note in plan.notes:
        print_message(note)
    print_message(f"start: {plan.start}")


def _export_lines(env: dict[str, str]) -> list[str]:
    return [
        f"$env:{name} = '{value}'" if sys.platform == "win32" else f"export {name}={quote(value)}"
        for name, value in env.items()
    ]


def _print_plan(plan: AgentPlan, options: Namespace) -> None:
    """Prints everything that would be written to standard output."""
    if options.json:
        _report_plan(plan, options, [edit.path for edit in plan.files], written=False)
        return
    for edit in plan.files:
        print(f"{'//' if edit.form == 'json' else '#'} {edit.path}")
        print(config_files.write_text(edit.form, edit.all_values))
    for line in (*_export_lines(plan.env), *plan.commands):
        print(line)


def _undo_setup(agent: str, backup: AgentBackup, *, as_json: bool) -> int:
    messages = backup.restore()
    if not messages:
        raise InputError(f"`{find_command()} setup {agent}` has changed nothing, or it was taken back already")
    if as_json:
        print_json({"agent": agent, "undone": messages})
        return 0
    for message in messages:
        print_message(message)
    return 0


EXPLANATIONS: dict[tuple[Any, ...], str] = {  # what each setting of `penstock.toml` is for
    ("features", "prompt_caching"): "The conversation so far is cached by the provider: long sessions cost a fraction.",
    ("features", "context_management"): "Near the limit of a model's window old tool results go first, then old turns.",
    ("limits", "day_cost"): "Dollars of a key in any 24 hours; requests that may cost more are refused. 0 is no limit.",
}


def _propose_gateway_file(path: Path, budget: float) -> tuple[FileEdit, FileResult]:
    """Adds the settings that are missing in a file, or proposes a new file. Settings of the user stay."""
    features = {"prompt_caching": True, "context_management": True}
    limits = {"limits": {"day_cost": budget}} if budget else {}
    if not path.is_file():
        edit = FileEdit(path, "toml", {"features": features, **limits})
        return edit, FileResult(None, _new_gateway_file(budget), config_files.plan_edit(edit).changes)
    present = tomllib.loads(path.read_text(encoding="utf-8")).get("features", {})
    missing = {name: value for name, value in features.items() if name not in present}
    edit = FileEdit(path, "toml", limits, {"features": missing} if missing else {})
    return edit, config_files.plan_edit(edit)


def _new_gateway_file(budget: float) -> str:
    """Returns a new `penstock.toml` with comments. Without a budget, the limit is a comment too."""
    off = "" if budget else "# "
    return f"""\
# The settings of `penstock serve` in this folder. All of them: docs/configuration.md

[features]
# {EXPLANATIONS["features", "prompt_caching"]}
prompt_caching = true
# {EXPLANATIONS["features", "context_management"]}
context_management = true

{off}[limits]
# {EXPLANATIONS["limits", "day_cost"]}
{off}day_cost = {budget or 5:g}
"""


# ── backups ──────────────────────────────────────────────────────────────────────────────────────────────────────────

BACKUP_FOLDER = "setup-backups"


class SavedFile(msgspec.Struct, frozen=True):
    """A file before and after the setup, and the values that were set in it."""

    path: str
    form: config_files.Form
    before: str | None
    after: str
    changes: list[config_files.ValueChange]


class AgentBackup:
    """The files of one agent as they were before the setup."""

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

    def save(self, edits: FileEdits) -> None:
        """Saves what is about to be overwritten. A second setup is undone together with the first."""
        rows = [*self.read(), *(SavedFile(str(edit.path.absolute()), edit.form, *result) for edit, result in edits)]
        provider_keys.replace_file(self.path, msgspec.json.format(msgspec.json.encode(rows)) + b"\n")

    def restore(self) -> list[str]:
        """Restores all files, the last change first. Returns a message for each file: what became of it in the end."""
        messages = {row.path: _restore_file(row) for row in reversed(self.read())}
        provider_keys.remove_file(self.path)
        return list(messages.values())


def _restore_file(row: SavedFile) -> str:
    path = Path(row.path)
    if not path.is_file():
        return f"{path}: it is gone already"
    text = path.read_text(encoding="utf-8")
    if text == row.after:
        if row.before is None:
            path.unlink()
            return f"{path}: removed"
        config_files.write_file(path, row.before)
        return f"{path}: as it was"
    config_files.write_file(path, config_files.undo_changes(FileEdit(path, row.form, {}), text, row.changes))
    return f"{path}: the settings are taken back; what was changed since stays"
