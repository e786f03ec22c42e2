"""Which address leads where: a door, an answer in one piece, or nothing but a page. Asked once a request is let in.

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
_DEPLOYMENTS = "/openai/deployments/"  # so Azure has it
_DEPLOYED = ("/chat/completions", "/completions", "/embeddings")
_DIALECTS = (
    ("/v1/messages", "anthropic"), ("/v1/responses", "responses"), ("/v1beta", "gemini"), ("/v1alpha", "gemini"),
    ("/api/", "ollama"), ("/vscode/", "vscode"),
)  # fmt: skip
_REWRITES = 8  # of one address; those that are known need three at most
_BARE = ("/chat/", "/completions", "/fim/", "/responses", "/messages", "/embeddings", "/models", "/rerank")


class Route(msgspec.Struct):
    """What was found. `known`: the address is right, the method is not."""

    door: Door | None = None
    answer: Answer | None = None
    params: dict[str, str] = {}
    known: bool = False


def find(method: str, path: str) -> Route:
    """The way to an address. Each round takes time in proportion to the path, and there are only a few."""
    params: dict[str, str] = {}
    for _ in range(_REWRITES):
        door = DOORS.get(path)
        found = _entered(method, door) if door is not None else _answer(method, path)
        if found.answer is not None or found.door is not None or found.known:
            if params:
                found.params = {**params, **found.params}
            return found
        rewritten = _rewritten(path)
        if rewritten is None:
            break
        path, named = rewritten
        params = {**params, **named}
    return Route()


def _entered(method: str, door: Door) -> Route:
    return Route(door) if method == "POST" else Route(known=True)


def _rewritten(path: str) -> tuple[str, dict[str, str]] | None:
    """The address that an unknown one stands for, and what the unknown one says besides."""
    if path.startswith(_BARE):
        return f"/v1{path}", {}
    if path.startswith("/v1/v1/"):
        return path[_last_version(path) :], {}
    if "//" in path:
        return re.sub(r"//+", "/", path), {}
    deployed = _deployed(path)
    if deployed is not None:
        return deployed
    for prefix in _ELSEWHERE:
        if path.startswith(prefix):
            return f"/v1/{path.removeprefix(prefix)}", {}
    return (path[path.index("/", 1) :], {}) if path.startswith(_GEMINI) else None


def _last_version(path: str) -> int:
    """Where the last of several `/v1` at the beginning of a path stands."""
    at = 0
    while path.startswith("/v1/v1/", at):
        at += len("/v1")
    return at


def _deployed(path: str) -> tuple[str, dict[str, str]] | None:
    if not path.startswith(_DEPLOYMENTS):
        return None
    for rest in _DEPLOYED:
        model = path[len(_DEPLOYMENTS) : -len(rest)]
        if model and path.endswith(rest):
            return f"/v1{rest}", {"model": model}
    return None


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


def dialect_of(path: str) -> str:
    """The protocol in which a request to an address that is not looked up is refused."""
    return next((protocol for prefix, protocol in _DIALECTS if path.startswith(prefix)), "openai-chat")


def path_of(scope: MutableMapping[str, Any]) -> str:
    """The path below wherever the application is mounted, without a slash at its end."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(root):
        path = path[len(root) :]
    return path.rstrip("/") or "/"
