"""`penstock translate`: what comes out, where to, and when."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import penstock as library
from tests.cli.command_runner import environment, inside, penstock
from tests.cli.sample_streams import ANTHROPIC, CHAT_CALLS
from tests.support.each_case import each
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_and_standard_input_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "answer.sse"
    path.write_bytes(ANTHROPIC)
    wanted = b"".join(library.translate(ANTHROPIC, "anthropic", "openai-chat", target_options={"created": 7}))
    for words, given in (([str(path)], b""), (["-"], ANTHROPIC), ([], ANTHROPIC), (["--from", "anthropic"], ANTHROPIC)):
        done = penstock("translate", "--to", "openai-chat", "--option", "created=7", *words, given=given)
        assert (done.returncode, done.stdout, done.stderr) == (0, wanted, b"")


def test_the_output_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "out.sse"
    done = inside("translate", "--to", "anthropic", "-o", str(path), given=CHAT_CALLS)
    assert (done.returncode, done.stdout) == (0, b"")
    assert path.read_bytes() == b"".join(library.translate(CHAT_CALLS, "openai-chat", "anthropic"))


def test_bad_input_leaves_the_output_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.sse"
    path.write_bytes(b"mine")
    assert inside("translate", "--to", "anthropic", "-o", str(path), given=b"junk " * 200).returncode == 2
    assert path.read_bytes() == b"mine"
    done = inside("translate", "--to", "anthropic", "-o", str(path), str(path))
    assert b"would overwrite the input" in done.stderr
    assert path.read_bytes() == b"mine"


def test_options_are_typed_by_the_codec() -> None:
    done = inside(
        "translate", "--to", "openai-chat", "--option", "created=12", "--option", "include-usage=false", given=ANTHROPIC
    )
    assert b'"created":12' in done.stdout
    assert b'"usage":{' not in done.stdout


def test_findings_go_to_standard_error_unless_quiet() -> None:
    given = ANTHROPIC[:-40] + b"\ndata: {oops\n\n"
    done = penstock("translate", "--to", "events", given=given)
    assert done.returncode == 0
    assert done.stderr.decode().splitlines()[0].startswith("penstock: malformed: a frame that is not JSON")
    assert penstock("translate", "--to", "events", "--quiet", given=given).stderr == b""


def test_a_fault_in_the_stream_is_said_but_no_failure() -> None:
    half = ANTHROPIC[: ANTHROPIC.index(b"event: content_block_stop")]
    done = penstock("translate", "--to", "openai-chat", given=half)
    assert done.returncode == 0
    assert b"penstock: the stream ends in a fault: truncated" in done.stderr
    assert b'"code":"server_error"' in done.stdout


TIDES = (PROJECT / "examples" / "tides.sse").read_bytes()  # its calls become whole in another order
HALF = ANTHROPIC[: ANTHROPIC.index(b"event: content_block_stop")]
STRICT = {  # the input, the target, the exit code
    "whole": (ANTHROPIC, "openai-chat", 0),
    "cut off": (HALF, "openai-chat", 3),
    "a loss of the target": (TIDES, "vscode", 3),
    "a frame that is no JSON": (b"event: ping\ndata: {oops\n\n" + ANTHROPIC, "events", 3),
    "not a stream at all": (b"junk " * 200, "events", 2),
}


@each("case", STRICT)
@each("more", [[], ["--quiet"], ["--json"]])
def test_strict_has_an_exit_code_for_faults_and_losses(case: str, more: list[str]) -> None:
    given, target, code = STRICT[case]
    strict = inside("translate", "--to", target, "--strict", *more, given=given)
    assert strict.returncode == code, strict.stderr
    lenient = inside("translate", "--to", target, *more, given=given)
    assert lenient.returncode == (code if code == 2 else 0)
    if target == "events":
        assert strict.stdout == lenient.stdout  # the output is the same


def test_findings_as_json() -> None:
    done = inside("translate", "--to", "openai-chat", "--json", given=HALF)
    report = json.loads(done.stderr)
    assert report["fault"]["kind"] == "truncated"
    found = json.loads(inside("translate", "--to", "vscode", "--json", given=TIDES).stderr)
    assert {row["code"] for row in found["findings"]} >= {"loss-order"}
    assert found["fault"] is None


def test_output_flows_as_the_input_does() -> None:
    words = [sys.executable, "-m", "penstock", "translate", "--from", "anthropic", "--to", "openai-chat"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        at = ANTHROPIC.index(b"event: content_block_stop")
        process.stdin.write(ANTHROPIC[:at])
        process.stdin.flush()
        seen = b""
        while b"is at noon." not in seen:  # all that has arrived is out before there is more
            seen += process.stdout.readline()
        process.stdin.write(ANTHROPIC[at:])
        process.stdin.close()
        assert process.stdout.read().endswith(b"data: [DONE]\n\n")
        assert process.wait(30) == 0
