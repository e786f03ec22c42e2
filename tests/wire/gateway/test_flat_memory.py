"""What a turn has used is free at its end, however it ends: memory does not grow with the number of turns."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from http.client import HTTPConnection
from itertools import cycle, islice
from typing import TYPE_CHECKING

import pytest

from tests.support import process
from tests.support.gateway import hash_key

if TYPE_CHECKING:
    from pathlib import Path

MB = 1_000_000
KEY = "pk-made-up-000000"
# With a key nothing is kept for the inspector. The provider that is gone fails each turn, after its retry.
CONFIG = f"""
retries = 1
[keys.one]
hash = "{hash_key(KEY)}"
[providers.gone]
base_url = "http://127.0.0.1:9/v1"
key = "made-up"
models = ["m"]
[breaker]
failures = 1000000
"""
# The route, the model, whether it streams, and the status of the answer.
TURNS = (
    ("/v1/chat/completions", "replay/tools", True, 200),
    ("/v1/messages", "replay/reasoning", True, 200),
    ("/v1/chat/completions", "replay/text", False, 200),
    ("/v1/messages", "gone/m", True, 502),
    ("/v1/chat/completions", "nobody/m", True, 404),
)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process's memory")
def test_memory_of_two_thousand_turns_is_flat(tmp_path: Path) -> None:
    with process.gateway(tmp_path, CONFIG, "--full-speed") as running:
        host = running.base.removeprefix("http://")
        with closing(HTTPConnection(host, timeout=60)) as connection:

            def ask(count: int) -> int:
                for path, model, stream, status in islice(cycle(TURNS), count):
                    said = {
                        "model": model,
                        "stream": stream,
                        "max_tokens": 99,
                        "messages": [{"role": "user", "content": "Hi"}],
                    }
                    headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
                    connection.request("POST", path, json.dumps(said), headers)
                    answer = connection.getresponse()
                    answer.read()
                    assert answer.status == status, (model, answer.status)
                return running.memory

            before = ask(500)
            after = ask(2_000)
    assert after - before < 3 * MB, f"{before / MB:.1f} MB after 500 turns, {after / MB:.1f} MB after 2,500"
