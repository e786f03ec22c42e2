"""TLS of the server: a certificate and its key, from files that may be replaced while connections are open.

New connections use the certificate that was loaded last; open ones keep theirs. A pair of files that cannot be used,
such as a new certificate beside the old key, changes nothing and is logged.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from pathlib import Path

from penstock.errors import InputError

CHECK_INTERVAL = 1.0  # seconds between two looks at the files
_CERTIFICATE, _KEY = b"-----BEGIN CERTIFICATE", b"PRIVATE KEY-----"
_PROTOCOLS = ["http/1.1"]
log = logging.getLogger("penstock.tls")


class ServerCertificate:
    """The certificate of a server. `context` stays the same object; `reload` changes what new connections get.

    An empty `key` means that the file of the certificate has the key too.
    """

    def __init__(self, cert: str, key: str = "") -> None:
        self._files = _find_files(cert, key)
        self._stamps = _file_stamps(self._files)
        self._current = load_certificate(*self._files)
        self.context: ssl.SSLContext = load_certificate(*self._files)
        self.context.sni_callback = self._choose
        self._timer: asyncio.TimerHandle | None = None

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Called for each handshake, also without a server name."""
        connection.context = self._current

    def reload(self, cert: str, key: str = "") -> None:
        """Load the files again, or others. Raises if they cannot be used: then the old certificate stays."""
        files = _find_files(cert, key)
        stamps = _file_stamps(files)
        self._current = load_certificate(*files)
        self._files, self._stamps = files, stamps

    def watch(self) -> None:
        """Look at the files from time to time, on the running loop. Changed files are loaded."""
        self._timer = asyncio.get_running_loop().call_later(CHECK_INTERVAL, self.watch)
        stamps = _file_stamps(self._files)
        if stamps == self._stamps:
            return
        self._stamps = stamps  # files that cannot be used are tried again when they change
        try:
            self._current = load_certificate(*self._files)
        except InputError as error:
            log.error("the changed certificate is not used, the old one stays: %s", error)  # noqa: TRY400
        else:
            log.warning("the certificate was loaded again from %s", self._files[0])

    def close(self) -> None:
        """Stop looking at the files."""
        if self._timer is not None:
            self._timer.cancel()


def load_certificate(cert: Path, key: Path) -> ssl.SSLContext:
    """Return a context with a certificate. TLS 1.2 is the least. Errors name the setting, the file and the fix."""
    _check_file("serve.tls_cert", cert, _CERTIFICATE, "certificate")
    _check_file("serve.tls_cert" if key == cert else "serve.tls_key", key, _KEY, "private key")

    def refuse_password() -> str:
        raise InputError(
            f"serve.tls_key: {key} is encrypted; `openssl pkey -in {key.name}` writes it without a password"
        )

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(_PROTOCOLS)
    try:
        context.load_cert_chain(cert, key, refuse_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise InputError(f"serve.tls_key: {key} is not the key of the certificate in {cert}") from None
        reason = (error.reason or "unreadable").lower().replace("_", " ")
        raise InputError(f"serve.tls_cert: {cert} and {key} cannot be used: {reason}") from None
    except OSError as error:
        raise InputError(f"serve.tls_cert: {cert} and {key} cannot be read: {error.strerror}") from None
    return context


def _check_file(setting: str, path: Path, mark: bytes, what: str) -> None:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{setting}: {path} cannot be read: {error.strerror}") from None
    if mark not in data:
        raise InputError(f"{setting}: {path} has no {what} in PEM form")


def _find_files(cert: str, key: str) -> tuple[Path, Path]:
    if not cert:
        raise InputError("serve.tls_key needs serve.tls_cert: the file of the certificate")
    return Path(cert).expanduser(), Path(key or cert).expanduser()


def _file_stamps(files: tuple[Path, Path]) -> list[tuple[int, ...]]:
    """What changes when a file is written or replaced, also behind a link."""
    stamps: list[tuple[int, ...]] = []
    for path in files:
        try:
            found = os.stat(path)  # noqa: PTH116 — follows links, as Kubernetes uses them
        except OSError:
            stamps.append(())
        else:
            stamps.append((found.st_ino, found.st_mtime_ns, found.st_size))
    return stamps
