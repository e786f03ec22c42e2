"""Two servers on loopback: one that tests call public (127.0.0.2), and one that nobody may reach (127.0.0.1).

The public one serves a picture, and the tricks by which a server may be led to what it must not fetch.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from penstock.file_fetch import FetchLimits

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.support.gateway import Running

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100
PUBLIC, PRIVATE = "127.0.0.2", "127.0.0.1"
NAMES = {"files.example": PUBLIC, "rebind.example": PRIVATE, "metadata.example": "169.254.169.254"}
ATTACKS = ("to-loopback", "to-name", "loop", "huge", "endless", "slow", "lie", "page", "gzip", "missing")


PICTURE = (PNG, "image/gif", 200)  # wrong on purpose: the bytes are a PNG
BODIES: dict[str, tuple[bytes, str, int]] = {
    "huge": (PNG + b"\0" * 20_000, "image/png", 200), "lie": (b"<html>sign in first</html>", "image/png", 200),
    "page": (b"<html>not found</html>", "text/html", 200), "missing": (b"", "text/plain", 404),
}  # fmt: skip


class Files:
    """What runs. `hits` are the paths that were asked of the private server, `asked` those of the public one."""

    def __init__(self) -> None:
        self.hits: list[str] = []
        self.asked: list[str] = []
        self.done = threading.Event()  # the test is over: slow answers end
        self.private = _server(PRIVATE, _private(self))
        self.public = _server(PUBLIC, _public(self))

    def url(self, path: str, host: str = "files.example") -> str:
        return f"http://{host}:{self.public.server_port}/{path}"

    def limits(self, **more: Any) -> FetchLimits:
        """Limits that call the one server public, and nothing else on this machine."""

        async def resolve(host: str, _: int) -> list[str]:
            return [NAMES.get(host, host)]

        ports = frozenset({self.public.server_port, self.private.server_port})
        given: dict[str, Any] = {"size": 10_000, "seconds": 30.0, **more}
        return FetchLimits(allow=lambda address: str(address) == PUBLIC, resolve=resolve, ports=ports, **given)


def fetch_from(running: Running, limits: FetchLimits) -> None:
    """Let a gateway fetch within these limits: what its configuration says of them does not count."""
    running.app.services.upstream.fetch_limits = limits


@contextmanager
def file_servers() -> Generator[Files]:
    files = Files()
    try:
        yield files
    finally:
        files.done.set()
        for server in (files.public, files.private):
            server.shutdown()
            server.server_close()


def _server(host: str, handler: Any) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer((host, 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    def answer(self, body: bytes, kind: str, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


def _private(files: Files) -> type[_Handler]:
    class Handler(_Handler):
        def do_GET(self) -> None:
            files.hits.append(self.path)
            self.answer(PNG, "image/png")

    return Handler


def _public(files: Files) -> type[_Handler]:
    class Handler(_Handler):
        def do_GET(self) -> None:
            path = self.path.strip("/").partition("?")[0]
            files.asked.append(path)
            port = files.private.server_port
            places = {"to-loopback": f"http://127.0.0.1:{port}/secret", "to-name": f"http://rebind.example:{port}/secret",
                      "loop": "/loop", "moved": "/a.png", "to-file": "file:///etc/passwd"}  # fmt: skip
            if path in places:
                self.answer(b"", "text/plain", 302, location=places[path])
            elif path in ("endless", "slow"):
                self._trickle(path)
            elif path == "gzip":
                self.answer(PNG, "image/png", content_encoding="gzip")
            else:
                self.answer(*BODIES.get(path, PICTURE))

        def _trickle(self, path: str) -> None:
            """A body without an end, or one that does not come."""
            self.send_response(200)
            self.send_header("content-type", "image/png")
            self.end_headers()
            self.wfile.write(PNG)
            try:
                while not files.done.wait(0.001 if path == "endless" else 0.05):
                    self.wfile.write(b"\0" * (4096 if path == "endless" else 1))
            except OSError:
                return

    return Handler
