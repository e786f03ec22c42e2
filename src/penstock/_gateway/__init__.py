"""The gateway: an HTTP server that speaks the protocols of many clients and forwards to many providers."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

HOST = "127.0.0.1"
PORT = 4480


@cache
def read_tables() -> dict[str, Any]:
    """Return the tables of `tables.toml`."""
    return tomllib.loads(files(__name__).joinpath("tables.toml").read_text(encoding="utf-8"))
