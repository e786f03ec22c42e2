"""Token counting: `HybridTokenEstimator`, with msgspec as its only dependency.

docs/tokens.md shows how to use it, what it counts, and how accurate it was on recorded requests.

Examples:
    >>> estimator = HybridTokenEstimator()
    >>> found = estimator.estimate_text("Any model's stream in.", model="claude-sonnet-4-5")
    >>> found.low <= found.tokens <= found.high
    True
    >>> messages = [{"role": "user", "content": "word " * 2000}, {"role": "user", "content": "Hi"}]
    >>> fitted = estimator.fit(messages, 100, model="claude-sonnet-4-5")
    >>> len(fitted.removed)
    1
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
