"""`url(provider, "chat", "gpt-5")`: the address of an operation, its templates filled in.

What fills them is handed in: settings by name, and the environment as a mapping.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock._providers.registry import Endpoint, Provider, Setting
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


_NONE = Setting()
_FIELD = re.compile(r"\{(\+?)([a-z_]+)\}")
_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~@")
_PATH = _SAFE | frozenset(b"/:")
_HOST = re.compile(r"[A-Za-z0-9._-]*")
_SLASHES = re.compile(r"[/\\]")
_DOTS = frozenset({".", ".."})
_DEPTH = 4  # settings that follow from settings


def url(
    provider: Provider,
    operation: str,
    model: str = "",
    *,
    stream: bool = False,
    base_url: str = "",
    settings: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """The address to ask. `base_url` in place of the provider's own."""
    found = provider.endpoint(operation, model)
    if found is None:
        known = ", ".join(provider.endpoints) or "nothing"
        raise InputError(f"{provider.name} has no {operation}; it has: {known}")
    return endpoint_url(provider, found, model, stream=stream, base_url=base_url, settings=settings, env=env)


def endpoint_url(
    provider: Provider,
    endpoint: Endpoint,
    model: str = "",
    *,
    stream: bool = False,
    base_url: str = "",
    settings: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """The same, for an endpoint that was found already."""
    fill = _Filling(provider, model, settings, env)
    path = (stream and endpoint.stream) or endpoint.path
    if path.startswith("https://"):
        return fill.address(path)
    base = fill.address(base_url or endpoint.base_url or provider.base_url).rstrip("/")
    return base + fill.all(path, quoted=True)


def fill_template(
    provider: Provider,
    text: str,
    model: str = "",
    *,
    settings: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Any text of a row with its settings filled in: a header's value, a field of a body."""
    return _Filling(provider, model, settings, env).all(text) if "{" in text else text


class _Filling:
    """One address being filled in."""

    def __init__(
        self, provider: Provider, model: str, settings: Mapping[str, str] | None, env: Mapping[str, str] | None
    ) -> None:
        self._provider = provider
        self._model = model
        self._settings = settings or {}
        self._env: Mapping[str, str] = {} if env is None else env

    def all(self, text: str, *, quoted: bool = False, depth: int = 0) -> str:
        """The text with every field filled; `quoted` for what comes behind the host."""

        def one(found: re.Match[str]) -> str:
            value = self._value(found[2], depth)
            if quoted:
                return quote(_segments(value), _PATH if found[1] else _SAFE)
            return value

        return _FIELD.sub(one, text) if "{" in text else text

    def address(self, text: str) -> str:
        """A whole address. Settings may be part of its host or be all of it; the model's name is always quoted."""
        model = quote(_segments(self._named()), _SAFE) if "{model}" in text or "{+model}" in text else ""
        return self.all(text.replace("{model}", model).replace("{+model}", model))

    def _value(self, name: str, depth: int) -> str:
        if name == "model":
            return self._named()
        row = self._provider.settings.get(name, _NONE)
        said = self._settings.get(name) or next((self._env[one] for one in row.env if self._env.get(one)), "")
        if said:
            return _checked(self._provider.name, name, said)
        follows = row.of and row.cases.get(self._value(row.of, depth + 1))
        if follows is not None and row.of:
            return self.all(follows, depth=depth + 1)
        if not row.default or depth > _DEPTH:
            raise self._missing(name)
        return self.all(row.default, depth=depth + 1)

    def _named(self) -> str:
        """The model's id as the provider has it."""
        for prefix in self._provider.strip:
            if self._model.startswith(prefix):
                return self._model[len(prefix) :]
        return self._model

    def _missing(self, name: str) -> InputError:
        row = self._provider.settings.get(name, _NONE)
        where = f" or {' or '.join(row.env)} in the environment" if row.env else ""
        about = f" ({row.about})" if row.about else ""
        return InputError(f"{self._provider.name} needs the setting {name!r}{about}: give it{where}")


def _segments(value: str) -> str:
    """A name that leads nowhere else in a path: servers resolve `..`, also behind an encoded slash."""
    if not _DOTS.isdisjoint(_SLASHES.split(value)):
        raise InputError(f"model: {value[:80]!r} cannot be part of an address: '.' and '..' are not allowed in it")
    return value


def quote(text: str, safe: frozenset[int] = _SAFE) -> str:
    """Percent-encoding; here, because the core leans on no network library."""
    return "".join(chr(byte) if byte in safe else f"%{byte:02X}" for byte in text.encode("utf-8", "replace"))


def _checked(provider: str, name: str, value: str) -> str:
    """A setting may be a whole base URL; anything else stands in a host or a path, and must not lead elsewhere."""
    if name.endswith("_url"):
        return ("" if "://" in value else "https://") + value.rstrip("/")
    if _HOST.fullmatch(value):
        return value
    raise InputError(f"{provider}: the setting {name!r} may hold letters, digits, '.', '_' and '-', not {value!r}")
