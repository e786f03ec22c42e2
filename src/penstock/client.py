r"""`penstock.Client`: one interface to every provider, for Python programs.

    async with penstock.Client() as client:
        async for event in client.chat_stream("anthropic/claude-sonnet-4-5", "Why is the sea salt?"):
            ...

`LlmApi` is the interface, `Client` implements it, `SyncClient` is the same without `await`.

Examples:
    A run lets the model call Python functions:

    >>> @tool(timeout=10)
    ... def get_level(river: str) -> float:
    ...     "Returns the water level of a river in metres."
    ...     return 3.2
    >>> get_level.name, get_level("Rhine")
    ('get_level', 3.2)
    >>> with SyncClient() as client:
    ...     client.run("replay/agent", "How high is the Rhine?", tools=[get_level]).output
    'get_level gave:\n\n3.2'
"""

from penstock._client.api import Client, LlmApi
from penstock._client.batch import Batch, BatchItem
from penstock._client.batch_progress import BatchProgress
from penstock._client.costs import Cost, UsageTotals, UsageTracker
from penstock._client.embedding_formats import Embeddings, Ranked, Ranking
from penstock._client.function_tools import FunctionTool, tool
from penstock._client.hooks import CallReport
from penstock._client.mcp_servers import McpServer
from penstock._client.parameters import (
    ChatBody,
    ChatMessage,
    ChatParameters,
    ClientParameters,
    CompleteParameters,
    CompletionBody,
    EmbedParameters,
    FimParameters,
    ListModelsParameters,
    Messages,
    RerankParameters,
    ResponsesBody,
    ResponsesParameters,
)
from penstock._client.results import Answer, Stream
from penstock._client.run import Run, RunStep
from penstock._client.run_api import RunParameters, SyncRun
from penstock._client.run_tools import PendingToolCall
from penstock._client.sync_client import SyncClient, SyncStream
from penstock._client.value_types import OutputOf
from penstock._client.web_responses import (
    django_response,
    read_ui_messages,
    starlette_response,
    sync_django_response,
)
from penstock._engines.config import Config
from penstock._http.request_options import ClientCertificate, RequestOptions, Timeouts
from penstock._store.response_cache import MemoryCache, SqliteCache

__all__ = [
    "Answer",
    "Batch",
    "BatchItem",
    "BatchProgress",
    "CallReport",
    "ChatBody",
    "ChatMessage",
    "ChatParameters",
    "Client",
    "ClientCertificate",
    "ClientParameters",
    "CompleteParameters",
    "CompletionBody",
    "Config",
    "Cost",
    "EmbedParameters",
    "Embeddings",
    "FimParameters",
    "FunctionTool",
    "ListModelsParameters",
    "LlmApi",
    "McpServer",
    "MemoryCache",
    "Messages",
    "OutputOf",
    "PendingToolCall",
    "Ranked",
    "Ranking",
    "RequestOptions",
    "RerankParameters",
    "ResponsesBody",
    "ResponsesParameters",
    "Run",
    "RunParameters",
    "RunStep",
    "SqliteCache",
    "Stream",
    "SyncClient",
    "SyncRun",
    "SyncStream",
    "Timeouts",
    "UsageTotals",
    "UsageTracker",
    "django_response",
    "read_ui_messages",
    "starlette_response",
    "sync_django_response",
    "tool",
]
