"""Secrets that were replaced or are spelled unusually, and the session token, are removed from everything that the inspector shows."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from typing import TYPE_CHECKING

from penstock._redaction import MARK
from penstock.testing import Reply
from tests.support.client_requests import get, post
from tests.support.event_feed import ended
from tests.support.inspector import Inspected, inspected
from tests.support.kept_on_disk import on_disk, written

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.testing import ReceivedRequest


OLD, NEW = "custom+form/key.4711-zebra", "another-key-99-lion"


def echo(seen: ReceivedRequest) -> Reply:
    return Reply.text(f"you said {seen.json['messages'][-1]['content']}")


def turn_with(gateway: Inspected, text: str) -> str:
    """The id of a turn whose prompt and answer hold a text."""
    body = {"model": "openai-chat/text", "messages": [{"role": "user", "content": text}]}
    name = post(f"{gateway.url}/v1/chat/completions", json=body).headers["x-request-id"]
    ended(gateway, name)
    return name


def answers(gateway: Inspected, name: str) -> dict[str, str]:
    """What is shown of a turn."""
    places = ("", "/request", "/copy?as=curl", "/copy?as=openai", "/breakdown", "/frames/0")
    paths = [*(f"turns/{name}{place}" for place in places), f"previews?ids={name}", f"sessions/{name}"]
    return {path: get(f"{gateway.url}/inspector/{path}").text.replace("\\/", "/") for path in paths}


def test_a_secret_that_was_replaced_is_not_shown_again(tmp_path: Path) -> None:
    env = {"MY_API_KEY": OLD}
    with inspected(echo, env=env, **on_disk(tmp_path)) as gateway:
        name = turn_with(gateway, f"my key is {OLD} yes")
        env["MY_API_KEY"] = NEW
        gateway.call(_apply(gateway))
        later = turn_with(gateway, f"the old key was {OLD}")
        for turn in (name, later):
            found = answers(gateway, turn)
            assert [path for path, text in found.items() if OLD in text] == []
            assert MARK in found[f"turns/{turn}/request"]
        assert get(f"{gateway.url}/inspector/turns", params={"q": '"4711 zebra"'}).json()["total"] == 0
        written(gateway)
    with closing(sqlite3.connect(tmp_path / "turns.sqlite")) as file:
        texts = [zlib.decompress(body) for (body,) in file.execute("select body from texts")]
    assert any(MARK.encode() in text for text in texts)
    assert not [text for text in texts if b"zebra" in text]


def test_the_session_token_is_not_shown() -> None:
    with inspected(echo) as gateway:
        token = gateway.inspector.session_token
        name = turn_with(gateway, f"the link is http://127.0.0.1:4480/#session={token} and alone: {token}")
        found = answers(gateway, name)
        assert [path for path, text in found.items() if token in text] == []
        assert MARK in found[f"turns/{name}/request"]
        assert get(f"{gateway.url}/inspector/turns", params={"q": f'"{token}"'}).json()["total"] == 0


def test_an_escaped_or_coloured_token_is_neither_shown_nor_found() -> None:
    escaped, coloured = "sk-ant-api03-AbCdEf0123456789zebra", "ghp_AbCdEf0123456789AbCdEf0123456giraffe"
    said = "run: \\u001b[32m%s\\u001b[0m and %s" % (coloured, escaped.replace("-", "\\u002d"))  # noqa: UP031 — escapes
    body = f'{{"model":"openai-chat/text","messages":[{{"role":"user","content":"{said}"}}]}}'.encode()
    with inspected(lambda _: Reply.text("ok")) as gateway:
        headers = {"content-type": "application/json"}
        response = post(f"{gateway.url}/v1/chat/completions", content=body, headers=headers)
        assert response.status_code == 200
        name = response.headers["x-request-id"]
        ended(gateway, name)
        for path, text in answers(gateway, name).items():
            assert not [word for word in ("zebra", "giraffe") if word in text], path
        for word in (escaped, coloured, "zebra", "giraffe"):
            assert get(f"{gateway.url}/inspector/turns", params={"q": f'"{word}"'}).json()["total"] == 0
        assert get(f"{gateway.url}/inspector/turns", params={"q": '"run"'}).json()["total"] == 1


async def _apply(gateway: Inspected) -> None:
    gateway.app.services.apply_providers()
