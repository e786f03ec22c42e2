"""Several gateways that record to one folder: no recording replaces another."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from penstock._gateway.recordings import Recorder
from penstock._store.recordings import SUFFIX
from penstock.testing import RecordingHeader, read_recording

if TYPE_CHECKING:
    from pathlib import Path


def test_recordings_of_the_same_second_are_all_there(tmp_path: Path) -> None:
    recorders = [Recorder({"path": str(tmp_path)}) for _ in range(3)]  # each counts from one
    for place, recorder in enumerate(recorders):
        session = recorder.begin(RecordingHeader(id=str(place), time=1.0, provider="p", model="m"), b"{}")
        assert session is not None
        session.add_chunk(b"data")
        session.close()
        recorder.close()
    assert sorted(read_recording(path).header.id for path in tmp_path.glob(f"*{SUFFIX}")) == ["0", "1", "2"]
    assert not list(tmp_path.glob("*.part"))


def test_recordings_from_the_future_go_first(tmp_path: Path) -> None:
    """The clock was set back after they were written: new recordings must not be deleted for them."""
    recorder = Recorder({"path": str(tmp_path), "total": 3_000})
    for number in range(6):
        session = recorder.begin(RecordingHeader(id=str(number), time=1.0, provider="p", model="m"), b"{}")
        assert session is not None
        session.add_chunk(b"x" * 700)
        session.close()
        if number == 2:
            recorder.close()
            for path in tmp_path.glob(f"*{SUFFIX}"):
                os.utime(path, (time.time() + 1e9,) * 2)
    recorder.close()
    left = {read_recording(path).header.id for path in tmp_path.glob(f"*{SUFFIX}")}
    assert {"3", "4", "5"} >= left >= {"4", "5"}
