"""Tests of a program that asks a model: what it sends, what it makes of the answer, and how it takes a failure.

`pytest examples/test_my_app.py`. The fixture `penstock_upstream` is a real server on this machine. It sends what the
test scripts, in the dialect of the client: no key, no network, no mocks. It comes with penstock.
"""

import pytest

import penstock
from penstock.testing import Reply, Upstream


def read_gauge(station: str) -> str:
    """Read the level of the water."""
    return f"{station}: 3.2 m"


def water_level(client: penstock.SyncClient, station: str) -> str:
    """The program: it asks a model, which may read a gauge."""
    question = f"How high is the water at the {station}?"
    try:
        return client.run("anthropic/claude-sonnet-4-5", question, tools=[read_gauge]).output
    except penstock.ProviderError as error:
        return "unknown: try again later" if error.status == 429 else "unknown"


def test_the_gauge_is_read(penstock_upstream: Upstream, penstock_sync_client: penstock.SyncClient) -> None:
    call = ("read_gauge", {"station": "upper gate"})
    penstock_upstream.script(Reply.calls([call]), Reply.text("It is 3.2 m."))
    assert water_level(penstock_sync_client, "upper gate") == "It is 3.2 m."
    first, second = penstock_upstream.requests
    assert "upper gate" in str(first.json["messages"])
    assert "3.2 m" in str(second.json["messages"][-1])


@pytest.mark.parametrize(("status", "text"), [(429, "unknown: try again later"), (500, "unknown")])
def test_a_failure_is_no_crash(
    penstock_upstream: Upstream, penstock_sync_client: penstock.SyncClient, status: int, text: str
) -> None:
    penstock_upstream.script(Reply.error(status=status))
    assert water_level(penstock_sync_client, "upper gate") == text
