"""Answers that are made to keep the gateway busy: gzip that unpacks to very much, or to nothing, and endless heads."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import aclosing
from typing import Any

import pytest

from penstock._engines.engine_interface import HttpRequest
from penstock._engines.native import NativeEngine
from penstock._http.connection import INFLATE_CHUNK, LINES, MEMBERS
from penstock._http.request_options import RequestOptions
from penstock.errors import ProviderError
from tests.wire.engines.test_direct_http import HEAD, ask, packed, sent, serving

LIMIT = 20.0


def commented(data: bytes, size: int) -> bytes:
    """A gzip file with a long comment in front: that much unpacks to nothing (RFC 1952, section 2.3)."""
    plain = gzip.compress(data, mtime=0)
    return plain[:3] + b"\x10" + plain[4:10] + b"c" * size + b"\0" + plain[10:]


def test_others_have_their_turn_while_much_is_unpacked() -> None:
    count = 40
    bomb = gzip.compress(b"\0" * (count * INFLATE_CHUNK), 9)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scene() -> None:
        nonlocal turns
        async with serving(packed(bomb)) as (direct, url, _):
            made: Any = await sent(direct, url, b"{}")
            assert len(await made.readany()) == INFLATE_CHUNK
            waiting = asyncio.create_task(others())
            await asyncio.sleep(0)
            turns = 0
            for _ in range(count - 1):
                assert await made.readany()
            waiting.cancel()
            made.close()
        assert turns >= count - 1

    asyncio.run(scene())


def test_what_unpacks_to_nothing_at_first_comes_whole() -> None:
    async def scene() -> None:
        async with serving(packed(commented(b"hello there", 3_000_000))) as (direct, url, _):
            async with asyncio.timeout(LIMIT):
                assert await ask(direct, url) == (200, b"hello there")

    asyncio.run(scene())


HOSTILE = {
    "empty gzip members": packed(gzip.compress(b"", mtime=0) * (MEMBERS + 2)),
    "header lines of one name": HEAD + b"a:\r\n" * LINES + b"content-length: 0\r\n\r\n",
    "header lines": HEAD + b"".join(b"a%d:\r\n" % number for number in range(LINES)) + b"content-length: 0\r\n\r\n",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_too_many_of_something_is_malformed(case: str) -> None:
    async def scene() -> None:
        async with serving(HOSTILE[case]) as (_, url, __), aclosing(NativeEngine()) as native:
            with pytest.raises(ProviderError) as error:
                await (await native.send(HttpRequest(url=url, body=b"{}"), RequestOptions())).read_all()
            assert error.value.kind == "malformed"

    asyncio.run(scene())
