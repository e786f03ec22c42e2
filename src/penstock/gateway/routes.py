"""Which address leads where: a door, an answer in one piece, or nothing but a page.

Addresses are met as clients write them: with `/v1` forgotten, or said twice, with a slash too many, below what other
gateways and providers have their APIs under.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from penstock.gateway import answers
from penstock.gateway.answers import Answer
from penstock.gateway.doors import DOORS, METHODS, Door, modelled

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

# What others have in front of an API that is known here; what stands behind it is looked for.
_ELSEWHERE = ("/openai/v1/", "/anthropic/v1/", "/api/v1/", "/v1beta/openai/", "/compatible-mode/v1/", "/inference/v1/")
_GEMINI = ("/gemini/v1beta/", "/gemini/v1/", "/google/v1beta/")
_DEPLOYED = re.compile(
    r"/openai/deployments/(?P<model>.+?)(?P<rest>/(?:chat/)?completions|/embeddings)"
)  # so Azure has it
_BARE = ("/chat/", "/completions", "/fim/", "/responses", "/messages", "/embeddings", "/models", "/rerank")


class Route(msgspec.Struct):
    """What was found. `known`: the address is right, the method is not."""

    door: Door | None = None
    answer: Answer | None = None
    params: dict[str, str] = {}
    known: bool = False


def find(method: str, path: str) -> Route:
    """The way to an address."""
    door = DOORS.get(path)
    if door is not None:
        return Route(door) if method == "POST" else Route(known=True)
    found = _answer(method, path)
    if found.answer is not None or found.door is not None or found.known:
        return found
    if path.startswith(_BARE):
        return find(method, f"/v1{path}")
    return find(method, path[3:]) if path.startswith("/v1/v1/") else _known_elsewhere(method, path) or found


def _known_elsewhere(method: str, path: str) -> Route | None:
    """The way to an address that others have."""
    if "//" in path:
        return find(method, re.sub(r"//+", "/", path))
    deployed = _DEPLOYED.fullmatch(path)
    if deployed is not None:
        found = find(method, f"/v1{deployed['rest']}")
        found.params = {"model": deployed["model"], **found.params}
        return found
    for prefix in _ELSEWHERE:
        if path.startswith(prefix):
            return find(method, f"/v1/{path.removeprefix(prefix)}")
    return find(method, path[path.index("/", 1) :]) if path.startswith(_GEMINI) else None


def _answer(method: str, path: str) -> Route:
    answer = answers.ANSWERS.get((method, path))
    if answer is not None:
        return Route(answer=answer, params=dict(answer.params))
    params = modelled(path)
    if params and _is_method(params["method"]):  # else a model whose name ends in `:latest`
        return _method(method, params)
    answer, named = answers.one_model(method, path)
    if answer is not None:
        return Route(answer=answer, params={**answer.params, **named})
    return Route(known=any(where == path for _, where in answers.ANSWERS))


def _is_method(name: str) -> bool:
    return name in METHODS or ("POST", name) in answers.METHODS


def _method(method: str, params: dict[str, str]) -> Route:
    door, answer = METHODS.get(params["method"]), answers.METHODS.get((method, params["method"]))
    if method != "POST":
        return Route(known=True)
    return Route(door, answer, params)


def path_of(scope: MutableMapping[str, Any]) -> str:
    """The path below wherever the application is mounted, without a slash at its end."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(root):
        path = path[len(root) :]
    return path.rstrip("/") or "/"
