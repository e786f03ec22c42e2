"""`penstock serve`: the gateway, until it is told to stop. Works with no configuration, no key and no network.

Leans on `http.uvicorn_server` for listening, on `gateway.reload` for a new configuration in mid-flight.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from penstock._cli.common_options import add_config_option, find_command, load_config
from penstock._gateway import HOST, PORT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock._gateway.app import App
    from penstock._gateway.config import GatewayConfig
    from penstock._http.uvicorn_server import GatewayServer

LOG_LEVELS = ("trace", "debug", "info", "warning", "error")
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.epilog = EXAMPLES
    add_config_option(parser)
    parser.add_argument("--host", help=f"address to listen on (default: {HOST}, this machine only)")
    parser.add_argument("--port", type=int, help=f"port to listen on (default: {PORT}; 0 picks one)")
    parser.add_argument("--full-speed", action="store_true", help="play streams without the pauses of a real model")
    parser.add_argument("--record", metavar="DIR", help="save every stream to this folder, secrets removed")
    parser.add_argument("--log", choices=LOG_LEVELS, help="what to tell on standard error (trace: content, too)")
    parser.add_argument("--log-json", action="store_true", help="one JSON object a line")
    parser.add_argument(
        "--check",
        action="store_true",
        help="say what is wrong with the configuration, and stop: exit code 1 if anything is",
    )


def run(args: argparse.Namespace) -> int:
    """Listen until interrupted."""
    config = _command_line_overrides(args)(load_config(args))
    _check_trace(config)
    if args.check:
        return _check_config(config)
    from penstock._gateway import logs
    from penstock._gateway.app import App
    from penstock._gateway.byte_budget import websocket_protocol
    from penstock._http.uvicorn_server import listen
    from penstock._inspector.app import Inspector

    app: Any = App(config)
    logs.setup_logging(config.log, lambda: app.services.secrets)
    listen(
        Inspector(app),
        config.serve,
        lambda port, server: _on_ready(app, args, port, server),
        websocket_protocol(app, config.serve),
        direct_send=config.features.direct_send,
    )
    return 0


def _check_config(config: GatewayConfig) -> int:
    """Print what cannot work: exit code 1 if there is anything."""
    from penstock._engines.environ import LIVE
    from penstock._gateway.lifecycle import report_problems

    found = report_problems(config, LIVE)
    for line in found or [f"{config.path or 'no file'}: nothing is wrong with it"]:
        print(line, file=sys.stderr)
    return int(bool(found))


def _check_trace(config: GatewayConfig) -> None:
    """Refuse to write what the holders of gateway keys say, unless the configuration allows it."""
    from penstock._gateway.access import Access
    from penstock._gateway.logs import TRACE_NEEDS_CONTENT
    from penstock.errors import InputError

    if config.log.level != "trace" or config.log.content:
        return
    if config.forward or Access(config, os.environ).keyed:
        raise InputError(TRACE_NEEDS_CONTENT)


def _command_line_overrides(args: argparse.Namespace) -> Callable[[GatewayConfig], GatewayConfig]:
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


def _on_ready(app: App, args: argparse.Namespace, port: int, server: GatewayServer) -> None:
    from penstock._gateway import logs
    from penstock._gateway.lifecycle import Reloader, log_problems

    config = app.services.config
    keyed = app.services.access.keyed

    def apply(config: GatewayConfig) -> None:
        _check_trace(config)
        app.services.reload(config)
        logs.setup_logging(config.log, lambda: app.services.secrets)
        log_problems(config, app.services.upstream.router.env)

    log_problems(config, app.services.upstream.router.env)
    reloader = Reloader(args.config, os.environ, apply, _command_line_overrides(args))
    hung_up = _terminal_watcher()

    def on_hangup() -> None:
        """A terminal that is closed says the same as somebody who wants a reload."""
        if hung_up():
            server.should_exit = True
        else:
            reloader.now()

    reloader.listen(on_hangup)
    # Last: whoever has read this may count on all of it.
    env = app.services.env
    print(welcome_text(config, port, list_models(config, env), keyed=keyed, env=env), file=sys.stderr, flush=True)


def _terminal_watcher() -> Callable[[], bool]:
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


MAX_MODELS = 8  # models
ANY = "any"


def base_url(host: str, port: int) -> str:
    """The address to give to clients: a server that listens everywhere is reached by loopback too."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 — compared, not bound
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


