"""A cached request plan is used only while the configuration and environment that it was made of are unchanged."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from penstock._engines.environ import LIVE, EnvironmentChanges
from penstock._engines.router import Router
from penstock._http.request_options import RequestOptions
from penstock.testing import Upstream
from tests.wire.engines.router_setup import asking, good, no_wait, run, turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engines.engine_interface import HttpRequest


async def ask(router: Router, **said: Any) -> None:
    await turn(await router.open(asking(), **said))


def keys(up: Upstream) -> list[str]:
    return [seen.headers.get("authorization", "") for seen in up.requests]


def scene(change: Callable[[Router, dict[str, str]], None], wanted: list[str]) -> None:
    async def played() -> None:
        async with Upstream() as up:
            up.script(*[good("openai-chat", stream=True)] * 4)
            env = {"OPENAI_API_KEY": "sk-first"}
            row = {"base_url": up.url + "/v1"}
            router = Router({"providers": {"openai": row}}, env=env, sleep=no_wait)
            try:
                await ask(router)
                await ask(router)
                change(router, env)
                await ask(router)
                assert keys(up) == [f"Bearer {key}" for key in wanted]
            finally:
                await router.aclose()

    run(played)


def test_a_key_that_changes_in_the_environment_is_taken_up() -> None:
    scene(lambda _, env: env.update(OPENAI_API_KEY="sk-second"), ["sk-first", "sk-first", "sk-second"])


def test_another_name_in_the_environment_changes_nothing() -> None:
    scene(lambda _, env: env.update(EDITOR="ed"), ["sk-first"] * 3)


def test_a_call_with_a_key_of_its_own_leaves_the_plan_alone() -> None:
    async def played() -> None:
        async with Upstream() as up:
            up.script(*[good("openai-chat", stream=True)] * 3)
            router = Router({"providers": {"openai": {"base_url": up.url + "/v1", "key": "sk-ours"}}}, env={})
            try:
                await ask(router)
                await ask(router, options=RequestOptions(key="sk-theirs", headers={"x-one": "1"}))
                await ask(router)
                assert keys(up) == ["Bearer sk-ours", "Bearer sk-theirs", "Bearer sk-ours"]
                assert ["x-one" in seen.headers for seen in up.requests] == [False, True, False]
            finally:
                await router.aclose()

    run(played)


def test_streams_and_whole_answers_are_planned_apart() -> None:
    async def played() -> None:
        async with Upstream() as up:
            router = Router({"providers": {"openai": {"base_url": up.url + "/v1", "key": "k"}}}, env={})
            try:
                for stream in (True, False, True):
                    up.script(good("openai-chat", stream=stream))
                    await turn(await router.open(asking(stream=stream, text=f"stream {stream}")))
                assert [seen.json.get("stream", False) for seen in up.requests] == [True, False, True]
                assert [seen.json["messages"][0]["content"] for seen in up.requests] == [
                    "stream True", "stream False", "stream True",
                ]  # fmt: skip
            finally:
                await router.aclose()

    run(played)


@pytest.mark.parametrize("env", [None, {"A": "1"}], ids=["the process's", "given"])
def test_changes_are_told_once(env: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = EnvironmentChanges(LIVE if env is None else env)
    assert changes.any(), "the first time nothing is known"
    assert not changes.any()
    if env is None:
        monkeypatch.setenv("PENSTOCK_ENGINE_NOBODY", "sdk")
        assert "PENSTOCK_ENGINE_NOBODY" in os.environ
    else:
        env["B"] = "2"
    assert changes.any()
    assert not changes.any()


def test_a_server_reads_its_variables_once_and_stored_keys_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIVE, "unchanging", True)
    changes = EnvironmentChanges(LIVE)
    assert changes.any(), "the first time nothing is known"
    monkeypatch.setenv("PENSTOCK_ENGINE_NOBODY", "sdk")
    assert not changes.any()
    monkeypatch.setitem(LIVE.stored, "nobody", "key")
    assert changes.any()
    monkeypatch.setattr(LIVE, "unchanging", False)
    assert changes.any() is False, "the variables were read again with the keys"
    monkeypatch.delenv("PENSTOCK_ENGINE_NOBODY")
    assert changes.any()


class Fleeting:
    """Signs every request otherwise, as those do whose tokens run out."""

    count = 0

    async def sign(self, request: HttpRequest, fetch: Any) -> HttpRequest:
        self.count += 1
        return replace(request, headers={**request.headers, "authorization": f"Bearer {self.count}"})

    def secrets(self) -> tuple[str, ...]:
        return (str(self.count),)


@pytest.mark.parametrize("steady", [False, True])
def test_only_what_is_signed_alike_leaves_under_the_head_of_the_last(
    steady: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    auth: Any = Fleeting()
    if steady:
        auth.same_signature = True
    monkeypatch.setattr("penstock._engines.credentials.auth_for", lambda *_, **__: auth)
    scene(lambda *_: None, ["1", "1", "1"] if steady else ["1", "2", "3"])
