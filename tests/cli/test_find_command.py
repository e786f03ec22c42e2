"""The command that messages tell a person to type."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from penstock._cli.common_options import find_command

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_self_contained_program_is_called_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no `-m`, also where the launcher of the extension runs the package as a module."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "penstock gateway" / "penstock"))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "penstock" / "__main__.py")])
    assert find_command() == f"'{tmp_path}/penstock gateway/penstock'"
