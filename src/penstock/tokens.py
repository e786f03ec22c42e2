"""Token counting: `HybridTokenEstimator`, with msgspec as its only dependency.

docs/tokens.md shows how to use it, what it counts, and how accurate it was on recorded requests.
"""

from penstock._store.tokens import TokenStore, default_path
from penstock._tokens import Breakdown, BreakdownLine, Estimate, warning
from penstock._tokens.bpe import counters
from penstock._tokens.conversation import FitResult, RemovedMessage
from penstock._tokens.estimate import HybridTokenEstimator
from penstock._tokens.families import Factor, Factors

__all__ = [
    "Breakdown",
    "BreakdownLine",
    "Estimate",
    "Factor",
    "Factors",
    "FitResult",
    "HybridTokenEstimator",
    "RemovedMessage",
    "TokenStore",
    "counters",
    "default_path",
    "warning",
]
