"""Token counting: `HybridTokenEstimator`, with msgspec as its only dependency."""
