"""What the vendors' models accept, by name. A name that no rule knows has no rules of its own.

https://docs.claude.com/en/docs/build-with-claude/adaptive-thinking
https://docs.claude.com/en/docs/about-claude/models/whats-new-claude-4-7
https://platform.openai.com/docs/guides/reasoning
https://ai.google.dev/gemini-api/docs/thinking
"""

from __future__ import annotations

import re
from typing import Literal

ThinkingForm = Literal["", "none", "budget", "both", "adaptive"]
_CLAUDE: tuple[tuple[str, ThinkingForm], ...] = (
    (r"claude-3-[05]|claude-3-(haiku|opus|sonnet)", "none"),
    (r"claude-(3-7-sonnet|(opus|sonnet)-4-[015]\b|(opus|sonnet)-4-2025|haiku-4-5)", "budget"),
    (r"claude-(opus|sonnet)-4-6", "both"),
    (r"claude-(opus|sonnet|haiku|fable|mythos)-(4-[789]|[5-9])", "adaptive"),
)
_REASONING = re.compile(r"(o[134](-|$)|gpt-5(?!.*chat))")
_PLAIN = re.compile(r"(gpt-4|gpt-3|chatgpt|gpt-5.*chat)")
DEFAULT_MODELS = {
    "chat": "gpt-4.1", "responses": "gpt-5.4", "messages": "claude-opus-4-7", "gemini": "gemini-3.1-pro-preview",
}  # fmt: skip


def claude_thinking(model: str) -> ThinkingForm:
    """How a Claude model is told to think."""
    return next((form for pattern, form in _CLAUDE if re.match(pattern, model)), "")


def claude_refuses_prefill(model: str) -> bool:
    """Claude 4.6 and later want a user message at the end."""
    return claude_thinking(model) in ("both", "adaptive")


def openai_reasons(model: str) -> bool | None:
    """Whether an OpenAI model reasons; None for an unknown name."""
    if _REASONING.match(model):
        return True
    return False if _PLAIN.match(model) else None


def openai_samples(model: str, effort: str | None) -> bool:
    """From GPT-5.1 on, sampling settings are taken where the effort is `none`, which is the default.

    https://platform.openai.com/docs/guides/latest-model
    """
    return bool(re.match(r"gpt-5\.[1-9]", model)) and effort in (None, "none")


def gemini_generation(model: str) -> int:
    """2 for gemini-2.5-pro, 3 for gemini-3.1-pro-preview, 0 if unknown."""
    found = re.match(r"gemini-(\d)", model)
    return int(found[1]) if found else 0


def gemini_refuses_prefill(model: str) -> bool:
    """Gemini 3.6 Flash, 3.5 Flash-Lite and later want a user message at the end; earlier ones continue the model's.

    https://ai.google.dev/gemini-api/docs/generate-content/whats-new-gemini-3.6
    """
    found = re.match(r"gemini-(\d+)(?:\.(\d+))?", model)
    version = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
    return version >= (3, 6) or model.startswith("gemini-3.5-flash-lite")
