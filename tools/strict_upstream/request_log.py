"""What the upstream was asked and what it answered: a list in memory, and a file of JSON lines if wanted."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from tools.strict_upstream.conversation import Item

Outcome = Literal["answered", "refused", "fault", "cut", "unknown-path"]


@dataclass
class Exchange:
    """One request. `outcome` is `refused` if a rule was broken, `fault` and `cut` if the scenario wanted it."""

    path: str
    transport: str  # http or websocket
    protocol: str = ""
    stream: bool = False
    main: bool = False  # a shell tool was on offer: no request for a title and the like
    outcome: Outcome = "answered"
    status: int = 200
    message: str = ""
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    system: str = ""
    tools: list[str] = field(default_factory=list)  # names of the tools on offer

    def history(self) -> list[tuple[str, str, str]]:
        """What the model said and what the tools answered, as the client sent it back."""
        return [(one.kind, one.name, one.text) for one in self.items if one.kind in ("assistant", "call", "result")]


class RequestLog:
    """Exchanges in the order in which they came."""

    def __init__(self, path: Path | None = None) -> None:
        self.exchanges: list[Exchange] = []
        self._path = path

    def add(self, exchange: Exchange) -> None:
        """Note an exchange when its outcome is known."""
        self.exchanges.append(exchange)
        if self._path:
            with self._path.open("a") as out:
                out.write(json.dumps(asdict(exchange), default=str) + "\n")

    def refusals(self) -> list[Exchange]:
        """Requests that broke a rule."""
        return [one for one in self.exchanges if one.outcome == "refused"]

    def main(self) -> list[Exchange]:
        """Requests of the task itself."""
        return [one for one in self.exchanges if one.main]
