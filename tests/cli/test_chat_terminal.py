"""`penstock chat` in a terminal: arrow keys, history, several lines, commands, files, and Ctrl-C."""

from __future__ import annotations

import json
import stat
import sys
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import Reply, Upstream, play, scripted
from tests.cli.command_runner import environment, inside
from tests.cli.terminal_session import CTRL_C, CTRL_D, LEFT, TAB, UP, Terminal
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HALF = 900  # bytes: the answer has begun
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
PDF = b"%PDF-1.7\n\xff\xfe binary"


def answer() -> Reply:
    return Reply.of("openai-chat", play("text"))


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Upstream]:
    with scripted(*[answer() for _ in range(8)]) as server:
        (tmp_path / "made.toml").write_text(
            f'[providers.mine]\nbase_url = "{server.url}/v1"\nkey = "k"\nmodels = ["m", "other"]\n'
        )
        yield server


def chat(tmp_path: Path, *words: str, **more: str) -> Terminal:
    command = [sys.executable, "-m", "penstock", "chat", "mine/m", "--config", str(tmp_path / "made.toml"), *words]
    env = environment(TERM="xterm", PENSTOCK_DATA=str(tmp_path / "data"), INPUTRC="/dev/null", **more)
    return Terminal(command, env, tmp_path)


def questions(up: Upstream) -> list[Any]:
    """The content of the last message of each request."""
    return [request.json["messages"][-1]["content"] for request in up.requests]


def ask(terminal: Terminal, keys: bytes | str) -> None:
    terminal.type(keys)
    terminal.type(b"\r")
    terminal.wait_for("mine/m, native: ")
    terminal.wait_for("> ")


def interrupt(terminal: Terminal, typed: str) -> None:
    """Ctrl-C at the prompt, after some keys."""
    terminal.type(typed)
    terminal.wait_for(typed)
    terminal.interrupt()


def test_editing_and_history(up: Upstream, tmp_path: Path) -> None:
    """The history is there in the next chat. It is bounded, and has no secrets."""
    with chat(tmp_path) as terminal:
        terminal.wait_for("> ")
        ask(terminal, b"high waer" + LEFT * 2 + b"t")
        ask(terminal, UP)
        terminal.type(CTRL_D)
        assert terminal.wait() == 0
        assert b"^[[" not in terminal.screen
    assert questions(up) == ["high water", "high water"]
    file = tmp_path / "data" / "chat-history.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert kept(file) == ["high water"] * 2
    lines = [json.dumps(f"entry {number}") for number in range(1_020)]
    file.write_text("\n".join(["no JSON", *lines, '"high water"']) + "\n")
    with chat(tmp_path) as terminal:
        terminal.wait_for("> ")
        ask(terminal, UP + b" today")
        ask(terminal, "my key is sk-planted0123456789")
        ask(terminal, " a space before it")
        terminal.type(CTRL_D)
        assert terminal.wait() == 0
    assert questions(up)[2] == "high water today"
    found = kept(file)
    assert (len(found), found[0]) == (1_000, "entry 23")
    assert found[-3:] == ["high water", "high water today", "my key is [secret]"]


def kept(file: Path) -> list[str]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_several_lines_without_a_history_file(up: Upstream, tmp_path: Path) -> None:
    with chat(tmp_path, "--no-history") as terminal:
        terminal.wait_for("> ")
        terminal.type("one \\\r")
        terminal.wait_for(". ")
        ask(terminal, "two")
        terminal.type('"""\r')
        terminal.wait_for(". ")
        terminal.type("first\r")
        terminal.wait_for(". ")
        ask(terminal, 'second"""')
        ask(terminal, b"\x1b[200~pasted\rtext\x1b[201~")  # bracketed paste
        ask(terminal, UP)  # all of it comes back
        terminal.type(CTRL_D)
        assert terminal.wait() == 0
    assert questions(up) == ["one \ntwo", "first\nsecond", "pasted\ntext", "pasted\ntext"]
    assert not (tmp_path / "data" / "chat-history.jsonl").exists()


