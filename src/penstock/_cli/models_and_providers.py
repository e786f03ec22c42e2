"""`penstock models` and `penstock providers`: tables of what is known. Only `models --live` asks the providers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock._cli import terminal
from penstock._cli.common_options import load_provider_config, print_message
from penstock._cli.terminal import Column
from penstock._engines.environ import LIVE
from penstock._engines.model_resolution import list_configured_providers
from penstock._providers.model_facts import PACKAGED_SOURCE, find_tables, refreshed_facts
from penstock._providers.models import Model, Policy, detail, max_input_tokens, model, models
from penstock._providers.registry import providers
from penstock._store.data_folder import data_folder
from penstock.errors import InputError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from penstock._engines.config import Config
    from penstock._providers.registry import Provider


REFRESH = "refresh"

# ── models ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_models(options: Namespace) -> int:
    """Prints the models, or refreshes what is known of them."""
    config = load_provider_config(options)
    if options.providers[:1] == [REFRESH]:
        from penstock._cli.models_refresh import refresh_models

        _check_refresh(options)
        return refresh_models(options, config.data or data_folder())
    if any((options.origin, options.yes, options.list, options.undo)):
        raise InputError("--from, --yes, --list and --undo are for `penstock models refresh`")
    policy = parse_policy(options.policy) if options.policy else config.features.max_input
    searched = options.search.lower()
    found = [
        row
        for row in _select_models(options, config.engine)
        if (options.all or row.chat) and searched in f"{row.id} {row.name}".lower()
    ]
    if options.json:
        terminal.print_json([_describe_model(row, policy, config.engine) for row in found])
        return 0
    rows = [
        (f"{row.provider}/{row.id}", f"{limit:,}" if limit else "?", detail(row) or row.name)
        for row in found
        for limit in [_max_prompt(row, policy, config.engine)]
    ]
    terminal.print_table((Column("model", "bold"), Column("prompt"), Column("detail", "dim", shrinks=True)), rows)
    _print_facts_date()
    return 0


def _check_refresh(options: Namespace) -> None:
    if options.providers[1:]:
        raise InputError("refresh takes no names: facts are refreshed for all providers of the table")


def _print_facts_date() -> None:
    """Prints of which date the facts are, beside the table."""
    print_message(f"facts: {describe_facts()}; `penstock models refresh` gets newer ones")


def describe_facts() -> str:
    """Returns the source and date of the facts about models."""
    refreshed = refreshed_facts()
    return PACKAGED_SOURCE if refreshed is None else f"{refreshed.source} from {refreshed.origin}"


def parse_policy(text: str) -> Policy:
    """Reads a policy of the command line."""
    try:
        policy: Any = float(text)
    except ValueError:
        policy = text
    max_input_tokens(Model(id="", provider=""), policy)  # raises if it is not a policy
    return policy  # type: ignore[no-any-return]


def _describe_model(row: Model, policy: Policy, config: Config) -> dict[str, Any]:
    """Returns a model as JSON, with the field names of VS Code and LiteLLM. Unknown limits are left out."""
    limits = {"max_input_tokens": _max_prompt(row, policy, config), "max_output_tokens": row.max_output}
    known = {name: limit for name, limit in limits.items() if limit}
    return {**msgspec.to_builtins(row), "capabilities": sorted(row.capabilities), **known, "detail": detail(row)}


def _max_prompt(row: Model, policy: Policy, config: Config) -> int:
    return max_input_tokens(row, policy, config.provider(row.provider) if config.has(row.provider) else None)


def _select_models(options: Namespace, config: Config) -> list[Model]:
    """Returns the models of the named or configured providers; without a provider, the packaged streams."""
    if options.live:
        return _ask_providers(options, config)
    rows = [config.provider(name) for name in options.providers] or list_configured_providers(config, LIVE)
    return [model for row in rows for model in _known_models(row, config)] if rows else _replay_models()


def _known_models(row: Provider, config: Config) -> Sequence[Model]:
    configured = config.account(row.name).models
    if configured and not isinstance(configured, dict):
        return [model(row, name) for name in configured]
    return models(row)


def _replay_models() -> list[Model]:
    from penstock._replay import describe_scripts

    return [
        Model(id=name, provider="replay", name=about, capabilities=frozenset({"chat"}))
        for name, about in describe_scripts().items()
    ]


def _ask_providers(options: Namespace, config: Config) -> list[Model]:
    import asyncio

    from penstock._client.api import Client

    async def list_models() -> list[Model]:
        async with Client(config) as client:
            return [row for name in options.providers or [""] for row in await client.list_models(name)]

    return asyncio.run(list_models())


# ── providers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_PROVIDER_COLUMNS = (
    Column("name", "bold"),
    Column("speaks"),
    Column("key", "dim"),
    Column("has", shrinks=True),
    Column("title", "dim", shrinks=True),
)


def run_providers(options: Namespace) -> int:
    """Prints the providers. Never prints a key."""
    config = load_provider_config(options).engine
    names = options.names or dict.fromkeys([*providers(), *config.providers])
    chosen = {row.name: row for row in map(config.provider, names)}.values()
    rows = [row for row in chosen if not options.ready or _is_ready(row, LIVE, config)]
    if options.json:
        terminal.print_json([_describe_provider(row, config) for row in rows])
    elif options.names:
        for row in rows:
            _print_provider(row, config)
    else:
        cells = [
            (row.name, row.protocol, _describe_key(row, LIVE, config), " ".join(row.endpoints), row.title)
            for row in rows
        ]
        terminal.print_table(_PROVIDER_COLUMNS, cells)
        _print_facts_date()
    return 0


def _is_ready(row: Provider, env: Mapping[str, str], config: Config) -> bool:
    """True if a request to the provider can be sent with the present keys and settings."""
    from penstock._engines.config_problems import describe_missing_key

    if row.name in config.providers:
        return not describe_missing_key(row, config, env)
    return row.configured(env) or row.credentials[0].scheme == "none"


def _describe_key(row: Provider, env: Mapping[str, str], config: Config) -> str:
    """Returns where the provider's key is, or which variable is missing; never the key."""
    from penstock._engines.credentials import find_stored_key

    account = config.account(row.name)
    if account.key or account.keys:
        return "in the configuration"
    if names := account.variables:
        present = [name for name in names if env.get(name)]
        return (
            f"{', '.join(present)} {'are' if present[1:] else 'is'} set" if present else f"needs {' or '.join(names)}"
        )
    if variable := next((name for name in row.env if env.get(name)), ""):
        return f"{variable} is set"
    stored = find_stored_key(row, account, env)
    if stored.key or stored.refusal:
        return "stored by penstock setup" if stored.key else "stored for another address"
    if row.credentials[0].optional:
        return "none needed"
    return f"needs {row.env[0]}" if row.env else "needs a key"


