"""A job: one try at one provider, all decided. What engines are given, and what they give back.

Plain values and two Protocols; no IO.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from penstock.diagnostics import Diagnostic
from penstock.engines.options import RequestOptions
from penstock.messages.context import Cleared
from penstock.providers.registry import Endpoint, Provider
from penstock.request import Request

if TYPE_CHECKING:
    from penstock.events import AnyEvent, Fault

Pair: TypeAlias = "tuple[bytes, list[AnyEvent]]"
Step: TypeAlias = "Callable[[bytes, list[AnyEvent]], bool]"  # takes a pair; False: enough for now


class Outgoing(msgspec.Struct, kw_only=True):
    """A request as it leaves."""

    url: str
    method: str = "POST"
    headers: dict[str, str] = {}
    body: bytes = b""
    stream: bool = False


_encode = msgspec.json.Encoder().encode
Sign: TypeAlias = Callable[[Outgoing], Awaitable[Outgoing]]


class Job(msgspec.Struct, kw_only=True):
    """Who is asked what, where and how. `sign` shows who asks; `secrets` are what must not be seen anywhere."""

    provider: Provider
    endpoint: Endpoint
    operation: str
    model: str
    protocol: str  # of the answer
    url: str
    base_url: str = ""
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}
    stream: bool = False
    options: RequestOptions = msgspec.field(default_factory=RequestOptions)
    shaping: tuple[Any, ...] = ()  # event → event stages, new for each try
    diagnostics: list[Diagnostic] = []
    request: Request | None = None  # as it was asked, for an engine that answers by itself
    settings: dict[str, str] = {}
    sign: Sign | None = None
    secrets: tuple[str, ...] = ()
    steady: bool = False  # it is signed as the one before it was
    letters: dict[Any, Any] = {}  # what an engine keeps for the next of its kind: everything but the body
    cleared: Cleared | None = None  # what context management took away
    losses: tuple[str, ...] = ()  # names of what was asked for and could not be carried

    @property
    def verbatim(self) -> bool:
        """Whether its answer may be handed on as it is: nothing is renamed on the way back, nothing needs repair."""
        return not self.shaping and not self.provider.repair

    def outgoing(self) -> Outgoing:
        """The request, not yet signed."""
        return Outgoing(
            url=self.url, method=self.endpoint.method, headers=dict(self.headers), body=self.data(), stream=self.stream
        )

    def data(self) -> bytes:
        """The body as it leaves."""
        return _encode(self.body) if self.endpoint.method == "POST" else b""


class Source(Protocol):
    """An answer being read. `raw`: its pairs hold the upstream's own bytes."""

    status: int
    headers: Mapping[str, str]
    raw: bool

    async def read(self) -> Pair | None:
        """The bytes that came, and the events they gave; None at the end. Trouble is a `ProviderError`."""
        ...

    def broken(self, fault: Fault) -> list[AnyEvent]:
        """The events that end what was begun, after trouble."""
        ...

    def settle(self) -> None:
        """The answer is whole: let its connection be used again."""
        ...

    async def aclose(self) -> None:
        """Break off, at once."""
        ...

    @property
    def diagnostics(self) -> list[Diagnostic]: ...


class Engine(Protocol):
    """A way to ask. What it cannot do it says before it is asked."""

    name: str

    def lacks(self, job: Job) -> str:
        """Why it cannot do this job; nothing where it can."""
        ...

    async def open(self, job: Job) -> Source:
        """Ask; an answer that is a no is a `ProviderError`."""
        ...

    async def fetch(self, job: Job) -> tuple[Mapping[str, str], bytes]:
        """Ask for something that is no turn (embeddings, models …): the headers and the whole body."""
        ...

    async def aclose(self) -> None: ...
