"""Answers and streams as notebooks, rich and `repr` show them; `show` in a terminal and in a notebook."""

from __future__ import annotations

import asyncio
import io
import re
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from rich.console import Console

from penstock import tool
from penstock.client import Answer, Client, SyncClient
from penstock.errors import ProviderError, ToolError
from penstock.testing import Reply, play, scripted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

TEXT = "A penstock is the pipe that feeds water to a turbine."


def running(scene: Callable[[Client], Awaitable[None]]) -> None:
    async def staged() -> None:
        async with Client(env={}) as client:
            await scene(client)

    asyncio.run(staged())


def ask(model: str) -> Answer:
    with SyncClient(env={}) as client:
        return client.chat(f"replay/{model}", "?")


def html_of(thing: Any) -> str:
    html: str = thing._repr_html_()
    return html


def bundle_of(thing: Any, **options: Any) -> Any:
    return thing._repr_mimebundle_(**options)


def printed(thing: Any) -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(thing)
    return out.getvalue()


def test_an_answer() -> None:
    answer = ask("text")
    line = repr(answer)
    assert line.startswith("<Answer replay/text: 'A penstock is the pipe")
    assert line.endswith(" 52 out>")
    assert "\n" not in line
    assert TEXT in html_of(answer)
    assert TEXT in printed(answer)
    assert bundle_of(answer) == {"text/html": html_of(answer), "text/plain": line}
    assert bundle_of(answer, include=["text/plain"]) == {"text/plain": line}
    assert bundle_of(answer, exclude=["text/plain"]) == {"text/html": html_of(answer)}


def test_an_answer_is_still_data() -> None:
    answer = ask("tools")
    assert msgspec.convert(msgspec.to_builtins(answer), Answer).parts == answer.parts
    assert answer == msgspec.structs.replace(answer)


def test_a_stream_before_while_and_after_it_is_read() -> None:
    with scripted(Reply.of("openai-chat", play("text")).slow(0.001)) as up:
        config = {"providers": {"openai": {"base_url": f"{up.url}/v1", "key": "sk-none"}}}
        asyncio.run(read_slowly(config))


async def read_slowly(config: dict[str, Any]) -> None:
    async with Client(config, env={}) as client:
        stream = client.chat_stream("openai/m", "?")
        assert repr(stream) == "<Stream: not sent yet>"
        assert "not sent yet" in html_of(stream)
        assert stream.reply is None, "to look at a stream does not send it"
        text = stream.text()
        begun = await anext(text) + await anext(text)
        assert "open" in printed(stream)
        assert begun.strip() in printed(stream)
        assert re.search(r"<Stream openai/\S+: 'A[^']*', open>", repr(stream)), repr(stream)
        async for _ in text:
            pass
        assert re.match(r"<Stream openai/\S+: 'A penstock is the pipe", repr(stream)), repr(stream)
        assert TEXT in html_of(stream)


def test_a_stream_that_failed() -> None:
    async def scene(client: Client) -> None:
        stream = client.chat_stream("replay/error", "?")
        async for _ in stream:
            pass
        assert "failed: overloaded" in repr(stream)
        assert "overloaded (529)" in html_of(stream)
        assert "The turbine" in printed(stream)

    running(scene)


def test_a_stream_without_await() -> None:
    with SyncClient(env={}) as client:
        stream = client.chat_stream("replay/text", "?")
        assert repr(stream) == "<Stream: not sent yet>"
        assert stream.show().text.startswith(TEXT)
        assert TEXT in html_of(stream)


def test_the_cost_is_shown() -> None:
    with scripted(Reply.of("openai-chat", play("text"))) as up:
        config = {"providers": {"openai": {"base_url": f"{up.url}/v1", "key": "sk-none"}}}
        with SyncClient(config, env={}, prices={"openai/m": {"input": 1, "output": 1000}}) as client:
            stream = client.chat_stream("openai/m", "?")
            for thing in (stream.turn(), stream, client.run("openai/m", "?").wait()):
                assert repr(thing).endswith(" 52 out, $0.0520>")
                assert "$0.0520" in html_of(thing)
                assert "$0.0520" in printed(thing)


# ── live ──────────────────────────────────────────────────────────────────────────────────────────


def test_show_prints_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    async def scene(client: Client) -> None:
        answer = await client.chat_stream("replay/reasoning", "?").show()
        assert answer.text.startswith("Three minutes")
        await client.chat_stream("replay/tools", "?").show()

    running(scene)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("The question is how long")
    assert lines[1].startswith("Three minutes")
    assert lines[2].startswith("reasoning · finished: stop · ")
    assert '⚙ read_gauge({"station":"upper gate","unit":"m"})' in lines
    assert lines[-1].startswith("tools · finished: calls · 1 call · ")


def test_show_prints_without_rich(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)

    async def scene(client: Client) -> None:
        await client.chat_stream("replay/text", "?").show()

    running(scene)
    assert capsys.readouterr().out.startswith(TEXT)


