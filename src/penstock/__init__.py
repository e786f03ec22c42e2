"""penstock: any model's stream in, exactly what a client expects out.

Only names live here, and none is imported before it is used: `import penstock` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock._version import __version__

if TYPE_CHECKING:
    from penstock import errors, events
    from penstock._bridge import bridge, translate
    from penstock._client.api import Client, LlmApi
    from penstock._client.function_tools import FunctionTool, tool
    from penstock._client.mcp_servers import McpServer
    from penstock._client.results import Answer, Stream
    from penstock._client.run import Run
    from penstock._client.sync_client import SyncClient, SyncStream
    from penstock._detect import guess
    from penstock._diagnostics import Diagnostic
    from penstock._fold import fold, fold_all, unfold
    from penstock._http.request_options import RequestOptions, Timeouts
    from penstock._messages.convert import convert
    from penstock._pipeline import Hop, Pipe, Stage
    from penstock._protocols import decoder, encoder
    from penstock._stream_trace import tracer
    from penstock.errors import InvalidOutput, PenstockError, ProviderError, StreamFault, ToolError
    from penstock.events import Usage
    from penstock.messages import convert_messages
    from penstock.request import File, Message, Request, Text, Tool, Turn
    from penstock.tokens import HybridTokenEstimator
    from penstock.vscode import DataPart, TextPart, ThinkingPart, ToolCallPart, VSCodeStreamAdapter

# module → the names that are imported from it when they are first used
_EXPORTS = {
    "_bridge": "bridge translate",
    "_client.api": "Client LlmApi",
    "_client.function_tools": "FunctionTool tool",
    "_client.mcp_servers": "McpServer",
    "_client.results": "Answer Stream",
    "_client.run": "Run",
    "_client.sync_client": "SyncClient SyncStream",
    "_detect": "guess",
    "_diagnostics": "Diagnostic",
    "_http.request_options": "RequestOptions Timeouts",
    "_fold": "fold fold_all unfold",
    "_pipeline": "Hop Pipe Stage",
    "_protocols": "decoder encoder",
    "_stream_trace": "tracer",
    "errors": "InvalidOutput PenstockError ProviderError StreamFault ToolError",
    "events": "Usage",
    "messages": "convert convert_messages",
    "request": "File Message Request Text Tool Turn",
    "tokens": "HybridTokenEstimator",
    "vscode": "DataPart TextPart ThinkingPart ToolCallPart VSCodeStreamAdapter",
}
_MODULE_OF_NAME = {name: module for module, names in _EXPORTS.items() for name in names.split()}
_MODULES = ("errors", "events")
__all__ = [
    "Answer", "Client", "DataPart", "Diagnostic", "File", "FunctionTool", "Hop", "HybridTokenEstimator",
    "InvalidOutput", "LlmApi", "McpServer", "Message", "PenstockError", "Pipe", "ProviderError", "Request",
    "RequestOptions", "Run", "Stage", "Stream", "StreamFault", "SyncClient", "SyncStream", "Text", "TextPart",
    "ThinkingPart", "Timeouts", "Tool", "ToolCallPart", "ToolError", "Turn", "Usage", "VSCodeStreamAdapter",
    "__version__", "bridge", "convert", "convert_messages", "decoder", "encoder", "errors", "events", "fold",
    "fold_all", "guess", "tool", "tracer", "translate", "unfold",
]  # fmt: skip


if not TYPE_CHECKING:  # a type checker would take this for leave to use any name

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        if name not in _MODULE_OF_NAME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
