"""One body from the frames of an encoder, for a client that did not ask for a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.codec import ILL_SHAPED
from penstock.errors import BadAnswer
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.framing import Frame


def write_body(body: Callable[[Sequence[Frame]], bytes], frames: Sequence[Frame]) -> bytes:
    """Call a protocol's `body`. Frames that it cannot join raise `BadAnswer`, which callers report as a fault."""
    try:
        return body(frames)
    except ILL_SHAPED as error:
        message = "the answer cannot be written as one body: data in it has an unexpected shape"
        raise BadAnswer(Fault("malformed", message)) from error
