"""Builds the URL of a provider's operation: `url(provider, "chat", "gpt-5")`.

The caller passes the settings that fill the templates: by name, and the environment as a mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict, Unpack

import msgspec

from penstock._lazy_patterns import lazy_pattern
from penstock._providers.rebase import rebase_url
from penstock._providers.registry import Endpoint, Provider, Setting
from penstock.errors import InputError

if TYPE_CHECKING:
    import re

_NO_SETTING = Setting()
_FIELD = lazy_pattern(r"\{(\+?)([a-z_]+)\}")
_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~@")
_PATH_SAFE = _SAFE | frozenset(b"/:")
_HOST = lazy_pattern(r"[A-Za-z0-9._-]*")
_SLASHES = lazy_pattern(r"[/\\]")
_MAX_DEPTH = 4  # settings that follow from settings


class AddressOptions(TypedDict, total=False):
    """`stream`: the path for streams. `base_url`: instead of the provider's. `settings`, `env`: values of templates."""

    stream: bool
    base_url: str
    settings: Mapping[str, str] | None
    env: Mapping[str, str] | None


def url(provider: Provider, operation: str, model: str = "", **options: Unpack[AddressOptions]) -> str:
    """Returns the URL of an operation."""
    endpoint = provider.endpoint(operation, model)
    if endpoint is None:
        known = ", ".join(provider.endpoints) or "nothing"
        raise InputError(f"{provider.name} has no {operation}; it has: {known}")
    return endpoint_url(provider, endpoint, model, **options)


def endpoint_url(provider: Provider, endpoint: Endpoint, model: str = "", **options: Unpack[AddressOptions]) -> str:
    """Returns the URL of an endpoint."""
    template = _Template(provider, model, options.get("settings"), options.get("env"))
    path = (options.get("stream") and endpoint.stream) or endpoint.path
    if path.startswith("https://"):
        return template.fill_address(path)
    base = template.fill_address(base_url_of(provider, endpoint, options.get("base_url", ""))).rstrip("/")
    if endpoint.root:
        base = base.removesuffix("/v1")
    return base + template.fill(path, quoted=True)


def base_url_of(provider: Provider, endpoint: Endpoint, base_url: str = "") -> str:
    """Returns the template of an endpoint's base URL. `base_url`: in place of the provider's."""
    if base_url and endpoint.base_url:
        return rebase_url(endpoint.base_url, provider.base_url, base_url)
    return base_url or endpoint.base_url or provider.base_url


def fill_template(
    provider: Provider,
    text: str,
    model: str = "",
    *,
    settings: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Fills the settings into a text of a provider's row, such as the value of a header."""
    return _Template(provider, model, settings, env).fill(text) if "{" in text else text


class _Template(msgspec.Struct, frozen=True):
    """The values for the templates of one provider."""

    provider: Provider
    model: str
    settings: Mapping[str, str] | None
    env: Mapping[str, str] | None

    def fill(self, text: str, *, quoted: bool = False, depth: int = 0) -> str:
        """Fills in every field. `quoted`: the text is behind the host."""

        def replace_field(field: re.Match[str]) -> str:
            value = self._field_value(field[2], depth)
            return quote(_check_segments(value), _PATH_SAFE if field[1] else _SAFE) if quoted else value

        return _FIELD.sub(replace_field, text) if "{" in text else text

    def fill_address(self, text: str) -> str:
        """Fills in a base URL. Settings may be part of its host or all of it; the model's name is always quoted."""
        model = quote(_check_segments(self._model_id())) if "{model}" in text or "{+model}" in text else ""
        return self.fill(text.replace("{model}", model).replace("{+model}", model))

    def _field_value(self, name: str, depth: int) -> str:
        if name == "model":
            return self._model_id()
        row = self.provider.settings.get(name, _NO_SETTING)
        env: Mapping[str, str] = {} if self.env is None else self.env
        if value := (self.settings or {}).get(name) or next((env[one] for one in row.env if env.get(one)), ""):
            return _check_setting(self.provider.name, name, value)
        case = row.cases.get(self._field_value(row.of, depth + 1)) if row.of else None
        if case is not None:
            return self.fill(case, depth=depth + 1)
        if not row.default or depth > _MAX_DEPTH:
            variables = f" or {' or '.join(row.env)} in the environment" if row.env else ""
            about = f" ({row.about})" if row.about else ""
            raise InputError(f"{self.provider.name} needs the setting {name!r}{about}: give it{variables}")
        return self.fill(row.default, depth=depth + 1)

    def _model_id(self) -> str:
        """Returns the model's id as the provider has it."""
        prefix = next((prefix for prefix in self.provider.strip if self.model.startswith(prefix)), "")
        return self.model[len(prefix) :]


def _check_segments(value: str) -> str:
    """Refuses `.` and `..`, which servers resolve, also behind an encoded slash."""
    if not {".", ".."}.isdisjoint(_SLASHES.split(value)):
        raise InputError(f"model: {value[:80]!r} cannot be part of an address: '.' and '..' are not allowed in it")
    return value


def quote(text: str, safe: frozenset[int] = _SAFE) -> str:
    """Percent-encodes a text; here, because the core imports no network library."""
    return "".join(chr(byte) if byte in safe else f"%{byte:02X}" for byte in text.encode("utf-8", "replace"))


def _check_setting(provider: str, name: str, value: str) -> str:
    """Refuses a setting that would change the host or the path. Only a setting `…_url` may be a whole base URL."""
    if name.endswith("_url"):
        return ("" if "://" in value else "https://") + value.rstrip("/")
    if _HOST.fullmatch(value):
        return value
    raise InputError(f"{provider}: the setting {name!r} may hold letters, digits, '.', '_' and '-', not {value!r}")
