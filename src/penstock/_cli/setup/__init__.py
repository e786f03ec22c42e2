"""`penstock setup`: stores a provider's key, or points a coding agent at the gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._cli.common_options import load_provider_config
from penstock.errors import InputError

if TYPE_CHECKING:
    from argparse import Namespace


def run_setup(options: Namespace) -> int:
    """Stores, lists or removes a provider's key, or sets up an agent."""
    from penstock._cli.setup import provider_key

    if options.list:
        return provider_key.list_keys(as_json=options.json)
    if options.remove:
        return provider_key.remove_key(options.remove, as_json=options.json)
    config = load_provider_config(options)
    if options.agent:
        from penstock._cli.setup.agent_setup import set_up_agent

        if options.provider or options.key_stdin:
            raise InputError("an agent and a provider's key are two commands: leave out one of them")
        return set_up_agent(options, config)
    return provider_key.add_key(options, config.engine)
