"""Several gateways that record to one folder: no recording replaces another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._gateway.config_tables import RecordTable
from penstock._gateway.recordings import Recorder
from penstock._store.recordings import SUFFIX, RecordingHeader, read_recording

if TYPE_CHECKING:
    from pathlib import Path


def test_recordings_of_the_same_second_are_all_there(tmp_path: Path) -> None:
    recorders = [Recorder(RecordTable(path=str(tmp_path))) for _ in range(3)]  # each counts from one
    for place, recorder in enumerate(recorders):
        session = recorder.begin(RecordingHeader(id=str(place), time=1.0, provider="p", model="m"), b"{}")
        assert session is not None
        session.add_chunk(b"data")
        session.close()
        recorder.close()
    assert sorted(read_recording(path).header.id for path in tmp_path.glob(f"*{SUFFIX}")) == ["0", "1", "2"]
    assert not list(tmp_path.glob("*.part"))
