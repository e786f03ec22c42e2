"""Circuit breakers through a gateway: one failing model does not block others, and the provider's message is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.testing import Reply
from tests.support.client_requests import ask, metric
from tests.support.gateway import answer, gateway

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest


WORDS = "the cluster is being upgraded"


def fail_bad(seen: ReceivedRequest) -> Reply:
    return Reply.error("openai-chat", 503, WORDS) if seen.json["model"] == "bad" else answer(seen)


def test_a_bad_model_does_not_close_a_good_one() -> None:
    with gateway(fail_bad, breaker={"failures": 2}) as (running, up):
        for _ in range(2):
            failed = ask(running.url, "openai-chat", "openai-chat/bad")
            assert (failed.status_code, WORDS in failed.text) == (503, True)
        skipped = ask(running.url, "openai-chat", "openai-chat/bad")
        good = ask(running.url, "openai-chat", "openai-chat/text")
        assert metric(running.url, "circuits_open") == 1
    assert skipped.status_code == 503
    assert WORDS in skipped.text
    assert skipped.json()["error"]["code"] == "server_is_overloaded"
    assert skipped.headers["x-penstock-refused-by"] == "gateway"
    assert int(skipped.headers["retry-after-ms"]) <= 1000
    assert good.status_code == 200
    assert sum(seen.json["model"] == "bad" for seen in up.requests) == 2


def test_a_caller_s_key_does_not_close_the_circuit_of_another() -> None:
    def by_key(seen: ReceivedRequest) -> Reply:
        return Reply.error("openai-chat", 503, WORDS) if "mallory" in str(seen.headers) else answer(seen)

    with gateway(by_key, breaker={"failures": 2}, access={"keys": "forward"}) as (running, up):
        for _ in range(3):
            ask(running.url, "openai-chat", "openai-chat/text", headers={"authorization": "Bearer mallory-1"})
        other = ask(running.url, "openai-chat", "openai-chat/text", headers={"authorization": "Bearer alice-1"})
    assert other.status_code == 200
    assert sum("mallory" in str(seen.headers) for seen in up.requests) == 2, "the third was not sent"
