"""Somebody to be, for every scheme of auth: made-up keys, and the servers that exchange them for tokens."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import msgspec
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from penstock.testing import ReceivedRequest, Reply, Upstream

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = "planted-key-0123456789"
TOKEN = "planted-token-9876543210"
AWS_ID, AWS_SECRET = "AKIAPLANTEDEXAMPLE00", "planted/secret+key/0123456789ABCDEFGHIJKL"
AWS_TOKEN = "planted-session-token-0000"
GRANT = "urn:ibm:params:oauth:grant-type:apikey"


async def fetch(method: str, url: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Mapping[str, str], bytes]:
    """A way to ask, as the engines have one."""
    import aiohttp

    async with aiohttp.ClientSession() as session, session.request(method, url, headers=headers, data=body) as answer:
        return answer.status, answer.headers, await answer.read()


def exchange(seen: ReceivedRequest) -> Reply:
    """What IBM and Google answer to one who asks for a token as they want it."""
    form = parse_qs(seen.body.decode())
    ibm = form.get("grant_type") == [GRANT] and form.get("apikey") == [KEY]
    google = form.get("grant_type") == ["urn:ietf:params:oauth:grant-type:jwt-bearer"] and "assertion" in form
    user = form.get("grant_type") == ["refresh_token"] and form.get("refresh_token") == [KEY]
    if not ibm and not google and not user:
        return Reply.body({"errorCode": "BXNIM0415E", "errorMessage": f"no such key: {KEY}"}, status=400)
    return Reply.body({"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600})


@cache
def _private_key() -> str:
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def service_account(token_uri: str) -> str:
    """The file of a Google service account."""
    return json.dumps(
        {
            "type": "service_account", "project_id": "isle", "private_key_id": "1", "private_key": _private_key(),
            "client_email": "tide@isle.example", "client_id": "1", "token_uri": token_uri,
        }
    )  # fmt: skip


def environment(tokens: Upstream, path: Any) -> dict[str, str]:
    """An environment in which every scheme finds what it needs; `path` is a file to write."""
    path.write_text(service_account(f"{tokens.url}/token"))
    return {
        "AWS_ACCESS_KEY_ID": AWS_ID, "AWS_SECRET_ACCESS_KEY": AWS_SECRET, "AWS_SESSION_TOKEN": AWS_TOKEN, "GOOGLE_APPLICATION_CREDENTIALS": str(path),
        "WATSONX_IAM_URL": tokens.url,
    }  # fmt: skip


def printed_forms(value: object) -> str:
    """Everything that printing, logging or writing a value as JSON would show."""
    try:
        dumped = msgspec.json.encode(value, enc_hook=repr).decode()
    except (TypeError, ValueError):
        dumped = ""
    return " ".join((repr(value), str(value), f"{value}", f"{value!r:>20}", dumped))
