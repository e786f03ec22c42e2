"""A warning before a request that comes near a model's limit. Estimates are no reason to refuse anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.diagnostics import Diagnostic

if TYPE_CHECKING:
    from penstock.tokens.estimate import Estimate

NEAR = 0.9
"""From this share of the limit on it is said."""


def warning(estimate: Estimate, limit: int) -> Diagnostic | None:
    """None while there is room, or no limit is known."""
    if limit <= 0 or estimate.tokens < NEAR * limit:
        return None
    share = f"{estimate.tokens:,} of {limit:,} tokens ({estimate.tokens / limit:.0%}; {estimate.method}"
    share += ")" if estimate.method == "actual" else f", {estimate.low:,} to {estimate.high:,})"
    if estimate.tokens > limit:
        return Diagnostic("over-limit", f"the prompt is probably too long: {share}; drop or shorten messages", "tokens")
    return Diagnostic("near-limit", f"the prompt comes near the limit: {share}", "tokens")
