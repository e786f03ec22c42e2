"""Routes: maps a path to an endpoint, to a handler without a turn, or to a page (health, metrics, home).

Accepts paths as clients send them: without `/v1`, with `/v1` twice, with double slashes, and with the prefixes of
other gateways and providers.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._gateway.access import check_size
from penstock._gateway.endpoints import (
    ClientEndpoint,
    Headers,
    IncomingRequest,
    budget,
    compaction,
    count_tokens,
    embeddings,
    models,
    ollama,
    responses,
    resumed_streams,
    stored_responses,
    turn_endpoints,
    vscode,
    vscode_providers,
)
from penstock._gateway.journal import COUNT
from penstock._gateway.metrics import CONTENT_TYPE
from penstock._http.response_writer import EventStream
from penstock._protocols import DEFAULT
from penstock._replay import describe_scripts

if TYPE_CHECKING:
    from penstock._gateway.services import Services

# Prefixes of other gateways and providers; the rest of the path is looked up.
_FOREIGN_PREFIXES = "/openai/v1/ /anthropic/v1/ /api/v1/ /v1beta/openai/ /compatible-mode/v1/ /inference/v1/".split()
_GEMINI_PREFIXES = ("/gemini/v1beta/", "/gemini/v1/", "/google/v1beta/")
_AZURE_PREFIX = "/openai/deployments/"  # Azure
_AZURE_OPERATIONS = (
    *("/chat/completions", "/completions", "/embeddings"),
    *("/images/generations", "/images/edits", "/audio/speech", "/audio/transcriptions", "/audio/translations"),
)
_ERROR_PROTOCOLS = (
    ("/v1/messages", "anthropic"),
    ("/v1/responses", "responses"),
    ("/v1beta", "gemini"),
    ("/v1alpha", "gemini"),
    ("/api/", "ollama"),
    ("/vscode/", "vscode"),
)
_MAX_REWRITES = 8  # of one path; known prefixes need at most three
_UNVERSIONED = (
    *("/chat/", "/completions", "/fim/", "/responses", "/messages", "/embeddings", "/models", "/rerank"),
    *("/images/", "/audio/", "/batches", "/files", "/moderations", "/realtime"),
)

ENDPOINTS: Mapping[str, ClientEndpoint] = {
    "/v1/chat/completions": turn_endpoints.CHAT,
    "/v1/completions": turn_endpoints.COMPLETIONS,
    "/v1/fim/completions": turn_endpoints.FIM,
    "/v1/responses": responses.RESPONSES,
    "/v1/messages": turn_endpoints.MESSAGES,
    "/api/chat": ollama.API_CHAT,
    "/api/generate": ollama.GENERATE,
    "/vscode/chat": vscode.CHAT,
}
# Gemini's paths end in a method. The model may contain slashes; an SDK then omits `models/`.
GEMINI_ENDPOINTS: dict[str, ClientEndpoint] = dict.fromkeys(
    ["generateContent", "streamGenerateContent"], turn_endpoints.GEMINI
)
_GEMINI_VERSIONS = ("/v1beta/", "/v1/", "/v1alpha/", "/v1beta1/")
_MODELS_PREFIX = "models/"


def client_protocols() -> set[str]:
    """Return the protocols that clients of the gateway speak."""
    return {endpoint.protocol for endpoint in (*ENDPOINTS.values(), *GEMINI_ENDPOINTS.values())}


class Route(msgspec.Struct):
    """The result of a lookup. `known`: the path exists, but not for this method.

    `path`: of a path without a route, the form without the prefixes of other gateways.
    """

    endpoint: ClientEndpoint | None = None
    handler: Handler | None = None
    params: dict[str, str] = {}
    known: bool = False
    path: str = ""


def find_route(method: str, path: str) -> Route:
    """Find the route of a path. Unknown paths are rewritten a few times; each step is linear in the path."""
    params: dict[str, str] = {}
    for _ in range(_MAX_REWRITES):
        endpoint = ENDPOINTS.get(path)
        found = _endpoint_route(method, endpoint) if endpoint is not None else _handler_route(method, path)
        if found is not None:
            found.params = {**params, **found.params}
            return found
        rewritten = _rewrite_path(path)
        if rewritten is None:
            break
        path, named = rewritten
        params = {**params, **named}
    return Route(path=path)


def _endpoint_route(method: str, endpoint: ClientEndpoint) -> Route:
    return Route(endpoint) if method == "POST" else Route(known=True)


def _rewrite_path(path: str) -> tuple[str, dict[str, str]] | None:
    """Return the path that an unknown one stands for, and its parameters."""
    if path.startswith(_UNVERSIONED):
        return f"/v1{path}", {}
    if path.startswith("/v1/v1/"):
        return path[_last_version(path) :], {}
    if "//" in path:
        return re.sub(r"//+", "/", path), {}
    deployed = _parse_azure_path(path)
    if deployed is not None:
        return deployed
    for prefix in _FOREIGN_PREFIXES:
        if path.startswith(prefix):
            return f"/v1/{path.removeprefix(prefix)}", {}
    return (path[path.index("/", 1) :], {}) if path.startswith(_GEMINI_PREFIXES) else None


def _last_version(path: str) -> int:
    """Return the position of the last `/v1` at the beginning of a path."""
    at = 0
    while path.startswith("/v1/v1/", at):
        at += len("/v1")
    return at


def _parse_azure_path(path: str) -> tuple[str, dict[str, str]] | None:
    if not path.startswith(_AZURE_PREFIX):
        return None
    for rest in _AZURE_OPERATIONS:
        model = path[len(_AZURE_PREFIX) : -len(rest)]
        if model and path.endswith(rest):
            return f"/v1{rest}", {"model": model}
    return None


def _handler_route(method: str, path: str) -> Route | None:
    handler = HANDLERS.get((method, path))
    if handler is not None:
        return Route(handler=handler, params=dict(handler.params))
    params = parse_gemini_path(path)
    verb = params.get("method", "")
    if verb in GEMINI_ENDPOINTS or verb in GEMINI_HANDLERS:  # else the name of a model that ends in `:latest`
        found = Route(GEMINI_ENDPOINTS.get(verb), GEMINI_HANDLERS.get(verb), params)
        return found if method == "POST" else Route(known=True)
    handler, named = find_resource_handler(method, path)
    if handler is not None:
        return Route(handler=handler, params={**handler.params, **named})
    return Route(known=True) if any(known == path for _, known in HANDLERS) else None


def parse_gemini_path(path: str) -> dict[str, str]:
    """Return the model and method of a Gemini path; nothing for other paths. Parsed from the right."""
    head, colon, method = path.rpartition(":")
    version = next((version for version in _GEMINI_VERSIONS if head.startswith(version)), "")
    if not (colon and version and method.isascii() and method.isalpha()):
        return {}
    model = head[len(version) :]
    at = model.rfind(f"/{_MODELS_PREFIX}", 0, -1)  # -1: something must follow it
    if at >= 0:
        model = model[at + 1 + len(_MODELS_PREFIX) :]
    elif model.startswith(_MODELS_PREFIX) and model != _MODELS_PREFIX:
        model = model.removeprefix(_MODELS_PREFIX)
    return {"model": model, "method": method} if model else {}


def error_protocol(path: str) -> str:
    """Return the protocol of an error for a path without a route."""
    return next((protocol for prefix, protocol in _ERROR_PROTOCOLS if path.startswith(prefix)), DEFAULT)


def mounted_path(scope: MutableMapping[str, Any]) -> str:
    """Return the path below the mount point, without a trailing slash."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(root):
        path = path[len(root) :]
    return path.rstrip("/") or "/"


