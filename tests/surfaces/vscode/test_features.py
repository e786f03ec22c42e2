"""Features of the extension in a real VS Code: inline completions, commit messages, usage, requests, set-up, walkthrough."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock._gateway.callers import ANONYMOUS
from penstock._store.journal import JournalEntry, JournalStore
from penstock.testing import Reply, scripted
from tests.surfaces.vscode.e2e import Control, Editor, Gateway, alone, need_editor, script
from tests.surfaces.vscode.signed_upstream import said
from tests.surfaces.vscode.test_editor import FILLED, FILLING, looking_at, right, settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.testing import ReceivedRequest

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(autouse=True)
def _built() -> Iterator[None]:
    need_editor()
    with alone():
        script("tools/build.mjs", "--tests")
        yield


BLOCK = {
    **FILLED, "choices": [{"index": 0, "message": {"role": "assistant", "content": """width * height


def volume(width, height, depth):
    return area(width, height) * depth
"""}, "finish_reason": "stop"}],
}  # fmt: skip
MESSAGE = said("openai-chat", "Open the gate")


def test_typing_sends_only_what_may_be_sent(tmp_path: Path) -> None:
    """Every byte that reaches the provider is recorded."""
    config = FILLING.replace("evil-1", "mistral-large-latest")
    with (
        scripted(lambda _: Reply.body(BLOCK)) as upstream,
        Gateway(tmp_path, config=config.format(url=upstream.url)) as gateway,
    ):
        commands = {**looking_at(upstream), "paths": lambda _: [seen.path for seen in upstream.requests]}
        with Control(commands) as control:
            right(Editor(tmp_path, settings(gateway)).suites(["typing"], control), least=9)


def test_commit_messages_describe_what_will_be_committed(tmp_path: Path) -> None:
    with scripted(lambda _: MESSAGE) as upstream, Gateway(tmp_path, config=FILLING.format(url=upstream.url)) as gateway:
        commit = {"penstock.commitMessage.enabled": True, "penstock.commitMessage.model": "mistral/evil-1"}
        with Control(looking_at(upstream)) as control:
            right(Editor(tmp_path, {**settings(gateway), **commit}).suites(["commits"], control), least=4)


VIEWS = """
[providers.anthropic]
base_url = "{url}"
key = "made-up"
models = ["claude-sonnet-4-5"]
[providers.mistral]
base_url = "{url}"
key = "sk-not-a-good-key"
models = ["mistral-large-latest"]
"""


def watching(seen: ReceivedRequest) -> Reply:
    if seen.path.endswith("/chat/completions"):
        return Reply.error("openai-chat", 401, "Unauthorized")
    events: list[ev.AnyEvent] = [
        ev.Start("m", "claude-sonnet-4-5"), ev.TextStart(0), ev.TextDelta(0, "It is 3.2 m high, and falling."), ev.TextEnd(0),
        ev.Usage(input=12_000, cached=9_000, output=40), ev.Finish("stop"),
    ]  # fmt: skip
    return Reply.of("anthropic", events)


def earlier_usage(work: Path) -> None:
    """Three weeks of a journal: two models with prices, one without, and requests that reached no model."""
    (work / "penstock").mkdir()
    journal = JournalStore(work / "penstock/journal.sqlite", time.time)
    for ago in range(1, 21):
        moment = time.time() - ago * 86_400
        if time.localtime(moment).tm_wday >= 5:
            continue
        common: dict[str, Any] = {"time": moment, "key": ANONYMOUS, "operation": "chat", "status": "finish"}
        size = 40_000 + 9_000 * (ago * 7 % 11)
        rows = [
            JournalEntry(
                **common,
                model="claude-sonnet-4-5",
                input=size,
                cached=size * 3 // 4,
                output=size // 20,
                cost=size * 2e-6,
            ),
            JournalEntry(**common, model="gpt-5.5", input=size // 3, output=size // 40, cost=size * 1e-6),
            JournalEntry(**common, model="qwen2.5-coder-7b", input=size // 5, output=size // 50),
            JournalEntry(**{**common, "status": "cancelled"}),
        ]
        for row in rows:
            journal.add(row)
    journal.close()


def test_usage_requests_set_up_and_walkthrough_are_shown(tmp_path: Path) -> None:
    earlier_usage(tmp_path)
    with scripted(watching) as upstream, Gateway(tmp_path, config=VIEWS.format(url=upstream.url)) as gateway:

        def restart(_: Any) -> None:
            gateway.stop()
            gateway.start()

        up = {"restart": restart, "up": lambda _: bool(gateway.ask("/healthz"))}
        with Control({**looking_at(upstream), **up}) as control:
            same_user = {"PENSTOCK_DATA": str(tmp_path / "penstock")}  # who may read what the gateway keeps
            right(Editor(tmp_path, settings(gateway), same_user).suites(["views"], control), least=6)
