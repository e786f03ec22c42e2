"""`penstock models refresh`: newer facts about models from a file or URL, after a look at what changes.

Asks nobody unless it is run. The facts are written to the data folder. They take the place of those of the package,
model by model; a table of one model is enough.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from penstock._cli import terminal
from penstock._cli.common_options import print_message
from penstock._engines.refreshed_facts import (
    FILE,
    MAX_FACTS_BYTES,
    decode_table,
    load_refreshed_facts,
    read_facts_file,
    write_facts_file,
)
from penstock._gateway.callers import is_loopback
from penstock._printable_text import printable
from penstock._providers.model_facts import (
    PACKAGED_SOURCE,
    RefreshedFacts,
    find_tables,
    packaged_tables,
    refreshed_facts,
)
from penstock._providers.models_dev import read_models_dev
from penstock.errors import InputError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from penstock._providers.models import ModelFact

MODELS_DEV = "https://models.dev/api.json"
DECLINED = 1
_SECONDS = 60
_MAX_LINES = 40  # of a comparison, unless --all is given
_LABELS = {
    "ctx": "context", "inp": "longest prompt", "out": "output", "price": "prices", "audio": "prices of audio",
    "think": "price of reasoning", "tiers": "prices of long prompts", "can": "capabilities", "name": "name",
}  # fmt: skip


class FactChange(msgspec.Struct, frozen=True):
    """A model that is new, gone or changed. `field` is empty for a model that is new or gone."""

    model: str
    kind: str
    field: str = ""
    before: Any = None
    after: Any = None

    def describe(self) -> str:
        """Returns a line for people."""
        if not self.field:
            return f"{self.model}: {self.kind}"
        return f"{self.model}: {_LABELS[self.field]} {_format(self.before)} → {_format(self.after)}"


def refresh_models(options: Namespace, folder: Path) -> int:
    """Reads newer facts, shows what changes, asks, and writes them. Returns the exit code."""
    path = folder / FILE
    if options.list:
        return _list_overridden(path, as_json=options.json)
    if options.undo:
        return _remove_facts(path, as_json=options.json)
    origin = options.origin or MODELS_DEV
    facts = read_facts(origin)
    changes = list(compare_facts(facts))
    if not options.json:
        _print_changes(changes, everything=options.all)
    written = bool(changes) and (options.yes or _confirm(path, len(changes)))
    if written:
        write_facts_file(folder, facts)
    if options.json:
        counts = {kind: sum(change.kind == kind for change in changes) for kind in ("new", "gone", "changed")}
        terminal.print_json({"file": str(path), "from": origin, "date": facts.date, **counts, "written": written})
    else:
        print_message(_describe_result(path, written=written, changed=bool(changes)))
    return 0 if written or not changes else DECLINED


def read_facts(origin: str) -> RefreshedFacts:
    """Reads a table in the form of models.dev from a file or URL."""
    data = _fetch(origin) if "://" in origin else _read_file(Path(origin))
    try:
        given = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{origin}: this is not JSON") from error
    tables = {name: msgspec.Raw(msgspec.json.encode(lines)) for name, lines in read_models_dev(given).items()}
    for name, table in tables.items():
        try:
            decode_table(table)
        except msgspec.MsgspecError as error:
            raise InputError(f"{origin}: {name}: {error}") from error
    return RefreshedFacts(date=datetime.now(UTC).date().isoformat(), origin=origin, tables=tables)


def compare_facts(facts: RefreshedFacts) -> Iterator[FactChange]:
    """Yields how the facts differ from those that are used now. Those of an earlier refresh are replaced."""
    now = refreshed_facts()
    for name in {**facts.tables, **(now.tables if now is not None else {})}:
        table = facts.tables.get(name, b"[]")
        before: dict[str, ModelFact] = {}
        for data, _ in find_tables(name):
            before.update(decode_table(data))
        after = {**decode_table(packaged_tables().get(name, b"[]")), **decode_table(table)}
        for model in sorted(before.keys() | after.keys()):
            if model not in after:
                yield FactChange(f"{name}/{model}", "gone")
            elif model not in before:
                yield FactChange(f"{name}/{model}", "new")
            else:
                yield from _compare_models(f"{name}/{model}", before[model], after[model])


def _compare_models(model: str, before: ModelFact, after: ModelFact) -> Iterator[FactChange]:
    for field in _LABELS:
        old, new = getattr(before, field), getattr(after, field)
        if old != new:
            yield FactChange(model, "changed", field, old, new)


def _read_file(path: Path) -> bytes:
    if path.stat().st_size > MAX_FACTS_BYTES:
        raise InputError(f"{path}: more than {MAX_FACTS_BYTES:,} bytes")
    return path.read_bytes()


def _fetch(url: str) -> bytes:
    """Fetches a table. Only https, and http on this machine; the same for where it is redirected to."""
    _check_address(url)
    request = urllib.request.Request(url, headers={"user-agent": "penstock"})  # noqa: S310 — checked above
    try:
        with urllib.request.build_opener(_CheckedRedirects).open(request, timeout=_SECONDS) as reply:
            data: bytes = reply.read(MAX_FACTS_BYTES + 1)
    except (OSError, HTTPException) as error:
        raise InputError(f"{url}: {error}; --from FILE reads a copy") from error
    if len(data) > MAX_FACTS_BYTES:
        raise InputError(f"{url}: more than {MAX_FACTS_BYTES:,} bytes")
    return data


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to an address that could have been given."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        _check_address(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    local = parts.scheme == "http" and is_loopback(parts.hostname or "")
    if not (local or parts.scheme == "https"):
        raise InputError(f"{url}: only https:// addresses and files are read")


def _confirm(path: Path, count: int) -> bool:
    if not sys.stdin.isatty():
        return False
    print(f"Write these {count} changes to {path}? Type yes: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() == "yes"


def _print_changes(changes: list[FactChange], *, everything: bool) -> None:
    printer = terminal.create_printer(color=terminal.wants_color())
    styles = {"new": "green", "gone": "red", "changed": "yellow"}
    shown = changes if everything else changes[:_MAX_LINES]
    for change in shown:
        printer.print_line([(printable(change.describe()), styles[change.kind])])
    if len(shown) < len(changes):
        print(f"… and {len(changes) - len(shown)} more; --all shows them")


def _describe_result(path: Path, *, written: bool, changed: bool) -> str:
    if not changed:
        return "nothing has changed"
    if written:
        return f"written to {path}; a gateway that is running uses it after a restart; --undo removes it"
    return "nothing is written; --yes writes it without asking"


def _list_overridden(path: Path, *, as_json: bool) -> int:
    """Prints whose facts are not those of the package."""
    facts = read_facts_file(path)
    rows: list[dict[str, Any]] = []
    for table_name, table in facts.tables.items() if facts is not None else ():
        packaged = decode_table(packaged_tables().get(table_name, b"[]"))
        lines = decode_table(table)
        new = len(lines.keys() - packaged)
        changed = sum(packaged.get(name) != line for name, line in lines.items()) - new
        if new or changed:
            rows.append({"provider": table_name, "changed": changed, "new": new})
    if as_json:
        date, origin = (facts.date, facts.origin) if facts is not None else (None, None)
        terminal.print_json({"file": str(path), "from": origin, "date": date, "overridden": rows})
        return 0
    if facts is None:
        print(f"the facts are those of the package, {PACKAGED_SOURCE}; {path} does not exist")
        return 0
    print(f"{path}: refreshed {facts.date} from {printable(facts.origin)}")
    names = ("provider", "changed", "new")
    terminal.print_table(
        [terminal.Column(name) for name in names], [[str(row[name]) for name in names] for row in rows]
    )
    return 0


def _remove_facts(path: Path, *, as_json: bool) -> int:
    existed = path.is_file()
    path.unlink(missing_ok=True)
    load_refreshed_facts(path.parent)
    if as_json:
        terminal.print_json({"file": str(path), "removed": existed})
    else:
        print_message(f"{path} is removed" if existed else f"{path} does not exist")
    return 0


def _format(value: str | float | tuple[Any, ...] | None) -> str:
    if isinstance(value, tuple):
        return "/".join(map(_format, value)) or "unknown"
    if not value:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else f"{value}"
