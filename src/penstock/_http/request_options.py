"""Request options: headers, extra body fields, timeouts, proxy, TLS. Every call may set them; every engine obeys them.

These are plain values. `proxy_and_tls` chooses the proxy of a URL and creates the TLS context.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from penstock._http.header_fields import check_headers, check_key, check_url
from penstock._lenient_fields import as_object
from penstock._redaction import MARK, redact, redact_headers
from penstock.errors import InputError

if TYPE_CHECKING:
    import inspect

_CHOICES = frozenset({"environment", "none"})
_EXPLICIT = "_explicit"


class ExplicitFieldsMeta(msgspec.StructMeta):
    """Records which fields a struct is created with: a field that is set to its default counts as set."""

    if not TYPE_CHECKING:  # type checkers see the normal signature

        def __call__(self, **fields: Any) -> Any:
            return super().__call__(**{_EXPLICIT: frozenset(fields), **fields})

        @property
        def __signature__(self) -> inspect.Signature:
            """The signature that users see: without the record."""
            whole = super().__signature__
            return whole.replace(parameters=[row for row in whole.parameters.values() if row.name != _EXPLICIT])


class ExplicitFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, metaclass=ExplicitFieldsMeta):
    """A struct that knows which of its fields were set."""

    if not TYPE_CHECKING:  # it is no parameter for users
        _explicit: frozenset[str] = frozenset()

    def explicit_names(self) -> frozenset[str]:
        """Returns the names of the fields that were set."""
        names: frozenset[str] = getattr(self, _EXPLICIT)
        return names

    def explicit_values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.explicit_names()}

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name in self.explicit_names())
        return f"{type(self).__name__}({', '.join(shown)})"


class Timeouts(ExplicitFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds. Every wait has a limit: a slow model gets a long one, never none.

    `first_byte` runs from the request to the first byte of the response's body, `between_bytes` between any two later
    bytes; the time that a slow consumer takes is not counted. `retry_wait` limits the sum of the pauses before retries:
    if a provider asks for more, there is no retry.
    """

    connect: float = 10.0
    first_byte: float = 600.0
    between_bytes: float = 300.0
    total: float = 3600.0
    retry_wait: float = 10.0

    def __post_init__(self) -> None:
        for name, value in self.seconds_by_name().items():
            seconds: Any = value
            if type(seconds) not in (int, float) or not 0 < seconds < inf:
                raise InputError(f"timeouts.{name}: expected seconds greater than 0, found {value!r}")

    def over(self, below: Timeouts) -> Timeouts:
        """Returns these timeouts; those that are not set are taken from `below`."""
        return _merge(below, self, self.explicit_values())

    def seconds_by_name(self) -> dict[str, float]:
        """Returns the timeouts by name."""
        return {name: value for name, value in asdict(self).items() if name != _EXPLICIT}


class ClientCertificate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """PEM files. `key` may be empty if the certificate's file holds the key."""

    cert: str
    key: str = ""
    passphrase: str = ""

    def __repr__(self) -> str:
        hidden = MARK if self.passphrase else ""
        return f"ClientCertificate(cert={self.cert!r}, key={self.key!r}, passphrase={hidden!r})"

    def __rich_repr__(self) -> Any:
        yield from (("cert", self.cert), ("key", self.key))


def _check_network(rule: str, where: str) -> None:
    from ipaddress import ip_network  # noqa: PLC0415 — few options name networks

    try:
        ip_network(rule, strict=False)
    except ValueError:
        raise InputError(f"{where}: expected a host or a network such as 10.0.0.0/8, found {rule!r}") from None


