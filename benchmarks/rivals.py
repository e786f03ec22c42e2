"""Other gateways in the gateway's benchmark, where they are installed: LiteLLM's proxy, Portkey's gateway.

`python -m benchmarks.gateway --rivals`. They are found on the PATH, or where PENSTOCK_LITELLM and PENSTOCK_PORTKEY say
(the commands `litellm` and `gateway`). Each is asked over Chat with a Chat upstream behind it: its easiest way.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.timing import Section, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.gateway import Bench, Process

PATIENCE = 90.0  # seconds to start in
ROUNDS, SECONDS = 3, 4.0
KEY = "sk-" + "0123456789abcdef" * 4
_LITELLM = """
general_settings: {{master_key: {key}}}
model_list:
  - model_name: {model}
    litellm_params: {{model: openai/{model}, api_base: "http://127.0.0.1:{port}/v1", api_key: none}}
"""


class Rival:
    """A gateway of somebody else's: its whole tree of processes."""

    def __init__(self, made: subprocess.Popen[bytes], port: int, header: str = "") -> None:
        self.made, self.port, self.header = made, port, header
        self.pid = made.pid

    @property
    def cpu(self) -> float:
        return 0.0  # it may be many processes: streams a second tell enough


def command(name: str, variable: str) -> str | None:
    """Where a rival is, if anywhere."""
    return os.environ.get(variable) or shutil.which(name)


@contextmanager
def litellm(upstream: int, port: int, model: str) -> Iterator[Rival | None]:
    """LiteLLM's proxy with one worker."""
    found = command("litellm", "PENSTOCK_LITELLM")
    if found is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "config.yaml")
        file.write_text(_LITELLM.format(model=model, port=upstream, key=KEY))
        words = [found, "--config", str(file), "--port", str(port), "--host", "127.0.0.1"]
        with _running(words, port) as made:
            yield Rival(made, port, f"authorization: Bearer {KEY}")


@contextmanager
def portkey(upstream: int, port: int, _: str) -> Iterator[Rival | None]:
    """Portkey's gateway, told of the upstream by a header."""
    found = command("gateway", "PENSTOCK_PORTKEY")
    if found is None:
        yield None
        return
    said = json.dumps({"provider": "openai", "api_key": "none", "custom_host": f"http://127.0.0.1:{upstream}/v1"})
    with _running([found, f"--port={port}", "--headless"], port) as made:
        yield Rival(made, port, f"x-portkey-config: {said}")


@contextmanager
def _running(words: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as made:
        try:
            _wait(made, port)
            yield made
        finally:
            made.terminate()


def _wait(made: subprocess.Popen[bytes], port: int) -> None:
    ends = time.monotonic() + PATIENCE
    while made.poll() is None and time.monotonic() < ends:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise RuntimeError(f"{made.args!r} does not listen")


def report() -> Section:
    """Streams a second of each, beside the pass-through and ours, in turn."""
    from benchmarks.gateway import DELTAS, STREAMS, bench, port

    model = f"n{DELTAS}"
    with bench() as made, litellm(made.upstream, port(), model) as one, portkey(made.upstream, port(), model) as other:
        for name, rival in (("LiteLLM", one), ("Portkey", other)):
            if rival is not None:
                _join(made, name, rival)
        seen = {name: [made.run(name, model, STREAMS, SECONDS) for _ in range(ROUNDS)] for name in made.ways}
    rates = {name: sorted(one["rate"] for one in rounds)[ROUNDS // 2] for name, rounds in seen.items()}
    bad = [name for name, rounds in seen.items() if any(one["errors"] for one in rounds)]
    rows = [[name, f"{rate:.0f}", f"{rate / rates['pass-through']:.4f}"] for name, rate in rates.items()]
    text = f"""## The gateway beside others

{STREAMS} streams at once of {DELTAS} deltas at full speed, medians of {ROUNDS} rounds. The others are asked over Chat
with a Chat upstream, as *same* is. `python -m benchmarks.gateway --rivals`.

{table(["", "streams/s", "of the pass-through"], rows)}"""
    return Section(text, [f"{name}: a stream failed" for name in bad])


def _join(made: Bench, name: str, rival: Rival) -> None:
    process: Process = rival  # type: ignore[assignment]
    made.ways[name] = (process, rival.port, "/v1/chat/completions", "")
    made.headers[name] = rival.header
