"""The form of a client's response as plain data, for recordings and for turns that are kept.

What a `TurnRequest` has beside it (the request, functions that observe the answer) is not needed to write the response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec

if TYPE_CHECKING:
    from penstock._gateway.endpoints import TurnRequest


class ClientForm(msgspec.Struct, frozen=True, omit_defaults=True):
    """The form of a client's response. `generate`: Ollama's `generate`, not its chat."""

    protocol: str
    model: str = ""
    stream: bool = False
    framing: str = "sse"
    options: dict[str, Any] = {}
    include_usage: bool = True
    generate: bool = False

    @classmethod
    def of(cls, turn_request: TurnRequest) -> Self:
        """Return the form of a turn's response."""
        make = turn_request.encoder
        return cls(
            protocol=turn_request.protocol,
            model=turn_request.request.model,
            stream=bool(turn_request.request.stream),
            framing=turn_request.framing,
            options={name: value for name, value in turn_request.options.items() if not callable(value)},
            include_usage=turn_request.include_usage,
            generate=make is not None and bool(getattr(make(), "generate", False)),
        )
