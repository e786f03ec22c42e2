"""The doors of the gateway: one file for each client protocol, and this table of which address leads where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.doors import chat, gemini, messages, ollama, responses, ui, vscode
from penstock.gateway.doors.door import Asked, Door, Visit

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DOORS", "METHODS", "Asked", "Door", "Visit", "modelled"]

DOORS: Mapping[str, Door] = {
    "/v1/chat/completions": chat.CHAT,
    "/v1/completions": chat.COMPLETIONS,
    "/v1/fim/completions": chat.FIM,
    "/v1/responses": responses.RESPONSES,
    "/v1/messages": messages.MESSAGES,
    "/api/chat": ui.CHAT,
    "/api/generate": ollama.GENERATE,
    "/vscode/chat": vscode.CHAT,
}
# Gemini's addresses end in a method; the model is in the middle, and may have slashes: an SDK then says no `models/`.
METHODS: Mapping[str, Door] = {"generateContent": gemini.GENERATE, "streamGenerateContent": gemini.GENERATE}
_VERSIONS = ("/v1beta/", "/v1/", "/v1alpha/", "/v1beta1/")
_MODELS = "models/"


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
