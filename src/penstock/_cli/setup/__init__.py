"""`penstock setup`: stores a provider's key, or points a coding agent at the gateway. Shows, asks, and can undo."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EPILOG = """\
examples:
  penstock setup                                   choose a provider, enter its key
  penstock setup --provider openai --key-stdin < key.txt
  penstock setup --list
  penstock setup --remove openai
  penstock setup claude --model anthropic/claude-sonnet-4-5
  penstock setup codex --print
  penstock setup codex --undo
  penstock setup gateway --budget 5                prompt caching, context management, 5 dollars a day

A key is checked with one request and kept in the keyring of the system, or in a file that only you can read if there
is none. A running gateway uses it within a second. Keys in the configuration and in variables go before stored ones.

For an agent a diff is shown before anything is written. Your own settings stay, and a backup is kept. If the gateway
asks for a key, put one of `penstock keys add NAME` into PENSTOCK_KEY.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    from penstock._cli.common_options import add_config_option
    from penstock._cli.setup.agents import AGENTS

    parser.epilog = EPILOG
    parser.add_argument(
        "agent",
        nargs="?",
        choices=(*AGENTS, "gateway"),
        metavar="AGENT",
        help=f"what to set up: {', '.join(AGENTS)}, or gateway; without it, a provider's key",
    )
    keys = parser.add_argument_group("a provider's key")
    keys.add_argument("--provider", metavar="NAME", default="", help="whose key (default: you are asked)")
    keys.add_argument("--key-stdin", action="store_true", help="read the key from standard input")
    keys.add_argument("--no-check", action="store_true", help="store the key without asking the provider")
    keys.add_argument("--file", action="store_true", help="store it in the file, not in the keyring")
    keys.add_argument("--list", action="store_true", help="show whose keys are stored, never the keys")
    keys.add_argument("--remove", metavar="NAME", default="", help="forget a provider's key")
    agent = parser.add_argument_group("an agent")
    agent.add_argument("--model", metavar="NAME", help="provider/model, or an alias (default: the alias default)")
    agent.add_argument(
        "--small-model", metavar="NAME", help="for side tasks (default: a cheaper one of the same provider)"
    )
    agent.add_argument(
        "--context", metavar="N", type=int, help="the context window in tokens (default: from the table)"
    )
    agent.add_argument("--url", metavar="URL", help="the gateway (default: where `penstock serve` listens)")
    agent.add_argument("--budget", metavar="DOLLARS", type=float, help="a limit for each day, in penstock.toml")
    agent.add_argument("--print", action="store_true", help="only print what would be written")
    agent.add_argument("--yes", action="store_true", help="write without asking")
    agent.add_argument("--undo", action="store_true", help="take back what was written")
    add_config_option(parser)


def run(options: Namespace) -> int:
    """Keys, or an agent."""
    from penstock._cli.setup import provider_key
    from penstock._gateway.config import load_config
    from penstock.errors import InputError

    if options.list:
        return provider_key.list_keys()
    if options.remove:
        return provider_key.remove_key(options.remove)
    config = load_config(options.config, os.environ)
    if options.agent:
        from penstock._cli.setup.agent_setup import set_up_agent

        if options.provider or options.key_stdin:
            raise InputError("an agent and a provider's key are two commands: leave out one of them")
        return set_up_agent(options, config)
    return provider_key.add_key(options, config.engine)
