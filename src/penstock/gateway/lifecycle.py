"""Imports and reads what requests will need before the first one comes: on the event loop it would hold up all."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
import time
from fnmatch import fnmatchcase
from importlib import import_module
from typing import TYPE_CHECKING

from penstock.engines.config_problems import Problem, find_problems
from penstock.engines.model_resolution import REPLAY, STAR, best_pattern, known, model_names
from penstock.errors import PenstockError
from penstock.gateway.config import GatewayConfig, load
from penstock.gateway.keys import file_of
from penstock.gateway.request_body import build_types
from penstock.gateway.toml_locations import Place
from penstock.protocols import MODULES, request_module
from penstock.providers.models import model
from penstock.providers.registry import providers
from penstock.replay import offered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import FrameType

    from penstock.engines.config import Config
    from penstock.gateway.config import Key

log = logging.getLogger("penstock.gateway")
_NATIVE = ("aiohttp", "penstock.engines.native")
_REPLAY = "penstock.engines.replay"


def preload(config: Config, env: Mapping[str, str], protocols: Iterable[str]) -> None:
    """Import them now. Not in a thread: msgspec may crash if two threads use a type for the first time at once."""
    for name in modules(config, env, protocols):
        try:
            import_module(name)
        except Exception as error:  # noqa: BLE001 — whoever needs the module says what is wrong, and to whom
            log.debug("%s could not be imported at start-up: %s", name, error)
    build_types()
    _load_model_tables()


def _load_model_tables() -> None:
    """Read the facts of models now: it takes a fifth of a second, and the first request needs them."""
    _ = model("openai", "gpt-5").thinking


def modules(config: Config, env: Mapping[str, str], protocols: Iterable[str]) -> Iterator[str]:
    """The modules of every client protocol, and of the providers that are configured."""
    rows = known(config, env)
    if any(row.engine == "native" for row in rows):
        yield from _NATIVE
    yield _REPLAY
    spoken = set(protocols)
    for row in rows:
        places = [*row.endpoints.values(), *(special.endpoint for special in row.special)]
        spoken.update([row.protocol, *(name for place in places for name in (place.protocol, place.answer))])
    names = {name for name in (one.partition("@")[0] for one in spoken) if name in MODULES}
    for name in sorted(names):
        yield f"penstock.protocols.{MODULES[name]}"
        yield from filter(None, (request_module(name, direction) for direction in ("read", "write")))


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Apply = Callable[[GatewayConfig], None]

log_reload = logging.getLogger("penstock.reload")


class Reloader:
    """Reads the file again and hands it to whoever must know. `overrides` puts what the command line said on top."""

    def __init__(
        self, path: Path | None, env: Mapping[str, str], apply: Apply,
        overrides: Callable[[GatewayConfig], GatewayConfig] = lambda config: config,
    ) -> None:  # fmt: skip
        self._path, self._env, self._apply, self._overrides = path, env, apply, overrides
        self.count = 0  # reloads that took effect

    def now(self) -> bool:
        """Reload; False where the file is no good, and the old configuration stays."""
        try:
            config = self._overrides(load(self._path, self._env))
            self._apply(config)
        except (PenstockError, OSError) as error:
            log_reload.error("the configuration was not reloaded, the old one stays: %s", error)  # noqa: TRY400
            return False
        self.count += 1
        log_reload.warning("the configuration was reloaded from %s", config.path or "nowhere: there is no file")
        return True

    def listen(self, on_signal: Callable[[], object] | None = None) -> bool:
        """Reload on SIGHUP, or do what is given; False where the system has none."""
        number = getattr(signal, "SIGHUP", None)
        if number is None:
            return False
        try:
            asyncio.get_running_loop().add_signal_handler(number, on_signal or self.now)
        except (NotImplementedError, RuntimeError, ValueError):
            return False
        return True


log_watchdog = logging.getLogger("penstock.watchdog")
BEATS = 5  # of the timer within the limit
FRAMES = 12  # of a stack that are logged, the innermost first
QUIET = 10.0  # seconds between two lines
LASTING = 5.0  # seconds after which a block is logged before it has ended


class Watchdog:
    """Of one event loop. `limit`: seconds that it may be blocked for; 0 watches nothing."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self.blocks = 0
        self.seconds = 0.0  # that the loop was blocked for, in all
        self._last = 0.0  # when the loop was last seen alive
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None
        self._watched = 0  # the id of the loop's thread
        self._stopped = threading.Event()
        self._logged = -QUIET
        self._unlogged = 0

    def start(self) -> None:
        """Watch the running loop."""
        if self._limit <= 0 or self._thread is not None:
            return
        self._loop, self._watched = asyncio.get_running_loop(), threading.get_ident()
        self._stopped.clear()
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

    def counts(self) -> Mapping[tuple[str, ...], float]:
        """How often the loop was blocked, for the metrics."""
        return {(): float(self.blocks)}

    def _beat(self) -> None:
        self._last = time.monotonic()
        if self._loop is not None:
            self._timer = self._loop.call_later(self._limit / BEATS, self._beat)

    # ── in the watchdog's thread ──────────────────────────────────────────────────────────────────

    def _watch(self) -> None:
        while not self._stopped.wait(max(self._last + self._limit - time.monotonic(), self._limit / BEATS)):
            if time.monotonic() - self._last > self._limit:
                self._blocked(self._last)

    def _blocked(self, since: float) -> None:
        """Wait for the end of a block, and log it."""
        stack, told = _stack(self._watched), False
        while self._last == since and not self._stopped.wait(self._limit / BEATS):
            if not told and time.monotonic() - since > LASTING:
                self._log(time.monotonic() - since, "still is", stack)
                told = True
        seconds = (self._last if self._last != since else time.monotonic()) - since
        self.blocks += 1
        self.seconds += seconds
        self._log(seconds, "", stack)

    def _log(self, seconds: float, still: str, stack: str) -> None:
        now = time.monotonic()
        if now - self._logged < QUIET:
            self._unlogged += 1
            return
        also = f" ({self._unlogged} more times since the last such line)" if self._unlogged else ""
        self._logged, self._unlogged = now, 0
        what = f"the event loop was blocked for {seconds:.2f} s{f' and {still}' if still else ''}{also}"
        log_watchdog.warning("%s: every request waited. It ran %s", what, stack)


