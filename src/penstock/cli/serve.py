"""`penstock serve`: the gateway, until it is told to stop. Works with no configuration, no key and no network.

Leans on `http.uvicorn_server` for listening, on `gateway.reload` for a new configuration in mid-flight.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from penstock.cli.config_option import add_config_option, load_config
from penstock.gateway import HOST, PORT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from penstock.gateway.app import App
    from penstock.gateway.config import GatewayConfig
    from penstock.http.uvicorn_server import Server

LEVELS = ("trace", "debug", "info", "warning", "error")
EXAMPLES = """\
examples:
  penstock serve
  penstock serve --port 9000 --full-speed
  penstock serve --config penstock.toml --record recordings
  curl -N http://127.0.0.1:4480/v1/chat/completions -d '{"model":"replay/tools","stream":true}'

Without --config it reads the file of PENSTOCK_CONFIG, else ./penstock.toml, else none. A ./penstock.toml that decides
where keys or data go must be trusted first: `penstock trust`. SIGHUP reads the file again; open streams are not
touched. Ctrl-C or SIGTERM lets streams finish, for as long as serve.drain says.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.epilog = EXAMPLES
    add_config_option(parser)
    parser.add_argument("--host", help=f"address to listen on (default: {HOST}, this machine only)")
    parser.add_argument("--port", type=int, help=f"port to listen on (default: {PORT}; 0 picks one)")
    parser.add_argument("--full-speed", action="store_true", help="play streams without the pauses of a real model")
    parser.add_argument("--record", metavar="DIR", help="save every stream to this folder, secrets removed")
    parser.add_argument("--log", choices=LEVELS, help="what to tell on standard error (trace: content, too)")
    parser.add_argument("--log-json", action="store_true", help="one JSON object a line")
    parser.add_argument(
        "--check",
        action="store_true",
        help="say what is wrong with the configuration, and stop: exit code 1 if anything is",
    )


def run(args: argparse.Namespace) -> int:
    """Listen until interrupted."""
    config = _told(args)(load_config(args))
    _check_trace(config)
    if args.check:
        return _check(config)
    from penstock.gateway import logs
    from penstock.gateway.app import App
    from penstock.gateway.byte_budget import websocket_protocol
    from penstock.http.uvicorn_server import listen
    from penstock.inspector.app import Inspector

    app: Any = App(config)
    logs.setup(config.log, lambda: app.services.secrets)
    listen(
        Inspector(app),
        config.serve,
        lambda port, server: _ready(app, args, port, server),
        websocket_protocol(app, config.serve),
    )
    return 0


def _check(config: GatewayConfig) -> int:
    """Print what cannot work: exit code 1 if there is anything."""
    from penstock.engines.environ import LIVE
    from penstock.gateway.lifecycle import report_problems

    found = report_problems(config, LIVE)
    for line in found or [f"{config.path or 'no file'}: nothing is wrong with it"]:
        print(line, file=sys.stderr)
    return int(bool(found))


def _check_trace(config: GatewayConfig) -> None:
    """Refuse to write what the holders of gateway keys say, unless the configuration allows it."""
    from penstock.errors import InputError
    from penstock.gateway.access import Access
    from penstock.gateway.logs import TRACE_NEEDS_CONTENT

    if config.log.level != "trace" or config.log.content:
        return
    if config.forward or Access(config, os.environ).keyed:
        raise InputError(TRACE_NEEDS_CONTENT)


def _told(args: argparse.Namespace) -> Callable[[GatewayConfig], GatewayConfig]:
    """What the command line says goes over the file, also when that is read again."""
    from msgspec.structs import replace

    pace = 0.0 if args.full_speed else None
    level, form = args.log, "json" if args.log_json else None

    def over(config: GatewayConfig) -> GatewayConfig:
        serve = {"host": args.host, "port": args.port, "pace": pace}
        log = {"level": level, "form": form}
        return replace(
            config,
            serve=replace(config.serve, **{name: value for name, value in serve.items() if value is not None}),
            log=replace(config.log, **{name: value for name, value in log.items() if value is not None}),
            record=replace(config.record, path=args.record) if args.record else config.record,
        )

    return over


def _ready(app: App, args: argparse.Namespace, port: int, server: Server) -> None:
    from penstock.cli.welcome import models, welcome
    from penstock.gateway import logs
    from penstock.gateway.lifecycle import Reloader, log_problems

    config = app.services.config
    keyed = app.services.access.keyed

    def apply(config: GatewayConfig) -> None:
        _check_trace(config)
        app.services.reload(config)
        logs.setup(config.log, lambda: app.services.secrets)
        log_problems(config, app.services.router.env)

    log_problems(config, app.services.router.env)
    reloader = Reloader(args.config, os.environ, apply, _told(args))
    hung_up = _hung_up()

    def on_hangup() -> None:
        """A terminal that is closed says the same as somebody who wants a reload."""
        if hung_up():
            server.should_exit = True
        else:
            reloader.now()

    reloader.listen(on_hangup)
    # Last: whoever has read this may count on all of it.
    env = app.services.env
    print(welcome(config, port, models(config, env), keyed=keyed, env=env), file=sys.stderr, flush=True)


def _hung_up() -> Callable[[], bool]:
    """A function that tells whether the terminal we were started in has gone."""
    try:
        import termios

        termios.tcgetattr(0)
    except Exception:  # noqa: BLE001 — no terminal, no such module, no standard input: nothing to lose
        return lambda: False

    def gone() -> bool:
        try:
            termios.tcgetattr(0)
        except (termios.error, OSError, ValueError):
            return True
        return False

    return gone
