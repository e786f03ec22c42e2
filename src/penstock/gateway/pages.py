"""What is served besides answers: signs of health, metrics, and a page that says what to do here."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from penstock.gateway.access import check_size
from penstock.gateway.metrics import TYPE
from penstock.replay import offered

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from penstock.gateway.doors.door import Headers, Visit
    from penstock.gateway.services import Services

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
