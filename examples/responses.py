"""Responses of a gateway: one that goes on from another, one made while nobody waits, and both over a WebSocket.

No key, no network: packaged streams answer. Needs the extra `serve`.
"""

import json
import threading
import time
import urllib.request
from typing import Any

import uvicorn
from websockets.sync.client import connect

from penstock.gateway import App

server = uvicorn.Server(uvicorn.Config(App(pace=0), port=0, log_level="error"))
thread = threading.Thread(target=server.run)
thread.start()
while not server.started:
    time.sleep(0.01)
BASE = f"127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1/responses"


def ask(path: str = "", body: Any = None) -> Any:
    data = json.dumps(body).encode() if body else None
    with urllib.request.urlopen(f"http://{BASE}{path}", data) as reply:
        return json.load(reply)


first = ask(body={"model": "replay/reasoning", "input": "How long does the tank take to fill?"})
second = ask(body={"model": "replay/text", "input": "And what fills it?", "previous_response_id": first["id"]})
items = ask(f"/{second['id']}/input_items?order=asc")["data"]
print("the second is an answer to:", *(item["type"] for item in items))

begun = ask(body={"model": "replay/text", "input": "Take your time.", "background": True})
print(begun["status"], end=" → ")
while begun["status"] in ("queued", "in_progress"):
    begun = ask(f"/{begun['id']}")
print(begun["status"])

with connect(f"ws://{BASE}") as socket:
    previous = None
    for text in ("Hello.", "And?"):
        body = {"model": "replay/text", "input": text, "store": False, "previous_response_id": previous}
        socket.send(json.dumps({"type": "response.create", **body}))
        events: list[Any] = []
        while not events or events[-1]["type"] != "response.completed":
            events.append(json.loads(socket.recv(timeout=10)))
        previous = events[-1]["response"]["id"]
        print(f"{len(events)} events over the WebSocket; nothing of it is stored")

server.should_exit = True
thread.join()
