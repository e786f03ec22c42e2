"""The command as a whole: help, version, and one clear line for whatever cannot be used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from penstock import __version__
from tests.cli.command_runner import COMMANDS, environment, inside, main, penstock
from tests.cli.sample_streams import ANTHROPIC, CHAT_LONG
from tests.support.each_case import each
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


READING = ("translate", "inspect")
STREAMS = [path.read_bytes() for path in sorted((PROJECT / "tests" / "streams").glob("*/*/wire.*"))]


def test_version() -> None:
    done = penstock("--version")
    assert (done.returncode, done.stdout.decode().strip()) == (0, f"penstock {__version__}")


def test_help_names_every_command_and_shows_examples() -> None:
    done = inside("--help")
    text = done.stdout.decode()
    assert done.returncode == 0
    assert all(name in text for name in COMMANDS)
    assert "examples:" in text


@each("command", COMMANDS)
def test_help_of_a_command_shows_examples(command: str) -> None:
    done = inside(command, "--help")
    assert done.returncode == 0, done.stderr
    assert f"penstock {command} " in done.stdout.decode().partition("examples:")[2]


def test_no_command_is_help_and_an_error() -> None:
    done = inside()
    assert done.returncode == 2
    assert b"examples:" in done.stderr
    assert not done.stdout


@pytest.fixture
def complaint_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[list[str], bytes], str]:
    """Run a command line that cannot work and give its complaint, if it is as it should be: one line, code 2."""

    def run(words: list[str], given: bytes = b"") -> str:
        path = tmp_path / "given"
        path.write_bytes(given)
        assert main([str(path) if word == "GIVEN" else word for word in words]) == 2
        told = capsys.readouterr().err
        assert told.startswith("penstock")
        assert told.count("\n") == 1, told
        return told

    return run


@each(
    "words, complaint",
    [
        (["nothing"], "there is no command 'nothing' (see penstock --help)"),
        (["translate"], "required: --to"),
        (["translate", "--to", "events", "--nope"], "unrecognized arguments: --nope (see penstock translate --help)"),
        (["inspect", "--width", "wide"], "invalid int value"),
    ],
)
def test_a_wrong_command_line_is_one_line(words: list[str], complaint: str, complaint_of: Any) -> None:
    assert complaint in complaint_of(words)


@each("command", READING)
@each(
    "words, given, complaint",
    [
        (["/no/such/file.sse"], b"", "/no/such/file.sse: No such file or directory"),
        (["/"], b"", "/: Is a directory"),
        (["--from", "auto"], b"", "the input is empty"),
        (["--from", "auto"], b"\x00\x93\xfe\xff" * 900, "cannot tell the protocol"),
        (
            ["--from", "auto"],
            b"\n" * 900,
            "cannot tell the protocol of the stream: there is nothing in it; known are: aisdk",
        ),
        (["--from", "anthropic"], b"hello " * 900, "nothing of anthropic in the input"),
        (["--from", "nobody"], ANTHROPIC, "unknown protocol 'nobody'; known are: aisdk, anthropic"),
        (["--to", "nobody"], ANTHROPIC, "unknown protocol 'nobody'"),
        (["--to", "bedrock"], ANTHROPIC, "unknown target 'bedrock'"),
        (["--framing", "morse"], ANTHROPIC, "unknown framing 'morse'"),
        (["--limit", "40"], ANTHROPIC, "over the limit of 40; raise `limit` to accept it"),
        (["--limit", "0", "--from", "anthropic"], ANTHROPIC, "at least 1, not 0"),
        (["--framing", "eventstream", "--from", "bedrock"], b"not binary " * 90, "not an AWS event stream"),
        (["--option", "created"], ANTHROPIC, "an option is KEY=VALUE, not 'created'"),
        (["--option", "colour=red"], ANTHROPIC, "unknown option 'colour'; there is: created, "),
        (["--option", "creatd=3"], ANTHROPIC, "unknown option 'creatd'; did you mean created?"),
        (["--option", "created=soon"], ANTHROPIC, "option created=soon: Expected `int"),
    ],
)
def test_bad_input_is_one_line(command: str, words: list[str], given: bytes, complaint: str, complaint_of: Any) -> None:
    target = [] if "--to" in words else ["--to", "openai-chat"]
    quiet = ["--quiet"] if command == "translate" else []
    file = [] if words[0].startswith("/") else ["GIVEN"]
    assert complaint in complaint_of([command, *target, *quiet, *words, *file], given)


def test_bad_input_on_standard_input_is_one_line_too() -> None:
    done = inside("translate", "--to", "openai-chat", "-", given=b"")
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"penstock: the input is empty\n")


def test_an_escape_in_the_input_never_reaches_the_terminal() -> None:
    """What is found is told in words of the stream, which may be hostile."""
    given = b'event: \x1b[2Jwipe\ndata: {"type":"strange"}\n\n' + ANTHROPIC
    for words in (["translate", "--to", "openai-chat"], ["inspect", "--to", "openai-chat"]):
        done = inside(*words, "--from", "anthropic", given=given)
        assert done.returncode == 0
        assert b"wipe" in done.stderr + done.stdout
        assert b"\x1b" not in done.stderr + done.stdout


def test_a_missing_extra_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "botocore.eventstream", None)
    path = tmp_path / "claude.bin"
    path.write_bytes(b"\0" * 99)
    words = ["translate", "--from", "bedrock", "--framing", "eventstream", "--to", "events", str(path)]
    assert main(words) == 2
    assert "pip install 'penstock[aws]'" in capsys.readouterr().err


@each("command", READING)
def test_no_bytes_make_a_traceback(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dice = Random(4)
    path = tmp_path / "damaged"
    for turn in range(60):
        data = bytearray(dice.choice([ANTHROPIC, CHAT_LONG, *STREAMS]))
        for _ in range(dice.randrange(1, 9)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        begin, end = sorted(dice.randrange(len(data)) for _ in range(2))
        path.write_bytes(data[:begin] + data[end:] if turn % 2 else data)
        assert main([command, "--to", dice.choice(["openai-chat", "anthropic", "events"]), str(path)]) in {0, 2}
        capsys.readouterr()


# ── pipes and signals ─────────────────────────────────────────────────────────────────────────────────────────────────


@each("command", READING)
def test_a_reader_that_leaves_is_no_error(command: str, tmp_path: Path) -> None:
    path = tmp_path / "answer.sse"
    path.write_bytes(CHAT_LONG * 60)
    words = [
        sys.executable,
        "-m",
        "penstock",
        command,
        "--to",
        "anthropic",
        *(["--all"] * (command == "inspect")),
        str(path),
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == b""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
def test_an_interrupt_is_quiet() -> None:
    """Interrupted while it waits for more: what it has was written already."""
    words = [sys.executable, "-m", "penstock", "translate", "--to", "openai-chat"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(ANTHROPIC[: ANTHROPIC.index(b"event: content_block_stop")])
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"data: ")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == b""
