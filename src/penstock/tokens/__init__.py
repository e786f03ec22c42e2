"""How many tokens something is: `HybridTokenEstimator`, with msgspec as its only dependency.

docs/tokens.md shows how to use it, what it counts, and how far off it was on recorded requests.
"""

from penstock.tokens.estimate import Breakdown, Estimate, HybridTokenEstimator, Line, warning
from penstock.tokens.families import Factor, Factors

__all__ = ["Breakdown", "Estimate", "Factor", "Factors", "HybridTokenEstimator", "Line", "warning"]