def test_show_prints_no_escape_sequences_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J[bold]x[/bold] \u202eabc"
    chunk = {"choices": [{"index": 0, "delta": {"content": hostile}, "finish_reason": "stop"}], "model": "m"}
    data = b"data: " + msgspec.json.encode(chunk) + b"\n\ndata: [DONE]\n\n"
    reply = Reply(chunks=(data,), headers={"content-type": "text/event-stream"})
    with scripted(reply) as up:
        config = {"providers": {"openai": {"base_url": f"{up.url}/v1", "key": "sk-none"}}}
        with SyncClient(config, env={}) as client:
            client.chat_stream("openai/m", "?").show()
    out = capsys.readouterr().out
    assert "⟨U+001B⟩]0;owned⟨U+0007⟩⟨U+001B⟩[2J[bold]x[/bold] ⟨U+202E⟩abc" in out
    assert "\x1b" not in out


def test_show_raises_the_error_that_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    async def scene(client: Client) -> None:
        with pytest.raises(ProviderError, match="overloaded"):
            await client.chat_stream("replay/error", "?").show()

    running(scene)
    out = capsys.readouterr().out
    assert out.startswith("The turbine is running")
    assert "✗ overloaded (529)" in out


@pytest.fixture
def notebook() -> Iterator[Any]:
    """A shell of IPython that has a kernel, like that of a notebook."""
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    shell: Any = InteractiveShell.instance()
    shell.kernel = object()
    try:
        yield shell
    finally:
        InteractiveShell.clear_instance()


def test_a_notebook_shows_the_html(notebook: Any) -> None:
    data, _ = notebook.display_formatter.format(ask("text"))
    assert set(data) == {"text/html", "text/plain"}
    assert TEXT in data["text/html"]


def test_show_updates_one_output_of_a_notebook(notebook: Any) -> None:
    published: list[tuple[dict[str, str], dict[str, str], bool]] = []

    def publish(
        data: dict[str, str], metadata: Any = None, *, transient: Any = None, update: bool = False, **_: Any
    ) -> None:
        assert not metadata
        published.append((data, transient, update))

    notebook.display_pub.publish = publish

    async def scene(client: Client) -> None:
        await client.chat_stream("replay/text", "?").show()

    running(scene)
    (first, transient, _), *_, (last, last_transient, is_update) = published
    assert "streaming" in first["text/html"]
    assert transient == last_transient, "all updates are of one output"
    assert is_update
    assert TEXT in last["text/html"]
    assert "finished: stop" in last["text/html"]
    assert len(published) < len(play("text"))


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────


def read_gauge(station: str) -> str:
    """Reads the water level at a station."""
    return f"{station}: 3.2 m"


def fail(station: str) -> str:
    """Fails."""
    raise ToolError(f"no gauge at {station}")


def test_a_run_before_and_after_it_is_finished() -> None:
    async def scene(client: Client) -> None:
        run = client.run("replay/agent", "How deep is it?", tools=[read_gauge])
        assert repr(run) == "<Run: not started>"
        assert run.steps == [], "to look at a run does not start it"
        assert await run is run
        assert re.fullmatch(r"<Run replay/agent: '.*3\.2 m', 2 steps, 1 call, stop, \d+ in, \d+ out>", repr(run)), repr(
            run
        )
        html, text = html_of(run), printed(run)
        for shown in (html, text):
            assert "Step 1" in shown
            assert "Step 2" in shown
            assert "read_gauge" in shown
            assert "penstock: 3.2 m" in shown
            assert re.search(r"\d ms", shown), "how long the tool ran"
        assert all(step.seconds is not None for step in run.steps)
        assert set(run.steps[0].call_seconds) == {call.id for call in run.steps[0].calls}

    running(scene)


def test_a_run_shows_failed_and_waiting_calls() -> None:
    async def scene(client: Client) -> None:
        failed = await client.run("replay/agent", "?", tools=[fail])
        assert "ps-failed" in html_of(failed)
        assert "✗ no gauge at penstock" in printed(failed)
        waiting = await client.run("replay/agent", "?", tools=[tool(needs_approval=True)(read_gauge)])
        assert "waits for approval" in html_of(waiting)
        left = await client.run("replay/agent", "?", tools=[{"type": "function", "function": {"name": "mine"}}])
        assert "left to the caller" in printed(left)

    running(scene)


def test_the_results_of_calls_with_the_same_id_stay_apart() -> None:
    """The packaged model gives every call the same id."""

    async def scene(client: Client) -> None:
        first = await client.run("replay/agent", "?", tools=[read_gauge])
        again = await client.run(
            "replay/agent", [*first.messages, {"role": "user", "content": "?"}], tools=[read_gauge]
        )
        assert printed(again).count("⚙ read_gauge") == 1
        assert "⚙ (" not in printed(again)

    running(scene)


def test_show_of_a_run_prints_steps(capsys: pytest.CaptureFixture[str]) -> None:
    async def scene(client: Client) -> None:
        run = await client.run("replay/agent", "?", tools=[read_gauge]).show()
        assert len(run.steps) == 2

    running(scene)
    with SyncClient(env={}) as client:
        run = client.run("replay/agent", "?", tools=[read_gauge])
        assert repr(run) == "<Run: not started>"
        assert run.show().output.endswith("3.2 m")
        assert "Step 2" in html_of(run)
    lines = capsys.readouterr().out.splitlines()
    assert lines.count('⚙ read_gauge({"station":"penstock"})') == 2
    assert lines.count('  → "penstock: 3.2 m"') == 2
    assert re.search(r"^agent · finished: stop · 2 steps · 1 call · \d+ in · \d+ out · [\d.]+ m?s$", lines[-1]), lines[
        -1
    ]
