"""What `penstock serve` says when it listens: where, which models there are, and how to point each client at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.cli.program import find_command
from penstock.gateway import HOST, PORT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.gateway.config import GatewayConfig

SHOWN = 8  # models
ANY = "any"


def base_of(host: str, port: int) -> str:
    """The address to give to clients: a server that listens everywhere is reached by loopback too."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 — compared, not bound
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


def models(config: GatewayConfig, env: Mapping[str, str]) -> list[str]:
    """Names to ask for: aliases, those that configured providers are said to have, packaged streams."""
    from penstock.engines.model_resolution import is_pattern, known
    from penstock.replay import offered

    found = [name for name in config.engine.aliases if not is_pattern(name)]
    for row in known(config.engine, env):
        said = config.engine.account(row.name).models
        found += [f"{row.name}/{name}" for name in said or ("…",)]
    return found + [f"replay/{name}" for name in offered()]


def welcome(
    config: GatewayConfig, port: int, names: Sequence[str], *, keyed: bool, env: Mapping[str, str] | None = None
) -> str:
    """The lines, the address in the first."""
    base = base_of(config.serve.host, port)
    model = next((name for name in names if not name.endswith("/…")), "replay/text")
    key = "YOUR_GATEWAY_KEY" if keyed else "YOUR_PROVIDER_KEY" if config.forward else ANY
    said = [
        f"penstock is listening on {base}",
        *(f"  {label:<15} {text}" for label, text in _rows(config, base, names, model, key, env or {})),
        *_warnings(config, keyed=keyed),
        "Stop with Ctrl-C: streams are let finish first.",
    ]
    return "\n".join(said)


def _rows(
    config: GatewayConfig, base: str, names: Sequence[str], model: str, key: str, env: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    yield "config", str(config.path) if config.path else "none (penstock.toml, or --config FILE)"
    yield "inspector", f"{base}/"
    yield "models", ", ".join(names[:SHOWN]) + more
    yield "OpenAI SDKs", f"OPENAI_BASE_URL={base}/v1 OPENAI_API_KEY={key}"
    yield "Anthropic SDKs", f"ANTHROPIC_BASE_URL={base} ANTHROPIC_API_KEY={key}"
    yield from _agents(base, model, key, config, env)
    yield "AI SDK", f"createOpenAICompatible({{ name: 'penstock', baseURL: '{base}/v1', apiKey: '{key}' }})"
    yield "useChat", f"new DefaultChatTransport({{ api: '{base}/api/chat' }})"
    yield "VS Code", f'the penstock extension, "penstock.gateway.url": "{base}"'
    yield "try it", f'curl -N {base}/v1/chat/completions -d \'{{"model":"replay/tools","stream":true}}\''
    if config.record.path:
        yield "recording to", config.record.path


def _agents(
    base: str, model: str, key: str, config: GatewayConfig, env: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """A line that starts each agent once, with the window of its model; `penstock setup` for those that need a file."""
    from penstock.cli.setup.agent_plan import Gateway
    from penstock.cli.setup.agents import AGENTS
    from penstock.cli.setup.model_choice import ModelChoice, choose_model
    from penstock.errors import InputError

    try:
        choice = choose_model(config.engine, env, model=model)
    except InputError:  # a name that needs a provider's key first
        choice = ModelChoice(model, model)
    at = Gateway(
        base=base, model=choice.model, small=choice.small, context=choice.context, output=choice.output,
        small_context=choice.small_context, small_output=choice.small_output, key=key,
    )  # fmt: skip
    place = "" if base == f"http://{HOST}:{PORT}" else f" --url {base}"
    setup = f"{find_command()} setup"
    for name, agent in AGENTS.items():
        yield agent.title, agent.hint(at) if agent.hint else f"{setup} {name} --model {model}{place}"
    yield "permanently", f"{setup} claude --model {model}{place}   (any agent: shows a diff, asks, can --undo)"


def _warnings(config: GatewayConfig, *, keyed: bool) -> Iterator[str]:
    from penstock.gateway.callers import loopback

    if keyed or loopback(config.serve.host):
        return
    add = f"`{find_command()} keys add NAME`"
    if config.access.anonymous:
        yield f"Warning: whoever reaches this address can use it: {add} makes a key."
    elif not config.forward:
        yield f"Other machines are refused as long as there is no key: {add} makes one."