class Handler(msgspec.Struct, frozen=True):
    """A handler of requests that are not turns, and the protocol of its errors. `params` are fixed by the path.

    `operation`: its name in the journal, if it has a row.
    """

    protocol: str
    make: Callable[[Any, Any], Awaitable[bytes | EventStream]]
    params: dict[str, str] = {}
    operation: str = ""


_MODEL_CHANGES = [("DELETE", "/api/delete"), *(("POST", f"/api/{verb}") for verb in ("pull", "push", "create", "copy"))]
HANDLERS: Mapping[tuple[str, str], Handler] = {
    ("GET", "/v1/models"): Handler("openai-chat", models.list_models),
    ("GET", "/v1beta/models"): Handler("gemini", models.list_models, {"shape": "gemini"}),
    ("GET", "/api/tags"): Handler("ollama", models.list_models, {"shape": "ollama"}),
    ("GET", "/vscode/models"): Handler("vscode", models.list_vscode_models),
    ("POST", "/vscode/count"): Handler("vscode", count_tokens.count_vscode, operation=COUNT),
    ("GET", "/vscode/usage"): Handler("vscode", vscode.report_usage),
    ("GET", "/vscode/status"): Handler("vscode", vscode_providers.report_status),
    ("GET", "/vscode/providers"): Handler("vscode", vscode_providers.list_providers),
    ("POST", "/vscode/providers/check"): Handler("vscode", vscode_providers.check_provider),
    ("PUT", "/vscode/keys"): Handler("vscode", vscode_providers.put_keys),
    ("DELETE", "/vscode/keys"): Handler("vscode", vscode_providers.delete_keys),
    ("GET", "/vscode/budget"): Handler("vscode", budget.show_budget),
    ("POST", "/vscode/budget"): Handler("vscode", budget.change_budget),
    ("POST", "/v1/messages/count_tokens"): Handler("anthropic", count_tokens.count_messages, operation=COUNT),
    ("POST", "/v1/responses/compact"): Handler("responses", compaction.compact_conversation),
    ("POST", "/v1/responses/input_tokens"): Handler("responses", responses.count_input_tokens, operation=COUNT),
    ("POST", "/v1/embeddings"): Handler("openai-chat", embeddings.embed_openai, operation="embeddings"),
    ("POST", "/v1/rerank"): Handler("openai-chat", embeddings.rerank_documents, operation="rerank"),
    ("POST", "/v2/rerank"): Handler("openai-chat", embeddings.rerank_documents, operation="rerank"),
    ("POST", "/api/embed"): Handler("ollama", embeddings.embed_ollama, operation="embeddings"),
    ("POST", "/api/embeddings"): Handler("ollama", embeddings.embed_ollama_legacy, operation="embeddings"),
    ("POST", "/api/show"): Handler("ollama", ollama.show_ollama_model),
    ("GET", "/api/ps"): Handler("ollama", ollama.list_running_models),
    ("GET", "/api/version"): Handler("ollama", ollama.report_version),
    **dict.fromkeys(_MODEL_CHANGES, Handler("ollama", ollama.refuse_model_change)),
}
# Gemini's handlers, by the method at the end of the path.
GEMINI_HANDLERS: Mapping[str, Handler] = {
    "countTokens": Handler("gemini", count_tokens.count_gemini, operation=COUNT),
    "embedContent": Handler("gemini", embeddings.embed_gemini, operation="embeddings"),
    "batchEmbedContents": Handler("gemini", embeddings.embed_gemini, operation="embeddings"),
}
# Prefixes of a model's path; its name may contain slashes.
_MODEL_HANDLERS = {
    "/v1/models/": Handler("openai-chat", models.show_model),
    "/v1beta/models/": Handler("gemini", models.show_model, {"shape": "gemini"}),
}


