"""The server of a chat page, with Starlette: the page's `useChat` posts to /api/chat, the tool runs here.

Start it with `uvicorn --app-dir examples web_starlette:app`. A packaged model answers: no key, no network.
"""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import penstock
from penstock.client import read_ui_messages, starlette_response

MODEL = "replay/agent"
client = penstock.Client()


def read_gauge(station: str) -> str:
    """Reads the water level at a station."""
    return f"{station}: 3.2 m"


async def chat(request: Request) -> Response:
    return starlette_response(client.run(MODEL, read_ui_messages(await request.body()), tools=[read_gauge]))


app = Starlette(routes=[Route("/api/chat", chat, methods=["POST"])])
