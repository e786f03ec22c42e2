"""`penstock record` saves a stream of standard input with its times; `penstock replay` plays recordings back.

A recording has no secrets. `penstock serve --record DIR` records everything that goes through the gateway. A replay
writes the recorded bytes to standard output, or serves them in place of a provider.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import msgspec

from penstock._bridge import bridge
from penstock._cli import common_options
from penstock._detect import guess
from penstock._gateway.recordings import PlaybackApp, paced_chunks, redact_body, redact_header
from penstock._store.recordings import SUFFIX, Recording, RecordingHeader, read_recording, write_recording
from penstock._stream_redaction import redact_chunks
from penstock.errors import InputError, PenstockError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from pathlib import Path

MAX_BYTES = 256 * 2**20


def run_record(options: Namespace) -> int:
    """Reads to the end, then saves."""
    if options.file.exists() and not options.force:
        raise InputError(f"{options.file}: there is such a file; --force replaces it")
    request = options.request.read_bytes() if options.request else b""
    header = RecordingHeader(time=time.time(), note=options.note)
    chunks: list[tuple[float, bytes]] = []
    began, size = time.perf_counter(), 0
    with common_options.open_input("-") as file:
        for chunk in common_options.read_chunks(file):
            size += len(chunk)
            if size > MAX_BYTES:
                raise InputError(f"the stream is over {MAX_BYTES >> 20} MiB, which is all that a recording holds")
            chunks.append((time.perf_counter() - began, chunk))
            if not options.quiet:
                _write_chunks([chunk])
    header.protocol = options.source if options.source != "auto" else _detect_protocol(chunks)
    redacted, header.hidden = redact_chunks(chunks)
    header.request = redact_body(request)
    write_recording(options.file, redact_header(header), redacted)
    if options.json:
        found = {"file": str(options.file), "protocol": header.protocol, "bytes": size, "chunks": len(redacted)}
        common_options.print_report({**found, "secrets_removed": header.hidden})
        return 0
    hidden = f", {header.hidden} secrets removed" if header.hidden else ""
    common_options.print_message(f"{options.file}: {size:,} bytes in {len(redacted):,} chunks{hidden}")
    return 0


def _detect_protocol(chunks: list[tuple[float, bytes]]) -> str:
    """Returns the protocol, or nothing if it is not clear; a recording needs none."""
    try:
        return guess(b"".join(chunk for _, chunk in chunks))
    except PenstockError:
        return ""


def run_replay(options: Namespace) -> int:
    """Plays, serves or describes recordings."""
    if options.speed <= 0:
        raise InputError(f"--speed: expected a number over 0, found {options.speed:g}; --full-speed waits for nothing")
    recordings = _read_recordings(options.files)
    speed = 0.0 if options.full_speed else options.speed
    if options.about:
        _print_headers(recordings)
    elif options.serve:
        _serve_recordings(recordings, speed, options)
    else:
        for recording in recordings:
            asyncio.run(_play_recording(recording, speed, options.target))
        if options.json:
            sizes = [len(recording.data) for recording in recordings]
            common_options.print_report({"recordings": len(recordings), "bytes": sum(sizes)})
    return 0


def _read_recordings(paths: list[Path]) -> list[Recording]:
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not found:
            raise InputError(f"{path}: there are no recordings (*{SUFFIX}) in this folder")
        files += found
    return [read_recording(file) for file in files]


def _print_headers(recordings: list[Recording]) -> None:
    for one in recordings:
        size = {"chunks": len(one.chunks), "bytes": len(one.data), "seconds": one.chunks[-1][0] if one.chunks else 0.0}
        print(msgspec.json.encode({**msgspec.to_builtins(one.header), **size}).decode())


async def _play_recording(recording: Recording, speed: float, target: str) -> None:
    pipe = bridge(recording.header.protocol or guess(recording.data), target) if target else None
    async for chunk in paced_chunks(recording, speed):
        _write_chunks(pipe.feed([chunk]) if pipe else [chunk])
    _write_chunks(pipe.finish() if pipe else [])


def _write_chunks(chunks: Sequence[bytes]) -> None:
    sys.stdout.buffer.writelines(chunks)
    sys.stdout.buffer.flush()


def _serve_recordings(recordings: list[Recording], speed: float, options: Namespace) -> None:
    from penstock._cli.serve import base_url
    from penstock._gateway.config import Serve
    from penstock._http.uvicorn_server import listen

    def on_ready(port: int, _: object) -> None:
        if options.json:
            common_options.print_report({"url": base_url(options.host, port), "recordings": len(recordings)})
            return
        count = f"{len(recordings)} recording{'s' * (len(recordings) != 1)}"
        print(f"penstock plays {count} at {base_url(options.host, port)}", file=sys.stderr, flush=True)

    listen(PlaybackApp(recordings, speed), Serve(host=options.host, port=options.port, drain=1.0), on_ready)
