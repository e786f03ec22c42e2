"""Which address leads where: a door, an answer in one piece, or nothing but a page. Asked once a request is let in.

Addresses are met as clients write them: with `/v1` forgotten, or said twice, with a slash too many, below what other
gateways and providers have their APIs under.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.gateway.access import check_size
from penstock.gateway.aux_requests import COUNT
from penstock.gateway.endpoints import (
    Door,
    chat,
    count_tokens,
    embeddings,
    gemini,
    messages,
    models,
    ollama,
    responses,
    stored_responses,
    uistream,
    vscode,
)
from penstock.gateway.metrics import TYPE
from penstock.http.response_writer import Flow
from penstock.protocols import DEFAULT
from penstock.replay import offered

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from penstock.gateway.endpoints import Headers, Visit
    from penstock.gateway.services import Services

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

DOORS: Mapping[str, Door] = {
    "/v1/chat/completions": chat.CHAT,
    "/v1/completions": chat.COMPLETIONS,
    "/v1/fim/completions": chat.FIM,
    "/v1/responses": responses.RESPONSES,
    "/v1/messages": messages.MESSAGES,
    "/api/chat": uistream.CHAT,
    "/api/generate": ollama.GENERATE,
    "/vscode/chat": vscode.CHAT,
}
# Gemini's addresses end in a method; the model is in the middle, and may have slashes: an SDK then says no `models/`.
METHODS: Mapping[str, Door] = {"generateContent": gemini.GENERATE, "streamGenerateContent": gemini.GENERATE}
_VERSIONS = ("/v1beta/", "/v1/", "/v1alpha/", "/v1beta1/")
_MODELS = "models/"


def client_protocols() -> set[str]:
    """The protocols that clients of the gateway speak."""
    return {endpoint.protocol for endpoint in (*DOORS.values(), *METHODS.values())}


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
    answer = ANSWERS.get((method, path))
    if answer is not None:
        return Route(answer=answer, params=dict(answer.params))
    params = modelled(path)
    if params and _is_method(params["method"]):  # else a model whose name ends in `:latest`
        return _method(method, params)
    answer, named = one_model(method, path)
    if answer is not None:
        return Route(answer=answer, params={**answer.params, **named})
    return Route(known=any(where == path for _, where in ANSWERS))


def _is_method(name: str) -> bool:
    return name in METHODS or ("POST", name) in GEMINI_HANDLERS


def _method(method: str, params: dict[str, str]) -> Route:
    door, answer = METHODS.get(params["method"]), GEMINI_HANDLERS.get((method, params["method"]))
    if method != "POST":
        return Route(known=True)
    return Route(door, answer, params)


def modelled(path: str) -> dict[str, str]:
    """The model and the method that a path of Gemini's names; nothing where it is another. Read from the right."""
    head, colon, method = path.rpartition(":")
    version = next((version for version in _VERSIONS if head.startswith(version)), "")
    if not (colon and version and method.isascii() and method.isalpha()):
        return {}
    model = head[len(version) :]
    at = model.rfind(f"/{_MODELS}", 0, -1)  # -1: something must follow it
    if at >= 0:
        model = model[at + 1 + len(_MODELS) :]
    elif model.startswith(_MODELS) and model != _MODELS:
        model = model.removeprefix(_MODELS)
    return {"model": model, "method": method} if model else {}


def dialect_of(path: str) -> str:
    """The protocol in which a request to an address that is not looked up is refused."""
    return next((protocol for prefix, protocol in _DIALECTS if path.startswith(prefix)), DEFAULT)


