"""TLS contexts of request options: CA bundles, a client certificate with its passphrase, no checks where so asked.

A context is kept as long as its files stay as they were: a certificate that is renewed is taken up without a restart.
"""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, TypeAlias

from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock.engines.options import ClientCertificate, RequestOptions

Key: TypeAlias = tuple[object, ...]
KEPT = 64  # contexts at most
_contexts: dict[Key, ssl.SSLContext] = {}


def key_of(options: RequestOptions) -> Key:
    """What makes two contexts different: the options and the state of their files."""
    own = options.client_certificate
    return (options.verify_ssl, own and own.passphrase, *((name, _stamp(name)) for name in files(options)))


def files(options: RequestOptions) -> list[str]:
    """What a context is made of besides the system's own: it may be renewed at any time."""
    own = options.client_certificate
    return [name for name in (*options.ca_bundle, *((own.cert, own.key) if own else ())) if name]


def context(options: RequestOptions) -> ssl.SSLContext:
    """The context for these options."""
    key = key_of(options)
    found = _contexts.get(key)
    if found is None:
        while len(_contexts) >= KEPT:
            del _contexts[next(iter(_contexts))]
        found = _contexts[key] = _made(options)
    return found


def _stamp(name: str) -> tuple[int, int]:
    try:
        found = os.stat(name)  # noqa: PTH116 — once per request; a Path would cost more than the call
    except OSError as error:
        raise InputError(f"certificate file {name}: {error.strerror}") from None
    return (found.st_mtime_ns, found.st_size)


def _made(options: RequestOptions) -> ssl.SSLContext:
    made = ssl.create_default_context()
    for name in options.ca_bundle:
        try:
            made.load_verify_locations(name)
        except (ssl.SSLError, OSError):
            raise InputError(f"ca_bundle: {name} holds no certificates in PEM form") from None
    if options.client_certificate is not None:
        _own(made, options.client_certificate)
    if not options.verify_ssl:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    return made


def _own(made: ssl.SSLContext, own: ClientCertificate) -> None:
    try:
        # A function, because without any OpenSSL would ask at the terminal.
        made.load_cert_chain(own.cert, own.key or None, lambda: own.passphrase)
    except (ssl.SSLError, OSError):
        raise InputError(
            f"client_certificate: {own.cert} with the key {own.key or own.cert} cannot be used; "
            "both must be PEM files that belong together, and the passphrase must fit"
        ) from None
