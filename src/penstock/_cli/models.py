"""`penstock models`: which models there are, how long a prompt may be, what they cost and can do, and who says so.

Leans on the table of facts; `--live` asks the providers themselves, and only then anything leaves the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._cli.common_options import add_config_option, load_config

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence

    from penstock._engines.config import Config
    from penstock._providers.models import Model, Policy
    from penstock._providers.registry import Provider

EPILOG = """\
examples:
  penstock models                          of the providers whose keys are there; with none, the packaged ones
  penstock models anthropic openai
  penstock models openrouter --search qwen
  penstock models groq --live              asks Groq for its list, completed from the facts
  penstock models openai --json | jq '.[] | {id, max_input_tokens, prices}'
"""
CAPABILITIES = ("tools", "reasoning", "images", "documents", "audio", "video", "image-output")


def add_arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    parser.epilog = EPILOG
    parser.add_argument("providers", metavar="PROVIDER", nargs="*", help="whose models")
    parser.add_argument("--search", metavar="WORD", default="", help="only those with this in their name")
    parser.add_argument("--all", action="store_true", help="also models that are not for chat")
    parser.add_argument("--live", action="store_true", help="ask the providers for their own lists")
    parser.add_argument(
        "--policy",
        metavar="WORD",
        default="",
        help="how long a prompt may be: context-window, reserve-output or a fraction such as 0.8 (or as configured)",
    )
    add_config_option(parser)
    parser.add_argument("--json", action="store_true", help="everything, as JSON")


def run(options: Namespace) -> int:
    """Print the table."""
    import msgspec

    from penstock._cli.terminal import Column, print_table
    from penstock._providers.models import detail

    config = load_config(options)
    policy = parse_policy(options.policy) if options.policy else config.features.max_input
    word = options.search.lower()
    found = [
        row
        for row in _select_models(options, config.engine)
        if (options.all or row.chat) and word in f"{row.id} {row.name}".lower()
    ]
    if options.json:
        listed = [describe_model(row, policy, _find_provider(row, config.engine)) for row in found]
        print(msgspec.json.format(msgspec.json.encode(listed), indent=2).decode())
        return 0
    rows = [
        (f"{row.provider}/{row.id}", _format_count(_max_prompt(row, policy, config.engine)), detail(row) or row.name)
        for row in found
    ]
    print_table((Column("model", "bold"), Column("prompt"), Column("detail", "dim", shrinks=True)), rows)
    return 0


def parse_policy(word: str) -> Policy:
    """A policy as it is written on a command line."""
    from penstock._providers.models import Model, max_input_tokens

    try:
        policy: Any = float(word)
    except ValueError:
        policy = word
    max_input_tokens(Model(id="", provider=""), policy)  # says what is wrong with it
    return policy  # type: ignore[no-any-return]


def describe_model(row: Model, policy: Policy, provider: Provider | None = None) -> dict[str, Any]:
    """A model as JSON: the names are those of the hosts that read it. A limit that nobody knows is left out."""
    import msgspec

    from penstock._providers.models import detail, max_input_tokens

    made: dict[str, Any] = msgspec.to_builtins(row)
    limits = {"max_input_tokens": max_input_tokens(row, policy, provider), "max_output_tokens": row.max_output}
    made["capabilities"] = sorted(row.capabilities)
    return {**made, **{name: limit for name, limit in limits.items() if limit}, "detail": detail(row)}


def _max_prompt(row: Model, policy: Policy, config: Config) -> int:
    from penstock._providers.models import max_input_tokens

    return max_input_tokens(row, policy, _find_provider(row, config))


def _find_provider(row: Model, config: Config) -> Provider | None:
    return config.provider(row.provider) if config.has(row.provider) else None


def _format_count(tokens: int) -> str:
    return f"{tokens:,}" if tokens else "?"


def _select_models(options: Namespace, config: Config) -> list[Model]:
    """The models of the providers that are named or configured, as far as they are known without asking."""
    from penstock._engines.environ import LIVE
    from penstock._engines.model_resolution import list_configured_providers

    if options.live:
        return _ask_providers(options, config)
    rows = [config.provider(name) for name in options.providers] or list_configured_providers(config, LIVE)
    return [model for row in rows for model in _known_models(row, config)] if rows else _replay_models()


def _known_models(row: Provider, config: Config) -> Sequence[Model]:
    from penstock._providers.models import model, models

    said = config.account(row.name).models
    if said and not isinstance(said, dict):
        return [model(row, name) for name in said]
    return models(row)


def _replay_models() -> list[Model]:
    """What can be talked to with no key: the packaged streams."""
    from penstock._providers.models import Model
    from penstock._replay import describe_scripts

    can = frozenset({"chat"})
    return [
        Model(id=name, provider="replay", name=about, capabilities=can) for name, about in describe_scripts().items()
    ]


def _ask_providers(options: Namespace, config: Config) -> list[Model]:
    import asyncio

    from penstock._client.api import Client

    async def work() -> list[Model]:
        async with Client(config) as client:
            lists = [await client.list_models(name) for name in options.providers or [""]]
        return [row for rows in lists for row in rows]

    return asyncio.run(work())
