"""`bridge("anthropic", "vscode")`: a pipe from one protocol's bytes to another's.

bytes → parser → frames → decoder → events → guard → shaping → encoder → frames → writer → bytes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import _protocols as protocols
from penstock._codec import ILL_SHAPED
from penstock._detect import DetectingDecoder
from penstock._framing import PARSERS, WRITERS
from penstock._framing.auto import AutoParser, named_framing
from penstock._framing.frame import LIMIT, Frame
from penstock._grammar import Guard
from penstock._option_checks import MAPPING_OR_NONE, NUMBER, STAGES, TEXT, Option, check_options
from penstock._pipeline import Pipe, Stage
from penstock._transforms.serialize import SerializeParts
from penstock.errors import BadAnswer, InputError, UnknownProtocol
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


OPTIONS: dict[str, Option] = {
    "framing": TEXT, "limit": NUMBER, "shaping": STAGES, "source_options": MAPPING_OR_NONE,
    "target_options": MAPPING_OR_NONE,
}  # fmt: skip


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
    source: str,
    target: str,
    *,
    framing: str = "auto",
    limit: int = LIMIT,
    shaping: tuple[Stage[Any, Any], ...] = (),
    source_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
    **unknown: Any,
) -> Pipe:
    """A new pipe for one stream. `shaping` are further event → event stages; the source `auto` is found out.

    `source_options` are those of the decoder, `target_options` those of the encoder. An option that is unknown, or of
    the wrong kind, is an `InputError`, which names the nearest one.

    A frame of the source may have `limit` bytes (64 MiB by default); one that has more is a `FrameTooLarge`.
    """
    given = {"framing": framing, "limit": limit, "shaping": shaping}
    more = {"source_options": source_options, "target_options": target_options}
    check_options("bridge", {**given, **more, **unknown}, OPTIONS)
    options = source_options or {}
    decode: Stage[Any, Any] = DetectingDecoder(options) if source == "auto" else protocols.decoder(source, **options)
    return Pipe(parser(framing, limit), decode, Guard(), *shaping, *encoding(target, target_options).stages)


def encoding(target: str, options: Mapping[str, Any] | None = None, *, frames: bool = False) -> Pipe:
    """The second half of a bridge: events in, the target's bytes out (or its frames)."""
    row = protocols.protocol(target)
    order: tuple[Stage[Any, Any], ...] = (SerializeParts(),) if row.sequential else ()
    encode = protocols.encoder(target, **(options or {}))
    return Pipe(*order, encode) if frames else Pipe(*order, encode, WRITERS[row.writes]())


def write_body(body: Callable[[Sequence[Frame]], bytes], frames: Sequence[Frame]) -> bytes:
    """Call a protocol's `body`. Frames that it cannot join raise `BadAnswer`, which callers report as a fault."""
    try:
        return body(frames)
    except ILL_SHAPED as error:
        message = "the answer cannot be written as one body: data in it has an unexpected shape"
        raise BadAnswer(Fault("malformed", message)) from error
