"""Several keys of one provider: used in turn, set aside when they are refused or limited, never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import AuthError, InputError, RateLimited
from penstock.gateway import Account, Config
from penstock.testing import Reply, Upstream
from tests.support.check_config import check_config
from tests.support.routed_client import GOOD, Clock, RoutedClient, asking, each_engine, events, quick, staged

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.testing import ReceivedRequest

LIMITED_KEY_SECONDS, REFUSED_KEY_SECONDS = 5.0, 300.0  # without a time of the provider's; no access or credit
FIRST, SECOND, THIRD = (f"sk-planted-{name}-0123456789" for name in ("first", "second", "third"))


class KeyedUpstream(Upstream):
    """Answers by the key of the request; `answers` has those that do not get a good answer."""

    def __init__(self) -> None:
        super().__init__(self._by_key)
        self.answers: dict[str, Reply] = {}

    def _by_key(self, request: ReceivedRequest) -> Reply:
        return self.answers.get(self.key_of(request), GOOD)

    @staticmethod
    def key_of(request: ReceivedRequest) -> str:
        return request.headers["authorization"].removeprefix("Bearer ")

    @property
    def keys(self) -> list[str]:
        """The keys of the requests so far."""
        return [self.key_of(request) for request in self.requests]


def keyed(up: Upstream, clock: Clock | None = None, **account: Any) -> RoutedClient:
    config = {"providers": {"openai": {"base_url": f"{up.url}/v1", **account}}, "retries": 0}
    return RoutedClient(config, clock=clock or Clock())


async def ask(client: RoutedClient, engine: str = "", model: str = "gpt-4o") -> Any:
    reply = await client.open(asking(model=model), engine=engine, options=quick())
    await events(reply)
    return reply


@each_engine
@staged
async def test_keys_are_used_in_turn(engine: str) -> None:
    async with KeyedUpstream() as up:
        client = keyed(up, keys=[FIRST, SECOND, THIRD])
        for _ in range(6):
            await ask(client, engine)
        assert up.keys == [FIRST, SECOND, THIRD] * 2


@each_engine
@staged
async def test_a_revoked_key_is_set_aside_and_the_next_one_answers(engine: str) -> None:
    clock = Clock()
    async with KeyedUpstream() as up:
        up.answers[FIRST] = Reply.error("openai-chat", 401, f"Incorrect API key provided: {FIRST}")
        client = keyed(up, clock, keys=[FIRST, SECOND])
        reply = await ask(client, engine)
        decision = next(one for one in reply.record.decisions if one.code == "key")
        assert decision.what == "retry"
        assert decision.why.startswith("the key of keys[0] is set aside for 300 s, the next one is used: ")
        assert FIRST not in "".join(reply.record.lines())
        assert client.counts["retry", "key", "openai"] == 1
        await ask(client, engine)
        await ask(client, engine, model="gpt-other")  # it is set aside for all models
        assert up.keys == [FIRST, SECOND, SECOND, SECOND]
        clock.now += REFUSED_KEY_SECONDS + 1
        del up.answers[FIRST]
        await ask(client, engine)
        assert up.keys[-1] == FIRST


@staged
async def test_a_limited_key_rests_as_long_as_the_provider_says_for_that_model_only() -> None:
    clock = Clock()
    async with KeyedUpstream() as up:
        up.answers[FIRST] = Reply.rate_limit("openai-chat", retry_after=20)
        client = keyed(up, clock, keys=[FIRST, SECOND])
        await ask(client)
        del up.answers[FIRST]
        await ask(client, model="gpt-other")
        await ask(client)
        assert up.keys == [FIRST, SECOND, FIRST, SECOND]
        clock.now += 21
        await ask(client)
        assert up.keys[-1] == FIRST
        up.answers[SECOND] = Reply.rate_limit("openai-chat", retry_after=None)
        await ask(client)  # no time is given: a short while
        await ask(client)
        assert up.keys[-3:] == [SECOND, FIRST, FIRST]
        clock.now += LIMITED_KEY_SECONDS + 1
        await ask(client)
        assert up.keys[-2] == SECOND


@staged
async def test_a_key_with_nothing_left_is_not_used_until_its_limit_resets() -> None:
    clock = Clock()
    async with KeyedUpstream() as up:
        spent = {"x_ratelimit_remaining_tokens": "0", "x_ratelimit_reset_tokens": "1m30s"}
        up.answers[FIRST] = GOOD.with_headers(**spent)
        client = keyed(up, clock, keys=[FIRST, SECOND])
        for _ in range(3):
            await ask(client)
        clock.now += 91
        await ask(client)
        assert up.keys == [FIRST, SECOND, SECOND, FIRST]


@staged
async def test_the_error_is_the_providers_if_all_keys_fail() -> None:
    async with KeyedUpstream() as up:
        up.answers = dict.fromkeys([FIRST, SECOND], Reply.error("openai-chat", 401, "no such key"))
        client = keyed(up, keys=[FIRST, SECOND])
        with pytest.raises(AuthError, match="no such key"):
            await ask(client)
        assert up.keys == [FIRST, SECOND]
        with pytest.raises(AuthError):  # the provider decides again: nothing is refused here
            await ask(client)
        assert len(up.keys) == 3
        up.answers = dict.fromkeys([FIRST, SECOND], Reply.rate_limit("openai-chat", retry_after=700))
        with pytest.raises(RateLimited):
            await ask(client)


@staged
async def test_variables_hold_keys_and_are_read_for_each_request() -> None:
    async with KeyedUpstream() as up:
        env = {"ONE": FIRST, "TWO": SECOND}
        config = {"providers": {"openai": {"base_url": f"{up.url}/v1", "env": ["ONE", "TWO"]}}}
        client = RoutedClient(config, env=env)
        await ask(client)
        await ask(client)
        env["TWO"] = THIRD
        await ask(client)
        await ask(client)
        assert set(up.keys[:2]) == {FIRST, SECOND}
        assert set(up.keys[2:]) == {FIRST, THIRD}


@staged
async def test_a_callers_own_key_is_not_exchanged() -> None:
    async with KeyedUpstream() as up:
        up.answers[THIRD] = Reply.error("openai-chat", 401, "who?")
        client = keyed(up, keys=[FIRST, SECOND])
        with pytest.raises(AuthError):
            await client.open(asking(), options=quick(key=THIRD))
        assert up.keys == [THIRD]


def test_problems_with_several_keys_are_found(tmp_path: Path) -> None:
    def problems(account: dict[str, Any], **env: str) -> list[str]:
        return check_config(tmp_path, {"providers": {"openai": account}}, **env)

    two: dict[str, Any] = {"env": ["ONE", "TWO"]}
    assert problems(two, ONE=FIRST, TWO=SECOND) == []
    assert problems(two, ONE=FIRST) == ["providers.openai.env: TWO is not set: the other keys are used"]
    assert problems(two, ONE=FIRST, TWO=FIRST) == ["providers.openai.env: TWO holds a key that is given twice"]
    assert problems({"keys": [FIRST, FIRST]}) == ["providers.openai.keys: a key is given twice: it is used as one"]
    assert any("ONE or TWO is not set: openai needs it as its key" in line for line in problems(two))
    with pytest.raises(InputError, match=r"providers.openai: keys\[1\]: expected a key, found nothing"):
        Config.read({"providers": {"openai": {"keys": [FIRST, ""]}}})
    assert FIRST not in repr(Account(keys=(FIRST, SECOND)))
