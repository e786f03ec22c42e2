"""How long a call waits in all before retries: at most `timeouts.retry_wait`, ten seconds where nothing else is said."""

from __future__ import annotations

import pytest

from penstock._engines.router import Router
from penstock.errors import RateLimited
from penstock.testing import Reply, Upstream
from tests.wire.engines.router_setup import KEY, asking, quick, run


@pytest.mark.parametrize(
    ("retry_after", "options", "waits"),
    [
        (7, {}, 1),  # a second wait would make 14 s
        (3, {}, 2),
        (11, {}, 0),
        (7, {"retry_wait": 20}, 2),
        (7, {"retry_wait": 5}, 0),
    ],
)
def test_all_waits_together_have_a_limit(retry_after: int, options: dict[str, float], waits: int) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def scene() -> None:
        async with Upstream(Reply.rate_limit("openai-chat", retry_after=retry_after)) as up:
            accounts = {"openai": {"base_url": f"{up.url}/v1", "key": KEY}}
            way = Router({"providers": accounts}, env={}, sleep=sleep, chance=lambda: 0.0)
            try:
                with pytest.raises(RateLimited) as caught:
                    await way.open(asking(), options=quick(timeouts={"total": 100.0, **options}))
            finally:
                await way.aclose()
            assert caught.value.retry_after == retry_after
            assert len(up.requests) == waits + 1

    run(scene)
    assert slept == [retry_after] * waits
    assert sum(slept) <= options.get("retry_wait", 10.0)
