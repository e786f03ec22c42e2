"""Every scheme of auth against a real server, and none of them shows what it keeps."""

from __future__ import annotations

import asyncio
import json
import pickle
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from yarl import URL

from penstock.errors import AuthError, InputError, MissingExtra, NetworkError
from penstock.providers import provider, providers
from penstock.testing import ReceivedRequest, Reply, Upstream
from tests.client.providers.accounts import (
    AWS_ID,
    AWS_SECRET,
    KEY,
    TOKEN,
    environment,
    exchange,
    fetch,
    printed_forms,
    service_account,
)
from tests.client.providers.provider_settings import ENV
from tests.client.providers.sigv4 import verified
from tests.support.client_parts import Auth, HttpRequest, Secret, auth_for, choose_credential
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

BODY = b'{"model":"tide-1"}'
REQUEST = HttpRequest(url="https://x.example")


async def _send(auth: Auth, up: Upstream, path: str = "/v1/x") -> ReceivedRequest:
    """A request as the engines would send it."""
    headers = {"content-type": "application/json", "x-mine": "1"}
    signed = await auth.sign(HttpRequest(url=up.url + path, headers=headers, body=BODY), fetch)
    assert signed.headers["x-mine"] == "1"
    async with (
        aiohttp.ClientSession() as session,
        session.post(URL(signed.url, encoded=True), data=BODY, headers=signed.headers) as answer,
    ):
        assert answer.status == 200
    return up.requests[-1]


def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


@each(
    "name, key, header, value",
    [
        ("openai", KEY, "authorization", f"Bearer {KEY}"),
        ("anthropic", KEY, "x-api-key", KEY),
        ("azure", KEY, "api-key", KEY),
        ("gemini", KEY, "x-goog-api-key", KEY),
        ("openai", f" {KEY}\n", "authorization", f"Bearer {KEY}"),  # as a file of keys often has it
    ],
)
def test_keys_in_headers(name: str, key: str, header: str, value: str) -> None:
    async def work() -> None:
        async with Upstream(Reply.body({})) as up:
            seen = await _send(auth_for(provider(name), key=key), up)
        assert seen.headers[header] == value
        assert KEY not in seen.target

    _run(work())


def test_another_way_where_its_variable_is_set() -> None:
    row = provider("anthropic")
    assert choose_credential(row, env={"ANTHROPIC_AUTH_TOKEN": TOKEN}).scheme == "bearer"
    assert choose_credential(row, env={"ANTHROPIC_AUTH_TOKEN": TOKEN, "ANTHROPIC_API_KEY": KEY}).scheme == "header"
    assert choose_credential(provider("bedrock"), env={"AWS_BEARER_TOKEN_BEDROCK": TOKEN}).scheme == "bearer"
    assert choose_credential(provider("bedrock"), env={}).scheme == "aws"


def test_a_key_in_the_address() -> None:
    async def work() -> None:
        row = provider("gemini")
        import msgspec

        asked = msgspec.structs.replace(row.credentials[0], scheme="query")
        auth = auth_for(msgspec.structs.replace(row, credentials=(asked,)), key="k&y 1")
        async with Upstream(Reply.body({})) as up:
            seen = await _send(auth, up, "/v1/x?alt=sse")
        assert seen.query == "alt=sse&key=k%26y%201"

    _run(work())


def test_aws_signatures_are_right() -> None:
    async def work() -> None:
        env = {**ENV, "AWS_ACCESS_KEY_ID": AWS_ID, "AWS_SECRET_ACCESS_KEY": AWS_SECRET, "AWS_SESSION_TOKEN": TOKEN}
        auth = auth_for(provider("bedrock"), env=env)
        async with Upstream(Reply.body({})) as up:
            for path in ("/model/us.anthropic.claude%3A0/converse", "/foundation-models?b=2&a=1"):
                seen = await _send(auth, up, path)
                assert verified(seen, AWS_SECRET) == (AWS_ID, "eu-west-1", "bedrock")
                assert seen.headers["x-amz-security-token"] == TOKEN
                with pytest.raises(AssertionError):
                    verified(seen, AWS_SECRET[:-1])
        assert AWS_SECRET in auth.secrets()

    _run(work())


