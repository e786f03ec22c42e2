"""Files of a request that are given by their address, fetched for targets that want data. Switched on by the caller.

Fetched once for a request, however often it is tried. A file that cannot be had stays an address, with a diagnostic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.fetch import Limits, fetch_files

if TYPE_CHECKING:
    from penstock.diagnostics import Diagnostic
    from penstock.engines.job import Job
    from penstock.engines.prepare import Plan
    from penstock.request import Request

When: TypeAlias = Literal["needed", "all"]


class RequestFiles:
    """The files of one request. `when`: for targets that take no addresses, or for all."""

    def __init__(self, limits: Limits, when: When = "needed") -> None:
        self._limits, self._when = limits, when
        self._filled: Request | None = None
        self._found: list[Diagnostic] = []
        self._used = False  # whether the last target got the files

    async def filled(self, request: Request, plan: Plan) -> Request:
        """The request as a target gets it."""
        profile = plan.given.get("profile")
        self._used = self._when == "all" or (profile is not None and not profile.addresses)
        if not self._used:
            return request
        if self._filled is None:
            self._filled, notes = await fetch_files(request, limits=self._limits)
            self._found = list(notes)
        return self._filled

    def report(self, job: Job) -> None:
        """Add what was found while fetching to a job."""
        if self._used and self._found:
            job.diagnostics = [*job.diagnostics, *self._found]
