"""Start-up and operation: reports configuration problems, preloads modules, reloads, watches the event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from penstock._engines import model_resolution as resolution
from penstock._engines.config_problems import ConfigProblem, find_problems
from penstock._gateway.config import GatewayConfig, load_config
from penstock._gateway.keys import open_key_store
from penstock._gateway.request_body import build_types
from penstock._gateway.toml_locations import TomlLocations
from penstock._protocols import MODULES, request_module
from penstock._providers.models import model
from penstock._providers.registry import providers
from penstock._replay import describe_scripts
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path
    from types import FrameType

    from penstock._engines.config import Config
    from penstock._store.key_records import Key

log = logging.getLogger("penstock.gateway")
_NATIVE = ("aiohttp", "penstock._engines.native")
_REPLAY = "penstock._engines.replay"


def preload(config: Config, env: Mapping[str, str], protocols: Iterable[str]) -> None:
    """Import modules before the first request. Not in a thread: msgspec may crash if two threads build a type."""
    for name in modules_to_preload(config, env, protocols):
        try:
            import_module(name)
        except Exception as error:  # noqa: BLE001 — the code that needs the module reports the error
            log.debug("%s could not be imported at start-up: %s", name, error)
    build_types()
    _ = model("openai", "gpt-5").thinking  # reads the tables of models, which takes 0.2 s


def modules_to_preload(config: Config, env: Mapping[str, str], protocols: Iterable[str]) -> Iterator[str]:
    """Yield the modules of client protocols and of configured providers."""
    rows = resolution.list_configured_providers(config, env)
    if any(row.engine == "native" for row in rows):
        yield from _NATIVE
    yield _REPLAY
    spoken = set(protocols)
    for row in rows:
        endpoints = [*row.endpoints.values(), *(special.endpoint for special in row.special)]
        spoken.add(row.protocol)
        spoken.update(name for endpoint in endpoints for name in (endpoint.protocol, endpoint.answer))
    names = {name for name in (one.partition("@")[0] for one in spoken) if name in MODULES}
    for name in sorted(names):
        yield f"penstock._protocols.{MODULES[name]}"
        yield from filter(None, (request_module(name, direction) for direction in ("read", "write")))


log_reload = logging.getLogger("penstock.reload")


@dataclass(eq=False)
class Reloader:
    """Reloads the configuration file. Running requests keep theirs. `overrides` applies the command line.

    `quiet`: another process logs that it was reloaded.
    """

    path: Path | None
    env: Mapping[str, str]
    apply: Callable[[GatewayConfig], None]
    overrides: Callable[[GatewayConfig], GatewayConfig] = lambda config: config
    count: int = 0  # reloads that took effect
    quiet: bool = False
    on_error: Callable[[str], object] = lambda _: None

    def load(self) -> GatewayConfig | Exception:
        """Read the file. Returns the error if it is invalid."""
        try:
            return self.overrides(load_config(self.path, self.env))
        except (PenstockError, OSError) as error:
            return error

    def reload(self) -> bool:
        """Reload now. Returns False and keeps the old configuration if the file is invalid."""
        return self.use(self.load())

    def use(self, config: GatewayConfig | Exception) -> bool:
        """Apply what `load` returned. Returns False and keeps the old configuration if it is not valid."""
        try:
            if isinstance(config, Exception):
                raise config
            self.apply(config)
        except (PenstockError, OSError) as error:
            log_reload.error("the configuration was not reloaded, the old one stays: %s", error)  # noqa: TRY400
            self.on_error(str(error))
            return False
        self.count += 1
        level = logging.DEBUG if self.quiet else logging.WARNING
        log_reload.log(level, "the configuration was reloaded from %s", config.path or "nowhere: there is no file")
        return True

    def reload_on_signal(self, on_signal: Callable[[], object] | None = None) -> bool:
        """Reload, or call `on_signal`, on SIGHUP. Returns False if the system has no SIGHUP."""
        number = getattr(signal, "SIGHUP", None)
        if number is None:
            return False
        try:
            asyncio.get_running_loop().add_signal_handler(number, on_signal or self.reload)
        except (NotImplementedError, RuntimeError, ValueError):
            return False
        return True


log_watchdog = logging.getLogger("penstock.watchdog")
BEATS_PER_LIMIT = 5  # of the timer
MAX_STACK_FRAMES = 12  # of a logged stack
LOG_INTERVAL = 10.0  # seconds between two log lines
LONG_BLOCK = 5.0  # seconds after which a block is logged while it lasts
_LOOP_MODULES = ("asyncio.", "selectors.", "uvloop")  # of a loop that waits


class _Beat(NamedTuple):
    """When the timer of a loop ran, and how its thread had spent its time until then, in seconds."""

    time: float
    used: float  # of a processor
    starved: float  # ready to run, and without a processor; Linux tells, elsewhere it is 0


class LoopWatchdog:
    """Logs when the event loop is blocked, for how long, and by what. `limit`: seconds; 0 turns it off.

    A timer of the loop writes the time, and a thread checks it. If it is too old, the thread takes the stack of the
    loop's thread: names and line numbers, no values. This also works for C code that holds the interpreter lock,
    because the thread runs next when the lock is released.

    Time in which the machine ran other programs, or none at all, is no block: nothing in this process can be changed
    about it.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self.blocks = 0
        self.seconds = 0.0  # that the loop was blocked in total
        self._last = _Beat(0.0, 0.0, 0.0)  # of the timer
        self._clock = _ThreadClock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None
        self._watched = 0  # the id of the loop's thread
        self._stopped = threading.Event()
        self._logged = -LOG_INTERVAL
        self._unlogged = 0

    def start(self) -> None:
        """Watch the running loop."""
        if self._limit <= 0 or self._thread is not None:
            return
        self._loop, self._watched = asyncio.get_running_loop(), threading.get_ident()
        self._stopped.clear()
        self._clock.open()
        self._beat()
        self._thread = threading.Thread(target=self._watch, name="penstock-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            self._thread.join(1.0)
            self._thread = None
        self._clock.close()

    def _beat(self) -> None:
        self._last = self._clock.beat()
        if self._loop is not None:
            self._timer = self._loop.call_later(self._limit / BEATS_PER_LIMIT, self._beat)

    # ── in the watchdog's thread ──────────────────────────────────────────────────────────────────

    def _watch(self) -> None:
        while True:
            now = time.monotonic()
            due = max(self._last.time + self._limit, now + self._limit / BEATS_PER_LIMIT)
            if self._stopped.wait(due - now):
                return
            last = self._last
            if (now := time.monotonic()) - last.time > self._limit:
                self._log_block(last, now - due)

    def _log_block(self, since: _Beat, late: float) -> None:
        """Wait until the loop runs again, and log the block. `late`: seconds by which this was noticed too late."""
        stack, logged = _format_thread_stack(self._watched), False
        while self._last is since and not self._stopped.wait(self._limit / BEATS_PER_LIMIT):
            if not logged and time.monotonic() - since.time > LONG_BLOCK:
                self._log(time.monotonic() - since.time, "still is", stack)
                logged = True
        last = self._last
        seconds = (last.time if last is not since else time.monotonic()) - since.time
        if last is not since and self._was_starved(since, last, late, stack):
            log_watchdog.info("the event loop did not run for %.2f s: the machine was busy", seconds)
            return
        self.blocks += 1
        self.seconds += seconds
        self._log(seconds, "", stack)

    def _was_starved(self, since: _Beat, last: _Beat, late: float, stack: str) -> bool:
        """True if it was the machine that kept the loop from running, and nothing that the loop called.

        If the loop's thread used no processor, and this thread was late as well or the loop had called nothing, the
        whole process was stopped or starved.
        """
        if last.time - since.time - (last.starved - since.starved) < self._limit:
            return True
        idle = last.used - since.used < self._limit / 2
        return idle and (late > self._limit / 2 or stack.startswith(_LOOP_MODULES))

    def _log(self, seconds: float, still: str, stack: str) -> None:
        now = time.monotonic()
        if now - self._logged < LOG_INTERVAL:
            self._unlogged += 1
            return
        also = f" ({self._unlogged} more times since the last such line)" if self._unlogged else ""
        self._logged, self._unlogged = now, 0
        what = f"the event loop was blocked for {seconds:.2f} s{f' and {still}' if still else ''}{also}"
        log_watchdog.warning("%s: every request waited. It ran %s", what, stack)


class _ThreadClock:
    """Tells how a thread has spent its time."""

    def __init__(self) -> None:
        self._file = -1

    def open(self) -> None:
        """Look at the thread that calls."""
        self.close()
        with suppress(OSError):
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def beat(self) -> _Beat:
        """Return the times of now, in the thread that is looked at."""
        starved = 0.0
        if self._file >= 0:
            with suppress(OSError, IndexError, ValueError):
                starved = int(os.pread(self._file, 100, 0).split()[1]) / 1e9  # the second of three numbers
        return _Beat(time.monotonic(), time.thread_time(), starved)


def _format_thread_stack(thread: int) -> str:
    """Format the stack of a thread, the innermost function first."""
    frame: FrameType | None = sys._current_frames().get(thread)  # noqa: SLF001 — documented, in spite of its name  # pyright: ignore[reportPrivateUsage]
    lines: list[str] = []
    while frame is not None and len(lines) < MAX_STACK_FRAMES:
        lines.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(lines) or "something that has ended"


log_config = logging.getLogger("penstock.config")


def report_problems(config: GatewayConfig, env: Mapping[str, str]) -> list[str]:
    """Return one line for each problem of a configuration: file, line, setting, problem, fix."""
    found, locations = _locate_problems(config, env)
    return [*(_format_problem(problem, locations) for problem in found), *_stored_key_problems(config, env)]


def list_config_problems(config: GatewayConfig, env: Mapping[str, str]) -> list[tuple[ConfigProblem, int]]:
    """Return the same problems, each with its line in the file; 0 if it is not in the file."""
    found, locations = _locate_problems(config, env)
    rows = [(problem, locations.line_number(problem.keys) if locations is not None else 0) for problem in found]
    return [*rows, *((ConfigProblem((), words), 0) for words in _stored_key_problems(config, env))]


def _locate_problems(config: GatewayConfig, env: Mapping[str, str]) -> tuple[list[ConfigProblem], TomlLocations | None]:
    found, path = [*find_problems(config.engine, env, forward=config.forward), *_key_problems(config, env)], config.path
    return found, TomlLocations(path.read_text(encoding="utf-8"), path) if found and path is not None else None


def log_problems(config: GatewayConfig, env: Mapping[str, str]) -> None:
    """Log the problems of a configuration. The gateway serves what works."""
    for line in report_problems(config, env):
        log_config.warning("%s", line)


def _format_problem(problem: ConfigProblem, place: TomlLocations | None) -> str:
    if not problem.keys:
        return f"environment: {problem.message}"
    if place is None:
        return f"{'.'.join(problem.keys)}: {problem.message}"
    return place.format_message(problem.keys, problem.message)


def _key_problems(config: GatewayConfig, env: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Yield configured keys whose variable is not set, or that match no model."""
    for name, key in config.keys.items():
        if key.env and not env.get(key.env):
            yield ConfigProblem(("keys", name, "env"), f"{key.env} is not set: it must hold the key")
        for reason in _useless_patterns(key, config, env):
            yield ConfigProblem(("keys", name, "models"), reason)


def _stored_key_problems(config: GatewayConfig, env: Mapping[str, str]) -> Iterator[str]:
    """Yield the same problems of keys in the key store."""
    store = open_key_store(config, env)
    if store is None:
        return
    try:
        for name, key in store.read().keys.items():
            for reason in _useless_patterns(key, config, env):
                yield f"{store.location}: the key {name!r}: {reason}"
    finally:
        store.close()


def _useless_patterns(key: Key, config: GatewayConfig, env: Mapping[str, str]) -> Iterator[str]:
    if "*" in key.models:
        return
    names = list(_model_names(config, env))
    for pattern in key.models:
        if not _pattern_matches(pattern, names, config, env):
            yield f"{pattern!r} matches no alias, and no model of a configured provider: it allows nothing"


def _pattern_matches(pattern: str, names: list[str], config: GatewayConfig, env: Mapping[str, str]) -> bool:
    """Return whether a key's pattern matches anything. It may name unlisted models of a configured provider."""
    who, slash, _ = pattern.partition("/")
    if slash and any(fnmatchcase(name, who) for name in _provider_names(config, env)):
        return True
    if resolution.best_pattern(pattern.replace(resolution.WILDCARD, ""), list(config.engine.aliases)):
        return True  # an alias pattern for the same names
    return any(fnmatchcase(name, pattern) for name in names)


def _provider_names(config: GatewayConfig, env: Mapping[str, str]) -> Iterator[str]:
    if config.forward:
        yield from providers()  # callers send their own keys
    for row in resolution.list_configured_providers(config.engine, env):
        yield row.name
        yield from row.names
    yield resolution.REPLAY


def _model_names(config: GatewayConfig, env: Mapping[str, str]) -> Iterator[str]:
    """Yield the known model names that a client can use."""
    yield from config.engine.aliases
    for row in resolution.list_configured_providers(config.engine, env):
        for name in resolution.list_known_models(row, config.engine):
            yield name
            yield f"{row.name}/{name}"
    yield from (f"{resolution.REPLAY}/{name}" for name in describe_scripts())
