"""What providers say reaches a terminal without control characters, escape sequences or bidi controls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.testing import Reply, scripted
from tests.cli.command_runner import inside
from tests.core.test_printable_text import HOSTILE, unsafe_characters

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


def chat(tmp_path: Path, reply: Reply) -> subprocess.CompletedProcess[bytes]:
    """`penstock chat` with an upstream."""
    with scripted(reply) as upstream:
        config = tmp_path / "penstock.toml"
        config.write_text(f'retries = 0\n[providers.openai]\nbase_url = "{upstream.url}/v1"\nkey = "k"\n')
        return inside("chat", "--config", str(config), "openai/gpt-4o", "?", NO_COLOR="1", PYTHONIOENCODING="utf-8")


def test_an_error_in_chat(tmp_path: Path) -> None:
    error = {"error": {"message": f"no {HOSTILE}\npenstock: all is well", "type": "invalid_request_error"}}
    text = chat(tmp_path, Reply.body(error, status=400)).stderr.decode()
    assert "evil" in text
    assert not unsafe_characters(text, "\n")
    assert not any(line.startswith("penstock: all is well") for line in text.splitlines())


def test_an_answer_in_chat(tmp_path: Path) -> None:
    delta = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": f"a\n\tb {HOSTILE}"}}]}
    end: dict[str, Any] = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    lines = b"".join(f"data: {one}\n\n".encode() for one in (json.dumps(delta), json.dumps(end), "[DONE]"))
    done = chat(tmp_path, Reply(headers={"content-type": "text/event-stream"}, chunks=(lines,)))
    text = done.stdout.decode()
    assert "a\n\tb" in text
    assert "evil" in text
    assert not unsafe_characters(text + done.stderr.decode(), "\n\t")
