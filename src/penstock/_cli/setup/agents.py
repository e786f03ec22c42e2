"""The agents that `penstock setup` knows: the files, variables and command that point each one at a gateway.

The names of settings are those of the versions in docs/agents.md, read from the programs or their documentation.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TypeAlias

from penstock._cli.setup.agent_plan import KEY_VARIABLE, Agent, AgentPlan, GatewayAddress, shell_variables
from penstock._cli.setup.config_files import FileEdit

_CLAUDE_OUTPUT = 32_000  # what Claude Code asks for by itself
_GEMINI_WINDOW = 1_048_576  # what Gemini CLI assumes for every model that it does not know
Values: TypeAlias = dict[str, Any]


def _known(**values: int) -> Values:
    """The limits that are known."""
    return {name: value for name, value in values.items() if value}


# ── Claude Code ───────────────────────────────────────────────────────────────────────────────────


def _claude_env(at: GatewayAddress) -> dict[str, str]:
    """https://code.claude.com/docs/en/env-vars. Without the window it assumes 1 million tokens for unknown names."""
    short = at.output if at.output < _CLAUDE_OUTPUT else 0
    limits = _known(CLAUDE_CODE_MAX_CONTEXT_TOKENS=at.context, CLAUDE_CODE_MAX_OUTPUT_TOKENS=short)
    return {
        "ANTHROPIC_BASE_URL": at.base,
        "ANTHROPIC_AUTH_TOKEN": at.key,
        "ANTHROPIC_MODEL": at.model,
        "ANTHROPIC_SMALL_FAST_MODEL": at.small,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": at.small,
        **{name: str(value) for name, value in limits.items()},
    }


def _claude(at: GatewayAddress) -> AgentPlan:
    more = {"ANTHROPIC_DEFAULT_SONNET_MODEL": at.model, "ANTHROPIC_DEFAULT_OPUS_MODEL": at.model}
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    path = at.folder("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"
    notes = ("ANTHROPIC_SMALL_FAST_MODEL is what versions before ANTHROPIC_DEFAULT_HAIKU_MODEL read.",)
    return AgentPlan("claude", (FileEdit(path, "json", {"env": {**_claude_env(at), **more, **quiet}}),), notes=notes)


# ── Codex ─────────────────────────────────────────────────────────────────────────────────────────


def _codex_provider(at: GatewayAddress) -> Values:
    key = {"env_key": KEY_VARIABLE} if at.keyed else {}
    return {"name": "penstock", "base_url": at.v1, **key, "wire_api": "responses"}


def _codex(at: GatewayAddress) -> AgentPlan:
    """https://developers.openai.com/codex/config-reference"""
    path = at.folder("CODEX_HOME", ".codex") / "config.toml"
    values = {
        "model": at.model,
        "model_provider": "penstock",
        **_known(model_context_window=at.context),
        "model_providers": {"penstock": _codex_provider(at)},
    }
    env = {KEY_VARIABLE: at.key} if at.keyed else {}
    notes = (
        "Codex has no second, smaller model.",
        "supports_websockets = true in [model_providers.penstock] uses a WebSocket.",
    )
    return AgentPlan("codex", (FileEdit(path, "toml", values),), env, notes=notes)


def _codex_hint(at: GatewayAddress) -> str:
    table = ", ".join(f'{name}="{value}"' for name, value in _codex_provider(at).items())
    window = f" -c model_context_window={at.context}" if at.context else ""
    key = f"{KEY_VARIABLE}={at.key} " if at.keyed else ""
    return f"{key}codex -m {at.model} -c model_provider=penstock{window} -c 'model_providers.penstock={{{table}}}'"


# ── opencode ──────────────────────────────────────────────────────────────────────────────────────


def _opencode(at: GatewayAddress) -> AgentPlan:
    """https://opencode.ai/docs/providers: `limit` needs both numbers."""
    folder = at.folder("XDG_CONFIG_HOME", ".config") / "opencode"
    path = next(
        (one for one in (folder / "opencode.json", folder / "opencode.jsonc") if one.is_file()),
        folder / "opencode.json",
    )

    def described(name: str, context: int, output: int) -> Values:
        limit = {"limit": {"context": context, "output": output}} if context and output else {}
        return {"name": name, "tool_call": True, **limit}

    models = {
        at.small: described(at.small, at.small_context, at.small_output),
        at.model: described(at.model, at.context, at.output),
    }
    key = f"{{env:{KEY_VARIABLE}}}" if at.keyed else at.key
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "penstock",
        "options": {"baseURL": at.v1, "apiKey": key},
        "models": models,
    }
    values = {
        "provider": {"penstock": provider},
        "model": f"penstock/{at.model}",
        "small_model": f"penstock/{at.small}",
    }
    env = {KEY_VARIABLE: at.key} if at.keyed else {}
    notes = ('"npm" chooses the protocol: @ai-sdk/anthropic is Messages, @ai-sdk/openai is Responses.',)
    return AgentPlan(
        "opencode", (FileEdit(path, "json", values, {"$schema": "https://opencode.ai/config.json"}),), env, notes=notes
    )