def _describe_provider(row: Provider, config: Config) -> dict[str, Any]:
    """Returns a provider as JSON, and whether it is ready."""
    state = {"ready": _is_ready(row, LIVE, config), "key": _describe_key(row, LIVE, config)}
    return {**msgspec.to_builtins(row), **state, "auth": row.auth, "env": list(row.env)}


def _print_provider(row: Provider, config: Config) -> None:
    print_line = terminal.create_printer(color=terminal.wants_color()).print_line
    print_line([(row.name, "bold"), (f"  {row.title}", "")])
    facts = {
        "address": row.base_url,
        "speaks": row.protocol,
        "auth": ", ".join(one.scheme for one in row.credentials),
        "key": _describe_key(row, LIVE, config),
        "also called": ", ".join(row.names),
        "sdk": row.sdk,
        "responses only": ", ".join(row.responses_only),
        "refuses": ", ".join(row.refuses),
        "models": f"{len(models(row))} known, {find_tables(row.facts or row.name)[-1][1]}" if models(row) else "",
    }
    for name, value in facts.items():
        if value:
            print_line([(f"  {name:<16}", "dim"), (value, "")])
    for name, setting in row.settings.items():
        variables = " or ".join(setting.env) or "follows from the others"
        default = f" (default {setting.default})" if setting.default else ""
        print_line([(f"  {{{name}}}".ljust(18), "dim"), (f"{variables}{default}", "")])
    for operation, endpoint in row.endpoints.items():
        address = f"{endpoint.method} {endpoint.path}"
        print_line([(f"  {operation:<16}", "dim"), (address, ""), (f"  {endpoint.protocol}", "dim")])
