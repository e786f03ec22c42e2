"""`penstock tokens`: how many tokens a request is, message by message, and how sure that is.

Leans on `penstock.tokens`; what is not JSON is counted as a text. Nothing is sent anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._cli import common_options, terminal
from penstock._cli.common_options import add_config_option, load_config

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from penstock._gateway.config import GatewayConfig
    from penstock._tokens.estimate import Breakdown, Estimate
    from penstock.request import Request

EPILOG = """\
examples:
  penstock tokens request.json --model claude-sonnet-4-5
  penstock tokens request.json --model gpt-4o --limit 128000
  penstock tokens notes.md --model gemini-2.5-flash
  jq .body recorded.json | penstock tokens --from responses --json

Bounds hold the actual count 9 times in 10. Exit code: 0, also near or over the limit; 2 for input that cannot be used.
"""
# Which protocol a body is of, by what stands at its top: the first row of which all keys are there.
BODY_KEYS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("contents",), "gemini"),
    (("input",), "responses"),
    (("inferenceConfig",), "bedrock"),
    (("toolConfig",), "bedrock"),
    (("prompt",), "completions"),
    (("anthropic_version",), "anthropic"),
    (("system", "messages"), "anthropic"),
    (("messages", "stop_sequences"), "anthropic"),
    (("messages",), "openai-chat"),
)
MAX_ABOUT = 36  # columns of what a message says


def add_arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    from penstock._protocols import MODULES

    parser.epilog = EPILOG
    names = ", ".join(sorted(MODULES))
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="the body; - or nothing: standard input")
    parser.add_argument(
        "--model", metavar="NAME", default="", help="the model, instead of the one named in the request"
    )
    parser.add_argument("--provider", metavar="NAME", default="", help="who serves it, where that matters")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="PROTOCOL",
        default="auto",
        help=f"whose request it is: {names}; text for none; auto finds out (default)",
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=int,
        default=0,
        help="the model's input limit, instead of the known one: warn from 90%% of it",
    )
    add_config_option(parser)
    parser.add_argument("--learned", action="store_true", help="use what was learned from actual usage on this machine")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--no-color", action="store_true", help="no colours, also in a terminal")


def run(options: Namespace) -> int:
    """Count one body."""
    from penstock._tokens.estimate import HybridTokenEstimator, warning

    config = load_config(options)
    with common_options.open_input(options.file) as file:
        data = b"".join(common_options.read_chunks(file))
    request = _read_request(data, options.source)
    model, provider, limit = _resolve_model(options, options.model or request.model, config)
    estimator = HybridTokenEstimator(learned=_load_factors() if options.learned else None)
    found = estimator.breakdown(request, model, provider)
    if not request.messages or request.messages[0].extra == TEXT_MARK:
        # A text by itself has no framing.
        found = _text_breakdown(estimator.estimate_text(_request_text(request), model, provider), found.family)
    near = warning(found.total, limit)
    if options.json:
        _print_json(found, model, provider, near.message if near else None)
        return 0
    terminal.replace_unencodable()
    printer = terminal.create_printer(color=terminal.wants_color(refused=options.no_color))
    _print_breakdown(printer, found, request, model)
    if near is not None:
        printer.print_line([(f"{near.code}: {near.message}", "yellow")])
    return 0


def _resolve_model(options: Namespace, name: str, config: GatewayConfig) -> tuple[str, str, int]:
    """The model's name, who serves it, and how long a prompt may be; aliases are replaced by the first they mean."""
    from penstock._engines.environ import LIVE
    from penstock._engines.model_resolution import find_alias, resolve_targets
    from penstock._providers.models import max_input_tokens, model
    from penstock.errors import InputError

    if not name:
        return name, options.provider, options.limit
    try:
        asked = f"{options.provider}/{name}" if options.provider else name
        target = resolve_targets(asked, config.engine, LIVE)[0]
    except InputError:
        return name, options.provider, options.limit  # nobody who can be asked: its name still tells how to count
    limit = options.limit or max_input_tokens(
        model(target.provider, target.model), config.features.max_input, target.provider
    )
    if find_alias(name, config.engine.aliases) is None:
        return name, options.provider, limit
    return target.model, target.provider.name, limit


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────

TEXT_MARK: dict[str, dict[str, Any]] = {"text": {"bare": True}}
"""Marks the message that stands for a plain text."""


def _read_request(data: bytes, source: str) -> Request:
    from penstock._jsontext import parse_lenient
    from penstock._messages.request_codecs import reader
    from penstock.errors import BadRequest

    body = None if source == "text" else parse_lenient(data)
    if source == "auto":
        source = _detect_protocol(body)
    if source == "text":
        return _text_request(data)
    if not isinstance(body, dict):
        raise BadRequest("a JSON object", body)
    return reader(source)(body)  # pyright: ignore[reportUnknownArgumentType]


def _detect_protocol(body: Any) -> str:
    from penstock.errors import InputError

    if not isinstance(body, dict):
        return "text"
    for signs, name in BODY_KEYS:
        if all(sign in body for sign in signs):
            return name
    raise InputError("cannot tell whose request this is; say it with --from PROTOCOL, or --from text")


def _text_request(data: bytes) -> Request:
    from penstock.request import Message, Request, Text

    return Request(messages=[Message("user", [Text(text=data.decode("utf-8", "replace"))], extra=TEXT_MARK)])


def _request_text(request: Request) -> str:
    return "".join(getattr(part, "text", "") for message in request.messages for part in message.parts)


def _text_breakdown(estimate: Estimate, family: str) -> Breakdown:
    from penstock._tokens.estimate import Breakdown, BreakdownLine

    return Breakdown(family, [BreakdownLine("text", estimate)], estimate)


def _load_factors() -> Any:
    from penstock._store.tokens import TokenStore, default_path

    return TokenStore(default_path()).factors


# ── showing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _print_json(found: Breakdown, model: str, provider: str, near: str | None) -> None:
    import msgspec

    whole = {"model": model, "provider": provider, **msgspec.to_builtins(found), "warning": near}
    print(msgspec.json.encode(whole).decode())


def _print_breakdown(printer: terminal.Printer, found: Breakdown, request: Request, model: str) -> None:
    printer.print_line([(f"{model or 'any model'}, counted as {found.family}", "bold")])
    highest = max((line.estimate.tokens for line in found.lines), default=0)
    messages = iter(request.messages)
    rows: list[list[terminal.Cell]] = []
    for line in found.lines:
        about = line.what if line.what in ("around", "text") else _describe_message(line.what, next(messages))
        rows.append([*_format_estimate(about, line.estimate), terminal.Bar(line.estimate.tokens, highest)])
    rows.append([*_format_estimate("total", found.total), ""])
    printer.print_table(_COLUMNS, rows)


_COLUMNS = (
    terminal.Column(""),
    terminal.Column("tokens", justify="right"),
    terminal.Column("bounds", "dim", "right"),
    terminal.Column("method", "dim"),
    terminal.Column(""),
)


def _format_estimate(about: str, estimate: Estimate) -> list[str]:
    bounds = f"{estimate.low:,} to {estimate.high:,}"
    return [terminal.truncate(terminal.printable(about), MAX_ABOUT), f"{estimate.tokens:,}", bounds, estimate.method]


def _describe_message(role: str, message: Any) -> str:
    for part in message.parts:
        said = getattr(part, "text", "") or getattr(part, "name", "") or getattr(part, "media", "")
        if said:
            return f"{role}: {' '.join(said[:200].split())}"
    return role
