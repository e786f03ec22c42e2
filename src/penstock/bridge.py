"""`bridge("anthropic", "vscode")`: a pipe from one protocol's bytes to another's.

bytes → parser → frames → decoder → events → guard → shaping → encoder → frames → writer → bytes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import protocols
from penstock.errors import UnknownProtocol
from penstock.framing import PARSERS, WRITERS
from penstock.grammar import Guard
from penstock.shaping.sequence import Sequence
from penstock.stage import Pipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.stage import Stage


def parser(name: str) -> Stage[bytes, Any]:
    """A parser by framing name; `auto` finds out from the first bytes."""
    if name not in PARSERS:
        raise UnknownProtocol(name, PARSERS, "framing")
    return PARSERS[name]()


def bridge(
    source: str, target: str, *, framing: str = "auto", shaping: tuple[Stage[Any, Any], ...] = (),
    source_options: Mapping[str, Any] | None = None, target_options: Mapping[str, Any] | None = None,
) -> Pipe:  # fmt: skip
    """A new pipe for one stream. `shaping` are further event → event stages."""
    row = protocols.protocol(target)
    decode = protocols.decoder(source, **(source_options or {}))
    encode = protocols.encoder(target, **(target_options or {}))
    order: tuple[Stage[Any, Any], ...] = (Sequence(),) if row.sequential else ()
    return Pipe(parser(framing), decode, Guard(), *shaping, *order, encode, WRITERS[row.writes]())
