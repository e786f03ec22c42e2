"""Relays a provider's stream to the client: every read becomes at most one write.

While the client keeps up, a read is written from within the connection's callback (`pour` and `push`). If the client
is slow, or the server has no direct channel, reads wait for their writes, and so does the upstream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._http.response_writer import BODY, ResponseWriter
from penstock._text_runs import expand_runs, merge_runs

if TYPE_CHECKING:
    from penstock._engines.reply import ModelReply
    from penstock._gateway.client_stream import Passthrough, Translation
    from penstock._gateway.reasoning_capture import CiphertextCapture, ReasoningCapture
    from penstock._gateway.recordings import RecordingSession
    from penstock._transforms.remote_files import RemoteFiles
    from penstock.events import AnyEvent


class StreamRelay:
    """Relays one stream. `capture`, `observer` and `recording` see each read; `files` fetches files of the answer."""

    __slots__ = (
        "_capture",
        "_ended",
        "_feed",
        "_files",
        "_finish",
        "_observer",
        "_out",
        "_recording",
        "_reply",
        "_unsent",
    )

    def __init__(
        self,
        reply: ModelReply,
        writer: Translation | Passthrough,
        out: ResponseWriter,
        *,
        capture: ReasoningCapture | CiphertextCapture | None,
        observer: Any,
        recording: RecordingSession | None,
        files: RemoteFiles | None = None,
    ) -> None:
        self._reply, self._out = reply, out
        self._feed, self._finish = writer.feed, writer.finish
        self._capture, self._observer, self._recording, self._files = capture, observer, recording, files
        self._unsent = b""  # encoded, not yet written
        self._ended = False

    async def run(self) -> None:
        """Relay the whole stream. The last chunk and the end are one write."""
        out, reply = self._out, self._reply
        await out.start()
        while not self._ended and (pair := await reply.take()) is not None:
            if self._files is not None:  # fetching may take seconds, so reads are not written from their callback
                pair = pair[0], await self._files.fill(expand_runs(pair[1]))
            self._unsent = self._encode(*pair)
            if not self._ended:
                await self._send_unsent()
            if self._files is None and out.channel is not None and not self._ended:
                await reply.pour(self._push)
                if not self._ended:
                    await self._send_unsent()
        last = self._finish()
        if self._recording is not None and not reply.raw:
            self._recording.chunk(last)
        await out.end(self._unsent + last)

    def take_unsent(self) -> bytes:
        """Return the bytes that are encoded but not written, for a stream that ends early."""
        data, self._unsent = self._unsent, b""
        return data

    async def _send_unsent(self) -> None:
        data = self.take_unsent()
        if data:
            out = self._out
            out.chunk_count += 1
            out.sent_at = out.clock()
            out.body_size += len(data)
            await out.send({"type": BODY, "body": data, "more_body": True})

    def _push(self, chunk: bytes, events: list[AnyEvent]) -> bool:
        """Write a read in the callback that read it. Returns False if the relay must wait for the client."""
        data, out = self._encode(chunk, events), self._out
        if self._ended or out.channel is None or (data and not out.channel.write_chunk(data)):
            self._unsent = data
            return False
        if data:
            out.chunk_count += 1
            out.sent_at = out.clock()
            out.body_size += len(data)
        return True

    def _encode(self, chunk: bytes, events: list[AnyEvent]) -> bytes:
        """Return the client's bytes for a read."""
        if self._capture is not None:
            self._capture.add(merge_runs(events))
        if self._observer is not None:
            self._observer.on_read((chunk, events))  # it keeps the bytes; an engine without bytes emits no text runs
        data = self._feed((chunk, events))
        if self._recording is not None:
            self._recording.chunk(chunk if self._reply.raw else data)
        end = self._reply.end
        self._ended = end is not None and bool(events) and events[-1] is end
        return data
