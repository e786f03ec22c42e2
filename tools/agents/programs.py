"""The agents: what each is started with, and the files that point it at a server. Data, and nothing that runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.strict_upstream.conversation import Protocol

Files: TypeAlias = dict[str, str]  # path below the agent's home → content


def _no_files(_base: str, _model: str) -> Files:
    return {}


@dataclass(frozen=True)
class Agent:
    """One agent in one setting. `{base}`, `{model}`, `{home}`, `{work}` and `{prompt}` are filled in."""

    package: str  # on npm
    protocol: Protocol
    command: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    files: Callable[[str, str], Files] = _no_files
    asks: str = "POST /v1/chat/completions"  # how it must ask
    never: str = ""  # how it must not ask
    setup: tuple[str, ...] = ()  # a command that runs first
    loses_output: bool = False  # its shell tool gives an empty output now and then, and the model asks again
    full: bool = False  # all scenarios before all upstreams
    foreign: Protocol = "messages"  # the upstream for the scenarios that run before one only


_ANTHROPIC, _RESPONSES = "POST /v1/messages", "POST /v1/responses"


def _codex(*, websockets: bool) -> Callable[[str, str], Files]:
    def files(base: str, model: str) -> Files:
        rows = (
            f'model = "{model}"', 'model_provider = "gateway"', "[analytics]", "enabled = false", "[feedback]",
            "enabled = false", "[model_providers.gateway]", 'name = "gateway"', f'base_url = "{base}/v1"',
            'env_key = "GATEWAY_KEY"', 'wire_api = "responses"', "request_max_retries = 2", "stream_max_retries = 2",
            f"supports_websockets = {str(websockets).lower()}",
        )  # fmt: skip
        return {"codex/config.toml": "\n".join(rows)}

    return files


def _opencode(package: str) -> Callable[[str, str], Files]:
    def files(base: str, model: str) -> Files:
        options = {"baseURL": f"{base}/v1", "apiKey": "none"}
        models = {model: {"name": model, "tool_call": True, "limit": {"context": 200_000, "output": 8000}}}
        config: dict[str, Any] = {
            "provider": {"gateway": {"npm": package, "name": "gateway", "options": options, "models": models}},
            "model": f"gateway/{model}", "permission": {"bash": "allow"}, "share": "disabled", "autoupdate": False,
        }  # fmt: skip
        return {"work/opencode.json": json.dumps(config)}

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
    "CLAUDE_CONFIG_DIR": "{home}/claude", "IS_SANDBOX": "1", "CLAUDE_CODE_MAX_RETRIES": "3",
}  # fmt: skip
_OPENCODE = ("opencode", "run", "--format", "json", "{prompt}")
_OPENCODE_ENV = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
}  # fmt: skip
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
_GOOSE_ENV = {
    "GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "{model}", "OPENAI_HOST": "{base}", "OPENAI_API_KEY": "none",
    "GOOSE_MODE": "auto", "GOOSE_DISABLE_KEYRING": "1", "GOOSE_TELEMETRY_ENABLED": "false",
}  # fmt: skip
_GOOSE = ("goose", "run", "--no-session", "--with-builtin", "developer", "-t", "{prompt}")
_QWEN_ENV = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": "{base}/v1", "OPENAI_MODEL": "{model}"}
_GEMINI_ENV = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{base}", "GEMINI_CLI_TRUST_WORKSPACE": "true"}

AGENTS: dict[str, Agent] = {
    "Claude Code": Agent(
        "@anthropic-ai/claude-code", "messages", _CLAUDE, _CLAUDE_ENV, asks=_ANTHROPIC, full=True, foreign="chat"
    ),
    "Codex, SSE": Agent(
        "@openai/codex", "responses", _CODEX, _CODEX_ENV, _codex(websockets=False), _RESPONSES, full=True
    ),
    "Codex, WebSocket": Agent(
        "@openai/codex", "responses", _CODEX, _CODEX_ENV, _codex(websockets=True), "WEBSOCKET /v1/responses",
        never=_RESPONSES, full=True,
    ),
    "opencode, Chat": Agent("opencode-ai", "chat", _OPENCODE, _OPENCODE_ENV, _opencode("@ai-sdk/openai-compatible")),
    "opencode, Messages": Agent(
        "opencode-ai", "messages", _OPENCODE, _OPENCODE_ENV, _opencode("@ai-sdk/anthropic"), _ANTHROPIC, foreign="chat"
    ),
    "opencode, Responses": Agent(
        "opencode-ai", "responses", _OPENCODE, _OPENCODE_ENV, _opencode("@ai-sdk/openai"), _RESPONSES
    ),
    "Qwen Code": Agent(
        "@qwen-code/qwen-code", "chat", ("qwen", "--auth-type", "openai", "-y", "-p", "{prompt}"), _QWEN_ENV,
        loses_output=True,
    ),
    "Gemini CLI": Agent(
        "@google/gemini-cli", "gemini", ("gemini", "-y", "-m", "{model}", "-p", "{prompt}"), _GEMINI_ENV, _gemini,
        "POST /v1beta/models/", foreign="chat",
    ),
    "Copilot CLI, Chat": Agent("@github/copilot", "chat", _COPILOT, _copilot("openai")),
    "Copilot CLI, Messages": Agent(
        "@github/copilot", "messages", _COPILOT, _copilot("anthropic", "{base}"), asks=_ANTHROPIC, foreign="chat"
    ),
    "Copilot CLI, Responses": Agent(
        "@github/copilot", "responses", _COPILOT, _copilot("openai", wire="responses"), asks=_RESPONSES
    ),
    "Cline": Agent(
        "cline", "chat", ("cline", "--json", "{prompt}"),
        setup=("cline", "auth", "-p", "openai", "-k", "none", "-m", "{model}", "-b", "{base}/v1"),
    ),
    "Goose": Agent("@aaif/goose", "chat", _GOOSE, _GOOSE_ENV),
    "Continue, Chat": Agent("@continuedev/cli", "chat", _CONTINUE, {}, _continue("openai")),
    "Continue, Messages": Agent(
        "@continuedev/cli", "messages", _CONTINUE, {}, _continue("anthropic"), _ANTHROPIC, foreign="chat"
    ),
}  # fmt: skip
