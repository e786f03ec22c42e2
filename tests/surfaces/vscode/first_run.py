"""A first run of the extension on a machine without Python and without a network: `python -m tests.surfaces.vscode.first_run JOB`.

Runs in a network namespace of its own where the system allows one: the provider, the editor and the browser are inside,
and nothing else can be reached. JOB is the job of `drive/chat.mjs`, without the address of the provider.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock._replay.tool_choice import write_example_input
from penstock.testing import Reply, scripted
from tests.surfaces.vscode.e2e import HERE, Control, node

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest

FIRST, SECOND, WRONG = "planted-first-key-1234", "planted-second-key-5678", "planted-wrong-key-9012"
URL = "URL OF THE PROVIDER"  # in the scenes
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1


class Provider:
    """A provider that checks its key, lists two models, and calls the terminal if it is asked about the water."""

    def __init__(self) -> None:
        self.valid = FIRST

    def __call__(self, seen: ReceivedRequest) -> Reply:
        sent = seen.headers.get("authorization", "").removeprefix("Bearer ")
        if sent != self.valid:
            return Reply.error("openai-chat", 401, "Incorrect API key provided")
        if not seen.body:
            return Reply.body({"data": [{"id": "tide-1"}, {"id": "tide-2"}]})
        messages = seen.json["messages"]
        tools = {
            tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in seen.json.get("tools", [])
        }
        if messages[-1]["role"] == "tool":
            return said("The water is 3.2 m high.")
        if "water" in str(messages[-1]) and "run_in_terminal" in tools:
            given = write_example_input(tools["run_in_terminal"], "echo 3.2 m")
            call: list[ev.AnyEvent] = [
                ev.CallStart(0, "call_1", "run_in_terminal"), ev.CallDelta(0, given),
                ev.CallEnd(0, "call_1", "run_in_terminal", given),
            ]  # fmt: skip
            return Reply.of(
                "openai-chat", [ev.Start("m", "tide"), *call, ev.Usage(input=900, output=9), ev.Finish("calls")]
            )
        return said("The tide is in.")


def said(text: str) -> Reply:
    words: list[ev.AnyEvent] = [ev.Start("m", "tide"), ev.TextStart(0), ev.TextDelta(0, text), ev.TextEnd(0)]
    return Reply.of("openai-chat", [*words, ev.Usage(input=900, output=9), ev.Finish("stop")])


def start_loopback() -> None:
    """A new network namespace has a loopback that is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def main(file: Path) -> int:
    job: dict[str, Any] = json.loads(file.read_text())
    if job["isolated"]:
        start_loopback()
    provider = Provider()

    def change_key(_: Any) -> None:
        provider.valid = SECOND

    with scripted(provider) as upstream, Control({"change-key": change_key}) as control:
        scenes = json.loads(json.dumps(job["scenes"]).replace(URL, f"{upstream.url}/v1"))
        file.write_text(json.dumps({**job, "scenes": scenes, "control": control.url}))
        return subprocess.run(
            [node(), str(HERE / "drive/chat.mjs"), str(file)], env=dict(os.environ), check=False
        ).returncode


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
