"""A program in a pseudo-terminal: keys are typed, and the screen is read until a text appears."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LIMIT = 20.0  # seconds; nothing here takes one
UP, LEFT, CTRL_C, CTRL_D, TAB, ENTER = b"\x1b[A", b"\x1b[D", b"\x03", b"\x04", b"\t", b"\r"
_CODES = re.compile(rb"\x1b(?:\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[=>()][AB0]?)")


class Terminal:
    """Starts a program. Use it in a `with` block: the program is ended there."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], folder: Any = None) -> None:
        self.screen = b""
        self._read_to = 0
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:  # the child
            try:
                if folder is not None:
                    os.chdir(folder)
                os.execvpe(command[0], list(command), dict(env))  # noqa: S606
            finally:
                os._exit(127)
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))

    def type(self, keys: bytes | str) -> None:
        os.write(self._descriptor, keys.encode() if isinstance(keys, str) else keys)

    def wait_for(self, text: str, *, since: int | None = None) -> str:
        """Read until the text appears after what was waited for last. Gives the screen up to there, without codes."""
        start = self._read_to if since is None else since
        ends = time.monotonic() + LIMIT
        while True:
            plain = _CODES.sub(b"", self.screen)
            found = plain.find(text.encode(), start)
            if found >= 0:
                self._read_to = found + len(text.encode())
                return plain[start : self._read_to].decode("utf-8", "replace")
            assert time.monotonic() < ends, f"{text!r} did not appear: {plain[start:]!r}"
            assert self._read(ends - time.monotonic()), f"it ended before {text!r} appeared: {plain[start:]!r}"

    def interrupt(self) -> None:
        """Press Ctrl-C once the program waits for keys. Python sees an earlier one only with the next key."""
        state, ends = Path(f"/proc/{self.pid}/task/{self.pid}/stat"), time.monotonic() + LIMIT
        while state.exists() and state.read_text().rpartition(") ")[2][0] != "S":
            assert time.monotonic() < ends, "it never waits for keys"
            time.sleep(0.002)
        self.type(CTRL_C)

    def wait(self) -> int:
        """Read to the end. Gives the exit code."""
        while self._read(LIMIT):
            pass
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.pid = 0
        return code

    def _read(self, seconds: float) -> bytes:
        ready, _, _ = select.select([self._descriptor], [], [], max(seconds, 0.01))
        assert ready, f"nothing came for {LIMIT:g} s: {self.screen[-500:]!r}"
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:  # the other side is closed
            data = b""
        self.screen += data
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._descriptor)
