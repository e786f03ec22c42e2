"""`penstock serve`: runs the gateway until it is stopped. Works with no configuration, no key and no network."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from penstock._cli.common_options import find_command, load_config
from penstock._cli.terminal import print_json
from penstock._engines.environ import LIVE
from penstock._engines.model_resolution import is_pattern, list_configured_providers
from penstock._gateway import HOST, PORT, lifecycle, log_setup
from penstock._gateway.access import Access
from penstock._gateway.callers import is_loopback
from penstock._gateway.config import check_workers
from penstock._gateway.config_reload import ConfigWatcher, watches_file
from penstock._gateway.provider_layers import add_custom_providers
from penstock._replay import describe_scripts
from penstock.errors import InputError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from socket import socket

    from penstock._gateway.app import App
    from penstock._gateway.config import GatewayConfig
    from penstock._gateway.worker_metrics import WorkerMetrics
    from penstock._gateway.workers import WorkerLink
    from penstock._http.server_tls import ServerCertificate
    from penstock._http.uvicorn_server import GatewayServer

log = logging.getLogger("penstock.reload")


def run_serve(options: Namespace) -> int:
    """Listens until interrupted."""
    config = _command_line_overrides(options)(load_config(options))
    check_workers(config.serve.workers)
    _check_trace(config)
    if options.check:
        return _check_config(add_custom_providers(config), as_json=options.json)
    if config.serve.workers > 1:
        return ServeWorkers(options, config).run()
    serve_app(config, lambda app, port, server: _on_ready(app, options, port, server))
    return 0


def serve_app(
    config: GatewayConfig,
    on_ready: Callable[[App, int, GatewayServer], None],
    bound: socket | None = None,
    on_app: Callable[[App], object] = lambda _: None,
    *,
    env: Mapping[str, str] | None = None,
) -> None:
    """Serves in this process until a signal ends it. `env`: in place of the process's environment."""
    from penstock._gateway.access_log import AccessLog
    from penstock._gateway.app import App
    from penstock._gateway.byte_budget import websocket_protocol
    from penstock._http.uvicorn_server import listen
    from penstock._inspector.app import Inspector

    certificate = load_tls(config)
    app: Any = App(config, env=env)
    on_app(app)
    log_setup.setup_logging(config.log, lambda: app.services.secrets)
    front, access_log = Inspector(app), config.serve.access_log
    logged = AccessLog(front, access_log, app.services) if access_log != "off" else None
    LIVE.unchanging = True
    try:
        listen(
            logged or front,
            config.serve,
            lambda port, server: on_ready(app, port, server),
            websocket_protocol(app, config.serve),
            direct_send=config.features.direct_send,
            bound=bound,
            certificate=certificate,
        )
    finally:
        LIVE.unchanging = False
        if logged is not None:
            logged.close()


def load_tls(config: GatewayConfig) -> ServerCertificate | None:
    """Returns the certificate of a configuration; None without TLS. Raises if its files cannot be used."""
    if not (config.serve.tls_cert or config.serve.tls_key):
        return None
    from penstock._http.server_tls import ServerCertificate

    return ServerCertificate(config.serve.tls_cert, config.serve.tls_key)


