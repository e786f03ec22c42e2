"""`penstock record` and `penstock replay`: what went in comes out, byte for byte; secrets stay out of the file."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

from penstock.testing import read_recording
from tests.cli.command_runner import environment, inside, penstock
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

STREAM = (PROJECT / "examples" / "tides.sse").read_bytes()
LIMIT = 30.0


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    path = tmp_path / "x.tape"
    done = inside("record", str(path), given=STREAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout == STREAM
    return path


def test_byte_for_byte(tape: Path) -> None:
    assert inside("replay", str(tape)).stdout == STREAM
    assert inside("replay", "--full-speed", str(tape.parent)).stdout == STREAM
    assert read_recording(tape).header.protocol == "responses"
    about = json.loads(inside("replay", "--about", str(tape)).stdout)
    assert (about["bytes"], about["protocol"]) == (len(STREAM), "responses")


def test_translated_on_the_way(tape: Path) -> None:
    wanted = inside("translate", "--from", "responses", "--to", "openai-chat", given=STREAM).stdout
    assert inside("replay", "--to", "openai-chat", "--full-speed", str(tape)).stdout == wanted


def test_secrets_stay_out_of_the_file_only(tmp_path: Path) -> None:
    given = b'data: {"key":"sk-planted0123456789"}\n\n'
    request = tmp_path / "request.json"
    request.write_text('{"user":"Bearer planted0123456789"}')
    path = tmp_path / "x.tape"
    done = penstock("record", str(path), "--request", str(request), "--note", "a test", given=given)
    assert done.stdout == given
    assert b"1 secrets removed" in done.stderr
    assert "planted" not in path.read_text()
    assert read_recording(path).header.note == "a test"


def test_what_makes_no_sense_is_one_line(tape: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").write_text("data: x\n")
    for words, said in (
        (("record", str(tape)), "there is such a file; --force replaces it"),
        (("replay", str(tmp_path / "empty")), "there are no recordings"),
        (("replay", str(tmp_path / "bad")), "bad:1: not a recording"),
        (("replay", str(tmp_path / "none")), "No such file"),
        (("replay", "--speed", "0", str(tape)), "--speed: expected a number over 0"),
        (("replay", "--to", "nothing", str(tape)), "unknown protocol 'nothing'"),
    ):
        done = inside(*words)
        assert done.returncode == 2, words
        assert said in done.stderr.decode()
        assert done.stderr.count(b"\n") == 1
    assert inside("record", str(tape), "--force", "--quiet", given=b"data: {}\n\n").returncode == 0
    assert read_recording(tape).data == b"data: {}\n\n"


def test_a_server_stands_in_for_the_provider(tape: Path) -> None:
    command = [sys.executable, "-m", "penstock", "replay", "--serve", "--full-speed", str(tape)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment())
    try:
        assert process.stderr is not None
        base = process.stderr.readline().decode().split()[-1]
        assert httpx.post(f"{base}/v1/messages", json={"model": "any"}).content == STREAM
    finally:
        process.terminate()
        process.wait(LIMIT)
        process.stderr.close()  # type: ignore[union-attr]
