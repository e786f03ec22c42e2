"""`penstock tokens`: counts the tokens of a request, part by part, with bounds. Sends nothing.

What the gateway learned on this machine is used: actual counts of prompts, and the factors of models. Input that is not
JSON is counted as a text.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from penstock._cli import terminal
from penstock._cli.common_options import load_config, print_message, read_input
from penstock._engines.environ import LIVE
from penstock._engines.model_resolution import find_alias, resolve_targets
from penstock._gateway.config import data_path
from penstock._gateway.token_estimators import FILE
from penstock._lenient_json import parse_lenient
from penstock._printable_text import printable
from penstock._protocols import detect_protocol, reader
from penstock._providers.models import max_input_tokens, model
from penstock._store.tokens import TokenStore
from penstock._tokens import Breakdown, BreakdownLine, Estimate, warning
from penstock._tokens.bpe import check_limit, check_tokens
from penstock._tokens.conversation import FitResult, read_conversation
from penstock._tokens.estimate import HybridTokenEstimator
from penstock.errors import BadRequest, InputError
from penstock.request import Message, Request, Text

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping, Sequence

    from penstock._gateway.config import GatewayConfig
    from penstock._tokens.families import Factor

MAX_ABOUT = 36  # columns of a message's beginning
_JSON_START = re.compile(rb'\s*+(?:\{\s*+["}]|\[\s*+[\[{"])')
MAX_REMOVED = 20  # lines of messages that would be removed


class Source(NamedTuple):
    """The input: its JSON and protocol, which a text has not, and the request in it."""

    request: Request
    body: dict[str, Any] | list[Any] | None = None
    protocol: str = ""


class CountedModel(NamedTuple):
    """A model and the provider for which it is counted."""

    model: str
    provider: str


def run_tokens(options: Namespace) -> int:
    """Counts one body."""
    for name in ("limit", "fit"):
        if getattr(options, name) is not None:
            check_tokens(f"--{name}", getattr(options, name))
    config = load_config(options)
    path = data_path("", config.data, FILE)
    if options.no_learned or not path.exists():
        return _run(options, config, HybridTokenEstimator())
    with closing(TokenStore(path)) as store:
        counts = ReadOnlyCounts(store)
        return _run(options, config, HybridTokenEstimator(counts=counts, learned=store.factors, tenant=options.tenant))


def _run(options: Namespace, config: GatewayConfig, estimator: HybridTokenEstimator) -> int:
    source = _read_source(read_input(options.file), options.source)
    names, limit = _resolve_model(options, options.model or source.request.model, config)
    counted = _find_learned(estimator, source.request, names)
    found = _count(estimator, source, counted)
    near = warning(found.total, limit)
    fit = _fit(estimator, source, counted, found.total, options) if options.fit else None
    factor = estimator.factor(*counted)
    if options.json:
        report = {
            "model": counted.model,
            "provider": counted.provider,
            **msgspec.to_builtins(found),
            "factor": factor,
            "fit": fit,
        }
        print(msgspec.json.encode({**report, "warning": near.message if near else None}).decode())
        return 0
    terminal.replace_unencodable()
    printer = terminal.create_printer(color=terminal.wants_color(refused=options.no_color))
    _print_breakdown(printer, found, source.request, counted.model)
    printer.print_line([(_describe_method(found.total, factor), "dim")])
    if near is not None:
        printer.print_line([(f"{near.code}: {near.message}", "yellow")])
    if fit is not None:
        _print_fit(printer, fit, source.request)
    return 0


def _resolve_model(options: Namespace, name: str, config: GatewayConfig) -> tuple[list[CountedModel], int]:
    """Returns the names under which counts may be learned, and the prompt limit. Of an alias, the first target counts.

    The gateway learns under the names of the target, the library under those that its caller gives.
    """
    given, own_limit = CountedModel(name, options.provider), options.limit or 0
    if not name:
        return [given], own_limit
    try:
        full_name = f"{options.provider}/{name}" if options.provider else name
        target = resolve_targets(full_name, config.engine, LIVE)[0]
    except InputError:
        return [given], own_limit  # no provider has it: its name still tells how to count
    limit = own_limit or max_input_tokens(
        model(target.provider, target.model), config.features.max_input, target.provider
    )
    resolved = CountedModel(target.model, target.provider.name)
    return [resolved] if find_alias(name, config.engine.aliases) is not None else [resolved, given], limit


# ── learned counts ────────────────────────────────────────────────────────────────────────────────────────────────────


class ReadOnlyCounts:
    """The counts of a store, to which nothing is added: this command must not wait for a gateway that writes."""

    def __init__(self, store: TokenStore) -> None:
        self._store = store

    def get(self, tenant: str, keys: Iterable[str], /) -> dict[str, bytes]:
        return self._store.get(tenant, keys)

    def put(self, tenant: str, rows: Mapping[str, bytes], /) -> None:
        """Keeps nothing."""


def _find_learned(estimator: HybridTokenEstimator, request: Request, names: Sequence[CountedModel]) -> CountedModel:
    """Returns the first name under which something was learned for this request; else the last one."""
    for name in names[:-1]:
        known = estimator.factor(*name).turns > 0
        if known or estimator.estimate_conversation(request, *name).method != "estimated":
            return name
    return names[-1]


# ── reading and counting ──────────────────────────────────────────────────────────────────────────────────────────────


def _read_source(data: bytes, protocol: str) -> Source:
    body: Any = None if protocol == "text" else parse_lenient(data)
    if messages := _list_messages(body):
        conversation = read_conversation(messages, protocol="" if protocol == "auto" else protocol)
        return Source(conversation.request, messages, conversation.protocol)
    if protocol == "auto":
        if body is None and _JSON_START.match(data):
            print_message("the input begins like JSON but is none: it is counted as a text")
        protocol = _detect_protocol(body) if isinstance(body, dict) else "text"
    if protocol == "text":
        return Source(Request(messages=[Message("user", [Text(text=data.decode("utf-8", "replace"))])]))
    if not isinstance(body, dict):
        raise BadRequest("a JSON object", body)
    fields: dict[str, Any] = {**body}
    return Source(reader(protocol)(fields), fields, protocol)


def _list_messages(body: Any) -> list[Any]:
    """Returns the messages if the input is a list of them; else an empty list."""
    if not isinstance(body, list):
        return []
    messages: list[Any] = [*body]
    are_messages = all(isinstance(item, dict) and ("role" in item or "type" in item) for item in messages)
    return messages if are_messages else []


def _detect_protocol(body: Any) -> str:
    try:
        return detect_protocol(body)
    except InputError as error:
        raise InputError(f"{error}; name its protocol with --from PROTOCOL, or use --from text") from None


def _count(estimator: HybridTokenEstimator, source: Source, counted: CountedModel) -> Breakdown:
    found = estimator.breakdown(source.request, *counted)
    if source.body is not None and source.request.messages:
        return found
    text = "".join(getattr(part, "text", "") for message in source.request.messages for part in message.parts)
    estimate = estimator.estimate_text(text, *counted)  # a text by itself has no framing
    return Breakdown(found.family, [BreakdownLine("text", "message", estimate, 1.0)], estimate)


def _fit(
    estimator: HybridTokenEstimator, source: Source, counted: CountedModel, total: Estimate, options: Namespace
) -> FitResult[Any]:
    if source.body is None:  # a text by itself has no framing, and nothing that could go
        room = check_limit(options.fit, options.reserve, "high")
        return FitResult(source.request.messages, total, total, room, total.high <= room, [])
    limit, reserve, shorten = options.fit, options.reserve, options.shorten_results
    return estimator.fit(
        source.body,
        limit,
        reserve=reserve,
        model=counted.model,
        provider=counted.provider,
        protocol=source.protocol,
        shorten_results=shorten,
    )


# ── showing ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_COLUMNS = [
    *(terminal.Column("", shrinks=True), terminal.Column("tokens", justify="right")),
    *(terminal.Column("share", justify="right"), terminal.Column("bounds", "dim", "right"), terminal.Column("")),
]


def _print_breakdown(printer: terminal.Printer, found: Breakdown, request: Request, name: str) -> None:
    printer.print_line([(f"{name or 'any model'}, counted as {found.family}", "bold")])
    highest = max((line.estimate.tokens for line in found.lines), default=0)
    rows: list[list[terminal.Cell]] = []
    for line in found.lines:
        about = line.what if line.message is None else _describe_message(request.messages[line.message])
        bar = terminal.Bar(line.estimate.tokens, highest)
        rows.append([*_format_estimate(about, line.estimate, f"{line.share:.0%}"), bar])
    rows.append([*_format_estimate("total", found.total, ""), ""])
    printer.print_table(_COLUMNS, rows)


def _format_estimate(about: str, estimate: Estimate, share: str) -> list[str]:
    bounds = f"{estimate.low:,} to {estimate.high:,}"
    return [_shorten(about), f"{estimate.tokens:,}", share, bounds]


def _describe_method(total: Estimate, factor: Factor) -> str:
    words = {
        "actual": "actual: the provider counted this prompt",
        "hybrid": "hybrid: the provider counted the beginning of this prompt, the rest is estimated",
        "estimated": f"estimated, confidence {total.confidence:.2f}",
    }
    learned = f"; learned factor {factor.value:.2f} from {factor.turns} turns" if factor.turns else ""
    return words[total.method] + learned


def _print_fit(printer: terminal.Printer, fit: FitResult[Any], request: Request) -> None:
    """Prints what would go so that the upper bound of the count is within the limit."""
    after = f"{fit.estimate.tokens:,} tokens ({fit.estimate.low:,} to {fit.estimate.high:,})"
    if not fit.removed:
        state = "nothing needs to go" if fit.fits else "nothing can go"
        printer.print_line([(f"to fit {fit.limit:,} tokens: {state}; {after}", "bold")])
        return
    rest = "" if fit.fits else ", which is still too long"
    printer.print_line([(f"to fit {fit.limit:,} tokens, this goes, and {after} stay{rest}:", "bold")])
    for row in fit.removed[:MAX_REMOVED]:
        done = "shortened" if row.shortened else "removed"
        about = _shorten(_describe_message(request.messages[row.message]))
        printer.print_line([(f"  {row.message}  {about}  {row.tokens:,} tokens {done}", "")], cut=True)
    if len(fit.removed) > MAX_REMOVED:
        tokens = sum(row.tokens for row in fit.removed[MAX_REMOVED:])
        printer.print_line([(f"  and {len(fit.removed) - MAX_REMOVED} more, {tokens:,} tokens", "")])


def _shorten(about: str) -> str:
    return terminal.truncate(printable(about), MAX_ABOUT)


def _describe_message(message: Message) -> str:
    for part in message.parts:
        text = getattr(part, "text", "") or getattr(part, "name", "") or getattr(part, "media", "")
        if text:
            return f"{message.role}: {' '.join(text[:200].split())}"
    return message.role
