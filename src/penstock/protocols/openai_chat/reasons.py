"""The finish reasons of Chat and its dialects, and which of them are failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.events import Reason

REASONS: dict[str, Reason] = {
    "stop": "stop", "end_turn": "stop", "eos": "stop", "eos_token": "stop", "complete": "stop", "stop_sequence": "stop",
    "length": "length", "max_tokens": "length", "model_length": "length", "max_output_tokens": "length",
    "tool_calls": "calls", "function_call": "calls", "tool_use": "calls", "tool_call": "calls",
    "content_filter": "filter", "safety": "filter", "sensitive": "filter", "recitation": "filter",
    "refusal": "refusal",
}  # fmt: skip
FAILED = frozenset({"error", "network_error", "insufficient_system_resource"})
