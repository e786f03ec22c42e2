"""`penstock models`: which models there are, how long a prompt may be, what they cost and can do, and who says so.

Leans on the table of facts; `--live` asks the providers themselves, and only then anything leaves the machine.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from penstock.providers import Model, Policy

EPILOG = """\
examples:
  penstock models                          of the providers whose keys are there; with none, the packaged ones
  penstock models anthropic openai
  penstock models openrouter --search qwen
  penstock models groq --live              asks Groq for its list, completed from the facts
  penstock models openai --json | jq '.[] | {id, max_input_tokens, prices}'
"""
WORDS = ("tools", "reasoning", "images", "documents", "audio", "video", "image-output")


def arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    parser.epilog = EPILOG
    parser.add_argument("providers", metavar="PROVIDER", nargs="*", help="whose models")
    parser.add_argument("--search", metavar="WORD", default="", help="only those with this in their name")
    parser.add_argument("--all", action="store_true", help="also models that are not for chat")
    parser.add_argument("--live", action="store_true", help="ask the providers for their own lists")
    parser.add_argument(
        "--policy", metavar="WORD", default="reserve-output",
        help="how long a prompt may be: context-window, reserve-output (the default) or a fraction such as 0.8",
    )  # fmt: skip
    parser.add_argument("--config", metavar="FILE", help="a TOML file with providers of your own (for --live)")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")


def run(options: Namespace) -> int:
    """Print the table."""
    import msgspec

    from penstock.cli.columns import show
    from penstock.providers import detail, max_input_tokens

    policy = policy_of(options.policy)
    word = options.search.lower()
    found = [row for row in _found(options) if (options.all or row.chat) and word in f"{row.id} {row.name}".lower()]
    if options.json:
        listed = [described(row, policy) for row in found]
        print(msgspec.json.format(msgspec.json.encode(listed), indent=2).decode())
        return 0
    rows = [
        (f"{row.provider}/{row.id}", _count(max_input_tokens(row, policy)), detail(row) or row.name) for row in found
    ]
    show(("model", "prompt", "detail"), rows, ("bold", "", "dim"))
    return 0


def policy_of(word: str) -> Policy:
    """A policy as it is written on a command line."""
    from penstock.providers import Model, max_input_tokens

    try:
        policy: Any = float(word)
    except ValueError:
        policy = word
    max_input_tokens(Model(id="", provider=""), policy)  # says what is wrong with it
    return policy  # type: ignore[no-any-return]


def described(row: Model, policy: Policy) -> dict[str, Any]:
    """A model as JSON: the names are those of the hosts that read it."""
    import msgspec

    from penstock.providers import detail, max_input_tokens

    made: dict[str, Any] = msgspec.to_builtins(row)
    limits = {"max_input_tokens": max_input_tokens(row, policy), "max_output_tokens": row.max_output}
    made["capabilities"] = sorted(row.capabilities)
    return {**made, **limits, "detail": detail(row)}


def _count(tokens: int) -> str:
    return f"{tokens:,}" if tokens else "?"


def _found(options: Namespace) -> list[Model]:
    from penstock.providers import models, providers

    if options.live or options.config:
        return _asked(options)
    names = options.providers or [row.name for row in providers().values() if row.configured(os.environ)]
    return [row for name in names for row in models(name)] if names else _packaged()


def _packaged() -> list[Model]:
    """What can be talked to with no key: the packaged streams."""
    from penstock.providers import Model
    from penstock.replay import offered

    can = frozenset({"chat"})
    return [Model(id=name, provider="replay", name=about, capabilities=can) for name, about in offered().items()]


def _asked(options: Namespace) -> list[Model]:
    import asyncio

    from penstock.client import Client
    from penstock.engines.config import Config

    async def work() -> list[Model]:
        config = Config.read(options.config) if options.config else None
        async with Client(config) as client:
            lists = [await client.list_models(name) for name in options.providers or [""]]
        return [row for rows in lists for row in rows]

    return asyncio.run(work())