class ServeWorkers:
    """`serve --workers N`: binds the address, and has N worker processes serve it."""

    def __init__(self, options: Namespace, config: GatewayConfig) -> None:
        self._options, self._config = options, config
        self._metrics: WorkerMetrics | None = None
        self.should_stop: Callable[[], bool] = _terminal_watcher()

    def run(self) -> int:
        """Serves until a signal ends it. Returns the exit code."""
        from penstock._gateway.workers import Supervisor
        from penstock._http.uvicorn_server import bind_socket

        serve = self._config.serve
        log_setup.setup_logging(self._config.log)
        load_tls(self._config)  # so that its errors are said once
        import_module("penstock._inspector.app")  # loads the gateway once, before the workers are forked
        self._socket = bind_socket(serve.host, serve.port)
        self._port = self._socket.getsockname()[1]
        try:
            return Supervisor(serve.workers, serve.drain, self, self._socket.close).run()
        finally:
            self._socket.close()

    def on_ready(self, *, keyed: bool) -> None:
        """All workers listen: prints the welcome text, once."""
        _print_welcome(self._options, add_custom_providers(self._config), LIVE, self._port, keyed=keyed)

    def check_reload(self) -> bool:
        """Reads the configuration again, so that an invalid one is reported once. New workers use it."""

        def apply(config: GatewayConfig) -> None:
            _check_trace(config)
            load_tls(config)
            self._config = config
            log_setup.setup_logging(config.log)

        overrides = _command_line_overrides(self._options)
        return lifecycle.Reloader(self._options.config, os.environ, apply, overrides, quiet=True).reload()

    # ── in a worker ───────────────────────────────────────────────────────────────────────────────

    def run_worker(self, link: WorkerLink) -> int:
        """Serves until the parent says stop, or is gone."""
        from penstock._gateway.worker_metrics import WorkerMetrics

        def on_app(app: App) -> None:
            self._metrics = WorkerMetrics(link.folder, link.number, app.services.metrics)

        try:
            serve_app(self._config, partial(self._on_worker_ready, link), self._socket, on_app)
        finally:
            if self._metrics is not None:
                self._metrics.close()
        return 0

    def _on_worker_ready(self, link: WorkerLink, app: App, _port: int, server: GatewayServer) -> None:
        from penstock._gateway import workers

        server.second_signal_forces = False
        reloader = _reloader(app, self._options, server, quiet=True)
        if link.number == 1:
            lifecycle.log_problems(app.services.config, app.services.upstream.router.env)

        def reload(*, report_problems: bool) -> None:
            done = reloader.reload()
            if done and report_problems:
                lifecycle.log_problems(app.services.config, app.services.upstream.router.env)
            link.report(workers.RELOADED if done else workers.NOT_RELOADED)

        def obey() -> None:
            order = os.read(link.orders, 1)
            if order == workers.FORCE:
                server.stop_now()
            elif order in {workers.RELOAD, workers.RELOAD_LOUDLY}:
                reload(report_problems=order == workers.RELOAD_LOUDLY)
            else:  # an order to stop, or the end of the pipe: the parent is gone
                server.should_exit = True
            if not order:
                asyncio.get_running_loop().remove_reader(link.orders)

        asyncio.get_running_loop().add_reader(link.orders, obey)
        reloader.reload_on_signal()
        if self._metrics is not None:
            self._metrics.start()
        link.report(workers.READY_KEYED if app.services.access.keyed else workers.READY)


def _check_config(config: GatewayConfig, *, as_json: bool) -> int:
    """Prints what cannot work. Returns the exit code."""
    problems = lifecycle.report_problems(config, LIVE)
    try:
        load_tls(config)
    except InputError as error:
        problems.append(str(error))
    if as_json:
        file = str(config.path) if config.path else None
        print_json({"file": file, "ok": not problems, "problems": problems})
    else:
        print(*(problems or [f"{config.path or 'no file'}: nothing is wrong with it"]), sep="\n", file=sys.stderr)
    return int(bool(problems))


def _check_trace(config: GatewayConfig) -> None:
    """Refuses to log the content of other users' requests, unless the configuration allows it."""
    if config.log.level != "trace" or config.log.content:
        return
    if config.forward or Access(config, os.environ).keyed:
        raise InputError(log_setup.TRACE_NEEDS_CONTENT)


def _command_line_overrides(options: Namespace) -> Callable[[GatewayConfig], GatewayConfig]:
    """Returns a function that applies the command line to a configuration, also to one that is reloaded."""
    names = ("host", "port", "workers", "tls_cert", "tls_key", "access_log")
    serve: dict[str, Any] = {name: getattr(options, name) for name in names}
    serve["pace"] = 0.0 if options.full_speed else None
    log = {"level": options.log, "form": "json" if options.log_json else None}

    def override(config: GatewayConfig) -> GatewayConfig:
        return replace(
            config,
            serve=replace(config.serve, **{name: value for name, value in serve.items() if value is not None}),
            log=replace(config.log, **{name: value for name, value in log.items() if value is not None}),
            record=replace(config.record, path=options.record) if options.record else config.record,
        )

    return override


