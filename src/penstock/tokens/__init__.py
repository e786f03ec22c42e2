"""Token counting: `HybridTokenEstimator`, with msgspec as its only dependency.

docs/tokens.md shows how to use it, what it counts, and how accurate it was on recorded requests.
"""

from penstock.tokens.estimate import Breakdown, BreakdownLine, Estimate, HybridTokenEstimator, warning
from penstock.tokens.families import Factor, Factors

__all__ = ["Breakdown", "BreakdownLine", "Estimate", "Factor", "Factors", "HybridTokenEstimator", "warning"]
