"""`penstock usage`: sums of the gateway's journal as tables and bars. A gateway may be running at the same time."""

from __future__ import annotations

import re
import time
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec

from penstock._cli import terminal
from penstock._cli.common_options import load_config
from penstock._cli.terminal import Bar, Cell, Column, Printer
from penstock._gateway.config import GatewayConfig, data_path
from penstock._gateway.journal import FILE
from penstock._printable_text import printable
from penstock._store.journal import JournalEntry, JournalRows, JournalStore, UsageSum
from penstock._store.postgres import PostgresDatabase
from penstock._store.postgres_stores import PostgresJournal
from penstock.errors import InputError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from pathlib import Path

FILTERS = ("key", "model", "provider", "client", "operation")
COUNT_OPERATION = "count"  # free: only its number is shown, unless the user selects operations
OTHER_OPERATIONS = {"embeddings": "embedding", "rerank": "ranking", COUNT_OPERATION: "count"}  # not turns of a model
UNITS = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
STEPS = (60.0, 300.0, 900.0, 3_600.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0, 604_800.0)
MAX_SLICES = 40


def run_usage(options: Namespace) -> int:
    """Reads the journal and prints its sums."""
    config = load_config(options) if options.journal is None else None
    if config is not None and config.stores.postgres and not config.journal.path:
        with closing(PostgresDatabase(config.stores.postgres, timeout=config.stores.postgres_timeout)) as database:
            _print_usage(PostgresJournal(database, time.time, read_only=True), options)
        return 0
    with closing(JournalStore(_journal_path(options.journal, config), time.time, read_only=True)) as journal:
        _print_usage(journal, options)
    return 0


def _journal_path(path: Path | None, config: GatewayConfig | None) -> Path:
    if path is None:
        config = config or GatewayConfig()
        path = data_path(config.journal.path, config.data, FILE)
    if not path.is_file():
        raise InputError(f"{path}: there is no journal yet; `penstock serve` writes one")
    return path


