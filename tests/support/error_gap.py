"""The pause of a gateway between the last text of a Gemini stream and the bare error behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._http import response_writer

if TYPE_CHECKING:
    import pytest


def set_error_gap(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(response_writer, "ERROR_GAP", seconds)