class RequestOptions(ExplicitFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a call. An option that is not set comes from the client, then from the default.

    `proxy` is a URL, `environment` (use HTTPS_PROXY and the like) or `none`. `no_proxy` lists hosts, domains, networks
    or `*`. CA bundles are trusted in addition to the system's.
    """

    headers: dict[str, str] = {}
    extra_body: dict[str, Any] = {}
    timeouts: Timeouts = Timeouts()
    proxy: str = "environment"
    no_proxy: tuple[str, ...] = ()
    ca_bundle: tuple[str, ...] = ()
    client_certificate: ClientCertificate | None = None
    verify_ssl: bool = True
    key: str = ""  # replaces the provider's key

    def __post_init__(self) -> None:
        for name, kind in _FIELD_KINDS.items():
            if not isinstance(getattr(self, name), kind):
                raise InputError(f"{name}: expected {_KIND_NAMES[kind]}, found {type(getattr(self, name)).__name__}")
        problem = find_json_problem(self.extra_body) if self.extra_body else ""
        if problem:
            raise InputError(f"extra_body: expected a mapping of JSON values, found {problem}")
        if self.proxy not in _CHOICES:
            if not self.proxy.lower().startswith(("http://", "https://")):
                found = redact(self.proxy)
                raise InputError(f"proxy: expected an http(s):// address, 'environment' or 'none', found {found!r}")
            check_url(self.proxy, "proxy")
        for number, rule in enumerate(self.no_proxy):
            if "/" in rule:
                _check_network(rule, f"no_proxy[{number}]")
        check_headers(self.headers, "headers")
        check_key(self.key, "key")

    @classmethod
    def read(cls, value: Mapping[str, Any] | RequestOptions | None) -> RequestOptions:
        """Returns options from plain values. The error of a wrong value names its field."""
        if isinstance(value, RequestOptions):
            return value
        given: Any = value
        if given is not None and not isinstance(given, Mapping):
            raise InputError(f"options: expected RequestOptions or a mapping, found {type(given).__name__}")
        fields: dict[str, Any] = dict(value or {})
        limits = as_object(fields.get("timeouts"))
        if _EXPLICIT in fields or _EXPLICIT in limits:
            raise InputError(f"request options: Object contains unknown field `{_EXPLICIT}`")
        for name in ("ca_bundle", "no_proxy"):
            if isinstance(fields.get(name), str):
                fields[name] = [one.strip() for one in fields[name].split(",") if one.strip()]
        if isinstance(fields.get("client_certificate"), str):
            fields["client_certificate"] = {"cert": fields["client_certificate"]}
        try:
            options = msgspec.convert(fields, cls)
        except msgspec.ValidationError as error:
            raise InputError(f"request options: {error}") from None
        if limits:
            options = replace(options, timeouts=_with_explicit(options.timeouts, frozenset(limits)))
        return _with_explicit(options, frozenset(fields))

    def over(self, below: RequestOptions) -> RequestOptions:
        """Returns these options; those that are not set are taken from `below`. Headers and body fields are merged."""
        if not below.explicit_names():
            return self
        merged = self.explicit_values()
        merged["headers"] = merge_headers(below.headers, self.headers)
        merged["extra_body"] = {**below.extra_body, **self.extra_body}
        merged["timeouts"] = self.timeouts.over(below.timeouts)
        return _merge(below, self, merged)

    def without_secrets(self) -> dict[str, Any]:
        """Returns the options without secrets."""
        hidden = {
            "headers": redact_headers(self.headers),
            "proxy": redact(self.proxy),
            "extra_body": sorted(self.extra_body),
            "timeouts": self.timeouts.seconds_by_name(),
            "key": MARK if self.key else "",
        }
        return {name: hidden.get(name, value) for name, value in asdict(self).items() if name != _EXPLICIT}

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.without_secrets().items() if name in self.explicit_names())
        return f"RequestOptions({', '.join(shown)})"

    def __rich_repr__(self) -> Any:
        yield from self.without_secrets().items()


_FIELD_KINDS: dict[str, type] = {
    "headers": dict, "extra_body": dict, "timeouts": Timeouts, "proxy": str, "verify_ssl": bool, "key": str,
}  # fmt: skip
_KIND_NAMES = {dict: "a dict", Timeouts: "Timeouts", str: "a string", bool: "True or False"}


def find_json_problem(value: Any) -> str:
    """Returns what of a value JSON cannot hold, with its place; empty if there is nothing."""
    try:
        rows = list(_json_leaves(value, ""))
    except RecursionError:
        return "values that are nested too deep, or hold themselves"
    return next((f"{problem} at {place or 'the top'}" for place, problem in rows if problem), "")


def _json_leaves(value: Any, place: str) -> Iterator[tuple[str, str]]:
    rows: Any = value
    if isinstance(value, Mapping):
        for name, one in rows.items():
            if not isinstance(name, str):
                yield place, f"the key {name!r}"
            yield from _json_leaves(one, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list | tuple):
        for number, one in enumerate(rows):
            yield from _json_leaves(one, f"{place}[{number}]")
    elif isinstance(value, float) and not isfinite(value):
        yield place, repr(value)
    elif value is not None and not isinstance(value, _JSON_LEAVES):
        yield place, f"an object of type {type(value).__name__}"


_JSON_LEAVES = (str, int, float, bool, msgspec.Raw)
T = TypeVar("T", bound=ExplicitFields)


def _with_explicit(value: T, names: frozenset[str]) -> T:
    return replace(value, **{_EXPLICIT: names})


def _merge(below: T, above: ExplicitFields, fields: Mapping[str, Any]) -> T:
    """Returns `below` with other fields. A field that is set in either counts as set."""
    return replace(below, **fields, **{_EXPLICIT: above.explicit_names() | below.explicit_names()})


def merge_headers(*rows: Mapping[str, str]) -> dict[str, str]:
    """Returns all headers; later ones replace earlier ones of the same name. An empty value removes a header."""
    merged = {name.lower(): (name, value) for row in rows for name, value in row.items()}
    return {name: value for name, value in merged.values() if value}