def find_resource_handler(method: str, path: str) -> tuple[Handler | None, dict[str, str]]:
    """Return the handler of a model or stored response, and its parameters."""
    if path.startswith(stored_responses.PREFIX):
        return _response_handler(method, path)
    if path.startswith(resumed_streams.CHAT_PREFIX):
        return _chat_handler(method, path)
    for prefix, answer in _MODEL_HANDLERS.items():
        if method == "GET" and path.startswith(prefix):
            return answer, {"model": path.removeprefix(prefix)}
    return None, {}


def _response_handler(method: str, path: str) -> tuple[Handler | None, dict[str, str]]:
    id, _, what = path.removeprefix(stored_responses.PREFIX).partition("/")  # noqa: A001 — as the protocol calls it
    make = stored_responses.ROUTES.get((method, what))
    return (Handler("responses", make), {"response": id}) if make is not None and id else (None, {})


def _chat_handler(method: str, path: str) -> tuple[Handler | None, dict[str, str]]:
    """The id of a chat may contain anything, also the suffix."""
    rest = path.removeprefix(resumed_streams.CHAT_PREFIX)
    chat = rest.removesuffix(resumed_streams.CHAT_SUFFIX)
    make = resumed_streams.ROUTES.get(method) if chat and chat != rest else None
    return (Handler("uistream", make), {"chat": chat}) if make is not None else (None, {})


