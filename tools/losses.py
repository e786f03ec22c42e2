"""Prints docs/losses.md: what each protocol cannot express, taken from the `losses.toml` of each protocol.

`python tools/losses.py > docs/losses.md` writes the page anew; a test fails while it is not current.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import _protocols as protocols
from penstock._engines.emulation import EMULATIONS
from penstock._markers import carried_features
from penstock._messages.request_codecs import losses
from penstock.errors import UnknownProtocol

if TYPE_CHECKING:
    from collections.abc import Mapping

HEAD = """# Losses

What a target cannot express is reported, never dropped in silence: a diagnostic `loss-<key>` has the sentence below,
and counts how often. Every protocol that can be written has its tables: one for answers (streams and whole bodies),
one for requests. A request may also go another way than its own, which is a diagnostic `carried-<key>` and no loss:
our own readers put it back. Where a whole turn is asked for, some of what is lost is had in another way, or refused:
[engines](engines.md#what-a-provider-has-no-word-for).

This page is made by `python tools/losses.py > docs/losses.md` from the `losses.toml` of each protocol.
"""


def page() -> str:
    """The page as it should be."""
    parts = [HEAD]
    for name in sorted(protocols.MODULES):
        answers, requests = _answers(name), _requests(name)
        if answers is not None:
            parts.append(_table(name, answers))
        if requests is not None:
            parts.append(_table(f"{name}, requests", requests))
    stand_ins = _table("carried by engines and the gateway", EMULATIONS)
    return "\n".join([*parts, _table("carried in requests", carried_features()), stand_ins])


def _answers(name: str) -> Mapping[str, str] | None:
    return None if protocols.protocol(name).encoder is None else protocols.encoder(name).losses


def _requests(name: str) -> Mapping[str, str] | None:
    try:
        return losses(name)
    except UnknownProtocol:
        return None


def _table(title: str, losses: Mapping[str, str]) -> str:
    rows = [f"| `{key}` | {said.removesuffix(': {}')} |" for key, said in sorted(losses.items())]
    return "\n".join(
        [f"## {title}", "", "| key | what happens |", "|---|---|", *(rows or ["| | nothing is lost |"]), ""]
    )


if __name__ == "__main__":
    print(page(), end="")