def list_models(config: GatewayConfig, env: Mapping[str, str]) -> list[str]:
    """Names to ask for: aliases, those that configured providers are said to have, packaged streams."""
    from penstock._engines.model_resolution import is_pattern, list_configured_providers
    from penstock._replay import describe_scripts

    found = [name for name in config.engine.aliases if not is_pattern(name)]
    for row in list_configured_providers(config.engine, env):
        said = config.engine.account(row.name).models
        found += [f"{row.name}/{name}" for name in said or ("…",)]
    return found + [f"replay/{name}" for name in describe_scripts()]


def welcome_text(
    config: GatewayConfig, port: int, names: Sequence[str], *, keyed: bool, env: Mapping[str, str] | None = None
) -> str:
    """The lines, the address in the first."""
    base = base_url(config.serve.host, port)
    model = next((name for name in names if not name.endswith("/…")), "replay/text")
    key = "YOUR_GATEWAY_KEY" if keyed else "YOUR_PROVIDER_KEY" if config.forward else ANY
    said = [
        f"penstock is listening on {base}",
        *(f"  {label:<15} {text}" for label, text in _welcome_rows(config, base, names, model, key, env or {})),
        *_access_warnings(config, keyed=keyed),
        "Stop with Ctrl-C: streams are let finish first.",
    ]
    return "\n".join(said)


def _welcome_rows(
    config: GatewayConfig, base: str, names: Sequence[str], model: str, key: str, env: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    more = f" and {len(names) - MAX_MODELS} more" if len(names) > MAX_MODELS else ""
    yield "config", str(config.path) if config.path else "none (penstock.toml, or --config FILE)"
    yield "inspector", f"{base}/"
    yield "models", ", ".join(names[:MAX_MODELS]) + more
    yield "OpenAI SDKs", f"OPENAI_BASE_URL={base}/v1 OPENAI_API_KEY={key}"
    yield "Anthropic SDKs", f"ANTHROPIC_BASE_URL={base} ANTHROPIC_API_KEY={key}"
    yield from _agent_rows(base, model, key, config, env)
    yield "AI SDK", f"createOpenAICompatible({{ name: 'penstock', baseURL: '{base}/v1', apiKey: '{key}' }})"
    yield "useChat", f"new DefaultChatTransport({{ api: '{base}/api/chat' }})"
    yield "VS Code", f'the penstock extension, "penstock.gateway.url": "{base}"'
    yield "try it", f'curl -N {base}/v1/chat/completions -d \'{{"model":"replay/tools","stream":true}}\''
    if config.record.path:
        yield "recording to", config.record.path


def _agent_rows(
    base: str, model: str, key: str, config: GatewayConfig, env: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """A line that starts each agent once, with the window of its model; `penstock setup` for those that need a file."""
    from penstock._cli.setup.agent_plan import GatewayAddress, ModelChoice, choose_model
    from penstock._cli.setup.agents import AGENTS
    from penstock.errors import InputError

    try:
        choice = choose_model(config.engine, env, model=model)
    except InputError:  # a name that needs a provider's key first
        choice = ModelChoice(model, model)
    at = GatewayAddress(
        base=base,
        model=choice.model,
        small=choice.small,
        context=choice.context,
        output=choice.output,
        small_context=choice.small_context,
        small_output=choice.small_output,
        key=key,
    )
    place = "" if base == f"http://{HOST}:{PORT}" else f" --url {base}"
    setup = f"{find_command()} setup"
    for name, agent in AGENTS.items():
        yield agent.title, agent.hint(at) if agent.hint else f"{setup} {name} --model {model}{place}"
    yield "permanently", f"{setup} claude --model {model}{place}   (any agent: shows a diff, asks, can --undo)"


def _access_warnings(config: GatewayConfig, *, keyed: bool) -> Iterator[str]:
    from penstock._gateway.callers import is_loopback

    if keyed or is_loopback(config.serve.host):
        return
    add = f"`{find_command()} keys add NAME`"
    if config.access.anonymous:
        yield f"Warning: whoever reaches this address can use it: {add} makes a key."
    elif not config.forward:
        yield f"Other machines are refused as long as there is no key: {add} makes one."