def _on_ready(app: App, options: Namespace, port: int, server: GatewayServer) -> None:
    """Starts to watch for reloads, then prints the welcome text."""
    config, env = app.services.config, app.services.env
    lifecycle.log_problems(config, app.services.upstream.router.env)
    reloader = _reloader(app, options, server)
    is_terminal_closed = _terminal_watcher()

    def on_hangup() -> None:
        """Handles SIGHUP: the terminal was closed, or a reload is requested."""
        if is_terminal_closed():
            server.should_exit = True
        else:
            use(reloader.load())

    def use(loaded: GatewayConfig | Exception) -> None:
        if reloader.use(loaded):
            lifecycle.log_problems(app.services.config, app.services.upstream.router.env)

    reloader.reload_on_signal(on_hangup)
    if config.path is not None and watches_file(config):
        app.services.config_watcher = ConfigWatcher(config.path, reloader.load, use)
        app.services.config_watcher.start()
    # Last: a program that reads this line may use everything above.
    _print_welcome(options, config, env, port, keyed=app.services.access.keyed)


def _reloader(app: App, options: Namespace, server: GatewayServer, *, quiet: bool = False) -> lifecycle.Reloader:
    def apply(config: GatewayConfig) -> None:
        _check_trace(config)
        if server.certificate is not None and config.serve.tls_cert:
            server.certificate.reload(config.serve.tls_cert, config.serve.tls_key)
        app.services.reload(config)
        log_setup.setup_logging(config.log, lambda: app.services.secrets)
        restart_needed = app.services.config_status.restart_needed
        if restart_needed and not quiet:
            log.warning("these settings take effect after a restart: %s", ", ".join(restart_needed))

    def on_error(message: str) -> None:
        app.services.config_status = replace(app.services.config_status, error=message)

    overrides = _command_line_overrides(options)
    return lifecycle.Reloader(options.config, os.environ, apply, overrides, quiet=quiet, on_error=on_error)


def _print_welcome(
    options: Namespace, config: GatewayConfig, env: Mapping[str, str], port: int, *, keyed: bool
) -> None:
    names = list_models(config, env)
    if options.json:
        base = base_url(config.serve.host, port, tls=bool(config.serve.tls_cert))
        file = str(config.path) if config.path else None
        link = inspector_link(config, base, keyed=keyed)
        print_json({"url": base, "file": file, "needs_key": keyed, "inspector": link, "models": names})
        sys.stdout.flush()
    else:
        print(welcome_text(config, port, names, keyed=keyed, env=env), file=sys.stderr, flush=True)


def _terminal_watcher() -> Callable[[], bool]:
    """Returns a function that tells if the terminal that started us is closed."""
    try:
        import termios

        termios.tcgetattr(0)
    except Exception:  # noqa: BLE001 — no terminal, no such module, no standard input: nothing to lose
        return lambda: False

    def is_closed() -> bool:
        try:
            termios.tcgetattr(0)
        except (termios.error, OSError, ValueError):
            return True
        return False

    return is_closed


MAX_MODELS = 8


