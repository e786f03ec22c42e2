"""One application in each web framework: it streams what `answer` makes of a request's body."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import django_response, starlette_response
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

PATH = "/api/chat"
FRAMEWORKS = ("starlette", "fastapi", "django")


def build_app(framework: str, answer: Callable[[bytes], Any], **options: Any) -> Any:
    """The application. An error of `answer` is streamed like an answer."""
    pytest.importorskip(framework)
    return {"starlette": _starlette, "fastapi": _fastapi, "django": _django}[framework](answer, options)


def source_of(answer: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        return answer(body)
    except PenstockError as error:
        return error


def _starlette(answer: Callable[[bytes], Any], options: dict[str, Any]) -> Any:
    from starlette.applications import Starlette
    from starlette.routing import Route

    async def chat(request: Request) -> Response:
        return starlette_response(source_of(answer, await request.body()), **options)

    return Starlette(routes=[Route(PATH, chat, methods=["POST"])])


def _fastapi(answer: Callable[[bytes], Any], options: dict[str, Any]) -> Any:
    import fastapi

    app = fastapi.FastAPI()

    async def chat(request: Any) -> Any:
        return starlette_response(source_of(answer, await request.body()), **options)

    chat.__annotations__ = {"request": fastapi.Request}
    app.post(PATH, response_model=None)(chat)
    return app


def _django(answer: Callable[[bytes], Any], options: dict[str, Any]) -> Any:
    return django_app(lambda request: django_response(source_of(answer, request.body), **options))


def django_app(view: Callable[[Any], Any]) -> Any:
    """Django with one async view at `PATH`."""
    from django.core.handlers.asgi import ASGIHandler

    async def chat(request: Any) -> Any:
        return await view(request)

    django_urls(chat)
    return ASGIHandler()


def django_urls(view: Callable[[Any], Any]) -> None:
    """Puts one view at `PATH`. Settings are made once in a process."""
    import django
    from django.conf import settings
    from django.urls import clear_url_caches, path

    name = "tests_django_urls"
    if not settings.configured:
        settings.configure(ROOT_URLCONF=name, ALLOWED_HOSTS=["*"], DEBUG=False, SECRET_KEY="none", LOGGING_CONFIG=None)
        django.setup()
    urls: Any = sys.modules.setdefault(name, ModuleType(name))
    urls.urlpatterns = [path(PATH.lstrip("/"), view)]
    clear_url_caches()
