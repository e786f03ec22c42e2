"""`penstock replay`: recordings played back, to standard output or as a server that stands in for the provider.

Byte for byte; at the speed it came, or at once. `--to` translates on the way.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from penstock._pipeline import Pipe
    from penstock._store.recordings import Recording

EPILOG = """\
examples:
  penstock replay answer.tape
  penstock replay --full-speed answer.tape > answer.sse
  penstock replay --to vscode answer.tape
  penstock replay --serve --port 9000 recordings

With --serve each request is answered by the recording that was asked the same, else by the next one. Point a client
or a gateway ([providers.recorded] base_url = "http://127.0.0.1:9000/v1") at it.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    parser.epilog = EPILOG
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="recordings, or folders of them")
    parser.add_argument("--full-speed", action="store_true", help="wait for nothing")
    parser.add_argument("--speed", metavar="X", type=float, default=1.0, help="how many times as fast (default: 1)")
    parser.add_argument("--to", dest="target", metavar="PROTOCOL", default="", help="translate it on the way")
    parser.add_argument("--serve", action="store_true", help="answer requests with them")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: 0 picks one)")
    parser.add_argument("--about", action="store_true", help="what is in them, one JSON object a line; plays nothing")


def run(options: Namespace) -> int:
    """Play, or serve."""
    from penstock.errors import InputError

    if options.speed <= 0:
        raise InputError(f"--speed: expected a number over 0, found {options.speed:g}; --full-speed waits for nothing")
    recordings = list(_read_recordings(options.files))
    if options.about:
        _print_headers(recordings)
    elif options.serve:
        _serve_recordings(recordings, options)
    else:
        for recording in recordings:
            asyncio.run(_play_recording(recording, 0.0 if options.full_speed else options.speed, options.target))
    return 0


def _read_recordings(places: list[Path]) -> list[Recording]:
    from penstock._store.recordings import SUFFIX, read_recording
    from penstock.errors import InputError

    files: list[Path] = []
    for place in places:
        found = sorted(place.glob(f"*{SUFFIX}")) if place.is_dir() else [place]
        if not found:
            raise InputError(f"{place}: there are no recordings (*{SUFFIX}) in this folder")
        files += found
    return [read_recording(file) for file in files]


def _print_headers(recordings: list[Recording]) -> None:
    import msgspec

    for one in recordings:
        last = one.chunks[-1][0] if one.chunks else 0.0
        said = {**msgspec.to_builtins(one.header), "chunks": len(one.chunks), "bytes": len(one.data), "seconds": last}
        print(msgspec.json.encode(said).decode())


async def _play_recording(recording: Recording, speed: float, target: str) -> None:
    from penstock._gateway.recordings import paced_chunks

    pipe = _create_pipe(recording, target) if target else None
    async for chunk in paced_chunks(recording, speed):
        _write_chunks(pipe.feed([chunk]) if pipe else [chunk])
    _write_chunks(pipe.finish() if pipe else [])


def _create_pipe(recording: Recording, target: str) -> Pipe:
    from penstock._bridge import bridge
    from penstock._detect import guess

    return bridge(recording.header.protocol or guess(recording.data), target)


def _write_chunks(chunks: list[bytes]) -> None:
    for chunk in chunks:
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def _serve_recordings(recordings: list[Recording], options: Namespace) -> None:
    from penstock._cli.serve import base_url
    from penstock._gateway.config import Serve
    from penstock._gateway.recordings import PlaybackApp
    from penstock._http.uvicorn_server import listen

    app = PlaybackApp(recordings, 0.0 if options.full_speed else options.speed)

    def ready(port: int, _: object) -> None:
        count = f"{len(recordings)} recording{'s' * (len(recordings) != 1)}"
        print(f"penstock plays {count} at {base_url(options.host, port)}", file=sys.stderr, flush=True)

    listen(app, Serve(host=options.host, port=options.port, drain=1.0), ready)
