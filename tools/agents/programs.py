"""The agents: what each is started with, and the files that point it at a gateway. Data, and nothing that runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

Files: TypeAlias = dict[str, str]  # name, below the agent's home → what stands in it


class Agent(msgspec.Struct, frozen=True):
    """One agent in one setting. `{base}`, `{model}`, `{home}`, `{work}` and `{prompt}` are filled in."""

    command: tuple[str, ...]
    env: dict[str, str] = {}
    files: Callable[[str, str], Files] = lambda _base, _model: {}
    asks: str = "POST /v1/chat/completions"  # how it must have asked,
    never: str = ""  # and how it must not
    breaks: int = 0  # streams that break off on it


def _codex(*, websockets: bool) -> Callable[[str, str], Files]:
    def files(base: str, model: str) -> Files:
        rows = (
            f'model = "{model}"', 'model_provider = "gateway"', "[analytics]", "enabled = false", "[feedback]",
            "enabled = false", "[model_providers.gateway]", 'name = "gateway"', f'base_url = "{base}/v1"',
            'env_key = "GATEWAY_KEY"', 'wire_api = "responses"', "request_max_retries = 0", "stream_max_retries = 0",
            f"supports_websockets = {str(websockets).lower()}",
        )  # fmt: skip
        return {"codex/config.toml": "\n".join(rows)}

    return files


def _opencode(package: str) -> Callable[[str, str], Files]:
    def files(base: str, model: str) -> Files:
        options = {"baseURL": f"{base}/v1", "apiKey": "none"}
        models = {model: {"name": model, "tool_call": True, "limit": {"context": 200_000, "output": 8000}}}
        made: dict[str, Any] = {
            "provider": {"gateway": {"npm": package, "name": "gateway", "options": options, "models": models}},
            "model": f"gateway/{model}", "permission": {"bash": "allow"}, "share": "disabled", "autoupdate": False,
        }  # fmt: skip
        return {"work/opencode.json": json.dumps(made)}

    return files


_CODEX = (
    "codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json", "-C", "{work}",
    "{prompt}",
)  # fmt: skip
_CODEX_ENV = {"CODEX_HOME": "{home}/codex", "GATEWAY_KEY": "none"}
_CLAUDE = (
    "claude", "-p", "{prompt}", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash",
    "--permission-mode", "bypassPermissions",
)  # fmt: skip
_CLAUDE_ENV = {
    "ANTHROPIC_BASE_URL": "{base}", "ANTHROPIC_API_KEY": "none", "ANTHROPIC_MODEL": "{model}",
    "ANTHROPIC_SMALL_FAST_MODEL": "{model}", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CONFIG_DIR": "{home}/claude", "IS_SANDBOX": "1",
}  # fmt: skip
_OPENCODE = ("opencode", "run", "--format", "json", "{prompt}")
_OPENCODE_ENV = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}

_COPILOT = ("copilot", "-p", "{prompt}", "--allow-all-tools", "--no-color")


def _copilot(kind: str, base: str = "{base}/v1", wire: str = "") -> dict[str, str]:
    return {
        "COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_BASE_URL": base, "COPILOT_PROVIDER_TYPE": kind,
        "COPILOT_PROVIDER_API_KEY": "none", "COPILOT_MODEL": "{model}", "COPILOT_PROVIDER_WIRE_API": wire,
    }  # fmt: skip


def _gemini(_base: str, _model: str) -> Files:
    auth = {"selectedType": "gemini-api-key"}
    quiet = {"usageStatisticsEnabled": False}
    return {".gemini/settings.json": json.dumps({"security": {"auth": auth}, "privacy": quiet})}


def _continue(provider: str) -> Callable[[str, str], Files]:
    def files(base: str, model: str) -> Files:
        row = {"name": "gateway", "provider": provider, "model": model, "apiBase": f"{base}/v1", "apiKey": "none",
               "roles": ["chat"], "capabilities": ["tool_use"]}  # fmt: skip
        # JSON is YAML.
        return {"config.yaml": json.dumps({"name": "gateway", "version": "1.0.0", "schema": "v1", "models": [row]})}

    return files


_CONTINUE = ("cn", "-p", "{prompt}", "--config", "{home}/config.yaml", "--auto")

AGENTS: dict[str, Agent] = {
    "Codex, SSE": Agent(_CODEX, _CODEX_ENV, _codex(websockets=False), "POST /v1/responses"),
    "Codex, WebSocket": Agent(
        _CODEX, _CODEX_ENV, _codex(websockets=True), "WEBSOCKET /v1/responses", never="POST /v1/responses"
    ),
    "Claude Code": Agent(_CLAUDE, _CLAUDE_ENV, asks="POST /v1/messages"),
    "Claude Code, broken stream": Agent(_CLAUDE, _CLAUDE_ENV, asks="POST /v1/messages", breaks=1),
    "opencode, Chat": Agent(_OPENCODE, _OPENCODE_ENV, _opencode("@ai-sdk/openai-compatible")),
    "opencode, Messages": Agent(_OPENCODE, _OPENCODE_ENV, _opencode("@ai-sdk/anthropic"), "POST /v1/messages"),
    "opencode, Responses": Agent(_OPENCODE, _OPENCODE_ENV, _opencode("@ai-sdk/openai"), "POST /v1/responses"),
    "Qwen Code": Agent(
        ("qwen", "--auth-type", "openai", "-y", "-p", "{prompt}"),
        {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": "{base}/v1", "OPENAI_MODEL": "{model}"},
    ),
    "Continue, Chat": Agent(_CONTINUE, {}, _continue("openai")),
    "Continue, Messages": Agent(_CONTINUE, {}, _continue("anthropic"), "POST /v1/messages"),
    "Copilot CLI, Chat": Agent(_COPILOT, _copilot("openai")),
    "Copilot CLI, Messages": Agent(_COPILOT, _copilot("anthropic", "{base}"), asks="POST /v1/messages"),
    "Copilot CLI, Responses": Agent(_COPILOT, _copilot("openai", wire="responses"), asks="POST /v1/responses"),
    "Gemini CLI": Agent(
        ("gemini", "-y", "-m", "{model}", "-p", "{prompt}"),
        {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{base}", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        _gemini, "POST /v1beta/models/",
    ),
}  # fmt: skip