# ── Qwen Code ─────────────────────────────────────────────────────────────────────────────────────


def _qwen(at: GatewayAddress) -> AgentPlan:
    """https://qwenlm.github.io/qwen-code-docs/en/users/configuration/model-providers/"""

    def described(name: str, context: int) -> Values:
        limits = {"generationConfig": {"contextWindowSize": context}} if context else {}
        return {"id": name, "name": name, "baseUrl": at.v1, "envKey": KEY_VARIABLE, **limits}

    rows = {at.small: described(at.small, at.small_context), at.model: described(at.model, at.context)}
    values = {
        "modelProviders": {"openai": list(rows.values())},
        "env": {KEY_VARIABLE: at.key},
        "security": {"auth": {"selectedType": "openai"}},
        "model": {"name": at.model},
        "fastModel": at.small,
    }
    return AgentPlan("qwen", (FileEdit(at.home / ".qwen" / "settings.json", "json", values),))


def _qwen_hint(at: GatewayAddress) -> str:
    env = {"OPENAI_BASE_URL": at.v1, "OPENAI_API_KEY": at.key, "OPENAI_MODEL": at.model}
    return f"{shell_variables(env)} qwen --auth-type openai"


# ── Gemini CLI ────────────────────────────────────────────────────────────────────────────────────


def _gemini(at: GatewayAddress) -> AgentPlan:
    """https://github.com/google-gemini/gemini-cli/blob/main/docs/reference/configuration.md

    Its window of unknown models is fixed; the share at which it compresses is not (by default a half). Variables alone
    do not do: with GOOGLE_GEMINI_BASE_URL it chooses the way `gateway`, and refuses it.
    """
    share = (
        {"compressionThreshold": round(at.context / 2 / _GEMINI_WINDOW, 4)} if 0 < at.context < _GEMINI_WINDOW else {}
    )
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "model": {"name": at.model, **share}}
    env = {"GEMINI_API_KEY": at.key, "GOOGLE_GEMINI_BASE_URL": at.base}
    folder = at.home / ".gemini"
    notes = (
        'Side tasks ask for models by their own names: an alias "gemini-*" in penstock.toml answers them.',
        "compressionThreshold is a share of 1,048,576 tokens, which Gemini CLI assumes for every unknown model.",
    )
    return AgentPlan(
        "gemini",
        (FileEdit(folder / "settings.json", "json", settings), FileEdit(folder / ".env", "env", env)),
        notes=notes,
    )


# ── Copilot CLI ───────────────────────────────────────────────────────────────────────────────────


