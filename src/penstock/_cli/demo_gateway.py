"""The last part of `penstock demo`: a gateway with a temporary data folder, three requests, the inspector's link."""

from __future__ import annotations

import signal
import sys
import threading
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from penstock._cli.serve import base_url, inspector_link, serve_app
from penstock._gateway.config import GatewayConfig, Log, Serve

if TYPE_CHECKING:
    from argparse import Namespace

    from penstock._cli.demo_screen import DemoScreen
    from penstock._gateway.app import App
    from penstock._http.uvicorn_server import GatewayServer

_REQUEST_SECONDS = 60
_MESSAGES = [{"role": "user", "content": "What is a penstock?"}]


class DemoRequest(NamedTuple):
    """A request of a client: its path, its body, and what it shows."""

    path: str
    body: dict[str, Any]
    about: str


REQUESTS = (
    DemoRequest(
        "/v1/messages",
        {"model": "replay/reasoning", "stream": True, "max_tokens": 999, "messages": _MESSAGES},
        "thinking, then text, for a client of Anthropic",
    ),
    DemoRequest(
        "/v1/chat/completions",
        {"model": "replay/error", "stream": True, "messages": _MESSAGES},
        "a stream that ends with an error, for an OpenAI client",
    ),
    DemoRequest(
        "/v1/responses",
        {"model": "replay/parallel-tools", "stream": True, "input": "Read all gauges."},
        "three tool calls, for a client of the Responses API",
    ),
)


def serve_demo(options: Namespace, screen: DemoScreen | None) -> int:
    """Serves until Ctrl-C. Without a screen the address is printed as JSON. Returns the exit code."""
    from penstock._http.uvicorn_server import bind_socket

    signal.signal(signal.SIGTERM, _interrupt)  # so that the folder is removed then, too
    paced = screen is not None and not options.fast
    serve = Serve(port=options.port, pace=1.0 if paced else 0.0, drain=1.0)
    bound = bind_socket(serve.host, serve.port)  # before anything is opened: the port may be taken
    with TemporaryDirectory(prefix="penstock-demo-", ignore_cleanup_errors=True) as folder:
        config = GatewayConfig(serve=serve, log=Log(level="error"), data=Path(folder))

        def on_ready(app: App, port: int, _server: GatewayServer) -> None:
            base = base_url(serve.host, port)
            link = inspector_link(app.services.config, base, keyed=False)
            # Not in the event loop: the requests are answered there.
            threading.Thread(target=_show_until_stopped, args=(base, link, screen), daemon=True).start()

        with suppress(KeyboardInterrupt):  # how this command ends
            # The environment has no keys of providers, so that only packaged streams can be asked.
            serve_app(config, on_ready, bound, env={"PENSTOCK_DATA": folder})
    if screen is not None:
        screen.print_line("The gateway has ended and its data folder is removed.", "dim")
    return 0


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _show_until_stopped(base: str, link: str, screen: DemoScreen | None) -> None:
    with suppress(OSError, HTTPException):  # Ctrl-C while a request is answered
        _show_gateway(base, link, screen)


def _show_gateway(base: str, link: str, screen: DemoScreen | None) -> None:
    """Sends the requests as their clients do, and prints where the inspector is."""
    if screen is None:
        sizes = [len(_send(base, request)) for request in REQUESTS]
        value = {"scene": "inspector", "url": base, "inspector": link, "answer_bytes": sizes}
        sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
        sys.stdout.flush()
        return
    screen.print_title(4)
    screen.print_line(f"  A gateway is listening on {base}. Three clients ask it:")
    for request in REQUESTS:
        answer = _send(base, request)
        screen.print_line(f"{request.about}: {len(answer):,} bytes", label=request.body["model"].partition("/")[2])
    screen.print_line("  Open this link to see them, frame by frame:")
    screen.print_line(f"  {link}", "cyan")
    screen.print_line("  Ctrl-C ends the gateway and removes its data.", "dim")


def _send(base: str, request: DemoRequest) -> bytes:
    """Sends a request without a proxy and returns the whole answer."""
    body = msgspec.json.encode(request.body)
    headers = {"content-type": "application/json", "user-agent": "penstock-demo"}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    call = urllib.request.Request(base + request.path, body, headers)  # noqa: S310 — a loopback address
    with opener.open(call, timeout=_REQUEST_SECONDS) as reply:
        answer: bytes = reply.read()
    return answer
