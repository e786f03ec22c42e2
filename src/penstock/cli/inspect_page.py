"""`penstock inspect --web` and `--html`: a stream on the inspector's page, in a browser of this machine or in one file.

Leans on `inspector.alone`, which shows one file and needs no gateway. What is shown has no secrets in it.
"""

from __future__ import annotations

import sys
import threading
import webbrowser
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from penstock.inspector.traces import Source

HOST = "127.0.0.1"


def arguments(parser: ArgumentParser) -> None:
    """The options that make it a page."""
    parser.add_argument("--web", action="store_true", help="show it in a browser, until Ctrl-C")
    parser.add_argument("--port", metavar="N", type=int, default=0, help="where --web listens (default: a free port)")
    parser.add_argument("--no-browser", action="store_true", help="--web only says where it is, and opens nothing")
    parser.add_argument(
        "--html", metavar="FILE", type=Path, help="write the page with the stream in it to a file, secrets removed"
    )


def wanted(options: Namespace) -> bool:
    """Whether it is a page that is wanted."""
    return bool(options.web or options.html)


def run(data: bytes, options: Namespace) -> int:
    """Show a stream, or write it."""
    from penstock.inspector.traces import of_file

    name = "standard input" if options.file == "-" else PurePath(options.file).name
    source = of_file(data, name, "" if options.source == "auto" else options.source)
    source.own = options.target
    if options.framing != "auto":
        source.framing = options.framing
    if options.html is not None:
        _write(source, options.html)
    if options.web:
        _serve(source, options)
    return 0


def _write(source: Source, path: Path) -> None:
    from penstock.inspector.export import exported
    from penstock.inspector.static import Pages

    data = exported(source, Pages())
    path.write_bytes(data)
    print(f"penstock: {path}: {len(data):,} bytes, secrets removed; it opens in any browser", file=sys.stderr)


def _serve(source: Source, options: Namespace) -> None:
    from penstock.errors import InputError
    from penstock.gateway.config import Serve
    from penstock.http.uvicorn_server import listen
    from penstock.inspector.alone import Alone
    from penstock.inspector.static import ABSENT, Pages

    if not Pages().built:
        raise InputError(f"--web: {ABSENT}")

    def ready(port: int, _: Any) -> None:
        address = f"http://{HOST}:{port}/#/file"
        print(f"penstock shows {source.title} at {address}", file=sys.stderr)
        print("Stop with Ctrl-C.", file=sys.stderr, flush=True)
        if not options.no_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    listen(Alone(source), Serve(host=HOST, port=options.port, drain=1.0), ready)