def _copilot_env(at: GatewayAddress) -> dict[str, str]:
    """`copilot help providers`"""
    limits = _known(
        COPILOT_PROVIDER_MAX_PROMPT_TOKENS=max(at.context - at.output, at.context // 2),
        COPILOT_PROVIDER_MAX_OUTPUT_TOKENS=at.output,
    )
    return {
        "COPILOT_PROVIDER_BASE_URL": at.v1,
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": at.key,
        "COPILOT_MODEL": at.model,
        "COPILOT_OFFLINE": "true",
        **{name: str(value) for name, value in limits.items()},
    }


def _copilot(at: GatewayAddress) -> AgentPlan:
    notes = (
        "Copilot CLI reads its provider from variables only: put the lines into your shell's profile.",
        "COPILOT_PROVIDER_WIRE_API=responses uses Responses; COPILOT_PROVIDER_TYPE=anthropic Messages, without /v1.",
    )
    return AgentPlan("copilot", env=_copilot_env(at), notes=notes)


def _copilot_hint(at: GatewayAddress) -> str:
    return f"{shell_variables(_copilot_env(at))} copilot"


# ── Cline, Goose, Continue ────────────────────────────────────────────────────────────────────────


def _cline(at: GatewayAddress) -> AgentPlan:
    command = f"cline auth -p openai -k {at.key} -m {at.model} -b {at.v1}"
    notes = ("Cline keeps its providers in a store of its own, which this command writes.",)
    return AgentPlan("cline", commands=(command,), notes=notes)


def _goose_env(at: GatewayAddress) -> dict[str, str]:
    """https://block.github.io/goose/docs/guides/environment-variables"""
    limits = {name: str(value) for name, value in _known(GOOSE_CONTEXT_LIMIT=at.context).items()}
    return {"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": at.model, "OPENAI_HOST": at.base, **limits}


def _goose(at: GatewayAddress) -> AgentPlan:
    windows = sys.platform == "win32"
    folder = (
        Path(at.env.get("APPDATA") or at.home) / "Block" / "goose" / "config"
        if windows
        else at.folder("XDG_CONFIG_HOME", ".config") / "goose"
    )
    values: Values = {**_goose_env(at), "OPENAI_BASE_PATH": "v1/chat/completions"}
    values |= _known(GOOSE_CONTEXT_LIMIT=at.context)
    notes = (
        "Goose keeps keys in the system's keyring, so the key is a variable here.",
        f'Goose asks gpt-4o-mini for titles: [aliases] "gpt-4o-mini" = "{at.small}" in penstock.toml answers it.',
    )
    return AgentPlan(
        "goose session", (FileEdit(folder / "config.yaml", "yaml", values),), {"OPENAI_API_KEY": at.key}, notes=notes
    )


def _goose_hint(at: GatewayAddress) -> str:
    return f"{shell_variables(_goose_env(at))} OPENAI_API_KEY={at.key} goose session"


def _continue(at: GatewayAddress) -> AgentPlan:
    """https://docs.continue.dev/reference: name, version and schema are required."""

    def described(name: str, model: str, roles: list[str], context: int) -> Values:
        limits = _known(contextLength=context)
        options = {"defaultCompletionOptions": limits} if limits else {}
        return {
            "name": name,
            "provider": "openai",
            "model": model,
            "apiBase": at.v1,
            "apiKey": at.key,
            "roles": roles,
            "capabilities": ["tool_use"],
            **options,
        }

    rows = [described("penstock", at.model, ["chat", "edit", "apply"], at.context)]
    if at.small != at.model:
        rows.append(described("penstock small", at.small, ["chat", "summarize"], at.small_context))
    path = at.folder("CONTINUE_GLOBAL_DIR", ".continue") / "config.yaml"
    defaults = {"name": "penstock", "version": "1.0.0", "schema": "v1"}
    notes = ("provider: anthropic speaks Messages.",)
    return AgentPlan("cn", (FileEdit(path, "yaml", {"models": rows}, defaults),), notes=notes)


# ── aider, llm, pi ────────────────────────────────────────────────────────────────────────────────


def _aider(at: GatewayAddress) -> AgentPlan:
    """https://aider.chat/docs/llms/openai-compat.html, https://aider.chat/docs/config/adv-model-settings.html"""
    values = {
        "model": f"openai/{at.model}",
        "weak-model": f"openai/{at.small}",
        "openai-api-base": at.v1,
        "openai-api-key": at.key,
    }
    files = [FileEdit(at.home / ".aider.conf.yml", "yaml", values)]
    if at.context:
        prompt = max(at.context - at.output, at.context // 2)
        limits = {"max_input_tokens": prompt, **_known(max_tokens=at.output, max_output_tokens=at.output)}
        facts = {f"openai/{at.model}": {**limits, "litellm_provider": "openai", "mode": "chat"}}
        files.append(FileEdit(at.home / ".aider.model.metadata.json", "json", facts))
    return AgentPlan("aider", tuple(files))


def _aider_hint(at: GatewayAddress) -> str:
    models = f"--model openai/{at.model} --weak-model openai/{at.small}"
    return f"aider --openai-api-base {at.v1} --openai-api-key {at.key} {models}"


def _llm(at: GatewayAddress) -> AgentPlan:
    """https://llm.datasette.io/en/stable/other-models.html#openai-compatible-models"""
    folder = _click_folder(at, "io.datasette.llm") if not at.env.get("LLM_USER_PATH") else Path(at.env["LLM_USER_PATH"])

    def described(name: str, model: str) -> Values:
        return {
            "model_id": name,
            "model_name": model,
            "api_base": at.v1,
            "api_key_name": "penstock",
            "supports_tools": True,
        }

    rows = [described("penstock", at.model)]
    if at.small != at.model:
        rows.append(described("penstock-small", at.small))
    files = (
        FileEdit(folder / "extra-openai-models.yaml", "yaml", rows),
        FileEdit(folder / "keys.json", "json", {"penstock": at.key}),
    )
    return AgentPlan("llm -m penstock", files, notes=("llm keeps no context window: it sends what it is given.",))


def _click_folder(at: GatewayAddress, name: str) -> Path:
    """Where click's `get_app_dir` puts it."""
    if sys.platform == "win32":
        return Path(at.env.get("APPDATA") or at.home) / name
    if sys.platform == "darwin":
        return at.home / "Library" / "Application Support" / name
    return at.folder("XDG_CONFIG_HOME", ".config") / name


def _pi(at: GatewayAddress) -> AgentPlan:
    """https://github.com/badlogic/pi-mono/blob/main/packages/coding-agent/docs/models.md"""

    def described(name: str, context: int, output: int) -> Values:
        return {"id": name, "name": name, **_known(contextWindow=context, maxTokens=output)}

    rows = {
        at.small: described(at.small, at.small_context, at.small_output),
        at.model: described(at.model, at.context, at.output),
    }
    provider = {"baseUrl": at.v1, "api": "openai-completions", "apiKey": at.key, "models": list(rows.values())}
    folder = at.folder("PI_CODING_AGENT_DIR", ".pi", "agent")
    defaults = {"defaultProvider": "penstock", "defaultModel": at.model}
    files = (
        FileEdit(folder / "models.json", "json", {"providers": {"penstock": provider}}),
        FileEdit(folder / "settings.json", "json", defaults),
    )
    return AgentPlan(
        "pi",
        files,
        notes=('"api" chooses the protocol: anthropic-messages (address without /v1) or openai-responses.',),
    )


AGENTS: dict[str, Agent] = {
    "claude": Agent("Claude Code", "Messages", _claude, lambda at: f"{shell_variables(_claude_env(at))} claude"),
    "codex": Agent("Codex", "Responses", _codex, _codex_hint),
    "opencode": Agent("opencode", "Chat, Messages or Responses", _opencode),
    "qwen": Agent("Qwen Code", "Chat", _qwen, _qwen_hint),
    "gemini": Agent("Gemini CLI", "Gemini", _gemini),
    "copilot": Agent("Copilot CLI", "Chat, Messages or Responses", _copilot, _copilot_hint),
    "cline": Agent("Cline", "Chat", _cline),
    "goose": Agent("Goose", "Chat", _goose, _goose_hint),
    "continue": Agent("Continue", "Chat or Messages", _continue),
    "aider": Agent("aider", "Chat", _aider, _aider_hint),
    "llm": Agent("llm", "Chat", _llm),
    "pi": Agent("pi", "Chat, Messages or Responses", _pi),
}
