"""State that outlives the process: reasoning and stored responses, by tenant, bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.gateway.config import GatewayConfig, StateTable
from penstock.gateway.state import State

if TYPE_CHECKING:
    from pathlib import Path


def test_a_restart_keeps_both_kinds_apart(tmp_path: Path) -> None:
    config = GatewayConfig(data=tmp_path)
    first = State.open(config)
    first.reasoning.put("one", {"k": b"signature"})
    first.responses.put("one", {"k": b"response"})
    first.close()
    second = State.open(config)
    assert second.reasoning.get("one", ["k"]) == {"k": b"signature"}
    assert second.responses.get("one", ["k"]) == {"k": b"response"}
    assert second.reasoning.get("two", ["k"]) == {}
    second.close()


def test_one_tenant_cannot_push_the_others_out(tmp_path: Path) -> None:
    state = State.open(GatewayConfig(data=tmp_path, state=StateTable(size=16_000)))
    state.reasoning.put("quiet", {"k": b"x" * 500})
    for number in range(50):
        state.reasoning.put("loud", {str(number): b"x" * 900})
    state.flush()
    assert state.reasoning.get("quiet", ["k"])
    assert len(state.reasoning.get("loud", map(str, range(50)))) == 1
    state.close()


def test_a_folder_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    state = State.open(GatewayConfig(data=tmp_path / "file"))
    state.reasoning.put("t", {"k": b"v"})
    assert state.reasoning.get("t", ["k"]) == {"k": b"v"}
    state.close()
    assert "kept in memory only" in caplog.text
    with pytest.raises(OSError, match="file"):
        State.open(GatewayConfig(state=StateTable(path=str(tmp_path / "file" / "x"))))
