"""How long a thread pauses between its work, so that it takes little time from the rest of the gateway."""

from __future__ import annotations

import time

IDLE_SHARE, BUSY_SHARE = 0.2, 0.02  # of the time that the thread may use
BUSY = 0.4  # of a core that the rest of the gateway uses: then it is busy
MAX_PAUSE = 5.0  # seconds between two looks at how busy the gateway is


class CpuUse:
    """Measures how much of a core the other threads of this process use."""

    def __init__(self) -> None:
        self._last = self._read()

    @staticmethod
    def _read() -> tuple[float, float]:
        return time.monotonic(), time.process_time() - time.thread_time()

    def measure(self) -> float:
        """Returns the share of a core since the last measurement."""
        (then, used_then), (now, used_now) = self._last, self._read()
        self._last = (now, used_now)
        return (used_now - used_then) / max(now - then, 1e-6)


class WorkPace:
    """How long to pause after work, so that it takes its share of the time only."""

    def __init__(self, others: CpuUse) -> None:
        self.used: float = 0.0  # seconds of work without a pause yet
        self._others = others

    def next_pause(self) -> float:
        """Returns the seconds to pause before the next look; 0 if there were pauses enough."""
        share = BUSY_SHARE if self._others.measure() > BUSY else IDLE_SHARE
        rest = 1 / share - 1
        pause = min(self.used * rest, MAX_PAUSE)
        self.used = self.used - pause / rest if pause == MAX_PAUSE else 0.0
        return pause