def test_ctrl_c_stops_the_answer_and_not_the_chat(up: Upstream, tmp_path: Path) -> None:
    """A second one at the prompt leaves."""
    stalls = Reply.of("openai-chat", play("text")).stall(after=HALF)
    up.script(stalls, answer(), stalls)
    with chat(tmp_path, PENSTOCK_CHAT_HISTORY="off") as terminal:
        terminal.wait_for("> ")
        stop_answer(terminal)
        ask(terminal, "short")
        stop_answer(terminal)
        interrupt(terminal, "x")
        assert terminal.wait() == 130
    sent = up.requests[1].json["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]  # what was said stays
    assert sent[1]["content"].startswith("A penstock")
    assert not (tmp_path / "data" / "chat-history.jsonl").exists()


def stop_answer(terminal: Terminal) -> None:
    terminal.type("long\r")
    terminal.wait_for("A penstock")  # the answer has begun
    terminal.type(CTRL_C)
    terminal.wait_for("stopped; Ctrl-C again, or Ctrl-D, leaves")
    terminal.wait_for("> ")


def test_ctrl_c_at_the_prompt_asks_for_another(up: Upstream, tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:
        terminal.wait_for("> ")
        interrupt(terminal, "never mind")
        terminal.wait_for("Ctrl-C again, or Ctrl-D, leaves")
        terminal.wait_for("> ")
        ask(terminal, "this instead")
        interrupt(terminal, "not this")
        terminal.wait_for("leaves")
        terminal.wait_for("> ")
        interrupt(terminal, "nor this")
        assert terminal.wait() == 130
    assert questions(up) == ["this instead"]


def test_commands(up: Upstream, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("tides")
    with chat(tmp_path, "--system", "Be brief.") as terminal:
        terminal.wait_for("> ")
        terminal.type(b"hello" + TAB + b"/model a" + TAB + b"\x15/help\r")  # nothing to complete
        for name in ("/help", "/model", "/system", "/file", "/tools", "/clear", "/save", "/quit"):
            terminal.wait_for(name)
        terminal.type("/modle x\r")
        terminal.wait_for("there is no command /modle; did you mean /model?")
        terminal.type("/model mine/othr\r")
        terminal.wait_for("the model is mine/othr")
        terminal.type("/model opnai/gpt-5\r")
        terminal.wait_for("did you mean openai/gpt-5?")
        terminal.type("/model mine/m\r")
        terminal.wait_for("the model is mine/m")
        terminal.type(b"/fi" + TAB + b"not" + TAB + b"\r")  # completed
        terminal.wait_for("notes.txt goes with the next question")
        terminal.wait_for("> ")
        ask(terminal, "what is it?")
        ask(terminal, "//slash")
        terminal.type("/save talk.json\r")
        terminal.wait_for("talk.json: 4 messages")
        terminal.type("/save talk.json\r")
        terminal.wait_for("File exists")
        terminal.type("/clear\r")
        terminal.wait_for("anew")
        terminal.type("/system Be long.\r")
        terminal.wait_for("> ")
        ask(terminal, "again")
        terminal.type("/file nowhere\r")
        terminal.wait_for("No such file")
        terminal.type("/tools\r")
        terminal.wait_for("there are no tools")
        terminal.type("/quit\r")
        assert terminal.wait() == 0
    first, second, third = (request.json["messages"] for request in up.requests)
    assert [message["role"] for message in first] == ["system", "user"]
    assert first[1]["content"][0] == {"type": "text", "text": "The file notes.txt:\n\ntides"}
    assert second[-1]["content"] == "/slash"
    assert third == [{"role": "system", "content": "Be long."}, {"role": "user", "content": "again"}]
    saved = json.loads((tmp_path / "talk.json").read_text())
    assert [message["role"] for message in saved] == ["system", "user", "assistant", "user", "assistant"]


FILES = {"chart.png": PNG, "plan.pdf": PDF, "notes.md": "Höhe\n".encode(), "bm.txt": b"BMs are not pictures"}


def test_files_go_with_the_question(up: Upstream, tmp_path: Path) -> None:
    words: list[str] = []
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
        words += ["--file", str(tmp_path / name)]
    done = inside("chat", "mine/m", "What is this?", *words, "--config", str(tmp_path / "made.toml"))
    assert done.returncode == 0, done.stderr
    image, pdf, notes, other, text = questions(up)[0]
    assert image["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert (pdf["file"]["filename"], pdf["file"]["file_data"][:28]) == ("plan.pdf", "data:application/pdf;base64,")
    assert notes == {"type": "text", "text": "The file notes.md:\n\nHöhe\n"}
    assert other["text"].endswith("BMs are not pictures")
    assert text == {"type": "text", "text": "What is this?"}


@each("data, complaint", [(b"", "is empty"), (b"\xff\x00\x01", "expected an image, a PDF")])
def test_a_file_that_no_model_reads(tmp_path: Path, data: bytes, complaint: str) -> None:
    path = tmp_path / "given"
    path.write_bytes(data)
    done = inside("chat", "replay/text", "?", "--file", str(path))
    assert (done.returncode, done.stdout) == (2, b"")
    assert complaint in done.stderr.decode()
    assert b"No such file" in inside("chat", "replay/text", "?", "--file", str(tmp_path / "none")).stderr


def test_sources_are_numbered_after_the_text() -> None:
    done = inside("chat", "replay/citations", "?")
    assert done.returncode == 0
    lines = [line for line in done.stderr.decode().splitlines() if line.startswith("source ")]
    assert [line.split()[1] for line in lines] == ["[1]", "[2]"]
    assert all("http" in line for line in lines)


def test_thinking_is_marked_in_a_terminal_without_colours(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock", "chat", "replay/reasoning", "?"]
    with Terminal(command, environment(TERM="xterm", NO_COLOR="1", PENSTOCK_DATA=str(tmp_path))) as terminal:
        terminal.wait_for("(thinking) ")
        assert terminal.wait() == 0
        assert terminal.screen.count(b"(thinking)") == 1


def test_the_cost_is_in_the_last_line(up: Upstream, tmp_path: Path) -> None:
    path = tmp_path / "made.toml"
    url = f'base_url = "{up.url}/v1"\nkey = "k"\n'
    path.write_text(f"[providers.mine]\n{url}[providers.mine.models.m.prices]\ninput = 1.0\noutput = 10.0\n")
    done = inside("chat", "mine/m", "hi", "--config", str(path))
    assert done.stderr.decode() == "mine/m, native: 0 in, 52 out, $0.00052\n"