def base_url(host: str, port: int, *, tls: bool = False) -> str:
    """Returns the address for clients: a server that listens on all interfaces is reached by loopback too."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 — compared, not bound
    return f"http{'s' if tls else ''}://{f'[{name}]' if ':' in name else name}:{port}"


def inspector_link(config: GatewayConfig, base: str, *, keyed: bool) -> str:
    """Returns the address of the inspector. Without gateway keys it has the session token."""
    if keyed:
        return f"{base}/"
    from penstock._inspector.session_token import open_session_token

    return f"{base}/#session={open_session_token(config.data)}"


def list_models(config: GatewayConfig, env: Mapping[str, str]) -> list[str]:
    """Returns the names of models: aliases, those of configured providers, packaged streams."""
    found = [name for name in config.engine.aliases if not is_pattern(name)]
    for row in list_configured_providers(config.engine, env):
        found += [f"{row.name}/{name}" for name in config.engine.account(row.name).models or ("…",)]
    return found + [f"replay/{name}" for name in describe_scripts()]


def welcome_text(
    config: GatewayConfig, port: int, names: Sequence[str], *, keyed: bool, env: Mapping[str, str] | None = None
) -> str:
    """Returns the lines that `penstock serve` prints when it listens. The address is in the first."""
    base = base_url(config.serve.host, port, tls=bool(config.serve.tls_cert))
    model = next((name for name in names if not name.startswith("replay/") and not name.endswith("/…")), "replay/agent")
    key = "YOUR_GATEWAY_KEY" if keyed else "YOUR_PROVIDER_KEY" if config.forward else "any"
    lines = [
        f"penstock is listening on {base}",
        *(f"  {label:<15} {text}" for label, text in _welcome_rows(config, base, names, model, key, env or {})),
        *_access_warnings(config, keyed=keyed),
        "Stop with Ctrl-C: streams are let finish first.",
    ]
    return "\n".join(lines)


def _welcome_rows(
    config: GatewayConfig, base: str, names: Sequence[str], model: str, key: str, env: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    more = f" and {len(names) - MAX_MODELS} more" if len(names) > MAX_MODELS else ""
    yield "config", str(config.path) if config.path else "none (penstock.toml, or --config FILE)"
    yield "inspector", inspector_link(config, base, keyed=key == "YOUR_GATEWAY_KEY")
    yield "models", ", ".join(names[:MAX_MODELS]) + more
    yield "OpenAI SDKs", f"OPENAI_BASE_URL={base}/v1 OPENAI_API_KEY={key}"
    yield "Anthropic SDKs", f"ANTHROPIC_BASE_URL={base} ANTHROPIC_API_KEY={key}"
    yield from _agent_rows(base, model, key, config, env)
    yield "AI SDK", f"createOpenAICompatible({{ name: 'penstock', baseURL: '{base}/v1', apiKey: '{key}' }})"
    yield "useChat", f"new DefaultChatTransport({{ api: '{base}/api/chat' }})"
    yield "VS Code", f'the penstock extension, "penstock.gateway.url": "{base}"'
    bearer = f" -H 'Authorization: Bearer {key}'" if key == "YOUR_GATEWAY_KEY" else ""
    yield "try it", f'curl -N {base}/v1/chat/completions{bearer} -d \'{{"model":"replay/tools","stream":true}}\''
    if config.record.path:
        yield "recording to", config.record.path


def _agent_rows(
    base: str, model: str, key: str, config: GatewayConfig, env: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yields a line that starts each agent once; the `penstock setup` command for agents that need a file."""
    from penstock._cli.setup.agents import AGENTS, GatewayAddress, ModelChoice, choose_model

    try:
        choice = choose_model(config.engine, env, model=model)
    except InputError:  # a name that needs a provider's key first
        choice = ModelChoice(model=model, small=model)
    address = GatewayAddress(**asdict(choice), base=base, key=key)
    setup, url = f"{find_command()} setup", "" if base == f"http://{HOST}:{PORT}" else f" --url {base}"
    for name, agent in AGENTS.items():
        yield agent.title, agent.hint_for(address) if agent.hint else f"{setup} {name} --model {model}{url}"
    yield "permanently", f"{setup} claude --model {model}{url}   (any agent: shows a diff, asks, can --undo)"


def _access_warnings(config: GatewayConfig, *, keyed: bool) -> Iterator[str]:
    if keyed or is_loopback(config.serve.host):
        return
    add = f"`{find_command()} keys add NAME`"
    if config.access.anonymous:
        yield f"Warning: everybody who can reach this address can use it; {add} adds a key."
    elif not config.forward:
        yield f"Other machines are refused as long as there is no key: {add} makes one."
