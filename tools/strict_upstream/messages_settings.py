"""Messages requests: rules for tools, thinking and sampling settings, by model."""

from __future__ import annotations

import re
from typing import Any

from tools.strict_upstream import refusal
from tools.strict_upstream.conversation import Tool
from tools.strict_upstream.model_facts import claude_thinking

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")
_LEAST_BUDGET = 1024


def read_tools(body: dict[str, Any]) -> list[Tool]:
    """The client's own tools; those that the vendor runs have a `type` and no schema."""
    made: list[Tool] = []
    names: list[str] = []
    for at, tool in enumerate(body.get("tools") or []):
        name = tool.get("name", "")
        names.append(name)
        if tool.get("type", "custom") not in (None, "custom"):
            continue
        if not _NAME.match(name):
            raise refusal.anthropic(f"tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if tool["input_schema"].get("type") != "object":
            raise refusal.anthropic(f"tools.{at}.custom.input_schema.type: Field required")
        made.append(Tool(name, tool["input_schema"]))
    if len(set(names)) < len(names):
        raise refusal.anthropic("tools: Tool names must be unique.")
    if body.get("tool_choice") and not names:
        raise refusal.anthropic("tool_choice: tool_choice may only be specified while providing tools")
    return made


def check_settings(body: dict[str, Any]) -> None:
    """The form of thinking, the budget, and sampling."""
    form = claude_thinking(body["model"])
    thinking = body.get("thinking") or {}
    kind = thinking.get("type", "disabled")
    if kind == "enabled" and form == "adaptive":
        text = (
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
            '"output_config.effort" to control thinking behavior.'
        )
        raise refusal.anthropic(text)
    if kind == "enabled" and form == "none":
        raise refusal.anthropic(f"thinking: '{body['model']}' does not support thinking.")
    if kind == "adaptive" and form in ("none", "budget"):
        raise refusal.anthropic("adaptive thinking is not supported on this model")
    if (body.get("output_config") or {}).get("effort") and form == "none":
        raise refusal.anthropic("This model does not support the effort parameter.")
    if kind == "enabled":
        _check_budget(body, thinking)
    _check_sampling(body, form, thinks=kind != "disabled")


def _check_budget(body: dict[str, Any], thinking: dict[str, Any]) -> None:
    if thinking["budget_tokens"] < _LEAST_BUDGET:
        text = f"thinking.enabled.budget_tokens: Input should be greater than or equal to {_LEAST_BUDGET}"
        raise refusal.anthropic(text)
    if body["max_tokens"] <= thinking["budget_tokens"]:
        text = (
            "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at "
            "https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size"
        )
        raise refusal.anthropic(text)


def _check_sampling(body: dict[str, Any], form: str, *, thinks: bool) -> None:
    given = [name for name in ("temperature", "top_p", "top_k") if body.get(name) is not None]
    other = [name for name in given if body[name] != 1 or name == "top_k"]  # 1 is the default
    if form == "adaptive" and other:
        raise refusal.anthropic(f"`{other[0]}` is not supported on this model.")
    if "temperature" in given and "top_p" in given and form in ("budget", "both"):
        text = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        raise refusal.anthropic(text)
    if thinks and body.get("temperature") not in (None, 1):
        raise refusal.anthropic("`temperature` may only be set to 1 when thinking is enabled.")
    if thinks and (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        raise refusal.anthropic("Thinking may not be enabled when tool_choice forces tool use.")
