"""AWS Signature Version 4, by botocore (the extra `aws`).

Keys are those of the environment that was handed in, else what botocore finds by itself: a profile, a role. Only the
headers that AWS must see are signed, so that nothing on the way can spoil the signature.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from penstock._engines.auth.base import Fetch, Headers, Signed, import_library
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


_KEY, _SECRET, _TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"  # names, not values


class AwsAuth:
    """Signs for one service in one region."""

    scheme = "aws"

    def __init__(self, service: str, region: str, env: Mapping[str, str]) -> None:
        _botocore("auth")  # said at once, not with the first request
        # At DEBUG botocore writes the whole canonical request to the log, a session's token included.
        logging.getLogger("botocore.auth").addFilter(_quiet)
        self._service = service
        self._region = region
        self._env = {name: env[name] for name in (_KEY, _SECRET, _TOKEN, "AWS_PROFILE") if env.get(name)}
        self._found: Any = None  # what botocore found; it renews itself
        self._seen: tuple[str, ...] = ()
        self._lock = asyncio.Lock()

    async def sign(
        self, method: str, url: str, headers: Headers, body: bytes = b"", fetch: Fetch | None = None
    ) -> Signed:
        kept = {name: value for name, value in headers.items() if _signed(name)}
        request: Any = _botocore("awsrequest").AWSRequest(method=method, url=url, headers=kept, data=body)
        _botocore("auth").SigV4Auth(await self._keys(), self._service, self._region).add_auth(request)
        made: Any = request.headers
        return Signed(url, {**headers, **{str(name).lower(): str(value) for name, value in made.items()}})

    def secrets(self) -> tuple[str, ...]:
        return tuple(self._env[name] for name in (_SECRET, _TOKEN) if name in self._env) + self._seen

    async def _keys(self) -> Any:
        if _KEY in self._env and _SECRET in self._env:
            return _botocore("credentials").Credentials(self._env[_KEY], self._env[_SECRET], self._env.get(_TOKEN))
        async with self._lock:
            # Files are read and machines are asked: not in the loop.
            keys = await asyncio.to_thread(self._look)
        self._seen = tuple(filter(None, (keys.secret_key, keys.token)))
        return keys

    def _look(self) -> Any:
        if self._found is None:
            self._found = _botocore("session").Session(profile=self._env.get("AWS_PROFILE")).get_credentials()
        if self._found is None:
            raise InputError(
                f"no AWS credentials were found: set {_KEY} and {_SECRET}, or AWS_PROFILE, or run where there is a role"
            )
        return self._found.get_frozen_credentials()


def _quiet(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


def _botocore(module: str) -> Any:
    return import_library(f"botocore.{module}", "botocore", "aws")


def _signed(name: str) -> bool:
    return name.lower() == "content-type" or name.lower().startswith("x-amz-")
