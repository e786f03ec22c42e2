"""The server of a chat page, with FastAPI: the page's `useChat` posts to /api/chat, the tools run here.

Start it with `uvicorn --app-dir examples web_fastapi:app`. A packaged model answers: no key, no network.
"""

from fastapi import FastAPI, Request, Response

import penstock
from penstock.client import read_ui_messages, starlette_response

MODEL = "replay/agent"
app = FastAPI()
client = penstock.Client()


def read_gauge(station: str) -> str:
    """Reads the water level at a station."""
    return f"{station}: 3.2 m"


@app.post("/api/chat")
async def chat(request: Request) -> Response:
    messages = read_ui_messages(await request.body())
    return starlette_response(client.run(MODEL, messages, tools=[read_gauge]))
