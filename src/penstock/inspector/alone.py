"""One file shown without any gateway: the page, the trace of that file, and whatever else is dropped on the page.

For this machine only: it answers to loopback names and to its own page, and listens nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import protocols
from penstock._version import __version__
from penstock.gateway.access import Access
from penstock.gateway.config import AccessTable, GatewayConfig, JournalTable
from penstock.inspector.answers import encoded
from penstock.inspector.files import Files, Work
from penstock.inspector.origins import check_own
from penstock.inspector.serving import Said, Serving
from penstock.inspector.static import Pages
from penstock.inspector.traces import CONSUMERS

if TYPE_CHECKING:
    from penstock.gateway.endpoints import Visit
    from penstock.inspector.traces import Source


class Alone:
    """The application. `source` is what is shown."""

    def __init__(self, source: Source, pages: Pages | None = None) -> None:
        self._source = source
        self._work, self._pages = Work(), pages or Pages()
        config = GatewayConfig(access=AccessTable(keys_file="memory"), journal=JournalTable(path="off"))
        self._access = Access(config, {})
        self._files = Files(self._work, self._pages)
        routes = {
            ("GET", "about"): self._about, ("GET", "file"): self._file, ("GET", "export"): self._export,
            ("POST", "trace"): self._files.trace, ("POST", "export"): self._files.export,
        }  # fmt: skip
        self._serving = Serving(routes, self._admit, pages=self._pages)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self._serving(scope, receive, send)
        elif scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
                if message["type"] == "lifespan.shutdown":
                    return

    def _admit(self, scope: Any, visit: Visit, api: bool) -> None:  # noqa: FBT001 — as `Serving` asks
        self._access.admit(scope, visit.headers)
        if api:
            check_own(visit.headers, frozenset())

    async def _about(self, _: Visit) -> Said:
        told = {
            "version": __version__, "models": [], "consumers": CONSUMERS, "protocols": list(protocols.MODULES),
            "recording": {"on": False}, "journal": False, "key": "none", "sees": "all", "live": False,
            "file": self._source.title,
        }  # fmt: skip
        return Said(encoded(told))

    async def _file(self, visit: Visit) -> Said:
        return await self._work.do(lambda: self._files.traced(self._source, visit.query))

    async def _export(self, visit: Visit) -> Said:
        return await self._work.do(lambda: self._files.exported(self._source, visit.query))
