"""The doors of the gateway: one file for each client protocol, and this table of which address leads where."""

from __future__ import annotations

import re
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
_MODELLED = re.compile(r"/v1(?:beta|alpha|beta1)?/(?:(?:.*/)?models/)?(?P<model>.+):(?P<method>[A-Za-z]+)")


def modelled(path: str) -> dict[str, str]:
    """The model and the method that a path of Gemini's names; nothing where it is another."""
    found = _MODELLED.fullmatch(path)
    return found.groupdict() if found else {}
