"""The log: one line each, readable or JSON, without secrets and without what a terminal or a reader would obey.

At level trace it tells which frame caused which events and outputs. That is content: the log says so.
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock.testing import Reply
from tests.cli.command_runner import environment, inside
from tests.support.client_requests import ASKING, post
from tests.support.each_case import each
from tests.support.gateway import gateway
from tests.support.log_lines import TRACE_NEEDS_CONTENT, TRACE_WRITES_CONTENT, logged

if TYPE_CHECKING:
    import io
    from collections.abc import Generator
    from pathlib import Path

    from penstock.testing import ReceivedRequest
    from tests.support.gateway import Running

log = logging.getLogger("penstock.testing-logs")
PLANTED = {"mine": {"like": "openai-compatible", "base_url": "http://127.0.0.1:9/v1", "key": "planted-value"}}


@contextmanager
def lines(**table: Any) -> Generator[io.StringIO]:
    with gateway(log=table, providers=PLANTED) as (running, _), logged(running) as file:
        yield file


def test_lines_to_read() -> None:
    with lines(level="info") as file:
        log.info("hello %s", "world", extra={"turn": 3})
        log.debug("not this")
        found = [line for line in file.getvalue().splitlines() if "penstock.testing-logs" in line]
    assert [line.partition("Z")[2] for line in found] == [" info    penstock.testing-logs: hello world turn=3"]


def test_lines_to_collect() -> None:
    with lines(form="json") as file:
        try:
            raise ValueError("with planted-value")  # noqa: TRY301
        except ValueError:
            log.exception("it broke", extra={"turn": "a planted-value"})
        [said] = [row for row in map(json.loads, file.getvalue().splitlines()) if row["message"] == "it broke"]
    assert (said["level"], said["turn"]) == ("error", "a [secret]")
    assert said["stack"][-1] == "ValueError: with [secret]"


@each("form", ["text", "json"])
def test_secrets_and_line_breaks_do_not_get_through(form: str) -> None:
    with lines(form=form) as file:
        log.warning("key planted-value and sk-planted0123456789\nsecond\rthird %s", "x" * 10_000)
        [line] = [line for line in file.getvalue().splitlines() if "second" in line]
    assert "planted" not in line
    assert len(line) < 3000


def test_a_second_setup_replaces_the_first() -> None:
    with gateway() as (running, _), logged(running) as first, logged(running) as second:
        log.warning("once")
        assert "once" not in first.getvalue()
        assert second.getvalue().count("once") == 1


# ── level trace ───────────────────────────────────────────────────────────────────────────────────────────────────────

KEY = "sk-proj-abcdefghij1234567890"
SCRIPT: list[ev.AnyEvent] = [
    ev.Start("one", "m", 7), ev.TextStart(0), ev.TextDelta(0, "The tide "), ev.TextDelta(0, f"is {KEY} high."),
    ev.TextEnd(0), ev.Usage(5, 9), ev.Finish("stop"),
]  # fmt: skip


def spoken(seen: ReceivedRequest) -> Reply:
    protocol, _, rest = seen.path.lstrip("/").partition("/")
    stream = seen.json.get("stream") is True or "stream" in rest
    return Reply.of("openai-chat" if "chat/completions" in rest else protocol, SCRIPT, stream=stream)


@contextmanager
def traced(reply: Any = spoken, **more: Any) -> Generator[tuple[Running, io.StringIO]]:
    log = more.pop("log", {"level": "trace"})
    with gateway(reply, log=log, **more) as (running, _), logged(running) as file:
        yield running, file


def traces(file: io.StringIO) -> list[str]:
    """The lines of level trace, without time and turn."""
    found = (re.search(r" trace +penstock\.trace: [0-9a-f]{32}: (.*)", line) for line in file.getvalue().splitlines())
    return [line[1] for line in found if line]


def ask(running: Running, client: str, model: str, *, stream: bool = True, **headers: str) -> Any:
    path, body = ASKING[client](model, stream)
    answer = post(running.url + path, json=body, headers=headers)
    running.rows()  # the turn is over
    return answer


# ── what is written ───────────────────────────────────────────────────────────────────────────────────────────────────


@each("client", ["vscode", "anthropic", "openai-chat", "responses"])
def test_log_level_trace_of_the_configuration_tells_frame_event_and_output(client: str) -> None:
    with traced() as (running, file):
        ask(running, client, "openai-chat/m")
        lines = traces(file)
    frame = next(line for line in lines if re.match(r"frame \d+: .*The tide ", line)).partition(":")[0]
    assert any(re.match(rf"{frame} → TextDelta \d+: .*The tide ", line) for line in lines)
    assert any(line.startswith(frame) and "→ output: " in line and "The tide " in line for line in lines)
    assert lines[0].startswith("request: ")
    assert any("Finish" in line for line in lines)


@each("model", ["openai-chat/m", "anthropic/m", "ollama/m", "replay/text"])
def test_whole_answers_and_every_engine_are_traced(model: str) -> None:
    with traced() as (running, file):
        ask(running, "vscode", model, stream=False)
        lines = traces(file)
    assert any("→ output: " in line for line in lines)
    assert any("→ TextDelta" in line for line in lines)


def test_the_outputs_are_what_the_client_gets() -> None:
    with traced() as (running, file):
        answer = ask(running, "vscode", "anthropic/text")
        outputs = [line.partition("→ output: ")[2] for line in traces(file) if "→ output: " in line]
    got = answer.text.replace(KEY, "[secret]").splitlines()
    assert outputs == got


def test_a_refusal_is_traced() -> None:
    with traced(Reply.body({"error": {"message": "busy"}}, status=503)) as (running, file):
        ask(running, "anthropic", "openai-chat/m")
        assert any(line.startswith("no answer → ") and "busy" in line for line in traces(file))


def test_an_answer_that_breaks_off_is_traced_to_its_end() -> None:
    def cut(seen: ReceivedRequest) -> Reply:
        return spoken(seen).disconnect(after=520)

    with traced(cut) as (running, file):
        ask(running, "anthropic", "openai-chat/m")
        lines = traces(file)
    assert any(line.startswith("end of input → Fault") for line in lines)


def test_at_debug_no_content_is_written() -> None:
    with traced(log={"level": "debug"}) as (running, file):
        ask(running, "vscode", "openai-chat/m")
        assert "The tide" not in file.getvalue()


# ── secrets, and whose content it is ──────────────────────────────────────────────────────────────────────────────────


def test_a_trace_holds_no_secret() -> None:
    with traced() as (running, file):
        ask(running, "vscode", "openai-chat/m", authorization="Bearer gateway-key-of-a-caller")
        text = file.getvalue()
    assert "[secret]" in text
    assert KEY not in text
    assert "sk-up-000000" not in text
    assert "gateway-key-of-a-caller" not in text


def test_trace_says_at_the_start_that_it_writes_content() -> None:
    with traced() as (_, file):
        assert TRACE_WRITES_CONTENT in file.getvalue()
        assert " warning " in file.getvalue()


@each("content", [True, False])
def test_with_gateway_keys_content_is_written_only_if_the_configuration_says_so(content: bool) -> None:
    keys = {"ann": {"env": "ANN"}}
    with traced(log={"level": "trace", "content": content}, keys=keys, env={"ANN": "gw-0123456789abcdef"}) as (
        running,
        file,
    ):
        for _ in range(2):
            answer = ask(running, "vscode", "openai-chat/m", authorization="Bearer gw-0123456789abcdef")
            assert answer.status_code == 200, answer.text
        assert bool(traces(file)) is content
        assert file.getvalue().count(TRACE_NEEDS_CONTENT) == (0 if content else 1)
        assert "gw-0123456789abcdef" not in file.getvalue()


def test_keys_of_clients_that_are_passed_on_count_as_gateway_keys() -> None:
    with traced(access={"keys": "forward"}) as (running, file):
        ask(running, "vscode", "openai-chat/m", authorization="Bearer sk-of-the-client-0123")
        assert traces(file) == []


# ── the command line ──────────────────────────────────────────────────────────────────────────────────────────────────


def serve(folder: Path, text: str, *options: str) -> subprocess.Popen[str]:
    (folder / "penstock.toml").write_text(text)
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--config", str(folder / "penstock.toml")]
    env = {**environment(), "PENSTOCK_DATA": str(folder / "data"), "ANN": "gw-0123456789abcdef"}
    return subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True, env=env)


def test_serve_with_log_trace_says_so_and_writes_frames(tmp_path: Path) -> None:
    """The table `log` of a configuration is read in the same way: see what is refused below."""
    with serve(tmp_path, "", "--full-speed", "--log", "trace") as process:
        assert process.stderr is not None
        assert TRACE_WRITES_CONTENT in process.stderr.readline()
        base = next(found[0] for line in process.stderr if (found := re.search(r"http://127\S+", line)))
        path, body = ASKING["vscode"]("replay/text", True)
        answer = post(base.rstrip("/") + path, json=body)
        process.terminate()
        said = process.stderr.read()
    assert answer.status_code == 200
    assert re.search(r"frame 1: .*\n.*frame 1 → Start \d+: ", said)
    assert "→ output: " in said


@each(
    "text, options, refused",
    [
        ('[keys.ann]\nenv = "ANN"', ["--log", "trace"], True),
        ('keys = "forward"\n[log]\nlevel = "trace"', [], True),
        ('[keys.ann]\nenv = "ANN"\n[log]\nlevel = "trace"', ["--check"], True),
        ('[keys.ann]\nenv = "ANN"\n[log]\nlevel = "trace"\ncontent = true', ["--check"], False),
    ],
)
def test_serve_refuses_to_trace_with_keys_unless_content_is_allowed(
    tmp_path: Path, text: str, options: list[str], refused: bool
) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(text)
    env: dict[str, Any] = {"PENSTOCK_DATA": str(tmp_path / "data"), "ANN": "gw-0123456789abcdef"}
    done = inside("serve", "--port", "0", "--config", str(file), *options, **env)
    said = (done.stdout + done.stderr).decode()
    assert (done.returncode != 0) is refused, said
    assert ("log.content = true" in said) is refused


def test_lines_as_json_have_the_level() -> None:
    with traced(log={"level": "trace", "form": "json"}) as (running, file):
        ask(running, "vscode", "openai-chat/m")
        rows = [json.loads(line) for line in file.getvalue().splitlines()]
    assert {"trace", "warning"} <= {row["level"] for row in rows}