def test_aws_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What botocore finds by itself: a profile in a file."""
    file = tmp_path / "credentials"
    file.write_text(f"[tide]\naws_access_key_id = {AWS_ID}\naws_secret_access_key = {AWS_SECRET}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    async def work() -> None:
        auth = auth_for(provider("sagemaker"), env={**ENV, "AWS_PROFILE": "tide"})
        async with Upstream(Reply.body({})) as up:
            seen = await _send(auth, up)
        assert verified(seen, AWS_SECRET) == (AWS_ID, "eu-west-1", "sagemaker")

    _run(work())


def test_no_aws_keys_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)

    async def work() -> None:
        with pytest.raises(InputError, match="AWS_PROFILE"):
            await auth_for(provider("bedrock"), env=ENV).sign(REQUEST, fetch)

    _run(work())


@each("inline", [False, True])
def test_google_service_accounts(tmp_path: Path, inline: bool) -> None:
    """A signed assertion is exchanged for a token, once; inline: the account itself is the key."""

    async def work() -> None:
        async with Upstream(exchange) as tokens, Upstream(Reply.body({})) as up:
            env = environment(tokens, tmp_path / "account.json")
            key = service_account(f"{tokens.url}/token") if inline else ""
            auth = auth_for(provider("vertexai"), key=key, env={**ENV, **({} if inline else env)})
            seen = [await _send(auth, up) for _ in range(3)]
            assert {one.headers["authorization"] for one in seen} == {f"Bearer {TOKEN}"}
            assert len(tokens.requests) == 1
            assert TOKEN in auth.secrets()

    _run(work())


def test_what_the_machine_offers_to_google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Application default credentials: a user who has logged in on this machine."""
    user = {
        "type": "authorized_user",
        "client_id": "c",
        "client_secret": "s",
        "refresh_token": KEY,
        "quota_project_id": "isle",
    }
    (tmp_path / "application_default_credentials.json").write_text(json.dumps(user))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)

    async def work() -> None:
        async with Upstream(exchange) as tokens, Upstream(Reply.body({})) as up:

            async def there(method: str, url: str, headers: Any, body: bytes) -> Any:
                assert url == "https://oauth2.googleapis.com/token"
                return await fetch(method, f"{tokens.url}/token", headers, body)

            signed = await auth_for(provider("vertexai"), env=ENV).sign(HttpRequest(url=up.url, body=BODY), there)
        assert signed.headers == {"authorization": f"Bearer {TOKEN}", "x-goog-user-project": "isle"}

    _run(work())


def test_google_says_no(tmp_path: Path) -> None:
    async def work() -> None:
        refused = Reply.body({"error": "invalid_grant", "error_description": "no such account"}, status=400)
        async with Upstream(refused) as tokens:
            env = environment(tokens, tmp_path / "account.json")
            auth = auth_for(provider("vertexai"), env={**ENV, **env})
            with pytest.raises(AuthError, match="invalid_grant"):
                await auth.sign(REQUEST, fetch)
        env["GOOGLE_APPLICATION_CREDENTIALS"] = str(tmp_path / "none.json")
        with pytest.raises(InputError, match="GOOGLE_APPLICATION_CREDENTIALS"):
            await auth_for(provider("vertexai"), env={**ENV, **env}).sign(REQUEST, fetch)

    _run(work())


def test_a_token_server_that_is_gone(tmp_path: Path) -> None:
    """The trouble on the way to a token is the same typed error as on any other way."""

    async def gone(*_: object) -> Any:
        from penstock.errors import provider_error
        from penstock.events import Fault

        raise provider_error(Fault("network", "nothing listens there"))

    async def work() -> None:
        async with Upstream(exchange) as tokens:
            env = environment(tokens, tmp_path / "account.json")
        for name, key in (("vertexai", ""), ("watsonx", KEY)):
            with pytest.raises(NetworkError):
                await auth_for(provider(name), key=key, env={**ENV, **env}).sign(REQUEST, gone)

    _run(work())


def test_ibm_keys_are_exchanged_once() -> None:
    async def work() -> None:
        async with Upstream(exchange) as tokens, Upstream(Reply.body({})) as up:
            auth = auth_for(provider("watsonx"), key=KEY, env={**ENV, "WATSONX_IAM_URL": tokens.url})
            signed = await asyncio.gather(*(auth.sign(HttpRequest(url=up.url), fetch) for _ in range(5)))
            assert {one.headers["authorization"] for one in signed} == {f"Bearer {TOKEN}"}
            assert [seen.path for seen in tokens.requests] == ["/identity/token"]

    _run(work())


def test_ibm_says_no() -> None:
    async def work() -> None:
        async with Upstream(exchange) as tokens:
            auth = auth_for(provider("watsonx"), key=KEY + "x", env={**ENV, "WATSONX_IAM_URL": tokens.url})
            with pytest.raises(AuthError) as caught:
                await auth.sign(REQUEST, fetch)
        assert caught.value.code == "BXNIM0415E"
        assert KEY not in str(caught.value).replace(KEY + "x", "")

    _run(work())


def test_a_key_that_is_missing_is_named() -> None:
    needed = [
        row
        for row in providers().values()
        if not choose_credential(row).optional and not choose_credential(row).ambient
    ]
    assert len(needed) > 40
    for row in needed:
        with pytest.raises(InputError) as caught:
            auth_for(row, env=ENV)
        assert choose_credential(row).env[0] in str(caught.value)


def test_no_auth_shows_its_key() -> None:
    env = {**ENV, "AWS_ACCESS_KEY_ID": AWS_ID, "AWS_SECRET_ACCESS_KEY": AWS_SECRET}
    for row in providers().values():
        auth = auth_for(row, key="" if row.auth in {"aws", "google"} else KEY, env=env)
        seen = printed_forms(auth)
        assert KEY not in seen, row.name
        assert AWS_SECRET not in seen, row.name


def test_a_secret_keeps_itself() -> None:
    secret = Secret(KEY)
    assert secret.reveal() == KEY
    assert KEY not in printed_forms(secret) + printed_forms([secret]) + printed_forms({"key": secret})
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name, missing, extra in (("bedrock", "botocore.auth", "aws"), ("vertexai", "google.auth", "google")):
        monkeypatch.setitem(sys.modules, missing, None)
        with pytest.raises(MissingExtra, match=rf"penstock\[{extra}\]"):
            auth_for(provider(name), env=ENV)
