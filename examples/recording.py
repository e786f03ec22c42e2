"""A stream saved with its times, and played again: byte for byte, or translated on the way. No key, no network."""

import asyncio
import tempfile
from pathlib import Path

from penstock import bridge
from penstock.testing import RecordingHeader, paced_chunks, read_recording, redact_chunks, write_recording

CHUNKS = [
    (0.00, b'data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":"The tide "}}]}\n\n'),
    (0.02, b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"turns; the key is sk-nobody-sh'),
    (0.04, b'ould-see-this"}}]}\n\ndata: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'),
    (0.05, b"data: [DONE]\n\n"),
]


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tide.tape"
        chunks, hidden = redact_chunks(CHUNKS)  # also where a chunk ends in the middle of a secret
        write_recording(path, RecordingHeader(protocol="openai-chat", model="example", hidden=hidden), chunks)
        recording = read_recording(path)
    print(f"{len(recording.data)} bytes in {len(recording.chunks)} chunks, {recording.header.hidden} secret removed")

    pipe = bridge(recording.header.protocol, "vscode")
    async for chunk in paced_chunks(recording, speed=1.0):
        for line in pipe.feed([chunk]):
            print(line.decode().rstrip())
    for line in pipe.finish():
        print(line.decode().rstrip())


asyncio.run(main())
