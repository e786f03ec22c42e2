"""Runs one of the web examples: `python -m tests.client.example_server web_django URL [approval]`.

Its model is asked at an upstream (`URL`); with `approval` its tool waits for the user's. Prints its own address.
"""

from __future__ import annotations

import socket
import sys
from importlib import import_module
from typing import Any

import uvicorn

import penstock
from tests.support.paths import PROJECT

KEY = "sk-secret-0123456789abcdef"


def main(name: str, upstream: str, *modes: str) -> None:
    sys.path.insert(0, str(PROJECT / "examples"))
    example: Any = import_module(name)
    providers = {"openai": {"base_url": f"{upstream}/v1", "key": KEY}}
    example.client = penstock.Client({"providers": providers, "retries": 0}, env={})
    example.MODEL = "openai/agent"
    if "approval" in modes:
        example.read_gauge = penstock.tool(needs_approval=True)(example.read_gauge)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/api/chat", flush=True)  # noqa: T201
    config = uvicorn.Config(example.app, log_level="error", lifespan="auto")
    uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main(*sys.argv[1:])
