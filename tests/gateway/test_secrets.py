"""Keys planted everywhere a key can be; then everything that was written is searched for them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock.testing import Reply, scripted
from tests.cli.command_runner import environment
from tests.support.gateway import hash_key
from tests.support.key_file import key_file
from tests.support.process import gateway

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.testing import ReceivedRequest

# None of them looks like a key to a pattern: they are found by value, by their place, or not at all.
ACCOUNT, VARIABLE, GATEWAY, FILED, HEADER = (
    f"planted{word}secret" for word in ("account", "variable", "gateway", "filed", "header")
)
LOOKS = "sk-planted0123456789abcdef"
EVENTS: list[ev.AnyEvent] = [
    ev.Start(id="1", model="m"), ev.TextStart(0), ev.TextDelta(0, "hello"), ev.TextEnd(0),
    ev.Usage(input=3, output=2), ev.Finish("stop"),
]  # fmt: skip


def answer(seen: ReceivedRequest) -> Reply:
    """Says the key it was sent back, as some providers do."""
    key = seen.headers.get("authorization", "")
    if seen.json["model"] == "bad":
        said = f"Incorrect key {key}; also {LOOKS}"
        return Reply.error("openai-chat", 401, said)
    text = ev.TextDelta(0, f"you sent {key}")
    return Reply.of("openai-chat", [*EVENTS[:2], text, *EVENTS[3:]], headers={"set-cookie": f"session={HEADER}"})


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_no_key_is_written_anywhere(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    key_file(tmp_path / "data").add("filed", {"hash": hash_key(FILED)})
    with scripted(answer) as upstream:
        config = f"""
[providers.one]
base_url = "{upstream.url}/v1"
key = "{ACCOUNT}"
[providers.two]
base_url = "{upstream.url}/v1"
env = "TWO_KEY"
[keys.ci]
env = "CI_GATEWAY"
[options.headers]
x-custom-auth = "{HEADER}"
[record]
path = "{(tmp_path / "tapes").as_posix()}"
"""
        with gateway(tmp_path, config, "--log", "debug", TWO_KEY=VARIABLE, CI_GATEWAY=GATEWAY) as server:
            pages = _ask(server.base)
            server.stop()
            written = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {seen.headers.get("authorization") for seen in upstream.requests} == {
        f"Bearer {ACCOUNT}",
        f"Bearer {VARIABLE}",
    }
    del written["penstock.toml"]  # where they were put
    assert {"journal.sqlite", "said", "keys.json"} <= set(written)
    assert sum(name.endswith(".tape") for name in written) >= 4
    usage = [
        sys.executable,
        "-m",
        "penstock",
        "usage",
        "--last",
        "99",
        "--json",
        "--journal",
        str(tmp_path / "data/journal.sqlite"),
    ]
    written["usage"] = subprocess.run(usage, capture_output=True, env=environment(), timeout=60, check=True).stdout
    assert written["usage"].count(b"\n") >= 8
    for name, data in {**written, **pages}.items():
        for secret in (ACCOUNT, VARIABLE, GATEWAY, FILED, HEADER, LOOKS):
            assert secret.encode() not in data, f"{secret} is in {name}"


def _ask(base: str) -> dict[str, bytes]:
    """Good and bad, stream and whole, each way to send a gateway key; gives what is shown to anybody."""
    ways: list[dict[str, Any]] = [
        {"headers": {"x-api-key": GATEWAY}}, {"headers": {"authorization": f"Bearer {FILED}"}}, {"params": {"key": FILED}},
        {"headers": {"x-goog-api-key": "planted" + "wrong"}},
    ]  # fmt: skip
    with httpx.Client(base_url=base, timeout=30) as client:
        for number, way in enumerate(ways):
            for model in ("one/m", "two/m", "one/bad"):
                said = [{"role": "user", "content": f"a {LOOKS}"}]
                body = {"model": model, "stream": bool(number % 2), "messages": said}
                reply = client.post("/v1/chat/completions", json=body, **way)
                assert reply.status_code == (401 if number == 3 or model == "one/bad" else 200), reply.text
                if reply.status_code != 200:
                    assert not {word for word in (ACCOUNT, VARIABLE, LOOKS) if word in reply.text}
        metrics = client.get("/metrics", headers={"x-api-key": GATEWAY})
    assert metrics.status_code == 200
    return {"metrics": metrics.content}
