"""Where a path leads, without a gateway: thousands of paths are looked up."""

from __future__ import annotations

from typing import NamedTuple

from penstock._gateway.endpoints.unsupported import find_unsupported, unsupported_features
from penstock._gateway.routes import ENDPOINTS, error_protocol, find_route, parse_gemini_path

__all__ = ["Found", "error_protocol", "find_unsupported", "look_up", "parse_gemini_path", "unsupported_features"]


class Found(NamedTuple):
    """`endpoint`: the usual path of it; empty if none is there. `known`: there is one, perhaps of another method."""

    endpoint: str
    params: dict[str, str]
    known: bool


def look_up(method: str, path: str) -> Found:
    route = find_route(method, path)
    endpoint = next((name for name, made in ENDPOINTS.items() if made is route.endpoint), "")
    return Found(endpoint, route.params, route.known or route.endpoint is not None or route.handler is not None)
