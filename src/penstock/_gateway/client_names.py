"""The name of the program that sent a request: that of a known client, or the product in its `User-Agent`.

The journal, the list of requests and the sessions show it. A `User-Agent` is what anybody likes to send: it is
shortened, without secrets, and its control characters are visible. The version is not part of the name.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from penstock._printable_text import reveal_controls
from penstock._providers.registry import is_own_agent
from penstock._redaction import redact, redact_range

if TYPE_CHECKING:
    from penstock._gateway.endpoints import IncomingRequest

MAX_AGENT = 200  # characters of a `User-Agent`
MAX_NAME = 40  # characters of a name
_MAX_READ = 8192  # characters
_LOOKAHEAD = 512  # characters after the cut that are searched for secrets too; more if a known secret is longer
_MAX_PRODUCTS = 16
# A product ends before its version: `curl/8.5`, `OpenAI/Python 2.1`, `my agent v3`; or before a comment.
_VERSION = re.compile(r"[/ ]v?\d[^ ]*| ?\([^()]*\)?")
# What names no program: engines that browsers claim to be, and the platforms below a library.
_ENGINES = frozenset("mozilla applewebkit khtml gecko safari version mobile chrome electron python node.js".split())
_BROWSERS = ("chrome", "safari", "electron")  # are a name if nothing else is


class ClientName(NamedTuple):
    """`client`: a name that stays the same from one version to the next; empty if the program tells none.

    `agent`: the `User-Agent` of a program that is not a known client.
    """

    client: str
    agent: str = ""


def name_client(incoming: IncomingRequest, secrets: tuple[str, ...] | None = None) -> ClientName:
    """Return the name of a request's program. `secrets`: the gateway's, for a request that was not admitted."""
    profile, sent = incoming.client, incoming.headers.get("user-agent", "")
    if profile.name and not (sent and profile.agents):
        return ClientName(profile.name)
    known: tuple[str, ...] = secrets if secrets is not None else incoming.services.secrets
    caller = incoming.caller
    if caller is not None and caller.secret:
        known = (*known, caller.secret)
    return _name_program(profile.name, profile.agents, sent[:_MAX_READ], known)


@lru_cache(500)
def _name_program(name: str, agents: str, sent: str, known: tuple[str, ...]) -> ClientName:
    if name and is_own_agent(agents, sent):
        return ClientName(name)
    searched = sent[: MAX_AGENT + max(_LOOKAHEAD, *map(len, known), 0)]
    agent = redact(redact_range(searched, 0, MAX_AGENT, known), known)
    agent = reveal_controls(agent.replace("\t", " "))[:MAX_AGENT]
    return ClientName(product_name(agent) or name, agent)


@lru_cache(500)
def product_name(agent: str) -> str:
    """Return the name of the program in a `User-Agent`, without its version: `curl/8.5.0` is `curl`."""
    words = " ".join(agent[:MAX_AGENT].split())
    products = [word.strip(" /;,") for word in _VERSION.split(words, maxsplit=_MAX_PRODUCTS)]
    products = [product for product in products if product]
    found = next((product for product in products if product.lower() not in _ENGINES), "")
    if not found:
        named = {product.lower(): product for product in products}
        found = next((named[browser] for browser in _BROWSERS if browser in named), products[0] if products else words)
    return found if len(found) <= MAX_NAME else f"{found[: MAX_NAME - 1]}…"
