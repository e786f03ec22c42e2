"""Chooses the proxy of a URL, and creates TLS contexts from request options.

The proxy comes from the options, else from the environment. TLS contexts have CA bundles, a client certificate, or no
checks if so configured. A context is cached until its files change: a renewed certificate needs no restart.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import threading
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from penstock._http.header_fields import check_url
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._http.request_options import ClientCertificate, RequestOptions


_HOST_WITH_PORT = re.compile(r"(\[.+\]|[^:]+):(\d+)")


def proxy_for(url: str, options: RequestOptions, env: Mapping[str, str]) -> str | None:
    """Returns the URL of the proxy, None for a direct connection."""
    if options.proxy == "none":
        return None
    scheme, host, port = _split_host(url)
    if options.proxy != "environment":
        return None if bypasses_proxy(host, port, options.no_proxy) else options.proxy
    found = _proxy_variable(f"{scheme}_proxy", env) or _proxy_variable("all_proxy", env)
    if not found or not found.lower().startswith(("http://", "https://")):
        return None  # other kinds of proxies are not supported
    check_url(found, f"the proxy that the environment names for {scheme}")
    without = (*options.no_proxy, *_proxy_variable("no_proxy", env).split(","))
    return None if bypasses_proxy(host, port, without) else found


@lru_cache(1000)
def _split_host(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _proxy_variable(name: str, env: Mapping[str, str]) -> str:
    value = env.get(name) or env.get(name.upper()) or ""
    if not value:
        return ""
    # CGI servers set HTTP_PROXY from a request's header Proxy (httpoxy, CVE-2016-5385): ignored there.
    return "" if name == "http_proxy" and not env.get(name) and "REQUEST_METHOD" in env else value


def bypasses_proxy(host: str, port: int, rules: Iterable[str]) -> bool:
    """True if a host is reached without a proxy."""
    return any(_matches_rule(host.lower().rstrip("."), port, rule.strip().lower()) for rule in rules if rule.strip())


def _matches_rule(host: str, port: int, rule: str) -> bool:
    if rule == "*":
        return True
    if "/" in rule:
        return _in_network(host, rule)
    ported = _HOST_WITH_PORT.fullmatch(rule)
    if ported is not None:
        if int(ported[2]) != port:
            return False
        rule = ported[1]
    rule = rule.strip("[]").removeprefix("*").lstrip(".")
    return host == rule or host.endswith(f".{rule}")


def _in_network(host: str, rule: str) -> bool:
    try:
        return ip_address(host) in ip_network(rule, strict=False)
    except ValueError:
        return False


TlsKey: TypeAlias = tuple[object, ...]
MAX_CONTEXTS = 64  # contexts at most
_contexts: dict[TlsKey, ssl.SSLContext] = {}
_contexts_lock = threading.Lock()


def tls_key(options: RequestOptions) -> TlsKey:
    """Returns the cache key of a context: the options and the state of their files."""
    certificate = options.client_certificate
    return (
        options.verify_ssl,
        certificate and certificate.passphrase,
        *((name, _file_state(name)) for name in certificate_files(options)),
    )


def certificate_files(options: RequestOptions) -> list[str]:
    """Returns the certificate files that the options name. They may be renewed at any time."""
    certificate = options.client_certificate
    client_files = (certificate.cert, certificate.key) if certificate else ()
    return [name for name in (*options.ca_bundle, *client_files) if name]


def tls_context(options: RequestOptions) -> ssl.SSLContext:
    """Returns the TLS context for these options. A new one takes up to 100 ms: see `load_tls_context`."""
    key = tls_key(options)
    found = _contexts.get(key)
    if found is None:
        created = _create_context(options)
        with _contexts_lock:
            while len(_contexts) >= MAX_CONTEXTS and key not in _contexts:
                del _contexts[next(iter(_contexts))]
            found = _contexts.setdefault(key, created)
    return found


async def load_tls_context(options: RequestOptions) -> None:
    """Creates the context for these options in a thread: the certificates of the system are read from a file."""
    if tls_key(options) not in _contexts:
        await asyncio.to_thread(tls_context, options)


def needs_tls(url: str, options: RequestOptions) -> bool:
    """Returns whether a direct request needs a context. Certificate files are checked whatever the address is."""
    return not url.startswith("http://") or bool(certificate_files(options))


def _file_state(name: str) -> tuple[int, int]:
    try:
        found = os.stat(name)  # noqa: PTH116 — once per request; a Path would cost more than the call
    except OSError as error:
        raise InputError(f"certificate file {name}: {error.strerror}") from None
    return (found.st_mtime_ns, found.st_size)


def _create_context(options: RequestOptions) -> ssl.SSLContext:
    context = ssl.create_default_context()
    for name in options.ca_bundle:
        try:
            context.load_verify_locations(name)
        except (ssl.SSLError, OSError):
            raise InputError(f"ca_bundle: {name} holds no certificates in PEM form") from None
    if options.client_certificate is not None:
        _load_client_certificate(context, options.client_certificate)
    if not options.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _load_client_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    try:
        # A function: without a passphrase OpenSSL would ask at the terminal.
        context.load_cert_chain(certificate.cert, certificate.key or None, lambda: certificate.passphrase)
    except (ssl.SSLError, OSError):
        files = f"{certificate.cert} with the key {certificate.key or certificate.cert}"
        hint = "both must be PEM files that belong together, and the passphrase must fit"
        raise InputError(f"client_certificate: {files} cannot be used; {hint}") from None