def parse_since(text: str, now: float) -> float:
    """Reads a time of the command line. Returns seconds since the epoch."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text.strip())
    if found:
        return now - float(found[1]) * UNITS[found[2]]
    try:
        return time.mktime(time.strptime(text.strip(), "%Y-%m-%d"))
    except (ValueError, OverflowError):
        raise InputError(f"--since: expected a time such as 24h, 7d or 2026-11-01, found {text!r}") from None


def _print_usage(journal: JournalRows, options: Namespace) -> None:
    now = time.time()
    begin = parse_since(options.since, now)
    filters = {name: getattr(options, name) for name in FILTERS if getattr(options, name)}
    if options.last:
        turns = [turn for _, turn in journal.turns(since=begin, limit=options.last, **filters)]
        _print_turns(turns, as_json=options.json)
        return
    excluded = COUNT_OPERATION if not options.operation and options.by not in ("operation", "route") else ""
    total = journal.total(since=begin, without=excluded, **filters)
    groups = journal.by(options.by, since=begin, without=excluded, **filters)
    step = next((one for one in STEPS if (now - begin) / one <= MAX_SLICES), STEPS[-1])
    slices = journal.slices(step, since=begin, without=excluded, **filters)
    operations = journal.by("operation", since=begin, **filters)
    others = {row.name: row.turns for row in operations if row.name in OTHER_OPERATIONS}
    if options.json:
        report = {"since": begin, "total": total, options.by: groups, "step": step, "slices": slices}
        print(msgspec.json.encode({**report, "beside": others} if others else report).decode())
        return
    terminal.replace_unencodable()
    printer = terminal.create_printer(color=terminal.wants_color(refused=options.no_color))
    _print_total(printer, total, options.since, others, excluded)
    if total.turns:
        _print_groups(printer, groups, options.by)
        _print_plot(printer, slices, options.plot, begin, now, step)


def _print_turns(turns: Sequence[JournalEntry], *, as_json: bool) -> None:
    for turn in turns:
        if as_json:
            print(msgspec.json.encode(turn).decode())
            continue
        when = time.strftime("%m-%d %H:%M:%S", time.localtime(turn.time))
        who = f"{turn.provider}/{turn.model}" if turn.provider else turn.asked
        ttft = f"{turn.ttft:.2f}" if turn.ttft is not None else "-"
        ended = turn.finish or turn.fault or turn.operation
        ended += f", {turn.times} times" if turn.times > 1 else ""
        tokens = f"{_format_count(turn.input)}→{_format_count(turn.output)}"
        print(printable(f"{when}  {turn.key}  {who}  {tokens}  {ttft}/{turn.duration:.2f} s  {turn.status}:{ended}"))


def _print_total(printer: Printer, total: UsageSum, span: str, others: dict[str, int], excluded: str) -> None:
    """Prints the sums. `others`: operations that are not turns. The total holds them, except the one `excluded`."""
    ended = [("broken off", total.faults), ("cancelled", total.cancelled), ("refused", total.refused)]
    bad = "".join(f", {count:,} {word}" for word, count in ended if count)
    counted = sum(count for name, count in others.items() if name != excluded)
    others_text = "".join(f", {_plural(count, OTHER_OPERATIONS[name])}" for name, count in others.items())
    turns = _plural(total.turns - counted, "turn")
    period = f"since {span}" if "-" in span else f"in the last {span}"  # a date, or a duration
    printer.print_line([(turns, "bold"), (f"{others_text} {period}{bad}", "")])
    if total.turns:
        cached = f" ({total.cached / total.input:.0%} cached)" if total.input and total.cached else ""
        cost = _format_cost(total) + (f" ({total.unpriced:,} turns have no price)" if total.unpriced else "")
        printer.print_line([(f"{total.input:,} tokens in{cached}, {total.output:,} out, {cost}", "")])
    printer.print_line([])


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _print_groups(printer: Printer, groups: Sequence[UsageSum], by: str) -> None:
    titles = ("turns", "in", "out", "cost", "ttft", "time", "faults")
    columns = [Column(by, "cyan", shrinks=True), *(Column(title, justify="right") for title in titles)]
    rows: list[list[Cell]] = []
    for row in groups:
        figures = (f"{row.turns:,}", _format_count(row.input), _format_count(row.output), _format_cost(row))
        faults = [(f"{row.faults:,}", "red" if row.faults else "dim")]
        rows.append(
            [
                printable(row.name or "-"),
                *figures,
                _format_seconds(row.ttft),
                _format_seconds(row.duration),
                faults,
            ]
        )
    printer.print_table(columns, rows)
    printer.print_line([])


def _print_plot(printer: Printer, slices: Sequence[UsageSum], what: str, begin: float, now: float, step: float) -> None:
    """Print a bar for each slice of time, from the first that has a figure."""
    at = {int(row.start // step): float(getattr(row, what)) for row in slices}
    first, last = min(at, default=int(begin // step)), int(now // step)
    form = "%H:%M" if step < UNITS["d"] / 2 else "%m-%d"
    format_figure = _format_money if what == "cost" else _format_count
    highest = max(at.values(), default=0.0)
    rows: list[list[Cell]] = []
    for number in range(first, last + 1):
        label, figure = time.strftime(form, time.localtime(number * step)), at.get(number, 0.0)
        rows.append([label, format_figure(figure), Bar(figure, highest)])
    printer.print_line([(f"{what} by {_format_step(step)}", "dim")])
    printer.print_table([Column("from", "dim"), Column(what, justify="right"), Column("")], rows)


def _format_step(step: float) -> str:
    unit = next(unit for unit, size in reversed(UNITS.items()) if step >= size)
    return f"{step / UNITS[unit]:g}{unit}"


def _format_count(number: float | None) -> str:
    if number is None:
        return "?"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= size:
            return f"{number / (1e3 if letter == 'k' else size):.3g}{letter}"
    return f"{number:,.0f}"


def _format_money(dollars: float) -> str:
    return f"${dollars:,.2f}" if dollars >= 1 or not dollars else f"${dollars:.4f}"


def _format_cost(row: UsageSum) -> str:
    """Formats the known cost, with a plus if some turns have no price."""
    if row.unpriced and not row.cost:
        return "?"
    return _format_money(row.cost) + "+" * bool(row.unpriced)


def _format_seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}s"