def _stack(thread: int) -> str:
    """What a thread runs: the innermost function first."""
    frame: FrameType | None = sys._current_frames().get(thread)  # noqa: SLF001 — documented, in spite of its name  # pyright: ignore[reportPrivateUsage]
    lines: list[str] = []
    while frame is not None and len(lines) < FRAMES:
        lines.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(lines) or "something that has ended"


log_config = logging.getLogger("penstock.config")


def report_problems(config: GatewayConfig, env: Mapping[str, str]) -> list[str]:
    """One line for each problem."""
    found = [*find_problems(config.engine, env, forward=config.forward), *_keys(config, env)]
    place = Place(config.path.read_text(encoding="utf-8"), config.path) if found and config.path is not None else None
    return [*(_format_problem(problem, place) for problem in found), *_stored_keys(config, env)]


def log_problems(config: GatewayConfig, env: Mapping[str, str]) -> None:
    """Warn of them: the gateway serves what does work."""
    for line in report_problems(config, env):
        log_config.warning("%s", line)


def _format_problem(problem: Problem, place: Place | None) -> str:
    if not problem.keys:
        return f"environment: {problem.message}"
    if place is None:
        return f"{'.'.join(problem.keys)}: {problem.message}"
    return place.say(problem.keys, problem.message)


def _keys(config: GatewayConfig, env: Mapping[str, str]) -> Iterator[Problem]:
    """Keys of the configuration whose variable is not set, or that allow nothing."""
    for name, key in config.keys.items():
        if key.env and not env.get(key.env):
            yield Problem(("keys", name, "env"), f"{key.env} is not set: it must hold the key")
        for said in _useless_patterns(key, config, env):
            yield Problem(("keys", name, "models"), said)


def _stored_keys(config: GatewayConfig, env: Mapping[str, str]) -> Iterator[str]:
    """The same for keys that `penstock keys` has made."""
    file = file_of(config)
    for name, key in file.read().items() if file is not None else ():
        for said in _useless_patterns(key, config, env):
            yield f"{file.path if file else ''}: the key {name!r}: {said}"


def _useless_patterns(key: Key, config: GatewayConfig, env: Mapping[str, str]) -> Iterator[str]:
    if "*" in key.models:
        return
    names = list(_askable(config, env))
    for pattern in key.models:
        if not _matches(pattern, names, config, env):
            yield f"{pattern!r} matches no alias, and no model of a configured provider: it allows nothing"


def _matches(pattern: str, names: list[str], config: GatewayConfig, env: Mapping[str, str]) -> bool:
    """Whether a key's pattern allows anything. Of a named provider any model may be asked for, listed or not."""
    who, slash, _ = pattern.partition("/")
    if slash and any(fnmatchcase(name, who) for name in _providers(config, env)):
        return True
    if best_pattern(pattern.replace(STAR, ""), list(config.engine.aliases)):
        return True  # an alias that is a pattern itself, for the same names
    return any(fnmatchcase(name, pattern) for name in names)


def _providers(config: GatewayConfig, env: Mapping[str, str]) -> Iterator[str]:
    if config.forward:
        yield from providers()  # callers bring their keys
    for row in known(config.engine, env):
        yield row.name
        yield from row.names
    yield REPLAY


def _askable(config: GatewayConfig, env: Mapping[str, str]) -> Iterator[str]:
    """Names that a client can ask for, as far as they are known."""
    yield from config.engine.aliases
    for row in known(config.engine, env):
        for name in model_names(row, config.engine):
            yield name
            yield f"{row.name}/{name}"
    yield from (f"{REPLAY}/{name}" for name in offered())
