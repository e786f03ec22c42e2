"""Certificates for tests: two authorities, a server of the first, a client of the second with an encrypted key."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key

if TYPE_CHECKING:
    from pathlib import Path

PASSPHRASE = "open sesame, quietly"


@dataclass(frozen=True)
class Papers:
    """Where the files are."""

    ca: str
    other_ca: str
    cert: str
    key: str
    server: ssl.SSLContext
    strict_server: ssl.SSLContext


def papers(where: Path) -> Papers:
    ours, theirs = trustme.CA(), trustme.CA()
    server, client = ours.issue_cert("127.0.0.1", "localhost"), theirs.issue_cert("client@penstock.test")
    for name, blob in {
        "ca.pem": ours.cert_pem, "other.pem": theirs.cert_pem, "client.pem": client.cert_chain_pems[0],
    }.items():  # fmt: skip
        blob.write_to_path(str(where / name))
    locked = load_pem_private_key(client.private_key_pem.bytes(), None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(PASSPHRASE.encode()),
    )  # fmt: skip
    (where / "client.key").write_bytes(locked)
    plain, strict = (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for _ in range(2))
    for context in (plain, strict):
        server.configure_cert(context)
    theirs.configure_trust(strict)
    strict.verify_mode = ssl.CERT_REQUIRED
    at = {name: str(where / name) for name in ("ca.pem", "other.pem", "client.pem", "client.key")}
    return Papers(at["ca.pem"], at["other.pem"], at["client.pem"], at["client.key"], plain, strict)


@pytest.fixture(scope="session")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return papers(tmp_path_factory.mktemp("papers"))
