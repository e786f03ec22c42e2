"""`penstock convert`: what comes out, what is said about it, and what cannot be used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.messages import convert
from tests.cli.command_runner import inside, main, penstock
from tests.support.each_case import each

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

CHAT: dict[str, Any] = {
    "model": "m", "seed": 3,
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Grüß Gott"}],
}  # fmt: skip
BODY = json.dumps(CHAT).encode()
CALL = ("convert", "--from", "openai-chat", "--to", "responses")


def test_a_file_and_standard_input_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_bytes(BODY)
    wanted = convert(CHAT, "openai-chat", "responses").body
    for words, given in (([str(path)], b""), (["-"], BODY), ([], BODY)):
        done = penstock(*CALL, *words, given=given)
        assert (done.returncode, json.loads(done.stdout)) == (0, wanted)


def test_findings_go_to_standard_error_unless_quiet() -> None:
    told = inside(*CALL, given=BODY).stderr.decode().splitlines()
    assert told == ["penstock: loss-setting: responses: a setting that does not exist here is left out: seed"]
    assert inside(*CALL, "--quiet", given=BODY).stderr == b""


def test_strict_refuses_what_changes_the_result(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_bytes(BODY)
    words = ["convert", "--from", "openai-chat", "--to", "anthropic", "--quiet", str(path)]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["messages"]
    assert main([*words, "--strict"]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert "strict" in found.err
    assert "seed" in found.err


def test_the_output_may_be_a_file_but_not_the_input(tmp_path: Path) -> None:
    path, out = tmp_path / "request.json", tmp_path / "out.json"
    path.write_bytes(BODY)
    assert inside(*CALL, str(path), "-o", str(out)).stdout == b""
    assert json.loads(out.read_bytes())["instructions"] == "Be kind."
    done = inside(*CALL, str(path), "-o", str(path))
    assert (done.returncode, path.read_bytes()) == (2, BODY)
    assert b"would overwrite the input" in done.stderr


def test_options_change_what_is_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_bytes(BODY)
    words = ["convert", "--from", "openai-chat", "--to", "anthropic", "-q", str(path)]
    assert main([*words, "--model", "other", "--max-output", "100", "--prompt-caching"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["model"], made["max_tokens"]) == ("other", 50)  # half of what it can
    assert "cache_control" in json.dumps(made)


@each(
    "words, given, complaint",
    [
        (CALL, b"", "the input is empty"),
        (CALL, b"junk", "the body: expected JSON"),
        (CALL, b"[]", "the body: expected an object, found a list"),
        (
            CALL,
            b'{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":3}}]}]}',
            "messages[0].content[0].image_url.url: expected a string, found a number",
        ),
        (("convert", "--from", "openai-chat", "--to", "events"), BODY, "unknown protocol of requests 'events'"),
        (("convert", "--from", "nobody", "--to", "responses"), BODY, "unknown protocol of requests 'nobody'"),
        (("convert", "--to", "responses"), BODY, "required: --from"),
        ((*CALL, "nowhere.json"), b"", "nowhere.json: No such file"),
    ],
)
def test_what_cannot_be_used_is_one_line(words: tuple[str, ...], given: bytes, complaint: str) -> None:
    done = inside(*words, given=given)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"penstock")
    assert done.stderr.count(b"\n") == 1
    assert complaint in done.stderr.decode()


def test_what_no_encoding_can_hold_is_mended() -> None:
    done = penstock(*CALL, "-q", given=b'{"model":"m","messages":[{"role":"user","content":"a\\ud800b"}]}')
    assert (done.returncode, json.loads(done.stdout)["input"][0]["content"]) == (0, "a�b")
