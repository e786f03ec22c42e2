"""TLS of the gateway: the start line, the least version, certificates that are replaced while streams are open."""

from __future__ import annotations

import shutil
import signal
import socket
import ssl
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import trustme
from cryptography.hazmat.primitives import serialization as forms

from tests.cli.command_runner import inside
from tests.support.process import gateway, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.process import Gateway


LIMIT = 30.0
BODY: dict[str, Any] = {"model": "replay/text", "messages": []}
CA = trustme.CA()


def make_pair(folder: Path, name: str = "127.0.0.1") -> tuple[Path, Path]:
    """A new certificate and its key."""
    made, cert, key = CA.issue_cert("127.0.0.1", common_name=name), folder / "cert.pem", folder / "key.pem"
    made.private_key_pem.write_to_path(str(key))
    cert.write_bytes(b"".join(one.bytes() for one in made.cert_chain_pems))
    return cert, key


def client_context(least: ssl.TLSVersion | None = None, most: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(cadata=CA.cert_pem.bytes().decode())
    if least is not None and most is not None:
        context.minimum_version, context.maximum_version = least, most
    return context


def shown_name(server: Gateway, context: ssl.SSLContext | None = None) -> str:
    """The common name of the certificate that a new connection gets."""
    port = int(server.base.rsplit(":", 1)[1])
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        (context or client_context()).wrap_socket(plain, server_hostname="127.0.0.1") as safe,
    ):
        found: Any = safe.getpeercert()
        return str(next(value for part in found["subject"] for name, value in part if name == "commonName"))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_replaced_certificate_is_used_and_streams_go_on(tmp_path: Path, workers: int) -> None:
    cert, key = make_pair(tmp_path, "first")
    config = f"[serve]\npace = 0.05\ntls_cert = '{cert}'\ntls_key = '{key}'\nworkers = {workers}"
    with gateway(tmp_path, config) as server, httpx.Client(verify=client_context(), timeout=LIMIT) as client:
        assert server.base.startswith("https://127.0.0.1:")
        with client.stream("POST", f"{server.base}/v1/chat/completions", json={**BODY, "stream": True}) as stream:
            chunks = stream.iter_bytes()
            got = next(chunks)
            assert shown_name(server) == "first"
            make_pair(tmp_path, "second")  # the watcher sees it
            wait_for(lambda: [shown_name(server) for _ in range(6)] == ["second"] * 6)
            got += b"".join(chunks)
        assert got.endswith(b"data: [DONE]\n\n")
        make_pair(tmp_path, "third")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: [shown_name(server) for _ in range(6)] == ["third"] * 6)
        assert client.get(f"{server.base}/inspector/about", headers={"origin": server.base}).is_success


def test_the_least_version_is_1_2_and_a_pair_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    cert, key = make_pair(tmp_path, "good")
    (tmp_path / "other").mkdir()
    with gateway(tmp_path, "", "--tls-cert", str(cert), "--tls-key", str(key)) as server:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            assert shown_name(server, client_context(version, version)) == "good"
        old = client_context()
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("DEFAULT:@SECLEVEL=0")
        with pytest.raises(ssl.SSLError):
            shown_name(server, old)
        with pytest.raises(httpx.TransportError):
            httpx.get(server.base.replace("https", "http") + "/healthz")
        shutil.copy(make_pair(tmp_path / "other")[0], cert)
        wait_for(lambda: "the changed certificate is not used, the old one stays" in server.said)
        assert f"{key} is not the key of the certificate in {cert}" in server.said
        assert shown_name(server) == "good"
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "the configuration was not reloaded" in server.said)
        assert shown_name(server) == "good"


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    cert, key = make_pair(tmp_path)
    empty, missing = tmp_path / "empty.pem", tmp_path / "missing.pem"
    empty.write_text("")
    private = forms.load_pem_private_key(key.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    encryption = forms.BestAvailableEncryption(b"x")
    locked.write_bytes(private.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, encryption))
    broken, joined = tmp_path / "broken.pem", tmp_path / "joined.pem"
    broken.write_bytes(cert.read_bytes()[:200] + b"\n-----END CERTIFICATE-----\n")
    joined.write_bytes(key.read_bytes() + cert.read_bytes())

    def check(cert: Path, key: Path) -> tuple[int, str]:
        pair = ("--tls-cert", str(cert), "--tls-key", str(key))
        done = inside("serve", "--check", *pair, PENSTOCK_DATA=str(tmp_path))
        return done.returncode, done.stderr.decode()

    for pair, words in (
        ((missing, key), f"serve.tls_cert: {missing} cannot be read: No such file or directory"),
        ((cert, missing), f"serve.tls_key: {missing} cannot be read"),
        ((empty, key), f"serve.tls_cert: {empty} has no certificate in PEM form"),
        ((cert, empty), f"serve.tls_key: {empty} has no private key in PEM form"),
        ((cert, cert), f"serve.tls_cert: {cert} has no private key in PEM form"),
        ((cert, locked), f"serve.tls_key: {locked} is encrypted; `openssl pkey -in locked.pem` writes it"),
        ((broken, key), f"serve.tls_cert: {broken} and {key} cannot be used"),
    ):
        code, said = check(*pair)
        assert (code != 0, words in said) == (True, True), (words, said)
    assert check(joined, joined)[0] == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_gateway_without_its_certificate_does_not_start(tmp_path: Path, workers: str) -> None:
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--workers", workers, "--tls-cert", "none.pem"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False, cwd=tmp_path)
    assert done.stderr == "penstock: serve.tls_cert: none.pem cannot be read: No such file or directory\n"
