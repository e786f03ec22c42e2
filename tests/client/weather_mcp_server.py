"""A real MCP server for the tests, written with the official package: `python weather_mcp_server.py [port]`.

Without a port it speaks over stdio; with one, over streamable HTTP on this machine.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
types: Any = import_module("mcp.types")
server: Any = import_module("mcp.server").MCPServer("weather", log_level="ERROR")


class Weather(BaseModel):
    city: str
    degrees: int


@server.tool()
def get_weather(city: str) -> Weather:
    """Returns the weather of a city."""
    return Weather(city=city, degrees=21)


@server.tool(structured_output=False)
def get_map(city: str) -> Any:
    """Returns a map."""
    text = types.TextContent(type="text", text=f"a map of {city}")
    return [text, types.ImageContent(type="image", data=PIXEL, mime_type="image/png")]


@server.tool()
def fail(reason: str) -> str:
    """Fails."""
    raise import_module("mcp.server.mcpserver.exceptions").ToolError(reason)


@server.tool()
def note(path: str) -> str:
    """Writes a file, so that a test can see that it ran."""
    Path(path).write_text("ran", encoding="utf-8")
    return "written"


if __name__ == "__main__":
    if starts := os.environ.get("STARTS"):
        with Path(starts).open("a", encoding="utf-8") as file:
            file.write("started\n")
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
