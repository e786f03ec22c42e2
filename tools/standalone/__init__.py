"""Builds the self-contained gateway: a folder with `penstock`, a Python and all packages that it needs."""
