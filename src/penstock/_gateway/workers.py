"""Several worker processes behind one address: `penstock serve --workers N`.

The parent binds the socket, forks the workers and serves nothing itself. It has no threads, so a fork is safe at any
time. A worker that ends by itself is replaced. Parent and worker talk over two pipes:

- orders: the parent writes one byte (stop, stop at once, reload). The end of the pipe means that the parent is gone,
  and the worker stops too.
- reports: the worker writes one byte (it listens; it has reloaded, or has not), or why it cannot serve.

A signal that reaches all processes, such as Ctrl-C or systemd's, therefore counts only once.
"""

from __future__ import annotations

import logging
import os
import selectors
import shutil
import signal
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock._gateway.worker_metrics import WorkerFolder
from penstock.errors import InputError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

STOP, FORCE, RELOAD, RELOAD_LOUDLY = b"s", b"f", b"h", b"H"  # orders; one worker logs problems of a configuration
READY, READY_KEYED, RELOADED, NOT_RELOADED, FAILED = b"0", b"1", b"r", b"x", b"e"  # reports; a text follows the last
MAX_REPORT = 4096  # bytes
STOP_GRACE = 15.0  # seconds after `serve.drain` until a worker that has not ended is killed
FORCE_GRACE = 5.0  # the same after a second signal
MIN_LIFETIME = 5.0  # seconds: a worker that ends sooner is replaced after a delay
FIRST_DELAY, MAX_DELAY = 0.5, 30.0  # seconds before a replacement; doubled each time
_HANDLED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD")
log = logging.getLogger("penstock.workers")


@dataclass
class WorkerLink:
    """What a worker knows of its parent."""

    number: int  # counts all workers of this gateway, replacements included
    orders: int  # the pipe it reads
    reports: int  # the pipe it writes
    folder: Path  # of files that workers share

    def report(self, what: bytes) -> None:
        with suppress(OSError):  # the parent is gone: the end of `orders` says so
            os.write(self.reports, what)


@dataclass
class _Worker:
    number: int
    pid: int
    orders: int
    reports: int
    started: float
    ready: bool = False

    def send(self, order: bytes) -> None:
        with suppress(OSError):
            os.write(self.orders, order)


class WorkerCallbacks(Protocol):
    """What the supervisor asks of the command."""

    def run_worker(self, link: WorkerLink) -> int:
        """Serve in this process until an order ends it."""
        ...

    def on_ready(self, *, keyed: bool) -> None:
        """All workers listen. `keyed`: callers need a gateway key."""
        ...

    def check_reload(self) -> bool:
        """Read the configuration again. Returns False, and has logged why, if it is invalid."""
        ...

    def should_stop(self) -> bool:
        """Return whether SIGHUP means that the terminal was closed."""
        ...


