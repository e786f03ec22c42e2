"""Frames of a stream, with a mark of what each holds, so that a scenario can cut inside a text or a call."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

Holds = Literal["", "text", "call"]


@dataclass(frozen=True)
class Frame:
    """One event as JSON. `name` is the SSE event name, `holds` says what part of the answer is in it."""

    data: dict[str, Any]
    name: str = ""
    holds: Holds = ""

    def encode_sse(self) -> bytes:
        """The event as Server-Sent Events."""
        head = f"event: {self.name}\n" if self.name else ""
        return f"{head}data: {encode_json(self.data)}\n\n".encode()


def encode_json(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def split_text(text: str, count: int = 4) -> list[str]:
    """The text in so many pieces of about the same length; none is empty."""
    size = max(-(-len(text) // count), 1)
    return [text[at : at + size] for at in range(0, len(text), size)]


def find_cut(frames: list[Frame], holds: Holds) -> int:
    """The number of the frame in the middle of the texts or calls."""
    places = [at for at, frame in enumerate(frames) if frame.holds == holds]
    return places[len(places) // 2]
