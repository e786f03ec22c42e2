"""`penstock inspect`: which frame caused what, in columns, in colours, and as JSON."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import RecordingHeader, write_recording
from tests.cli.command_runner import inside, main, penstock
from tests.cli.sample_streams import ANTHROPIC, CHAT_CALLS, CHAT_LONG, chunk, sse
from tests.support import corpus
from tests.support.each_case import each

if TYPE_CHECKING:
    from pathlib import Path

CODES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def show(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Inspect some bytes in this process and give what was printed."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def run(data: bytes, *words: str, width: int = 110) -> str:
        path = tmp_path / "answer.sse"
        path.write_bytes(data)
        assert main(["inspect", str(path), "--width", str(width), *words]) == 0
        return capsys.readouterr().out

    return run


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")] for line in text.splitlines() if "│" in line]


def test_causes_stand_beside_their_effects(show: Any) -> None:
    table = cells(show(CHAT_CALLS, "--to", "openai-chat", width=180))
    assert table[0] == ["", "openai-chat frames", "events", "to openai-chat"]
    assert table[2][:3] == ["2", 'content "Let me look."', "text-start #0"]
    assert table[3] == ["", "", 'text-delta #0 "Let me look."', '→ content "Let me look."']
    done = next(row for row in table if row[1].startswith("finish_reason"))
    assert done[2].startswith('call-end #1 tide {"port":"Dover"} call_a')


def test_what_every_frame_repeats_is_said_once(show: Any) -> None:
    text = show(CHAT_CALLS, "--to", "events")
    assert 'in every frame: id "chat-7" object "chat.completion.chunk" created 1 model "tiny"' in text
    assert text.count("chat.completion.chunk") == 1


def test_the_end_of_the_input_is_a_cause_too(show: Any) -> None:
    table = cells(show(CHAT_CALLS[: CHAT_CALLS.index(b'tool_calls"}')], "--to", "events"))
    assert ["end", "(end of input)"] in [row[:2] for row in table]
    assert table[-1][2].startswith("fault truncated")


def test_a_frame_without_effect_has_a_dot(show: Any) -> None:
    table = cells(show(sse({"type": "ping"}, named=True) + ANTHROPIC, "--to", "events"))
    assert table[1][:3] == ["1", "ping", "·"]


def test_long_runs_are_folded(show: Any) -> None:
    folded, everything = show(CHAT_LONG, "--to", "events"), show(CHAT_LONG, "--to", "events", "--all")
    assert 'text-delta #0 26 times "word3 word4' in folded
    assert "word29" in folded
    assert len(cells(folded)) == len(cells(everything)) - 25
    assert "more like these" not in everything


def test_the_summary(show: Any) -> None:
    summary = show(CHAT_CALLS, "--to", "events").partition("\nturn ")[2]
    assert "chat-7 · tiny" in summary
    assert re.search(r"parts +1 text, 2 call", summary)
    assert 'tide {"port":"Brest"}  call_b' in summary
    assert re.search(r"finish +calls \(tool_calls\)", summary)
    assert re.search(r"unknown +none", summary)


def test_the_summary_of_what_went_wrong(show: Any) -> None:
    half = CHAT_CALLS[: CHAT_CALLS.index(b'{\\"port\\":"') + 300]
    summary = show(half + sse({"new": {"thing": 1}}), "--to", "events").partition("\nturn ")[2]
    assert "cut off, not callable" in summary
    assert re.search(r"fault +truncated", summary)
    assert re.search(r"findings +\S", summary)


def test_several_turns_are_numbered(show: Any) -> None:
    text = show(ANTHROPIC + ANTHROPIC, "--to", "events")
    assert "\nturn 1 " in text
    assert "\nturn 2 " in text


@each("width", [10, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(show: Any, width: int) -> None:
    wide = sse(chunk({"content": "潮汐表 " * 40}), chunk({"content": "e\u0301te\u0301 🌊 \x1b[31m"}), chunk({}, "stop"))
    from rich.cells import cell_len as columns

    text = show(wide + CHAT_CALLS, "--to", "events", width=width)
    assert "\x1b" not in text
    assert max(map(columns, text.splitlines())) <= max(width, 50)


# ── colours ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_colours_follow_the_conventions() -> None:
    words = ("inspect", "--to", "events")
    assert b"\x1b[" not in penstock(*words, given=CHAT_CALLS).stdout  # no terminal
    assert b"\x1b[" in penstock(*words, given=CHAT_CALLS, FORCE_COLOR="1").stdout
    assert b"\x1b[" not in penstock(*words, given=CHAT_CALLS, FORCE_COLOR="1", NO_COLOR="1").stdout
    assert b"\x1b[" not in penstock(*words, "--no-color", given=CHAT_CALLS, FORCE_COLOR="1").stdout


def test_colours_do_not_change_the_text(show: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = show(CHAT_CALLS, "--to", "events")
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = show(CHAT_CALLS, "--to", "events")
    assert "\x1b[33mcall-start" in coloured
    assert [line.rstrip() for line in CODES.sub("", coloured).splitlines()] == plain.splitlines()


def test_without_rich_every_cell_is_there(show: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    table = cells(show(CHAT_CALLS, "--to", "openai-chat"))
    assert table[0] == ["", "openai-chat frames", "events", "to openai-chat"]
    assert ["", "", 'text-delta #0 "Let me look."', '→ content "Let me look."'] in table


def test_a_terminal_of_few_characters_gets_question_marks() -> None:
    done = penstock("inspect", "--to", "events", given=CHAT_CALLS, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert b"? start" in done.stdout


def test_the_width_is_the_terminal_s() -> None:
    for columns in ("70", "150"):
        done = inside("inspect", "--to", "events", given=CHAT_CALLS, COLUMNS=columns)
        assert max(len(line) for line in done.stdout.decode().splitlines()) == int(columns)


# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_json_lines(show: Any) -> None:
    *steps, summary = [json.loads(line) for line in show(CHAT_CALLS, "--to", "anthropic", "--json").splitlines()]
    assert [step["number"] for step in steps] == list(range(len(steps)))
    kinds: dict[str, set[str | None]] = {"frame": {None}, "event": {"frame", None}, "output": {"event"}}
    for step in steps:
        cause = step["cause"] if step["cause"] is None else steps[step["cause"]]["kind"]
        assert cause in kinds[step["kind"]]
    assert steps[0]["data"]["id"] == "chat-7"
    assert {"type": "text-delta", "index": 0, "text": "Let me look."} in [step.get("event") for step in steps]
    assert steps[-1]["name"] == "message_stop"
    assert summary["kind"] == "summary"
    assert (summary["source"], summary["framing"], summary["target"]) == ("openai-chat", "sse", "anthropic")
    assert summary["frames"] == 8
    assert [call["json"] for call in summary["turns"][0]["calls"]] == ['{"port":"Dover"}', '{"port":"Brest"}']
    assert summary["turns"][0]["finish"] == {"reason": "calls", "raw": "tool_calls"}


def test_json_keeps_what_is_no_json_as_text(show: Any) -> None:
    lines = show(b"data: \xff{\n\n" + CHAT_CALLS, "--json", "--to", "events").splitlines()
    assert json.loads(lines[0])["data"] == "\ufffd{"
    assert "malformed" in json.loads(lines[-1])["diagnostics"][0]["code"]


# ── the corpus ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_recorded_streams_can_be_shown(show: Any) -> None:
    corpus.corpus_or_skip()
    for entry in corpus.streams()[::27]:
        text = show(entry.body, "--to", "openai-chat")
        assert re.search(r"\n(finish|fault) ", text), entry.name


def tape(tmp_path: Path, request: Any) -> Path:
    path = tmp_path / "answer.tape"
    header = RecordingHeader(protocol="openai-chat", model="gpt-4o", provider="openai", request=request)
    write_recording(path, header, [(0.1, CHAT_CALLS)])
    return path


REQUEST = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How high is it?"}]}


def test_a_recording_shows_the_tokens_of_its_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tape(tmp_path, REQUEST))
    assert main(["inspect", path, "--width", "120"]) == 0
    text = capsys.readouterr().out
    total = re.search(r"prompt +(\d+) input tokens, \d+ to \d+, estimated +gpt-4o, counted as gpt", text)
    assert total, text
    lines = re.findall(r"^(system: .*?|user: .*?|framing) +(\d+) +\d+% +\d+ to \d+ +estimated", text, re.MULTILINE)
    assert [name for name, _ in lines] == ["system: Be brief.", "user: How high is it?", "framing"]
    assert sum(int(tokens) for _, tokens in lines) == int(total[1])
    assert main(["inspect", path, "--json"]) == 0
    rows = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    (found,) = (row for row in rows if row["kind"] == "breakdown")
    assert (found["tokens"], len(found["lines"])) == (int(total[1]), 3)
    assert rows[-1]["kind"] == "summary"


@each("request_body", [None, "no JSON"])
def test_a_recording_without_a_readable_request_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], request_body: Any
) -> None:
    assert main(["inspect", str(tape(tmp_path, request_body)), "--width", "120"]) == 0
    text = capsys.readouterr().out
    assert "openai-chat over sse" in text
    assert ("the request cannot be read" in text) is (request_body is not None)
