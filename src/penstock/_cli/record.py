"""`penstock record`: a stream on standard input, saved with its times and without secrets, and passed on as it comes.

`penstock serve --record DIR` does the same for everything that goes through the gateway.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._cli import common_options

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EPILOG = """\
examples:
  curl -sN https://… | penstock record answer.tape
  curl -sN https://… | penstock record answer.tape --request request.json | penstock inspect
  penstock serve --record recordings

What comes in goes out on standard output at once, unchanged; only the file is cleaned of secrets.
`penstock replay answer.tape` plays it again.
"""
MAX_BYTES = 256 * 2**20


def add_arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    from penstock._protocols import MODULES

    parser.epilog = EPILOG
    parser.add_argument("file", metavar="FILE", type=Path, help="where to save it")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="PROTOCOL",
        default="auto",
        help=f"what the stream speaks: {', '.join(sorted(MODULES))}; auto finds out (default)",
    )
    parser.add_argument("--request", metavar="FILE", type=Path, help="the body that was sent, to be kept with it")
    parser.add_argument("--note", metavar="TEXT", default="", help="what it shows")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not pass the stream on")


def run(options: Namespace) -> int:
    """Read to the end, then save."""
    import time

    from penstock._gateway.recordings import redact_body, redact_chunks, redact_header
    from penstock._store.recordings import RecordingHeader, write_recording
    from penstock.errors import InputError

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
                sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()
    header.protocol = options.source if options.source != "auto" else _detect_protocol(chunks)
    kept, header.hidden = redact_chunks(chunks)
    header.request = redact_body(request)
    write_recording(options.file, redact_header(header), kept)
    hidden = f", {header.hidden} secrets removed" if header.hidden else ""
    print(f"penstock: {options.file}: {size:,} bytes in {len(kept):,} chunks{hidden}", file=sys.stderr)
    return 0


def _detect_protocol(chunks: list[tuple[float, bytes]]) -> str:
    """The protocol, where it can be told; a recording needs none."""
    from penstock._detect import guess
    from penstock.errors import PenstockError

    try:
        return guess(b"".join(chunk for _, chunk in chunks))
    except PenstockError:
        return ""
