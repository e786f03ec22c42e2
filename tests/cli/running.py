"""Runs the command as a user does: in a process of its own, with nothing of ours in the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def environment(**more: str) -> dict[str, str]:
    ours = {"COLUMNS", "FORCE_COLOR", "NO_COLOR", "PYTHONPATH", "TERM"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "PYTHONPATH": str(PROJECT / "src"), "PYTHONWARNINGS": "error", **more}


def penstock(*words: str, given: bytes = b"", **more: str) -> subprocess.CompletedProcess[bytes]:
    """One run of `penstock` with these words, this input and these variables."""
    command = [sys.executable, "-m", "penstock", *words]
    return subprocess.run(command, input=given, capture_output=True, env=environment(**more), timeout=60, check=False)
