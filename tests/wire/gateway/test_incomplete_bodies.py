"""Request bodies that end too early."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock._gateway.callers import Refusal
from penstock._gateway.request_body import receive_body

BEGUN = {"type": "http.request", "body": b'{"model":"replay/text"}', "more_body": True}
GONE = {"type": "http.disconnect"}


@pytest.mark.parametrize("came", [[GONE], [BEGUN, GONE], [BEGUN, BEGUN, GONE]], ids=["nothing", "one", "two"])
def test_a_body_that_breaks_off_is_not_read(came: list[Any]) -> None:
    """What came may be JSON by itself, but it is not known to be what the client meant."""
    messages = iter(came)

    async def receive() -> Any:
        return next(messages)

    with pytest.raises(Refusal, match="the connection ended before the body did") as error:
        asyncio.run(receive_body(receive, 1000, 10.0))
    assert error.value.status == 400
