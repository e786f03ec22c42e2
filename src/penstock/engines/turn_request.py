"""A turn as the router is asked for it: the request, and all that goes for each of its tries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engines.prepare import prepare

if TYPE_CHECKING:
    from penstock.engines.job import Job
    from penstock.engines.options import RequestOptions
    from penstock.engines.prepare import Plan
    from penstock.engines.request_files import RequestFiles
    from penstock.engines.retrying import Watch
    from penstock.engines.state_loading import Run
    from penstock.messages import ConvertOptions
    from penstock.request import Request


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """`run` does what takes long for a large request, such as in a thread. `files` fetches files given by address."""

    request: Request
    operation: str
    source: str
    engine: str
    options: RequestOptions | None
    convert: ConvertOptions
    watch: Watch | None
    run: Run | None
    files: RequestFiles | None

    async def prepare(self, request: Request, plan: Plan, convert: ConvertOptions) -> Job:
        """The job of a try, with the diagnostics of fetched files."""
        if self.run is None:
            job = prepare(request, plan, source=self.source, convert=convert)
        else:
            job = await self.run(lambda: prepare(request, plan, source=self.source, convert=convert))
        if self.files is not None:
            self.files.report(job)
        return job
