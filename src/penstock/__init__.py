"""penstock: any model's stream in, exactly what a client expects out.

Only names live here, and none is imported before it is used: `import penstock` costs next to nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from penstock._version import __version__

if TYPE_CHECKING:
    from penstock import errors, events
    from penstock.bridge import bridge
    from penstock.client import Client, LlmApi, RequestOptions, SyncClient
    from penstock.detect import guess
    from penstock.diagnostics import Diagnostic
    from penstock.errors import PenstockError, ProviderError, StreamFault
    from penstock.events import Usage
    from penstock.fold import fold, unfold
    from penstock.messages import convert_messages
    from penstock.messages.convert import convert
    from penstock.pipeline import Hop, Pipe, Stage
    from penstock.request import Turn
    from penstock.translation import translate
    from penstock.vscode import DataPart, TextPart, ThinkingPart, ToolCallPart, VSCodeStreamAdapter

# name → the module it is in; a module's own name is the module
_NAMES = {
    "Client": "client",
    "DataPart": "vscode",
    "Diagnostic": "diagnostics",
    "Hop": "pipeline",
    "LlmApi": "client",
    "PenstockError": "errors",
    "Pipe": "pipeline",
    "ProviderError": "errors",
    "RequestOptions": "client",
    "Stage": "pipeline",
    "StreamFault": "errors",
    "SyncClient": "client",
    "TextPart": "vscode",
    "ThinkingPart": "vscode",
    "ToolCallPart": "vscode",
    "Turn": "request",
    "Usage": "events",
    "VSCodeStreamAdapter": "vscode",
    "bridge": "bridge",
    "convert": "messages",
    "convert_messages": "messages",
    "fold": "fold",
    "guess": "detect",
    "translate": "translation",
    "unfold": "fold",
}
_MODULES = ("errors", "events")
__all__ = [
    "Client", "DataPart", "Diagnostic", "Hop", "LlmApi", "PenstockError", "Pipe", "ProviderError", "RequestOptions",
    "Stage", "StreamFault", "SyncClient", "TextPart", "ThinkingPart", "ToolCallPart", "Turn", "Usage",
    "VSCodeStreamAdapter", "__version__", "bridge", "convert", "convert_messages", "errors", "events", "fold",
    "guess", "translate", "unfold",
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


class _Package(ModuleType):
    """Keeps the public names in their places.

    Python hangs a submodule on its package when it is first imported: `fold` the module would take the place of `fold`
    the function, or not, depending on who imported what before.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _NAMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
