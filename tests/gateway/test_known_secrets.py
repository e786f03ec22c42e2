"""A secret that was replaced or removed stays one: what providers say may still repeat it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.testing import Reply, scripted
from tests.support.asgi_gateway import AsgiGateway

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest

MAX_FORMER = 100


def repeat(seen: ReceivedRequest) -> Reply:
    return Reply.error("openai-chat", 400, f"no {seen.json['messages'][0]['content']}")


def test_the_newest_former_secrets_are_kept() -> None:
    """One that is used again is not former."""
    with scripted(repeat) as up:
        lab = {"base_url": f"{up.url}/v1", "env": "MY_API_KEY"}
        env = {"MY_API_KEY": "plain-words-0000"}
        with AsgiGateway(env=env, providers={"lab": lab}) as made:

            def noted(word: str) -> str:
                body = {"model": "lab/m", "messages": [{"role": "user", "content": word}]}
                assert made.status("/v1/chat/completions", body) == 400
                return str(made.rows(1)[0].fault_message)

            assert noted("plain-words-0000") == "no [secret]"
            for number in range(1, MAX_FORMER + 6):
                env["MY_API_KEY"] = f"plain-words-{number:04}"
                made.reload(providers={"lab": lab})
                assert noted("a word") == "no a word"
            for number, said in (
                (4, "no plain-words-0004"),
                (5, "no [secret]"),
                (60, "no [secret]"),
                (105, "no [secret]"),
            ):
                assert noted(f"plain-words-{number:04}") == said
            for word in ("plain-words-0005", "other-words-0", "other-words-1"):
                env["MY_API_KEY"] = word
                made.reload(providers={"lab": lab})
                assert noted("plain-words-0005") == "no [secret]", "it was in use again, so others are older"
            assert noted("plain-words-0006") == "no plain-words-0006"
