"""`penstock chat` and `penstock doctor`, as a user runs them; in this process but for one, which is quicker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.providers import providers
from penstock.testing import Reply, play, scripted
from tests.cli.command_runner import inside as penstock
from tests.cli.command_runner import penstock as process
from tests.support.each_case import each
from tests.wire.engines.router_setup import KEY

if TYPE_CHECKING:
    from pathlib import Path

# A machine's own keys and proxies are none of a test's business.
BARE: Any = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "HTTP_PROXY", "HTTPS_PROXY"), "")


def config(where: Path, url: str) -> str:
    file = where / "penstock.toml"
    file.write_text(f'[providers.mine]\nbase_url = "{url}/v1"\nkey = "{KEY}"\n[aliases]\nfast = "mine/m"\n')
    return str(file)


def test_chat_with_no_key_and_no_network() -> None:
    done = penstock("chat", "replay/tools", "How high is the water?", **BARE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"Let me look at the gauge first.\n"
    assert b"tool read_gauge" in done.stderr
    assert b"out" in done.stderr


@each("words", [["chat", "replay/text", "?"], ["doctor", "--offline"]])
def test_in_a_process_of_its_own_it_says_the_same(words: list[str]) -> None:
    done = process(*words, **BARE)
    here = penstock(*words, **BARE)
    assert (done.returncode, done.stdout, done.stderr) == (here.returncode, here.stdout, here.stderr)


def test_chat_with_nobody_who_is_not_there() -> None:
    nobody: Any = {name: "" for row in providers().values() for name in row.env}
    done = penstock("chat", "whoever/large", "?", **nobody)
    assert done.returncode == 2
    assert b"no provider is called 'whoever'" in done.stderr
    assert b"replay/agent" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_chat_in_colour_dims_thinking() -> None:
    done = penstock("chat", "replay/reasoning", "?", FORCE_COLOR="1", **BARE)
    assert b"\x1b[2m" in done.stdout
    assert b"\x1b[2m" not in penstock("chat", "replay/reasoning", "?", NO_COLOR="1", **BARE).stdout


def test_chat_by_a_configuration(tmp_path: Path) -> None:
    with scripted(Reply.of("openai-chat", play("text"))) as up:
        file = config(tmp_path, up.url)
        done = penstock("chat", "fast", "Shorten this.", "--json", "--config", file, given=b"a long text", **BARE)
        assert done.returncode == 0, done.stderr
        kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
        assert (kinds[0], kinds[-1]) == ("start", "finish")
        assert up.requests[0].json["messages"][-1]["content"] == "a long text\n\nShorten this."
        up.script(Reply.error("openai-chat", 401, f"unknown key {KEY}"))
        done = penstock("chat", "fast", "?", "--config", file, "-v", **BARE)
        assert done.returncode == 1
        assert b"auth (401)" in done.stderr
        assert KEY.encode() not in done.stderr + done.stdout


def test_doctor_tells_what_there_is(tmp_path: Path) -> None:
    done = penstock("doctor", "--offline", **BARE)
    assert done.returncode == 0
    assert b"packaged streams answer" in done.stdout
    with scripted(Reply.body({"data": [{"id": "m"}]})) as up:
        file = config(tmp_path, up.url)
        done = penstock("doctor", "--config", file, "--json", **BARE)
        found: dict[str, Any] = json.loads(done.stdout)
        assert [(row["name"], row["ok"]) for row in found["providers"]] == [("mine", True)]
        assert found["packages"]["aiohttp"][0].isdigit()
        up.script(Reply.error("openai-chat", 403, "no"))
        done = penstock("doctor", "--config", file, **BARE)
        assert done.returncode == 1
        assert b"FAIL mine" in done.stdout
        assert KEY.encode() not in done.stdout + done.stderr


SAVED: dict[str, bytes] = {
    "body": b'{"error":{"message":"slow down","code":"rate_limit_exceeded"}}',
    "record": json.dumps({"status": 429, "headers": {"x-request-id": "req_3", "retry-after": "9"}, "body": {"error": {"message": "slow down"}}}).encode(),
    "curl": b'HTTP/1.1 100 Continue\r\n\r\nHTTP/2 429 \r\nx-request-id: req_3\r\nretry-after: 9\r\n\r\n{"error":{"message":"slow down"}}',
}  # fmt: skip


@each("form", SAVED)
def test_a_saved_error_is_explained(form: str, tmp_path: Path) -> None:
    file = tmp_path / "failed"
    file.write_bytes(SAVED[form])
    done = penstock("doctor", "--error", str(file), **BARE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"RateLimited: rate-limit")
    assert b"slow down" in done.stdout
    assert form == "body" or b"req_3" in done.stdout
    assert form == "body" or b"9 s" in done.stdout


def test_a_saved_error_with_nothing_in_it(tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.write_bytes(b" \n")
    done = penstock("doctor", "--error", str(file), **BARE)
    assert done.returncode == 2
    assert b"there is nothing in it" in done.stderr
    assert penstock("doctor", "--error", str(tmp_path / "none"), **BARE).returncode == 2
