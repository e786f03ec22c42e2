"""`penstock serve`: a server that plays packaged streams, for trying clients with no key and no network."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from penstock.errors import InputError, MissingExtra
from penstock.gateway import HOST, PORT

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  penstock serve
  penstock serve --port 9000 --full-speed
  curl -N http://127.0.0.1:4480/v1/chat/completions -d '{"model":"replay/tools","stream":true}'
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.epilog = EXAMPLES
    parser.add_argument("--host", default=HOST, help="address to listen on (default: %(default)s, this machine only)")
    parser.add_argument("--port", type=int, default=PORT, help="port to listen on (default: %(default)s; 0 picks one)")
    parser.add_argument("--full-speed", action="store_true", help="play streams without the pauses of a real model")


def run(args: argparse.Namespace) -> int:
    """Listen until interrupted."""
    try:
        import uvicorn
    except ImportError as error:
        raise MissingExtra("uvicorn", "serve") from error
    from penstock.gateway.app import App

    class Announcing(uvicorn.Server):
        """Says where it listens once it does: whoever reads the line can connect."""

        async def startup(self, sockets: list[Any] | None = None) -> None:
            await super().startup(sockets)
            if sockets and not self.should_exit:
                print(_welcome(args.host, sockets[0].getsockname()[1]), file=sys.stderr, flush=True)

    if not _free(args.host, args.port):
        message = f"port {args.port} on {args.host} is taken; choose another with --port (0 picks a free one)"
        raise InputError(message)
    app = App(pace=0) if args.full_speed else App()
    config = uvicorn.Config(
        app, args.host, args.port, log_level="error", access_log=False, lifespan="off", ws="none",
        timeout_graceful_shutdown=2,
    )  # fmt: skip
    Announcing(config).run(sockets=[config.bind_socket()])
    return 0


def _free(host: str, port: int) -> bool:
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _welcome(host: str, port: int) -> str:
    from penstock.gateway.pages import MODELS

    base = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    return (
        f"penstock is listening on {base}\n"
        f"  models             {', '.join(MODELS)}\n"
        f"  OpenAI SDKs        OPENAI_BASE_URL={base}/v1 OPENAI_API_KEY=any\n"
        f"  Anthropic SDKs     ANTHROPIC_BASE_URL={base} ANTHROPIC_API_KEY=any\n"
        f"  useChat            api: '{base}/api/chat'\n"
        f'  try it             curl -N {base}/v1/chat/completions -d \'{{"model":"replay/tools","stream":true}}\'\n'
        "Stop with Ctrl-C."
    )