READ_METHODS = frozenset({"GET", "HEAD"})
_JSON: Headers = ((b"content-type", b"application/json"),)
_HTML: Headers = ((b"content-type", b"text/html; charset=utf-8"),)
_PUBLIC_PATHS = frozenset({"/", "/healthz", "/readyz", "/metrics"})


def is_public_page(incoming: IncomingRequest) -> bool:
    """Return whether a request is for a page without a gateway key, or a CORS preflight, which cannot have one.

    The page checks access itself.
    """
    if incoming.method == "OPTIONS":
        return "access-control-request-method" in incoming.headers
    return incoming.method in READ_METHODS and incoming.path in _PUBLIC_PATHS


def serve_page(
    services: Services, incoming: IncomingRequest, scope: MutableMapping[str, Any], *, known: bool
) -> tuple[int, bytes, Headers]:
    """Return the status, body and headers of a page, or of a 404 or 405."""
    check_size(scope)
    preflight = services.access.preflight(scope)
    if preflight is not None:
        return 204, b"", tuple(preflight)
    if known:
        wants = "POST" if incoming.method in READ_METHODS else "another method"
        return 405, b'{"error":{"message":"this address takes %b"}}' % wants.encode(), _JSON
    result = _build_page(services, incoming, scope) if incoming.method in READ_METHODS else None
    return result or (404, b'{"error":{"message":"nothing is served at this address"}}', _JSON)


def _build_page(
    services: Services, incoming: IncomingRequest, scope: MutableMapping[str, Any]
) -> tuple[int, bytes, Headers] | None:
    if incoming.path == "/healthz":
        return 200, b'{"status":"ok"}', _JSON
    if incoming.path == "/readyz":
        return _readiness_page(services)
    if incoming.path == "/metrics":
        services.access.admit_metrics(scope)
        return 200, services.metrics.render(), ((b"content-type", CONTENT_TYPE),)
    if incoming.path == "/":
        services.access.admit(scope, key=False)
        return 200, _home_page(f"{scope['scheme']}://{incoming.headers.get('host', 'localhost')}").encode(), _HTML
    return None


def _readiness_page(services: Services) -> tuple[int, bytes, Headers]:
    """Return 503 while the server stops or a configured provider has no key. It names no provider,
    because the page needs no gateway key. The log and `penstock serve --check` name it.
    """
    if not services.ready:
        return 503, b'{"status":"stopping"}', _JSON
    if services.catalogue.lacks_keys():
        reason = (
            b'{"status":"misconfigured","reason":"a configured provider has no key; penstock serve --check names it"}'
        )
        return 503, reason, _JSON
    return 200, b'{"status":"ready"}', _JSON


def _home_page(address: str) -> str:
    rows = "".join(
        f"<tr><td><code>replay/{escape(name)}</code></td><td>{escape(about)}</td></tr>"
        for name, about in describe_scripts().items()
    )
    page = files("penstock._gateway").joinpath("home.html").read_text(encoding="utf-8")
    return Template(page).substitute(rows=rows, address=escape(address))
