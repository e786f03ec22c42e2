"""`penstock.Client`: one interface to every provider, for Python programs.

    async with penstock.Client() as client:
        async for event in client.chat_stream("anthropic/claude-sonnet-4-5", "Why is the sea salt?"):
            ...

`LlmApi` is the interface, `Client` implements it, `SyncClient` is the same without `await`.
"""

from penstock._client.api import Client, LlmApi, SyncClient
from penstock._client.embedding_formats import Embeddings, Ranked, Ranking
from penstock._client.results import Answer, Stream
from penstock._engines.config import Config
from penstock._http.request_options import ClientCertificate, RequestOptions, Timeouts

__all__ = [
    "Answer",
    "Client",
    "ClientCertificate",
    "Config",
    "Embeddings",
    "LlmApi",
    "Ranked",
    "Ranking",
    "RequestOptions",
    "Stream",
    "SyncClient",
    "Timeouts",
]
