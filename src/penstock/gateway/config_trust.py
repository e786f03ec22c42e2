"""Which settings of a `penstock.toml` that was merely found in the current folder are obeyed, and which need trust.

A cloned repository may hold such a file. Settings that decide where keys and texts go, who may connect or where data is
written are refused until `penstock trust` has been told about this very content. Every setting that is not listed in
`HARMLESS` is of that kind, so a new one is refused until somebody has thought about it.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.errors import InputError
from penstock.gateway.toml_locations import Place
from penstock.store import provider_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STORE = "trusted.json"
SHOWN = 8  # settings that a message names
ANY = "*"  # a name that the user chooses: an alias, a model, a provider
HARMLESS: frozenset[tuple[str, ...]] = frozenset(
    tuple(path.split("."))
    for path in (
        # Names for models and the order in which they are tried. Who they mean is decided by `providers`.
        "aliases.*", "fallbacks.*", "providers.*.models", "providers.*.engine", "engine", "retries",
        "providers.*.models.*.name", "providers.*.models.*.context", "providers.*.models.*.max_input",
        "providers.*.models.*.max_output", "providers.*.models.*.vision", "providers.*.models.*.tools",
        "providers.*.models.*.thinking", "providers.*.models.*.prices.input", "providers.*.models.*.prices.output",
        "providers.*.models.*.prices.cached", "providers.*.models.*.prices.written",
        "breaker.failures", "breaker.first", "breaker.cool", "breaker.share", "breaker.reserve",
        # Times and sizes of this process.
        "options.timeouts.connect", "options.timeouts.first_byte", "options.timeouts.between_bytes",
        "options.timeouts.total", "options.timeouts.retry_wait", "providers.*.options.timeouts.retry_wait",
        "providers.*.options.timeouts.connect", "providers.*.options.timeouts.first_byte",
        "providers.*.options.timeouts.between_bytes", "providers.*.options.timeouts.total",
        "serve.port", "serve.pace", "serve.body", "serve.body_total", "serve.headers", "serve.read",
        "serve.idle", "serve.ping", "serve.write", "serve.drain", "serve.streams", "serve.websocket_bytes",
        "serve.websocket_total", "serve.websocket_age",
        "limits.requests", "limits.tokens", "limits.concurrent", "limits.day_requests", "limits.day_tokens",
        "limits.day_cost",
        "features.prompt_caching", "features.context_management", "features.strict", "features.estimates",
        "features.fast_path",
        "features.max_input", "features.assumed_context", "log.blocked", "log.level", "log.form",
    )
)  # fmt: skip


def sensitive_settings(raw: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The settings of a parsed file that need trust, in the order in which they stand."""
    return [path for path in _settings(raw) if not harmless(path)]


def harmless(path: tuple[str, ...]) -> bool:
    """Whether a setting may stand in a file that nobody has looked at."""
    return any(len(path) == len(known) and _matches(path, known) for known in HARMLESS)


def _matches(path: tuple[str, ...], known: tuple[str, ...]) -> bool:
    return all(name in {one, ANY} for one, name in zip(path, known, strict=True))


def _settings(raw: Mapping[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in raw.items():
        path = (*before, name)
        if isinstance(value, dict) and value:
            yield from _settings(value, path)  # pyright: ignore[reportUnknownArgumentType]
        elif not isinstance(value, dict):
            yield path


def check_trust(raw: Mapping[str, Any], data: bytes, path: Path, store: TrustStore) -> None:
    """Raise unless a file that was found, not named, needs no trust or has it. `raw` was parsed from `data`."""
    found = sensitive_settings(raw)
    if not found or store.trusts(path, data):
        return
    place = Place(data.decode("utf-8"), path)
    named = [f"line {place.line(keys)}: {'.'.join(keys)}" for keys in found[:SHOWN]]
    more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    raise InputError(
        f"{path} in this folder is not trusted, and has settings that decide where keys, texts or data go, or who may "
        f"connect ({'; '.join(named)}{more}). Read it; then `penstock trust` trusts it as it is now, and "
        f"`--config {path}` uses it once"
    )


class Trusted(msgspec.Struct, frozen=True, omit_defaults=True):
    """A content of a file that is trusted."""

    path: str
    sha256: str
    time: str = ""


class TrustStore:
    """The contents that the user trusts, in a file that only its owner can read, and that is changed under a lock.

    A file is known by its place and by its content: a changed file is not trusted, nor is a copy in another folder.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / STORE

    def read(self) -> list[Trusted]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        try:
            return msgspec.json.decode(data, type=list[Trusted])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: {error}; delete it, and trust your files again") from None

    def trusts(self, path: Path, data: bytes) -> bool:
        """Whether this content of this file is trusted."""
        place, hashed = placed(path), content_hash(data)
        return any(one.path == place and one.sha256 == hashed for one in self.read())

    def add(self, path: Path, data: bytes) -> None:
        """Trust a content."""
        fresh = Trusted(placed(path), content_hash(data), time.strftime("%Y-%m-%d", time.gmtime()))
        with provider_keys.locked(self.path):
            kept = [one for one in self.read() if (one.path, one.sha256) != (fresh.path, fresh.sha256)]
            self._write([*kept, fresh])

    def remove(self, path: Path) -> int:
        """Trust no content of a file any more; gives how many there were."""
        place = placed(path)
        with provider_keys.locked(self.path):
            rows = self.read()
            kept = [one for one in rows if one.path != place]
            self._write(kept)
        return len(rows) - len(kept)

    def _write(self, rows: list[Trusted]) -> None:
        provider_keys.replace(self.path, msgspec.json.format(msgspec.json.encode(rows)) + b"\n")


def content_hash(data: bytes) -> str:
    """What a content is known by."""
    return hashlib.sha256(data).hexdigest()


def placed(path: Path) -> str:
    """The place of a file: its real folder, and its name there. A link to a trusted file is another file."""
    return str(Path(os.path.realpath(path.parent)) / path.name)
