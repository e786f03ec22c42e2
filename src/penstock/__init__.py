"""penstock: any model's stream in, exactly what a client expects out.

Only names live here, and none is imported before it is used: `import penstock` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock._version import __version__

if TYPE_CHECKING:
    from penstock import errors, events
    from penstock._bridge import bridge
    from penstock._client.api import Client, LlmApi, SyncClient
    from penstock._detect import guess
    from penstock._diagnostics import Diagnostic
    from penstock._fold import fold, unfold
    from penstock._http.request_options import RequestOptions
    from penstock._messages.convert import convert
    from penstock._pipeline import Hop, Pipe, Stage
    from penstock._protocols import decoder, encoder
    from penstock._tracing import tracer
    from penstock._translation import translate
    from penstock.errors import PenstockError, ProviderError, StreamFault
    from penstock.events import Usage
    from penstock.messages import convert_messages
    from penstock.request import Turn
    from penstock.vscode import DataPart, TextPart, ThinkingPart, ToolCallPart, VSCodeStreamAdapter

# name → the module it is in; a module's own name is the module
_NAMES = {
    "Client": "_client.api",
    "DataPart": "vscode",
    "Diagnostic": "_diagnostics",
    "Hop": "_pipeline",
    "LlmApi": "_client.api",
    "PenstockError": "errors",
    "Pipe": "_pipeline",
    "ProviderError": "errors",
    "RequestOptions": "_http.request_options",
    "Stage": "_pipeline",
    "StreamFault": "errors",
    "SyncClient": "_client.api",
    "TextPart": "vscode",
    "ThinkingPart": "vscode",
    "ToolCallPart": "vscode",
    "Turn": "request",
    "Usage": "events",
    "VSCodeStreamAdapter": "vscode",
    "bridge": "_bridge",
    "convert": "messages",
    "convert_messages": "messages",
    "decoder": "_protocols",
    "encoder": "_protocols",
    "fold": "_fold",
    "guess": "_detect",
    "tracer": "_tracing",
    "translate": "_translation",
    "unfold": "_fold",
}
_MODULES = ("errors", "events")
__all__ = [
    "Client", "DataPart", "Diagnostic", "Hop", "LlmApi", "PenstockError", "Pipe", "ProviderError", "RequestOptions",
    "Stage", "StreamFault", "SyncClient", "TextPart", "ThinkingPart", "ToolCallPart", "Turn", "Usage",
    "VSCodeStreamAdapter", "__version__", "bridge", "convert", "convert_messages", "decoder", "encoder", "errors",
    "events", "fold", "guess", "tracer", "translate", "unfold",
]  # fmt: skip


if not TYPE_CHECKING:  # a type checker would take this for leave to use any name

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        if name not in _NAMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
