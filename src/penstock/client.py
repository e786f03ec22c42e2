"""`penstock.Client`: one interface to every provider, for Python programs.

    async with penstock.Client() as client:
        async for event in client.chat_stream("anthropic/claude-sonnet-4-5", "Why is the sea salt?"):
            ...

`LlmApi` is the interface, `Client` implements it, `SyncClient` is the same without `await`.
"""

from penstock._client.api import Client, LlmApi
from penstock._client.embedding_formats import Embeddings, Ranked, Ranking
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
from penstock._client.sync_client import SyncClient, SyncStream
from penstock._client.web_responses import django_response, read_ui_messages, starlette_response
from penstock._engines.config import Config
from penstock._http.request_options import ClientCertificate, RequestOptions, Timeouts

__all__ = [
    "Answer",
    "ChatBody",
    "ChatMessage",
    "ChatParameters",
    "Client",
    "ClientCertificate",
    "ClientParameters",
    "CompleteParameters",
    "CompletionBody",
    "Config",
    "EmbedParameters",
    "Embeddings",
    "FimParameters",
    "ListModelsParameters",
    "LlmApi",
    "Messages",
    "Ranked",
    "Ranking",
    "RequestOptions",
    "RerankParameters",
    "ResponsesBody",
    "ResponsesParameters",
    "Stream",
    "SyncClient",
    "SyncStream",
    "Timeouts",
    "django_response",
    "read_ui_messages",
    "starlette_response",
]
