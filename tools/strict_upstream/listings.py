"""Lists of models and token counts, in each vendor's form."""

from __future__ import annotations

from aiohttp import web

from tools.strict_upstream.model_facts import DEFAULT_MODELS


async def list_models(request: web.Request) -> web.Response:
    """The list for whoever asks: Google's path or key, Anthropic's version header, else OpenAI's."""
    if request.match_info["version"] == "v1beta" or "x-goog-api-key" in request.headers:
        row = {"name": f"models/{DEFAULT_MODELS['gemini']}", "supportedGenerationMethods": ["generateContent"]}
        return web.json_response({"models": [row]})
    if "anthropic-version" in request.headers:
        known = DEFAULT_MODELS["messages"]
        one = {"id": known, "type": "model", "display_name": known, "created_at": "2026-01-01T00:00:00Z"}
        return web.json_response({"data": [one], "has_more": False, "first_id": known, "last_id": known})
    rows = [
        {"id": DEFAULT_MODELS[name], "object": "model", "created": 1, "owned_by": "openai"}
        for name in ("chat", "responses")
    ]
    return web.json_response({"object": "list", "data": rows})


async def count_tokens(request: web.Request) -> web.Response:
    """Anthropic's token count: a rough one."""
    return web.json_response({"input_tokens": len(await request.read()) // 4})
