"""Request options: what any call may say about how it travels, and honoured by every engine.

Headers, extra body, time limits, proxy and no-proxy, CA bundles, a client certificate, `verify_ssl`. Only plain values
here: `tls` makes a context of them, `proxies` finds the proxy of an address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict, replace

from penstock._http.header_fields import check_headers, check_key, check_url
from penstock._lenient_fields import as_object
from penstock._redaction import MARK, redact, redact_headers
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHOICES = frozenset({"environment", "none"})
_SAID = "said"


class ExplicitFieldsMeta(msgspec.StructMeta):
    """Notes which fields a struct was made with: one that is said with its default is said all the same."""

    if not TYPE_CHECKING:  # to the checkers it is made as it always was

        def __call__(self, **given: Any) -> Any:
            return super().__call__(**{"said": frozenset(given), **given})


class Timeouts(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    metaclass=ExplicitFieldsMeta,
):
    """Seconds. Each wait has a limit, always: a slow model is given long ones, never none.

    `first_byte` runs from the request to the first byte of the answer's body, `between_bytes` from there on between
    any two; a consumer that is slow to read spends nothing of either. `retry_wait` is what all pauses before retries
    may take together: a provider that asks for more is not waited for.
    """

    connect: float = 10.0
    first_byte: float = 600.0
    between_bytes: float = 300.0
    total: float = 3600.0
    retry_wait: float = 10.0
    said: frozenset[str] = frozenset()  # the fields it was made with

    def __post_init__(self) -> None:
        for name, value in self.shown().items():
            if not value > 0:
                raise InputError(f"timeouts.{name}: expected seconds greater than 0, found {value}")

    def over(self, below: Timeouts) -> Timeouts:
        """These limits, and those below where these say nothing."""
        return replace(below, **_own(self), said=self.said | below.said)

    def shown(self) -> dict[str, float]:
        """The limits, by name."""
        return {name: value for name, value in asdict(self).items() if name != _SAID}


class ClientCertificate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Files in PEM form; `key` may stand in the certificate's own file."""

    cert: str
    key: str = ""
    passphrase: str = ""

    def __repr__(self) -> str:
        hidden = MARK if self.passphrase else ""
        return f"ClientCertificate(cert={self.cert!r}, key={self.key!r}, passphrase={hidden!r})"

    def __rich_repr__(self) -> Any:
        yield "cert", self.cert
        yield "key", self.key


class RequestOptions(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    metaclass=ExplicitFieldsMeta,
):
    """What a call may say about its way. What is not said is left to whoever is asked next: call, client, default.

    `proxy` is an address, `environment` (what HTTPS_PROXY and its kin say) or `none`. `no_proxy` are hosts, domains,
    networks or `*`. CA bundles are trusted beside the system's own.
    """

    headers: dict[str, str] = {}
    extra_body: dict[str, Any] = {}
    timeouts: Timeouts = Timeouts()
    proxy: str = "environment"
    no_proxy: tuple[str, ...] = ()
    ca_bundle: tuple[str, ...] = ()
    client_certificate: ClientCertificate | None = None
    verify_ssl: bool = True
    key: str = ""  # in place of the provider's own
    said: frozenset[str] = frozenset()  # the fields it was made with

    def __post_init__(self) -> None:
        if self.proxy not in _CHOICES and not self.proxy.lower().startswith(("http://", "https://")):
            found = redact(self.proxy)
            raise InputError(f"proxy: expected an http(s):// address, 'environment' or 'none', found {found!r}")
        if self.proxy not in _CHOICES:
            check_url(self.proxy, "proxy")
        check_headers(self.headers, "headers")
        check_key(self.key, "key")

    @classmethod
    def read(cls, value: Mapping[str, Any] | RequestOptions | None) -> RequestOptions:
        """Options from plain values; the errors of a wrong one name its place."""
        if isinstance(value, RequestOptions):
            return value
        given = dict(value or {})
        limits = as_object(given.get("timeouts"))
        for names in (given, limits):
            if _SAID in names:
                raise InputError(f"request options: Object contains unknown field `{_SAID}`")
        for name in ("ca_bundle", "no_proxy"):
            if isinstance(given.get(name), str):
                given[name] = [one.strip() for one in given[name].split(",") if one.strip()]
        certificate = given.get("client_certificate")
        if isinstance(certificate, str):
            given["client_certificate"] = {"cert": certificate}
        try:
            made = msgspec.convert(given, cls)
        except msgspec.ValidationError as error:
            raise InputError(f"request options: {error}") from None
        if limits:
            made = replace(made, timeouts=replace(made.timeouts, said=frozenset(limits)))
        return replace(made, said=frozenset(given))

    def over(self, below: RequestOptions) -> RequestOptions:
        """These options, and those below where these say nothing. Headers and body fields are merged."""
        if not below.said:
            return self
        own = _own(self)
        own["headers"] = merge_headers(below.headers, self.headers)
        own["extra_body"] = {**below.extra_body, **self.extra_body}
        own["timeouts"] = self.timeouts.over(below.timeouts)
        return replace(below, **own, said=self.said | below.said)

    def shown(self) -> dict[str, Any]:
        """Fit to be printed."""
        made = {
            **asdict(self),
            "headers": redact_headers(self.headers),
            "proxy": redact(self.proxy),
            "extra_body": sorted(self.extra_body),
            "timeouts": self.timeouts.shown(),
            "key": MARK if self.key else "",
        }
        return {name: value for name, value in made.items() if name != _SAID}

    def __repr__(self) -> str:
        said = (f"{name}={value!r}" for name, value in self.shown().items() if name in self.said)
        return f"RequestOptions({', '.join(said)})"

    def __rich_repr__(self) -> Any:
        yield from self.shown().items()


def _own(said: Timeouts | RequestOptions) -> dict[str, Any]:
    return {name: getattr(said, name) for name in said.said}


def merge_headers(*rows: Mapping[str, str]) -> dict[str, str]:
    """Headers over headers, names compared as HTTP does; an empty value takes a header away."""
    made: dict[str, tuple[str, str]] = {}
    for row in rows:
        for name, value in row.items():
            made[name.lower()] = (name, value)
    return {name: value for name, value in made.values() if value}
