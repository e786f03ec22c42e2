"""The engine of the replay provider: packaged streams as turns, with no key and no network."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING

import msgspec

from penstock._messages.context_trimming import estimate_request
from penstock._replay import FULL, NATURAL, answer, describe_scripts, paced, vectors
from penstock.events import AnyEvent, Fault, Start
from penstock.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock._diagnostics import Diagnostic
    from penstock._engines.engine_interface import ChunkEvents, UpstreamRequest

PACES = {"natural": NATURAL, "full": FULL}


class ReplayEngine:
    """Answers by itself. The setting `pace` is `full` (the default) or `natural`."""

    name = "replay"

    def unsupported_reason(self, upstream: UpstreamRequest) -> str:
        return ""

    async def open(self, job: UpstreamRequest) -> ReplaySource:
        request = job.request or Request(job.model)
        tokens = estimate_request(request)  # the gateway counts the prompts of packaged streams the same way
        events = answer(request, id=uuid.uuid4().hex[:12], created=int(time.time()), prompt_tokens=tokens)
        pace = PACES.get(job.settings.get("pace", "full"), FULL)
        return ReplaySource(paced(events, pace if job.stream else FULL))

    async def fetch(self, job: UpstreamRequest) -> tuple[Mapping[str, str], bytes]:
        if job.operation == "embeddings":
            vectors.check_model(job.model, vectors.EMBED)
            return {}, vectors.answer_embeddings(job.body)
        if job.operation == "rerank":
            vectors.check_model(job.model, vectors.RANK)
            return {}, vectors.answer_ranking(job.body)
        rows = [{"id": name, "object": "model", "name": about} for name, about in describe_scripts().items()]
        return {}, msgspec.json.encode({"object": "list", "data": rows})

    async def aclose(self) -> None:
        """There is nothing to close."""


class ReplaySource:
    """A packaged stream being played; events without a pause between them make a batch."""

    raw = False
    status = 200

    def __init__(self, events: Iterator[tuple[float, AnyEvent]]) -> None:
        self.headers: Mapping[str, str] = {}
        self.diagnostics: list[Diagnostic] = []
        self._events = events
        self._held: tuple[float, AnyEvent] | None = None
        self._begun = False

    async def read(self) -> ChunkEvents | None:
        batch: list[AnyEvent] = []
        if self._held is not None:
            wait, event = self._held
            self._held = None
            await asyncio.sleep(wait)
            batch.append(event)
        for wait, event in self._events:
            if wait:
                self._held = (wait, event)
                break
            batch.append(event)
        self._begun = self._begun or bool(batch)
        return (b"", batch) if batch or self._held else None

    def end_with(self, fault: Fault) -> list[AnyEvent]:
        return [fault] if self._begun else [Start(), fault]

    def complete(self) -> None:
        """Nothing is held open."""

    async def aclose(self) -> None:
        self._events = iter(())
        self._held = None
