"""The folder of everything that penstock keeps. It has its own module: a client needs it, and no database."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def data_folder(env: Mapping[str, str] | None = None) -> Path:
    """Returns the data folder: PENSTOCK_DATA, or the system's folder for application data. It need not exist."""
    env = os.environ if env is None else env
    if env.get("PENSTOCK_DATA"):
        return Path(env["PENSTOCK_DATA"]).expanduser()
    if sys.platform == "win32":
        return Path(env.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "penstock"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "penstock"
    return Path(env.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "penstock"
