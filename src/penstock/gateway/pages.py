"""What is served besides answers: the list of models, a sign of health, and a page that says what to do here."""

from __future__ import annotations

from html import escape

import msgspec

from penstock.replay import offered

MODELS = tuple(f"replay/{name}" for name in offered())
_JSON = (b"content-type", b"application/json")
_HTML = (b"content-type", b"text/html; charset=utf-8")
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:3rem auto;padding:0 1rem;color-scheme:light dark}"
    "code,pre{font:14px/1.5 ui-monospace,monospace}pre{padding:1rem;overflow:auto;background:#8881}"
    "td{padding:.1rem 1rem .1rem 0;vertical-align:top}"
)


def page(path: str, headers: dict[bytes, bytes]) -> tuple[int, bytes, tuple[bytes, bytes]]:
    """Status, body and content type of a GET."""
    if path == "/":
        host = headers.get(b"host", b"localhost").decode("latin-1")
        return 200, _home(host).encode(), _HTML
    if path == "/healthz":
        return 200, b'{"status":"ok"}', _JSON
    if path == "/v1/models":
        return 200, msgspec.json.encode(_models(anthropic=b"anthropic-version" in headers)), _JSON
    return 404, b'{"error":{"message":"nothing is served at this address"}}', _JSON


def _models(*, anthropic: bool) -> dict[str, object]:
    """The list in the shape its reader expects: the two large SDKs disagree about it."""
    if anthropic:
        rows = [
            {"id": name, "type": "model", "display_name": name, "created_at": "2026-01-01T00:00:00Z"} for name in MODELS
        ]
        return {"data": rows, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": 0, "owned_by": "penstock"} for name in MODELS],
    }


def _home(host: str) -> str:
    rows = "".join(
        f"<tr><td><code>replay/{escape(name)}</code></td><td>{escape(about)}</td></tr>"
        for name, about in offered().items()
    )
    address = escape(f"http://{host}")
    return (
        f"<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'><title>penstock</title>"
        f"<style>{_STYLE}</style><h1>penstock</h1><p>This server plays packaged streams over Chat Completions, "
        f"Messages, Responses and the UI message stream. No key, no network, no model.</p><table>{rows}</table>"
        f"<h2>See one</h2><pre>curl -N {address}/v1/chat/completions -d "
        f'\'{{"model":"replay/tools","stream":true}}\'\n'
        f'curl -N {address}/v1/messages -d \'{{"model":"replay/reasoning","stream":true}}\'\n'
        f'curl -N {address}/v1/responses -d \'{{"model":"replay/citations","stream":true}}\'\n'
        f'curl -N {address}/api/chat -d \'{{"model":"replay/text"}}\'</pre>'
        f"<h2>Point a client at it</h2><pre>OPENAI_BASE_URL={address}/v1 OPENAI_API_KEY=any\n"
        f"ANTHROPIC_BASE_URL={address} ANTHROPIC_API_KEY=any</pre>"
    )