def path_of(scope: MutableMapping[str, Any]) -> str:
    """The path below wherever the application is mounted, without a slash at its end."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(root):
        path = path[len(root) :]
    return path.rstrip("/") or "/"


class Answer(msgspec.Struct, frozen=True):
    """How an answer is made, and the protocol in which it is refused. `params` are what the address says by itself.

    `operation`: what the journal calls it, where it has a row.
    """

    protocol: str
    make: Callable[[Any, Any], Awaitable[bytes | Flow]]
    params: dict[str, str] = {}
    operation: str = ""


ANSWERS: Mapping[tuple[str, str], Answer] = {
    ("GET", "/v1/models"): Answer("openai-chat", models.listed),
    ("GET", "/v1beta/models"): Answer("gemini", models.listed, {"shape": "gemini"}),
    ("GET", "/api/tags"): Answer("ollama", models.listed, {"shape": "ollama"}),
    ("GET", "/vscode/models"): Answer("vscode", models.editors),
    ("POST", "/vscode/count"): Answer("vscode", count_tokens.editor, operation=COUNT),
    ("GET", "/vscode/usage"): Answer("vscode", vscode.today),
    ("POST", "/v1/messages/count_tokens"): Answer("anthropic", count_tokens.messages, operation=COUNT),
    ("POST", "/v1/responses/compact"): Answer("responses", responses.compact),
    ("POST", "/v1/responses/input_tokens"): Answer("responses", responses.input_tokens, operation=COUNT),
    ("POST", "/v1/embeddings"): Answer("openai-chat", embeddings.embeddings, operation="embeddings"),
    ("POST", "/v1/rerank"): Answer("openai-chat", embeddings.rerank, operation="rerank"),
    ("POST", "/v2/rerank"): Answer("openai-chat", embeddings.rerank, operation="rerank"),
    ("POST", "/api/embed"): Answer("ollama", embeddings.ollama, operation="embeddings"),
    ("POST", "/api/embeddings"): Answer("ollama", embeddings.ollama_one, operation="embeddings"),
    ("POST", "/api/show"): Answer("ollama", ollama.shown),
    ("GET", "/api/ps"): Answer("ollama", ollama.running),
    ("GET", "/api/version"): Answer("ollama", ollama.version),
    **{
        (method, f"/api/{word}"): Answer("ollama", ollama.unserved)
        for method, word in (
            ("POST", "pull"),
            ("POST", "push"),
            ("POST", "create"),
            ("POST", "copy"),
            ("DELETE", "delete"),
        )
    },
}
# Gemini's, by the method at the end of the address.
GEMINI_HANDLERS: Mapping[tuple[str, str], Answer] = {
    ("POST", "countTokens"): Answer("gemini", count_tokens.gemini, operation=COUNT),
    ("POST", "embedContent"): Answer("gemini", embeddings.gemini_one, operation="embeddings"),
    ("POST", "batchEmbedContents"): Answer("gemini", embeddings.gemini_many, operation="embeddings"),
}
# One model, whose name may have slashes: what stands before it.
_SHOWN = {
    "/v1/models/": Answer("openai-chat", models.shown),
    "/v1beta/models/": Answer("gemini", models.shown, {"shape": "gemini"}),
}


def one_model(method: str, path: str) -> tuple[Answer | None, dict[str, str]]:
    """The answer that shows a single model, and its name."""
    if path.startswith(stored_responses.PREFIX):
        return _one_response(method, path)
    for prefix, answer in _SHOWN.items():
        if method == "GET" and path.startswith(prefix):
            return answer, {"model": path.removeprefix(prefix)}
    return None, {}


def _one_response(method: str, path: str) -> tuple[Answer | None, dict[str, str]]:
    id, _, what = path.removeprefix(stored_responses.PREFIX).partition("/")  # noqa: A001 — as the protocol calls it
    make = stored_responses.ROUTES.get((method, what))
    return (Answer("responses", make), {"response": id}) if make is not None and id else (None, {})


READING = frozenset({"GET", "HEAD"})
_JSON: Headers = ((b"content-type", b"application/json"),)
_HTML: Headers = ((b"content-type", b"text/html; charset=utf-8"),)
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:3rem auto;padding:0 1rem;color-scheme:light dark}"
    "code,pre{font:14px/1.5 ui-monospace,monospace}pre{padding:1rem;overflow:auto;background:#8881}"
    "td{padding:.1rem 1rem .1rem 0;vertical-align:top}"
)


_OPEN = frozenset({"/", "/healthz", "/readyz", "/metrics"})


def is_open(visit: Visit) -> bool:
    """Whether a request is for a page that admits for itself: health needs nothing, the others no gateway key.

    A browser's preflight cannot hold a key.
    """
    if visit.method == "OPTIONS":
        return "access-control-request-method" in visit.headers
    return visit.method in READING and visit.path in _OPEN


def page(
    services: Services, visit: Visit, scope: MutableMapping[str, Any], *, known: bool
) -> tuple[int, bytes, Headers]:
    """Status, body and headers of what is neither a door nor an answer."""
    check_size(scope)
    asked = services.access.preflight(scope)
    if asked is not None:
        return 204, b"", tuple(asked)
    if known:
        wants = "POST" if visit.method in READING else "another method"
        return 405, b'{"error":{"message":"this address takes %b"}}' % wants.encode(), _JSON
    made = _made(services, visit, scope) if visit.method in READING else None
    return made or (404, b'{"error":{"message":"nothing is served at this address"}}', _JSON)


def _made(services: Services, visit: Visit, scope: MutableMapping[str, Any]) -> tuple[int, bytes, Headers] | None:
    if visit.path == "/healthz":
        return 200, b'{"status":"ok"}', _JSON
    if visit.path == "/readyz":
        return _readiness(services)
    if visit.path == "/metrics":
        services.access.watch(scope)
        return 200, services.metrics.render(), ((b"content-type", TYPE),)
    if visit.path == "/":
        services.access.admit(scope, key=False)
        return 200, _home(visit.headers.get("host", "localhost")).encode(), _HTML
    if visit.path == "/api/version":  # what Ollama's clients look for first
        return 200, b'{"version":"0.13.0"}', _JSON
    return None


def _readiness(services: Services) -> tuple[int, bytes, Headers]:
    """Not ready while the server stops, or while a provider that is configured has no key. No name of either is told:
    the page needs no gateway key. The log at the start and `penstock serve --check` name them.
    """
    if not services.ready:
        return 503, b'{"status":"stopping"}', _JSON
    if services.lacks_keys():
        said = (
            b'{"status":"misconfigured","reason":"a configured provider has no key; penstock serve --check names it"}'
        )
        return 503, said, _JSON
    return 200, b'{"status":"ready"}', _JSON


def _home(host: str) -> str:
    rows = "".join(
        f"<tr><td><code>replay/{escape(name)}</code></td><td>{escape(about)}</td></tr>"
        for name, about in offered().items()
    )
    address = escape(f"http://{host}")
    return (
        f"<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'><title>penstock</title>"
        f"<style>{_STYLE}</style><h1>penstock</h1><p>This gateway answers over Chat Completions, Messages, Responses, "
        f"Gemini, Ollama's API, the UI message stream and VS Code parts, whatever its providers speak. The models it "
        f"has are listed at <a href=/v1/models>/v1/models</a>. These need no key, no network and no model:</p>"
        f"<table>{rows}</table><p>The inspector, which shows streams as they pass, belongs here and is not built: "
        f"<code>make web</code> builds it, and a released wheel has it.</p>"
        f"<h2>See one</h2><pre>curl -N {address}/v1/chat/completions -d "
        f'\'{{"model":"replay/tools","stream":true}}\'\n'
        f'curl -N {address}/v1/messages -d \'{{"model":"replay/reasoning","stream":true}}\'\n'
        f'curl -N {address}/v1/responses -d \'{{"model":"replay/citations","stream":true}}\'\n'
        f'curl -N {address}/api/chat -d \'{{"model":"replay/text","id":"1"}}\'</pre>'
        f"<h2>Point a client at it</h2><pre>OPENAI_BASE_URL={address}/v1 OPENAI_API_KEY=any\n"
        f"ANTHROPIC_BASE_URL={address} ANTHROPIC_API_KEY=any</pre>"
    )
