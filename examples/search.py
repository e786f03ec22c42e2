"""A small search: the nearest documents by embeddings, then put in order by a reranker.

`python examples/search.py openai/text-embedding-3-small cohere/rerank-v3.5` asks these models, with their keys in the
environment. Without arguments a scripted provider on this machine answers: no key, no network.
"""

import asyncio
import sys

import penstock
from penstock.testing import ReceivedRequest, Reply, Upstream

DOCUMENTS = [
    "A penstock feeds water to a turbine.",
    "A spillway lets water past a dam.",
    "A surge tank evens out the pressure.",
    "A bakery sells bread.",
]


async def search(client: penstock.Client, embedder: str, reranker: str, query: str) -> list[str]:
    documents = (await client.embed(embedder, DOCUMENTS, input_type="document")).vectors
    [question] = (await client.embed(embedder, query, input_type="query")).vectors
    scores = [sum(a * b for a, b in zip(question, vector, strict=True)) for vector in documents]
    nearest = sorted(range(len(DOCUMENTS)), key=scores.__getitem__, reverse=True)[:3]
    ranking = await client.rerank(reranker, query, [DOCUMENTS[index] for index in nearest], top=2)
    return [f"{one.score:.2f} {one.document}" for one in ranking.results]


def count_words(request: ReceivedRequest) -> Reply:
    """Stands for both providers: a text is how often it has some words."""
    texts: list[str] = request.json.get("input") or request.json["documents"]
    rows = [[text.lower().count(word) for word in ("water", "turbine", "pressure", "bread")] for text in texts]
    vectors = [{"index": index, "embedding": row} for index, row in enumerate(rows)]
    best = sorted(range(len(rows)), key=lambda index: sum(rows[index]), reverse=True)[: request.json.get("top_n")]
    ranking = [{"index": index, "relevance_score": sum(rows[index]) / 4} for index in best]
    return Reply.body({"data": vectors, "results": ranking})


async def main(embedder: str = "openai/text-embedding-3-small", reranker: str = "cohere/rerank-v3.5") -> None:
    async with Upstream(count_words) as up, penstock.Client() if sys.argv[1:] else up.client() as client:
        print(*await search(client, embedder, reranker, "What brings water to a turbine?"), sep="\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
