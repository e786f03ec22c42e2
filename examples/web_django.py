"""The server of a chat page, with Django: the page's `useChat` posts to /api/chat, the tool runs here.

Start it with `uvicorn --app-dir examples web_django:app`. A packaged model answers: no key, no network.
"""

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import path

import penstock
from penstock.client import django_response, read_ui_messages

MODEL = "replay/agent"
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["localhost", "127.0.0.1"])
client = penstock.Client()


def read_gauge(station: str) -> str:
    """Reads the water level at a station."""
    return f"{station}: 3.2 m"


async def chat(request: HttpRequest) -> HttpResponseBase:
    messages = read_ui_messages(request.body)
    response: HttpResponseBase = await django_response(client.run(MODEL, messages, tools=[read_gauge]))
    return response


urlpatterns = [path("api/chat", chat)]
app = get_asgi_application()
