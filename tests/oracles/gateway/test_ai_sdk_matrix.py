"""The AI SDK and `useChat` from npm against every provider protocol. `ai_sdk_matrix.py` has the clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.oracles.ai_sdk_matrix import cells, clients, forms
from tests.oracles.node.oracle import UI_VERSIONS, Oracles
from tests.oracles.sdk_matrix import SPOKEN, row, sample
from tests.support.each_case import each
from tests.support.gateway import gateway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.oracles.node.oracle import Version


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with gateway() as (running, _):
        yield running.url


@pytest.fixture(scope="module")
def oracles() -> Iterator[Oracles]:
    with Oracles() as pool:
        yield pool


@pytest.mark.parametrize("ai", UI_VERSIONS)
def test_the_ai_sdk_completes_some_turns(oracles: Oracles, base: str, ai: Version) -> None:
    """With each of its provider packages, and on a page."""
    names = [name for name, (version, _) in clients().items() if version == ai]
    found = [one for name in names for one in cells(oracles, base, name, sample(name, forms(name)))]
    assert len(found) == len(names) * len(SPOKEN)
    assert [one for one in found if one[3]] == []


@pytest.mark.nightly
@pytest.mark.parametrize("client", clients())
def test_the_ai_sdk_completes_all_turns(
    oracles: Oracles, base: str, client: str, record_property: Callable[[str, object], None]
) -> None:
    found = list(cells(oracles, base, client))
    record_property("table", row(found))
    assert len(found) == len(SPOKEN) * 3 * len(forms(client))
    assert [one for one in found if one[3]] == []


@each("ai", UI_VERSIONS)
def test_the_ai_sdk_embeds(oracles: Oracles, base: str, ai: Version) -> None:
    job = {"client": "embed", "baseURL": f"{base}/v1", "model": "openai-chat/embedder", "values": ["a", "b"]}
    ((seen,),) = oracles.run("turns", ai, [job])
    assert seen["embeddings"] == [[0.25, -1.5, 0], [0.25, -1.5, 1]]
    assert seen["usage"]["tokens"] == 7
