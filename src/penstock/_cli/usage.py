"""`penstock usage`: what the journal knows, printed and plotted in the terminal.

Leans on `store.journal` for the sums and `cli.plot` for the bars. Reads the file beside a running gateway.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._cli.common_options import add_config_option, load_config

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from penstock._cli.terminal import Printer
    from penstock._store.journal import JournalEntry, JournalStore, UsageSum

EPILOG = """\
examples:
  penstock usage
  penstock usage --since 7d --by key
  penstock usage --since 24h --model gpt-5 --plot cost
  penstock usage --last 20
  penstock usage --json | jq .total.cost

Times are 30m, 24h, 7d, 2w, or a date such as 2026-11-01. Costs are of turns whose price is known; others are counted
beside them.
"""
GROUPS = ("model", "key", "provider", "client", "route", "operation", "protocol", "engine", "status", "fault", "tenant")
FILTERS = ("key", "model", "provider", "client", "operation")
COUNT_OPERATION = (
    "count"  # an operation that costs nothing and says nothing: it is only counted, unless it is asked for
)
OTHER_OPERATIONS = {
    "embeddings": "embedding",
    "rerank": "ranking",
    COUNT_OPERATION: "count",
}  # operations that are no turns
PLOTS = ("turns", "tokens", "cost", "faults")
UNITS = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
STEPS = (60.0, 300.0, 900.0, 3_600.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0, 604_800.0)
WIDE = 100
MAX_SLICES = 40


def add_arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    parser.epilog = EPILOG
    parser.add_argument("--since", metavar="TIME", default="24h", help="how far back to look (default: 24h)")
    parser.add_argument("--by", choices=GROUPS, default="model", help="what to count by (default: model)")
    parser.add_argument("--plot", choices=PLOTS, default="tokens", help="what to plot over time (default: tokens)")
    parser.add_argument("--last", metavar="N", type=int, default=0, help="the last N turns instead, one a line")
    for name in FILTERS:
        parser.add_argument(f"--{name}", metavar="NAME", help=f"only turns of this {name}")
    add_config_option(parser)
    parser.add_argument(
        "--journal", metavar="FILE", type=Path, help="the journal itself, in place of the configured one"
    )
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    parser.add_argument("--no-color", action="store_true", help="no colours")


def run(options: Namespace) -> int:
    """Read the journal and tell."""
    from penstock._store.journal import JournalStore

    rows = JournalStore(_journal_path(options), time.time, read_only=True)
    try:
        _print_usage(rows, options)
    finally:
        rows.close()
    return 0


def _journal_path(options: Namespace) -> Path:
    from penstock._gateway.config import data_path
    from penstock._gateway.journal import FILE
    from penstock.errors import InputError

    path: Path | None = options.journal
    if path is None:
        config = load_config(options)
        path = data_path(config.journal.path, config.data, FILE)
    if not path.is_file():
        raise InputError(f"{path}: there is no journal yet; `penstock serve` writes one")
    return path


def parse_since(text: str, now: float) -> float:
    """A time of the command line, in seconds since the epoch."""
    from penstock.errors import InputError

    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text.strip())
    if found:
        return now - float(found[1]) * UNITS[found[2]]
    try:
        return time.mktime(time.strptime(text.strip(), "%Y-%m-%d"))
    except (ValueError, OverflowError):
        raise InputError(f"--since: expected a time such as 24h, 7d or 2026-11-01, found {text!r}") from None


def _print_usage(rows: JournalStore, options: Namespace) -> None:
    from penstock._cli import terminal

    now = time.time()
    begin = parse_since(options.since, now)
    same = {name: getattr(options, name) for name in FILTERS if getattr(options, name)}
    if options.last:
        turns = [turn for _, turn in rows.turns(since=begin, limit=options.last, **same)]
        _print_turns(turns, as_json=options.json)
        return
    but = COUNT_OPERATION if not options.operation and options.by not in ("operation", "route") else ""
    total = rows.total(since=begin, without=but, **same)
    groups = rows.by(options.by, since=begin, without=but, **same)
    step = next((one for one in STEPS if (now - begin) / one <= MAX_SLICES), STEPS[-1])
    slices = rows.slices(step, since=begin, without=but, **same)
    beside = {row.name: row.turns for row in rows.by("operation", since=begin, **same) if row.name in OTHER_OPERATIONS}
    if options.json:
        told = {"since": begin, "total": total, options.by: groups, "step": step, "slices": slices}
        _print_json({**told, "beside": beside} if beside else told)
        return
    terminal.replace_unencodable()
    printer = terminal.create_printer(color=terminal.wants_color(refused=options.no_color))
    _print_total(printer, total, options.since, {name: count for name, count in beside.items() if name != but}, beside)
    if total.turns:
        _print_groups(printer, groups, options.by)
        _print_plot(printer, slices, options.plot, begin, now, step)


def _print_json(value: Any) -> None:
    import msgspec

    print(msgspec.json.encode(value).decode())


def _print_turns(turns: Sequence[JournalEntry], *, as_json: bool) -> None:
    from penstock._cli.terminal import printable

    for turn in turns:
        if as_json:
            _print_json(turn)
            continue
        when = time.strftime("%m-%d %H:%M:%S", time.localtime(turn.time))
        who = f"{turn.provider}/{turn.model}" if turn.provider else turn.asked
        ttft = f"{turn.ttft:.2f}" if turn.ttft is not None else "-"
        ended = turn.finish or turn.fault or turn.operation
        ended += f", {turn.times} times" if turn.times > 1 else ""
        tokens = f"{_format_count(turn.input)}→{_format_count(turn.output)}"
        print(printable(f"{when}  {turn.key}  {who}  {tokens}  {ttft}/{turn.duration:.2f} s  {turn.status}:{ended}"))


def _print_total(printer: Printer, total: UsageSum, span: str, inside: dict[str, int], beside: dict[str, int]) -> None:
    """`beside` are operations that are no turns, `inside` those of them that the total holds."""
    ended = [("broken off", total.faults), ("cancelled", total.cancelled), ("refused", total.refused)]
    bad = "".join(f", {count:,} {word}" for word, count in ended if count)
    turns = _plural(total.turns - sum(inside.values()), "turn")
    others = "".join(f", {_plural(count, OTHER_OPERATIONS[name])}" for name, count in beside.items())
    printer.print_line([(turns, "bold"), (f"{others} since {span}{bad}", "")])
    if total.turns:
        cached = f" ({total.cached / total.input:.0%} cached)" if total.input and total.cached else ""
        cost = _format_cost(total) + (f" ({total.unpriced:,} turns have no price)" if total.unpriced else "")
        printer.print_line([(f"{total.input:,} tokens in{cached}, {total.output:,} out, {cost}", "")])
    printer.print_line([])


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'s' * (count != 1)}"


def _print_groups(printer: Printer, groups: Sequence[UsageSum], by: str) -> None:
    from penstock._cli.terminal import Cell, Column, printable

    titles = ("turns", "in", "out", "cost", "ttft", "time", "faults")
    columns = [Column(by, "cyan", shrinks=True), *(Column(title, justify="right") for title in titles)]
    rows: list[list[Cell]] = []
    for row in groups:
        figures = (f"{row.turns:,}", _format_count(row.input), _format_count(row.output), _format_cost(row))
        faults = [(f"{row.faults:,}", "red" if row.faults else "dim")]
        rows.append(
            [printable(row.name or "-"), *figures, _format_seconds(row.ttft), _format_seconds(row.duration), faults]
        )
    printer.print_table(columns, rows)
    printer.print_line([])


def _print_plot(printer: Printer, slices: Sequence[UsageSum], what: str, begin: float, now: float, step: float) -> None:
    """Print a bar for each slice of time, from the first that has a figure."""
    from penstock._cli.terminal import Bar, Cell, Column

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
    word = next(word for word, size in reversed(UNITS.items()) if step >= size)
    return f"{step / UNITS[word]:g}{word}"


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
    """What is known of it: a plus where some of the turns have no price."""
    if row.unpriced and not row.cost:
        return "?"
    return _format_money(row.cost) + "+" * bool(row.unpriced)


def _format_seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}s"
