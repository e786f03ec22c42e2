"""`bridge("anthropic", "vscode")`: a pipe from one protocol's bytes to another's.

bytes → parser → frames → decoder → events → guard → shaping → encoder → frames → writer → bytes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import protocols
from penstock.errors import InputError, UnknownProtocol
from penstock.framing import LIMIT, PARSERS, WRITERS, AutoParser, named_framing
from penstock.grammar import Guard
from penstock.guess import Guess
from penstock.shaping.sequence import Sequence
from penstock.stage import Pipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.stage import Stage


def parser(name: str, limit: int = LIMIT, content_type: str = "") -> Stage[bytes, Any]:
    """A parser by framing name; `auto` finds out from the first bytes, or else from the content type.

    No frame may have more than `limit` bytes.
    """
    if name not in PARSERS:
        raise UnknownProtocol(name, PARSERS, "framing")
    if limit < 1:
        raise InputError(f"limit is the most bytes that a frame may have, at least 1, not {limit}")
    if name == "auto":
        return AutoParser(limit=limit, fallback=named_framing(content_type) or "ndjson")
    return PARSERS[name](limit=limit)


def bridge(
    source: str, target: str, *, framing: str = "auto", limit: int = LIMIT, shaping: tuple[Stage[Any, Any], ...] = (),
    source_options: Mapping[str, Any] | None = None, target_options: Mapping[str, Any] | None = None,
) -> Pipe:  # fmt: skip
    """A new pipe for one stream. `shaping` are further event → event stages; the source `auto` is found out.

    A frame of the source may have `limit` bytes (64 MiB by default); one that has more is a `FrameTooLarge`.
    """
    options = source_options or {}
    decode: Stage[Any, Any] = Guess(options) if source == "auto" else protocols.decoder(source, **options)
    return Pipe(parser(framing, limit), decode, Guard(), *shaping, *encoding(target, target_options).stages)


def encoding(target: str, options: Mapping[str, Any] | None = None, *, frames: bool = False) -> Pipe:
    """The second half of a bridge: events in, the target's bytes out (or its frames)."""
    row = protocols.protocol(target)
    order: tuple[Stage[Any, Any], ...] = (Sequence(),) if row.sequential else ()
    encode = protocols.encoder(target, **(options or {}))
    return Pipe(*order, encode) if frames else Pipe(*order, encode, WRITERS[row.writes]())
