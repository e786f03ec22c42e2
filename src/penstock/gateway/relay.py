"""A stream on its way through: every read becomes at most one write.

While the client keeps up, a read is written from within the connection's own callback (`pour` and `push`); when it does
not, or the server cannot, reads wait for their writes, and the upstream with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.http.response_writer import BODY
from penstock.text_runs import expand_runs, merge_runs

if TYPE_CHECKING:
    from penstock.engines.reply import Reply
    from penstock.events import AnyEvent
    from penstock.gateway.client_stream import Passthrough, Translation
    from penstock.gateway.reasoning_capture import Keeping, SealedContent
    from penstock.http.response_writer import Outlet
    from penstock.transforms.remote_files import RemoteFiles


class Streaming:
    """One stream. `kept`, `tap` and `tape` see it go by, where there are any. `files` fetches files of the answer."""

    __slots__ = ("_feed", "_files", "_finish", "_kept", "_left", "_out", "_over", "_reply", "_tap", "_tape")

    def __init__(
        self, reply: Reply, way: Translation | Passthrough, out: Outlet, *, kept: Keeping | SealedContent | None,
        tap: Any, tape: Any, files: RemoteFiles | None = None,
    ) -> None:  # fmt: skip
        self._reply, self._out = reply, out
        self._feed, self._finish = way.feed, way.finish
        self._kept, self._tap, self._tape, self._files = kept, tap, tape, files
        self._left = b""  # what was made and not written
        self._over = False

    async def run(self) -> None:
        """All of it. The last words and the end are one write."""
        out, reply = self._out, self._reply
        await out.begin()
        while not self._over and (pair := await reply.take()) is not None:
            if self._files is not None:  # which may take seconds: no read is then written from within its callback
                pair = pair[0], await self._files.fill(expand_runs(pair[1]))
            self._left = self._made(*pair)
            if not self._over:
                await self._written()
            if self._files is None and out.past is not None and not self._over:
                await reply.pour(self._step)
                if not self._over:
                    await self._written()
        last = self._finish()
        if self._tape is not None and not reply.raw:
            self._tape.chunk(last)
        await out.end(self._left + last)

    def leave(self) -> bytes:
        """What was made and not written. For a stream that is broken off."""
        data, self._left = self._left, b""
        return data

    async def _written(self) -> None:
        data, self._left = self._left, b""
        if data:
            self._out.count += 1
            self._out.sent_at = self._out.clock()
            self._out.size += len(data)
            await self._out.send({"type": BODY, "body": data, "more_body": True})

    def _step(self, chunk: bytes, events: list[AnyEvent]) -> bool:
        """A read, in the callback that read it. False: go on by waiting."""
        data, out = self._made(chunk, events), self._out
        if self._over or out.past is None or (data and not out.past.push(data)):
            self._left = data
            return False
        if data:
            out.count += 1
            out.sent_at = out.clock()
            out.size += len(data)
        return True

    def _made(self, chunk: bytes, events: list[AnyEvent]) -> bytes:
        """What a client gets for a read."""
        if self._kept is not None:
            self._kept.add(merge_runs(events))
        if self._tap is not None:
            self._tap.on_read((chunk, events))  # it keeps the bytes; an engine that has none gives no runs
        data = self._feed((chunk, events))
        if self._tape is not None:
            self._tape.chunk(chunk if self._reply.raw else data)
        end = self._reply.end
        self._over = end is not None and bool(events) and events[-1] is end
        return data
