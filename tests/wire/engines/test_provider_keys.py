"""Several keys of one provider: used in turn, set aside when they are refused or limited, never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock._engines.config_problems import find_missing_keys, find_problems
from penstock._engines.credentials import LIMITED_KEY_SECONDS, REFUSED_KEY_SECONDS
from penstock._engines.router import Router
from penstock.errors import AuthError, InputError, RateLimited
from penstock.gateway import Account, Config
from penstock.testing import Reply, Upstream, play
from tests.wire.engines.fleet import Clock
from tests.wire.engines.router_setup import asking, each_engine, events, no_wait, quick, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engines.reply import ModelReply
    from penstock.testing import ReceivedRequest

GOOD = Reply.of("openai-chat", play("text"))
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


def keyed_router(up: Upstream, clock: Clock | None = None, **account: Any) -> Router:
    config = {"providers": {"openai": {"base_url": f"{up.url}/v1", **account}}, "retries": 0}
    return Router(config, env={}, sleep=no_wait, chance=lambda: 0.5, clock=clock or Clock())


async def ask(router: Router, engine: str = "", model: str = "gpt-4o") -> ModelReply:
    reply = await router.open(asking(model=model), engine=engine, options=quick())
    await events(reply)
    return reply


@each_engine
def test_keys_are_used_in_turn(engine: str) -> None:
    async def scene() -> None:
        async with KeyedUpstream() as up:
            router = keyed_router(up, keys=[FIRST, SECOND, THIRD])
            for _ in range(6):
                await ask(router, engine)
            assert up.keys == [FIRST, SECOND, THIRD] * 2
            await router.aclose()

    run(scene)


@each_engine
def test_a_revoked_key_is_set_aside_and_the_next_one_answers(engine: str) -> None:
    clock = Clock()

    async def scene() -> None:
        async with KeyedUpstream() as up:
            up.answers[FIRST] = Reply.error("openai-chat", 401, f"Incorrect API key provided: {FIRST}")
            router = keyed_router(up, clock, keys=[FIRST, SECOND])
            reply = await ask(router, engine)
            decision = next(one for one in reply.record.decisions if one.code == "key")
            assert decision.what == "retry"
            assert decision.why.startswith("the key of keys[0] is set aside for 300 s, the next one is used: ")
            assert FIRST not in "".join(reply.record.lines())
            assert router.counts["retry", "key", "openai"] == 1
            await ask(router, engine)
            await ask(router, engine, model="gpt-other")  # it is set aside for all models
            assert up.keys == [FIRST, SECOND, SECOND, SECOND]
            clock.now += REFUSED_KEY_SECONDS + 1
            del up.answers[FIRST]
            await ask(router, engine)
            assert up.keys[-1] == FIRST
            await router.aclose()

    run(scene)


def test_a_limited_key_rests_as_long_as_the_provider_says_for_that_model_only() -> None:
    clock = Clock()

    async def scene() -> None:
        async with KeyedUpstream() as up:
            up.answers[FIRST] = Reply.rate_limit("openai-chat", retry_after=20)
            router = keyed_router(up, clock, keys=[FIRST, SECOND])
            await ask(router)
            del up.answers[FIRST]
            await ask(router, model="gpt-other")
            await ask(router)
            assert up.keys == [FIRST, SECOND, FIRST, SECOND]
            clock.now += 21
            await ask(router)
            assert up.keys[-1] == FIRST
            up.answers[SECOND] = Reply.rate_limit("openai-chat", retry_after=None)
            await ask(router)  # no time is given: a short while
            await ask(router)
            assert up.keys[-3:] == [SECOND, FIRST, FIRST]
            clock.now += LIMITED_KEY_SECONDS + 1
            await ask(router)
            assert up.keys[-2] == SECOND
            await router.aclose()

    run(scene)


def test_a_key_with_nothing_left_is_not_used_until_its_limit_resets() -> None:
    clock = Clock()

    async def scene() -> None:
        async with KeyedUpstream() as up:
            spent = {"x_ratelimit_remaining_tokens": "0", "x_ratelimit_reset_tokens": "1m30s"}
            up.answers[FIRST] = GOOD.with_headers(**spent)
            router = keyed_router(up, clock, keys=[FIRST, SECOND])
            for _ in range(3):
                await ask(router)
            clock.now += 91
            await ask(router)
            assert up.keys == [FIRST, SECOND, SECOND, FIRST]
            await router.aclose()

    run(scene)


def test_the_error_is_the_providers_if_all_keys_fail() -> None:
    async def scene() -> None:
        async with KeyedUpstream() as up:
            up.answers = dict.fromkeys([FIRST, SECOND], Reply.error("openai-chat", 401, "no such key"))
            router = keyed_router(up, keys=[FIRST, SECOND])
            with pytest.raises(AuthError, match="no such key"):
                await ask(router)
            assert up.keys == [FIRST, SECOND]
            with pytest.raises(AuthError):  # the provider decides again: nothing is refused here
                await ask(router)
            assert len(up.keys) == 3
            up.answers = dict.fromkeys([FIRST, SECOND], Reply.rate_limit("openai-chat", retry_after=700))
            with pytest.raises(RateLimited):
                await ask(router)
            await router.aclose()

    run(scene)


def test_variables_hold_keys_and_are_read_for_each_request() -> None:
    async def scene() -> None:
        async with KeyedUpstream() as up:
            env = {"ONE": FIRST, "TWO": SECOND}
            config = {"providers": {"openai": {"base_url": f"{up.url}/v1", "env": ["ONE", "TWO"]}}}
            router = Router(config, env=env, sleep=no_wait)
            await ask(router)
            await ask(router)
            env["TWO"] = THIRD
            await ask(router)
            await ask(router)
            assert set(up.keys[:2]) == {FIRST, SECOND}
            assert set(up.keys[2:]) == {FIRST, THIRD}
            await router.aclose()

    run(scene)


def test_a_callers_own_key_is_not_exchanged() -> None:
    async def scene() -> None:
        async with KeyedUpstream() as up:
            up.answers[THIRD] = Reply.error("openai-chat", 401, "who?")
            router = keyed_router(up, keys=[FIRST, SECOND])
            with pytest.raises(AuthError):
                await router.open(asking(), options=quick(key=THIRD))
            assert up.keys == [THIRD]
            await router.aclose()

    run(scene)


def test_problems_with_several_keys_are_found() -> None:
    def problems(account: dict[str, Any], env: Mapping[str, str]) -> list[str]:
        config = Config.read({"providers": {"openai": account}})
        return [f"{'.'.join(one.keys)}: {one.message}" for one in find_problems(config, env)]

    assert problems({"env": ["ONE", "TWO"]}, {"ONE": FIRST, "TWO": SECOND}) == []
    assert problems({"env": ["ONE", "TWO"]}, {"ONE": FIRST}) == [
        "providers.openai.env: TWO is not set: the other keys are used"
    ]
    assert problems({"env": ["ONE", "TWO"]}, {"ONE": FIRST, "TWO": FIRST}) == [
        "providers.openai.env: TWO holds a key that is given twice"
    ]
    assert problems({"keys": [FIRST, FIRST]}, {}) == ["providers.openai.keys: a key is given twice: it is used as one"]
    missing = find_missing_keys(Config.read({"providers": {"openai": {"env": ["ONE", "TWO"]}}}), {})
    assert [one.message for one in missing] == ["ONE or TWO is not set: openai needs it as its key"]
    with pytest.raises(InputError, match=r"providers.openai: keys\[1\]: expected a key, found nothing"):
        Config.read({"providers": {"openai": {"keys": [FIRST, ""]}}})


def test_keys_are_not_shown() -> None:
    account = Account(keys=(FIRST, SECOND))
    assert FIRST not in repr(account)
    assert [place for place, _ in account.configured_keys({})] == ["keys[0]", "keys[1]"]
