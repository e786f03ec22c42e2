"""`penstock tokens`: counts the tokens of a request, message by message, with bounds. Sends nothing.

Input that is not JSON is counted as a text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock._cli import terminal
from penstock._cli.common_options import load_config, read_input
from penstock._engines.environ import LIVE
from penstock._engines.model_resolution import find_alias, resolve_targets
from penstock._lenient_json import parse_lenient
from penstock._protocols import detect_protocol, reader
from penstock._providers.models import max_input_tokens, model
from penstock._store.tokens import TokenStore, default_path
from penstock._tokens import Breakdown, BreakdownLine, Estimate, warning
from penstock._tokens.estimate import HybridTokenEstimator
from penstock.errors import BadRequest, InputError
from penstock.request import Message, Request, Text

if TYPE_CHECKING:
    from argparse import Namespace

    from penstock._gateway.config import GatewayConfig

MAX_ABOUT = 36  # columns of a message's beginning


def run_tokens(options: Namespace) -> int:
    """Counts one body."""
    config = load_config(options)
    request = _read_request(read_input(options.file), options.source)
    model, provider, limit = _resolve_model(options, options.model or request.model, config)
    learned = TokenStore(default_path()).factors if options.learned else None
    estimator = HybridTokenEstimator(learned=learned)
    found = estimator.breakdown(request, model, provider)
    if not request.messages or request.messages[0].extra == TEXT_MARK:
        # A text by itself has no framing.
        text = "".join(getattr(part, "text", "") for message in request.messages for part in message.parts)
        estimate = estimator.estimate_text(text, model, provider)
        found = Breakdown(found.family, [BreakdownLine("text", "message", estimate, 1.0)], estimate)
    near = warning(found.total, limit)
    if options.json:
        report = {"model": model, "provider": provider, **msgspec.to_builtins(found)}
        print(msgspec.json.encode({**report, "warning": near.message if near else None}).decode())
        return 0
    terminal.replace_unencodable()
    printer = terminal.create_printer(color=terminal.wants_color(refused=options.no_color))
    _print_breakdown(printer, found, request, model)
    if near is not None:
        printer.print_line([(f"{near.code}: {near.message}", "yellow")])
    return 0


def _resolve_model(options: Namespace, name: str, config: GatewayConfig) -> tuple[str, str, int]:
    """Returns the model's name, its provider and the prompt limit. Of an alias, the first target counts."""
    if not name:
        return name, options.provider, options.limit
    try:
        full_name = f"{options.provider}/{name}" if options.provider else name
        target = resolve_targets(full_name, config.engine, LIVE)[0]
    except InputError:
        return name, options.provider, options.limit  # no provider has it: its name still tells how to count
    limit = options.limit or max_input_tokens(
        model(target.provider, target.model), config.features.max_input, target.provider
    )
    if find_alias(name, config.engine.aliases) is None:
        return name, options.provider, limit
    return target.model, target.provider.name, limit


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────

TEXT_MARK: dict[str, dict[str, Any]] = {"text": {"bare": True}}
"""Marks the message of an input that is a text and not a request."""


def _read_request(data: bytes, source: str) -> Request:
    body = None if source == "text" else parse_lenient(data)
    if source == "auto":
        source = _detect_protocol(body) if isinstance(body, dict) else "text"
    if source == "text":
        return Request(messages=[Message("user", [Text(text=data.decode("utf-8", "replace"))], extra=TEXT_MARK)])
    if not isinstance(body, dict):
        raise BadRequest("a JSON object", body)
    return reader(source)(body)  # pyright: ignore[reportUnknownArgumentType]


def _detect_protocol(body: Any) -> str:
    try:
        return detect_protocol(body)
    except InputError as error:
        raise InputError(f"{error}; name its protocol with --from PROTOCOL, or use --from text") from None


# ── showing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _print_breakdown(printer: terminal.Printer, found: Breakdown, request: Request, model: str) -> None:
    printer.print_line([(f"{model or 'any model'}, counted as {found.family}", "bold")])
    highest = max((line.estimate.tokens for line in found.lines), default=0)
    rows: list[list[terminal.Cell]] = []
    for line in found.lines:
        about = line.what if line.message is None else _describe_message(line.what, request.messages[line.message])
        bar = terminal.Bar(line.estimate.tokens, highest)
        rows.append([*_format_estimate(about, line.estimate), f"{line.share:.0%}", bar])
    rows.append([*_format_estimate("total", found.total), "", ""])
    printer.print_table(_COLUMNS, rows)


_COLUMNS = [
    *(terminal.Column(""), terminal.Column("tokens", justify="right"), terminal.Column("bounds", "dim", "right")),
    *(terminal.Column("method", "dim"), terminal.Column("share", justify="right"), terminal.Column("")),
]


def _format_estimate(about: str, estimate: Estimate) -> list[str]:
    bounds = f"{estimate.low:,} to {estimate.high:,}"
    return [terminal.truncate(terminal.printable(about), MAX_ABOUT), f"{estimate.tokens:,}", bounds, estimate.method]


def _describe_message(role: str, message: Any) -> str:
    for part in message.parts:
        text = getattr(part, "text", "") or getattr(part, "name", "") or getattr(part, "media", "")
        if text:
            return f"{role}: {' '.join(text[:200].split())}"
    return role
