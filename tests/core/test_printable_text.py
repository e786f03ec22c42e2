"""Text of providers in terminals and logs: no control characters, escape sequences or bidi controls reach them."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest

from penstock._gateway.config import Log
from penstock._gateway.log_setup import setup_logging
from penstock._printable_text import printable, printable_lines
from penstock._vscode_stream import AdapterLog
from penstock.testing import Reply, scripted

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\u2066\x00\x7f\r\x08\u2028"
ALLOWED = "\u200c\u200d"


def unsafe_characters(text: str, allowed: str = "") -> set[str]:
    """The characters of a text that a terminal may obey."""
    return {char for char in text if unicodedata.category(char)[0] == "C" or char in "\u2028\u2029"} - {
        *allowed,
        *ALLOWED,
    }


def test_every_character() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert not unsafe_characters(printable(every))
    assert not unsafe_characters(printable_lines(every), "\n\t")
    assert printable("a\r\nb\tc") == "a␍⏎b⇥c"
    assert printable_lines("a\r\nb\tc\rd") == "a\nb\tc␍d"
    assert printable("👩\u200d👧 naïve 漢字") == printable_lines("👩\u200d👧 naïve 漢字") == "👩\u200d👧 naïve 漢字"


def chat(tmp_path: Path, *replies: Reply) -> subprocess.CompletedProcess[bytes]:
    """Runs `penstock chat` against an upstream."""
    with scripted(*replies) as upstream:
        config = tmp_path / "penstock.toml"
        config.write_text(f'retries = 0\n[providers.openai]\nbase_url = "{upstream.url}/v1"\nkey = "k"\n')
        command = [sys.executable, "-m", "penstock", "chat", "--config", str(config), "openai/gpt-4o", "?"]
        environment = {**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
        return subprocess.run(command, capture_output=True, env=environment, stdin=subprocess.DEVNULL, check=False)


def test_errors_and_answers_in_chat(tmp_path: Path) -> None:
    error = {"error": {"message": f"no {HOSTILE}\npenstock: all is well", "type": "invalid_request_error"}}
    body = json.dumps(error).encode()
    done = chat(tmp_path, Reply(status=400, headers={"content-type": "application/json"}, chunks=(body,)))
    text = done.stderr.decode()
    assert "evil" in text
    assert not unsafe_characters(text, "\n")
    assert not any(line.startswith("penstock: all is well") for line in text.splitlines())
    delta = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": f"a\n\tb {HOSTILE}"}}]}
    end: dict[str, Any] = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    lines = b"".join(f"data: {one}\n\n".encode() for one in (json.dumps(delta), json.dumps(end), "[DONE]"))
    done = chat(tmp_path, Reply(headers={"content-type": "text/event-stream"}, chunks=(lines,)))
    text = done.stdout.decode()
    assert "a\n\tb" in text
    assert "evil" in text
    assert not unsafe_characters(text + done.stderr.decode(), "\n\t")


@pytest.mark.parametrize("form", ["text", "json"])
def test_log_lines_of_the_gateway(form: Any) -> None:
    file, root = io.StringIO(), logging.getLogger("penstock")
    before = root.handlers[:], root.level, root.propagate
    try:
        setup_logging(Log(form=form), file=file)
        logging.getLogger("penstock.gateway").warning("failed: %s", HOSTILE, extra={"model": HOSTILE})
    finally:
        root.handlers[:], root.level, root.propagate = before
    line = file.getvalue()
    assert line.count("evil") == 2
    assert not unsafe_characters(line, "\n")
    assert line.count("\n") == 1


def test_log_lines_of_the_adapter() -> None:
    lines: list[str] = []

    class Recorder:
        def warning(self, text: str) -> None:
            lines.append(text)

        info = debug = trace = error = warning

    AdapterLog(Recorder()).write("warning", HOSTILE)
    assert len(lines) == 1
    assert "evil" in lines[0]
    assert not unsafe_characters(lines[0])