@dataclass
class Supervisor:
    """Keeps `count` workers running. `drain`: seconds that answers have to end after a signal."""

    count: int
    drain: float
    callbacks: WorkerCallbacks
    close_socket: Callable[[], None]
    _workers: dict[int, _Worker] = field(default_factory=dict[int, _Worker])  # by process id
    _due: list[float] = field(default_factory=list[float])  # when replacements start
    _number: int = 0
    _delay: float = FIRST_DELAY
    _stopping: int = 0  # the signal that stops it
    _kill_at: float = float("inf")
    _announced: bool = False
    _reloads: list[bytes] = field(default_factory=list[bytes])
    _error: str = ""  # why a worker could not start

    def run(self) -> int:
        """Run until a signal ends it. Returns the exit code."""
        if not hasattr(os, "fork"):
            raise InputError("--workers needs a system that can fork; this one cannot: start several gateways instead")
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-workers-"))
        self._shared = WorkerFolder(self._folder)
        self._shared.mark_start()
        self._selector = selectors.DefaultSelector()
        try:
            with self._signals() as self._wake:
                self._selector.register(self._wake, selectors.EVENT_READ)
                self._due = [0.0] * self.count
                while self._workers or not self._stopping:
                    self._start_due()
                    self._wait()
        finally:
            self._selector.close()
            for worker in self._workers.values():  # only after an error of our own
                os.kill(worker.pid, signal.SIGKILL)
            shutil.rmtree(self._folder, ignore_errors=True)
        return self._end()

    def _end(self) -> int:
        """End as a single process does: by the signal that stopped it."""
        if self._error:
            raise InputError(self._error)
        if self._stopping in {signal.SIGTERM, signal.SIGINT}:
            signal.raise_signal(self._stopping)
        return 0

    # ── processes ─────────────────────────────────────────────────────────────────────────────────

    def _start_due(self) -> None:
        now = time.monotonic()
        due = [at for at in self._due if at <= now]
        self._due = [at for at in self._due if at > now]
        for _ in due:
            self._start()

    def _start(self) -> None:
        self._number += 1
        (orders_out, orders_in), (reports_out, reports_in) = os.pipe(), os.pipe()
        handled = {getattr(signal, name) for name in _HANDLED}
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, handled)  # the child must not run the parent's handlers
        pid = os.fork()
        if pid == 0:
            self._become_worker(WorkerLink(self._number, orders_out, reports_in, self._folder), orders_in, reports_out)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)
        os.close(orders_out)
        os.close(reports_in)
        os.set_blocking(reports_out, False)
        worker = self._workers[pid] = _Worker(self._number, pid, orders_in, reports_out, time.monotonic())
        self._selector.register(reports_out, selectors.EVENT_READ, worker)
        log.debug("worker %d runs as process %d", worker.number, pid)

    def _become_worker(self, link: WorkerLink, *unused: int) -> None:
        """Continue as a worker. Never returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for name in _HANDLED:
                signal.signal(getattr(signal, name), signal.SIG_DFL)
            others = [fd for worker in self._workers.values() for fd in (worker.orders, worker.reports)]
            self._selector.close()
            for fd in (*unused, *others, self._wake):
                os.close(fd)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {getattr(signal, name) for name in _HANDLED})
            code = self.callbacks.run_worker(link)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        except (PenstockError, OSError) as error:
            link.report(FAILED + str(error).encode()[: MAX_REPORT - 1])
        except Exception:
            log.exception("worker %d failed", link.number)
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)  # the parent's stack must not be unwound here

    def _reap(self) -> None:
        for worker in list(self._workers.values()):
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if pid:
                self._forget(worker)
                self._on_end(worker, os.waitstatus_to_exitcode(status))

    def _forget(self, worker: _Worker) -> None:
        self._read_reports(worker)
        self._selector.unregister(worker.reports)
        os.close(worker.orders)
        os.close(worker.reports)
        del self._workers[worker.pid]
        self._shared.end_worker(worker.number, restarted=not self._stopping)

    def _on_end(self, worker: _Worker, code: int) -> None:
        if self._stopping:
            return
        why = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        if not self._announced:
            self._error = self._error or f"a worker {why} before it could serve; its log says why"
            self._stop(signal.SIGTERM)
            return
        lived = time.monotonic() - worker.started
        self._delay = FIRST_DELAY if lived >= MIN_LIFETIME else min(self._delay * 2, MAX_DELAY)
        wait = 0.0 if lived >= MIN_LIFETIME or worker.ready else self._delay
        log.error("worker %d (process %d) %s: another is started", worker.number, worker.pid, why)
        self._due.append(time.monotonic() + wait)

    # ── events ────────────────────────────────────────────────────────────────────────────────────

    def _wait(self) -> None:
        """Wait for a signal, a report or a time, and handle it."""
        due = min([self._kill_at, *self._due])
        for key, _ in self._selector.select(max(due - time.monotonic(), 0.0) if due != float("inf") else None):
            if key.data is None:
                for number in os.read(self._wake, 1024):
                    self._on_signal(number)
            else:
                self._read_reports(key.data)
        self._reap()
        if time.monotonic() >= self._kill_at:
            self._kill_at = float("inf")
            for worker in self._workers.values():
                log.error("worker %d (process %d) did not stop in time, and is killed", worker.number, worker.pid)
                os.kill(worker.pid, signal.SIGKILL)

    def _on_signal(self, number: int) -> None:
        if number == getattr(signal, "SIGHUP", 0):
            if self.callbacks.should_stop():
                self._stop(number)
            elif self.callbacks.check_reload():
                self._reloads.clear()
                for first, worker in zip((True, *[False] * len(self._workers)), self._workers.values(), strict=False):
                    worker.send(RELOAD_LOUDLY if first else RELOAD)
        elif number in {signal.SIGINT, signal.SIGTERM}:
            self._stop(number)

    def _stop(self, number: int) -> None:
        """Let all workers finish their answers; at the second signal end them."""
        again, self._stopping = self._stopping, self._stopping or number
        self._due.clear()
        self.close_socket()
        for worker in self._workers.values():
            worker.send(FORCE if again else STOP)
        self._kill_at = time.monotonic() + (FORCE_GRACE if again else self.drain + STOP_GRACE)

    def _read_reports(self, worker: _Worker) -> None:
        try:
            data = os.read(worker.reports, MAX_REPORT)
        except BlockingIOError:
            return
        reports, _, failure = data.partition(FAILED)
        for report in (bytes([one]) for one in reports):
            if report in {READY, READY_KEYED}:
                self._on_worker_ready(worker, keyed=report == READY_KEYED)
            else:
                self._on_reload_report(report)
        if failure and not self._announced:
            self._error = self._error or failure.decode("utf-8", "replace")
        elif failure:
            log.error("worker %d could not serve: %s", worker.number, failure.decode("utf-8", "replace"))

    def _on_worker_ready(self, worker: _Worker, *, keyed: bool) -> None:
        worker.ready = True
        if not self._announced and sum(one.ready for one in self._workers.values()) == self.count:
            self._announced = True
            self.callbacks.on_ready(keyed=keyed)

    def _on_reload_report(self, report: bytes) -> None:
        self._reloads.append(report)
        if len(self._reloads) == len(self._workers):
            done = self._reloads.count(RELOADED)
            log.warning("the configuration was reloaded by %d of %d workers", done, len(self._reloads))

    @contextmanager
    def _signals(self) -> Generator[int]:
        """Write the number of each signal to a pipe. Yields the end to read."""
        out, into = os.pipe()
        os.set_blocking(out, False)
        os.set_blocking(into, False)

        def handler(number: int, _frame: object) -> None:
            with suppress(BlockingIOError):
                os.write(into, bytes([number]))

        before = {name: signal.signal(getattr(signal, name), handler) for name in _HANDLED}
        try:
            yield out
        finally:
            for name, old in before.items():
                signal.signal(getattr(signal, name), old)
            os.close(out)
            os.close(into)
