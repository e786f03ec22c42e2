"""The official SDKs against every provider protocol, as a table of cells. `sdk_matrix.py` has the clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.oracles.sdk_matrix import CLIENTS, SPOKEN, cells, row, sample
from tests.support.each_case import each
from tests.support.gateway import gateway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with gateway() as (running, _):
        yield running.url


@pytest.mark.filterwarnings("default")  # the SDKs have warnings of their own
@each("client", CLIENTS)
def test_an_official_sdk_completes_some_turns(base: str, client: str) -> None:
    found = list(cells(base, client, sample(client, (False, True))))
    assert len(found) == len(SPOKEN)
    assert [one for one in found if one[3]] == []


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("client", CLIENTS)
def test_an_official_sdk_completes_all_turns(
    base: str, client: str, record_property: Callable[[str, object], None]
) -> None:
    found = list(cells(base, client))
    record_property("table", row(found))
    assert len(found) == len(SPOKEN) * 6
    assert [one for one in found if one[3]] == []


@pytest.mark.filterwarnings("default")
def test_the_sdks_list_count_embed_and_fill_in(base: str) -> None:
    import anthropic
    import openai
    from google import genai
    from google.genai import types
    from mistralai.client import Mistral

    with openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0) as client:
        assert "quick" in [model.id for model in client.models.list()]
        assert client.embeddings.create(model="openai-chat/e", input=["a"]).data[0].embedding == [0.25, -1.5, 0.0]
    with anthropic.Anthropic(base_url=base, api_key="any", max_retries=0) as claude:
        assert "quick" in [model.id for model in claude.models.list()]
        said = [{"role": "user", "content": "hi"}]
        assert claude.messages.count_tokens(model="anthropic/text", messages=said).input_tokens == 42  # type: ignore[arg-type]
    google = genai.Client(api_key="any", http_options=types.HttpOptions(base_url=base, timeout=20_000))
    assert "models/quick" in [model.name for model in google.models.list()]
    assert google.models.count_tokens(model="gemini/text", contents="hi").total_tokens == 42
    with Mistral(api_key="any", server_url=base) as mistral:
        assert "quick" in [model.id for model in mistral.models.list().data or ()]
        assert mistral.embeddings.create(model="openai-chat/e", inputs=["a"]).data[0].embedding == [0.25, -1.5, 0.0]
        filled = mistral.fim.complete(model="openai-chat/text", prompt="def f(", suffix=")")
        assert str(filled.choices[0].message.content).startswith("A penstock")
