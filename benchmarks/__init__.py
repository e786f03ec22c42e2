"""What penstock costs, measured beside others in one run: `python -m benchmarks`. docs/performance.md says how."""
