"""Requests copied as commands and programs: what is run sends the same body, and pasted, nothing else runs."""

from __future__ import annotations

import ast
import json
import os
import select
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.oracles.node.oracle import HERE, NODE
from tests.support.event_feed import bearer
from tests.support.gateway import hash_key
from tests.support.inspector import Inspected, inspected
from tests.support.inspector_bounds import bounds
from tests.support.inspector_calls import FORMS, ask_inspector, say, send, trace_of, view
from tests.support.openresponses import socket as web_socket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pty = pytest.importorskip("pty", reason="a POSIX shell and its terminal are needed")

KEY, OTHER = "pk-penstock-copying-0123456789", "pk-penstock-other-0123456789"
LIMIT = 120.0
NASTY = """it's "quoted" \\ $HOME `id` $(id) !! %s {x} \u2028 Zürich 漢字 🚰
line two\t# -- EOF ' '' \\' \\n"""
TOOL = {"type": "object", "properties": {"place": {"type": "string"}, "__proto__": {"type": "string"}}}
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "model": "replay/text", "stream": True, "messages": [
                {"role": "system", "content": NASTY}, {"role": "user", "content": [{"type": "text", "text": NASTY}]}],
            "tools": [{"type": "function", "function": {"name": "weather", "parameters": TOOL}}], "temperature": 0.1,
            "max_completion_tokens": 300, "made_up": {"kept": [1, 2.5, None, True]}, "seed": 7, "user": None,
            "stream_options": {"include_usage": True},
        },
    ),
    "chat-body": ("/v1/chat/completions", {"model": "replay/text", "messages": [{"role": "user", "content": NASTY}]}),
    "responses": (
        "/v1/responses",
        {"model": "replay/text", "stream": True, "input": [{"role": "user", "content": NASTY}], "store": False,
         "instructions": NASTY, "reasoning": {"effort": "low"}, "timeout": 3},
    ),
    "messages": (
        "/v1/messages",
        {"model": "replay/text", "stream": True, "max_tokens": 64_000, "system": [{"type": "text", "text": NASTY}],
         "messages": [{"role": "user", "content": NASTY}], "temperature": 1, "extra_body": {"x": 1}},
    ),
    "messages-body": (
        "/v1/messages",
        {"model": "replay/text", "max_tokens": 64_000, "messages": [{"role": "user", "content": NASTY}]},
    ),
    "gemini": (
        "/v1beta/models/replay/text:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": NASTY}]}], "generationConfig": {"temperature": 0.5}},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    keys = {name: {"hash": hash_key(key), "inspect_keep": True} for name, key in (("anna", KEY), ("ben", OTHER))}
    with inspected(keys=keys) as running:
        yield running


@pytest.fixture(scope="module")
def plain() -> Iterator[Inspected]:
    """A gateway without keys."""
    with inspected() as running:
        yield running


def sent(gateway: Inspected, name: str) -> tuple[str, str]:
    """Sends one of `BODIES`, written with odd spaces; returns the turn's id and the text of the body."""
    path, body = BODIES[name]
    text = json.dumps(body, indent=1, ensure_ascii=False).replace('"model": ', '"model"  :\n ', 1)
    turn = send(gateway, path, text.encode(), KEY)
    assert trace_of(gateway, turn, KEY)["row"]["state"] == "finish"
    return turn, text


def copied(gateway: Inspected, turn: str, form: str, key: str = KEY, **more: Any) -> dict[str, Any]:
    return dict(view(gateway, f"turns/{turn}/copy", key, **{"as": form}, **more))


def arrived(gateway: Inspected, count: int) -> list[tuple[str, dict[str, Any]]]:
    """The texts and the rows of the newest turns, the oldest first."""
    rows = view(gateway, "turns", KEY, limit=count)["rows"][::-1]
    return [(trace_of(gateway, row["id"], KEY)["request"], row) for row in rows]


def run(*command: str, folder: Path, **env: str) -> str:
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        command, cwd=folder, env={**environment, "PENSTOCK_KEY": KEY, **env}, capture_output=True, text=True,
        timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ── what is run ───────────────────────────────────────────────────────────────────────────────────


def test_curl_sends_the_same_bytes(gateway: Inspected, tmp_path: Path) -> None:
    if not shutil.which("curl"):
        pytest.skip("curl is not installed")
    for place, name in enumerate(BODIES):
        turn, text = sent(gateway, name)
        command = copied(gateway, turn, "curl")
        assert (command["notes"], KEY in command["text"]) == ([], False)
        said = run("bash" if place % 2 else "sh", "-c", command["text"], folder=tmp_path)
        ((body, row),) = arrived(gateway, 1)
        assert row["id"] != turn
        assert (body, row["route"], row["state"]) == (text, BODIES[name][0].partition("?")[0], "finish")
        assert "enstock" in said
    long = json.dumps({"model": "replay/text", "messages": [{"role": "user", "content": NASTY * 4000}]})
    turn = send(gateway, "/v1/chat/completions", long.encode(), KEY)
    (tmp_path / "long.sh").write_text(copied(gateway, turn, "curl")["text"])
    run("sh", "long.sh", folder=tmp_path)  # a body longer than an argument is piped
    assert arrived(gateway, 1)[0][0] == long


def test_python_programs_send_the_same_body(gateway: Inspected, tmp_path: Path) -> None:
    """Of the vendors' packages and of penstock, all in one process. Another vendor's gets the converted request."""
    programs = [
        *(("openai", name) for name in ("chat", "chat-body", "responses")), ("anthropic", "messages"),
        ("anthropic", "messages-body"), ("anthropic", "chat"),
        *(("penstock", name) for name in ("chat", "chat-body", "responses", "messages")),
    ]  # fmt: skip
    files, texts = [], []
    for place, (form, name) in enumerate(programs):
        turn, text = sent(gateway, name)
        program = copied(gateway, turn, form)
        assert program["language"] == "python"
        if (form, name) == ("anthropic", "chat"):
            lead = "the client sent openai-chat; this is the same request in anthropic"
            assert program["notes"][0] == lead
            assert any("seed" in note for note in program["notes"])
        elif form != "penstock":
            assert program["notes"] == []
        texts.append(json.loads(text))
        files.append(tmp_path / f"program{place}.py")
        files[-1].write_text(program["text"])
    driver = "import runpy, sys\nfor file in sys.argv[1:]: runpy.run_path(file, run_name='__main__')"
    run(sys.executable, "-c", driver, *map(str, files), folder=tmp_path, PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    for (form, name), wanted, (text, row) in zip(programs, texts, arrived(gateway, len(programs)), strict=True):
        body = json.loads(text)
        assert (row["state"], row["asked"]) == ("finish", "replay/text"), (form, name)
        if form == "penstock":
            fields = ("messages", "input", "tools", "temperature", "seed", "max_completion_tokens", "made_up")
            same = [field for field in fields if field in wanted and name != "messages"]
            assert {field: body.get(field) for field in same} == {field: wanted[field] for field in same}, name
            assert NASTY in list(_texts(body)), name
        elif (form, name) == ("anthropic", "chat"):
            assert (row["route"], body["system"]) == ("/v1/messages", NASTY)
        else:
            assert body == wanted, (form, name)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts(list(cast("dict[str, Any]", value).values()))
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _texts(inner)


def test_the_ai_sdk_sends_the_same_body(gateway: Inspected, tmp_path: Path) -> None:
    """All programs in one process of Node."""
    if not NODE.exists():
        pytest.skip("tests/oracles/node/setup.sh installs what this needs")
    (tmp_path / "node_modules").symlink_to(HERE / "ai7" / "node_modules")
    texts = []
    for place, name in enumerate(BODIES):
        turn, text = sent(gateway, name)
        program = copied(gateway, turn, "aisdk")
        assert (program["language"], program["notes"]) == ("typescript", [])
        (tmp_path / f"program{place}.mts").write_text(program["text"])
        texts.append(json.loads(text))
    (tmp_path / "all.mjs").write_text("".join(f"await import('./program{n}.mts');\n" for n in range(len(BODIES))))
    said = run(str(NODE), "all.mjs", folder=tmp_path)
    rows = arrived(gateway, len(BODIES))
    assert [json.loads(body) for body, _ in rows] == texts
    assert {row["state"] for _, row in rows} == {"finish"}
    assert "enstock" in said


# ── secrets and refusals ──────────────────────────────────────────────────────────────────────────


def test_no_form_holds_a_secret() -> None:
    planted = ["sk-planted0123456789abcdef", 'he said "no"\n', "the-callers-very-own", "sk-up-000000"]
    messages = [{"role": "user", "content": text} for text in (f"a {planted}", *(f"it is {one}!" for one in planted))]
    with inspected(env={"HUE_SECRET": planted[1]}, access={"keys": "forward"}) as running:
        body = json.dumps({"model": "openai-chat/text", "messages": messages}).encode()
        turn = send(running, "/v1/chat/completions", body, **{"x-api-key": planted[2], **bearer(planted[2])})
        for form in FORMS:
            copy = copied(running, turn, form, "")
            spelled = [word for one in planted for word in (one, json.dumps(one)[1:-1], repr(one)[1:-1])]
            assert [word for word in spelled if word in copy["text"]] == [], form
            assert copy["text"].count("[secret]") >= len(planted)
            assert "[secret] stands where a secret was removed" in copy["notes"]


def test_headers_that_change_the_meaning_are_copied_and_told_and_secrets_are_not(gateway: Inspected) -> None:
    secret = "sk-planted0123456789abcdef"
    headers = {
        "anthropic-beta": "context-1m", "x-penstock-losses": "it's", "x-other": "left out", "x-penstock-strict": "true",
        "x-penstock-made-up": secret, "x-penstock-key": KEY,
    }  # fmt: skip
    turn = send(gateway, "/v1/messages", json.dumps(BODIES["messages-body"][1]).encode(), KEY, **headers)
    text = copied(gateway, turn, "curl")["text"]
    assert "-H 'anthropic-beta: context-1m'" in text
    assert "x-penstock-losses" in text
    assert [word for word in ("x-other", "x-penstock-key", KEY, secret) if word in text] == []
    assert "'anthropic-beta': 'context-1m'" in copied(gateway, turn, "anthropic")["text"]
    said = ask_inspector(gateway, f"turns/{turn}/headers", KEY)
    assert [word for word in (KEY, secret) if word in said.text] == []
    told = said.json()
    assert told["removed"] == ["x-penstock-made-up"]
    known = {"anthropic-beta": "context-1m", "x-penstock-strict": "true", "x-penstock-losses": "it's"}
    assert {name: told["headers"].get(name) for name in known} == known
    assert set(told["headers"]) - set(known) <= {"anthropic-version"}


def test_another_keys_turn_what_was_not_kept_and_unknown_forms_are_refused(gateway: Inspected) -> None:
    turn, _ = sent(gateway, "chat-body")
    place = f"turns/{turn}/copy"
    refused = [ask_inspector(gateway, place, key).status_code for key in ("", "pk-penstock-wrong", OTHER)]
    assert refused == [401, 401, 404]
    assert "quoted" not in ask_inspector(gateway, place, OTHER).text
    unknown = ask_inspector(gateway, place, KEY, **{"as": "perl"})
    assert (unknown.status_code, "curl, penstock, openai" in unknown.text) == (400, True)
    for base in ("javascript:alert(1)", "http://x/' && id '", "http://x y"):
        assert ask_inspector(gateway, place, KEY, base=base).status_code == 400, base
    assert "curl https://gate.test/v1/chat" in copied(gateway, turn, "curl", base="https://gate.test")["text"]
    with bounds(request=1_000):
        cut = say(gateway, "long " * 1_000, KEY)
    assert ask_inspector(gateway, f"turns/{cut}/copy", KEY).json()["error"]["code"] == "request_not_kept"


# ── what a form cannot express ────────────────────────────────────────────────────────────────────


def test_a_websocket_message_is_copied_as_a_request(plain: Inspected) -> None:
    with web_socket(plain.url) as ws:
        first = ws.get_response(model="replay/text", input="Hi")
        ws.get_response(model="replay/text", input="More", previous_response_id=first["id"], stream_id="s")
    (turn, *_) = [row["id"] for row in view(plain, "turns", q="protocol:responses")["rows"]]
    for form in FORMS:
        copy = copied(plain, turn, form, "")
        assert "response.create" not in copy["text"], form
        assert "stream_id" not in copy["text"], form
        assert any("came over a WebSocket" in note for note in copy["notes"]), form
        assert any("must name a stored one" in note for note in copy["notes"]), form
        assert ("-N " if form == "curl" else "stream") in copy["text"], form
    for more, word in (
        ('"input":"\\ud83d hi"', "same one over HTTP"), ('"input":"hi","store":true,"store":false', "a name twice"),
        ('"input":"hi","x":1e400', "too large"),
    ):  # fmt: skip
        odd = send(plain, "/v1/responses", f'{{"type":"response.create","model":"replay/text",{more}}}'.encode())
        for form in FORMS:
            copy = copied(plain, odd, form, "")
            assert "hi" in copy["text"], (form, more)
            assert any(word in note for note in copy["notes"]), (form, copy["notes"])


def test_what_a_form_cannot_express_is_said(plain: Inspected) -> None:
    for body, form, word in (
        ('{"model":"m","messages":[],"seed":1,"seed":2}', "openai", "a name twice"),
        ('{"model":"m","messages":[],"seed":9007199254740993}', "aisdk", "whole numbers"),
        ('{"model":"m","messages":[{"content":"\ufffd"}]}', "curl", "not UTF-8"),
    ):
        turn = send(plain, "/v1/chat/completions", body.encode())
        assert any(word in note for note in copied(plain, turn, form, "")["notes"]), word
    for path, form in (("chat/completions", "openai"), ("messages", "anthropic")):
        given = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
        turn = send(plain, f"/v1/{path}", json.dumps(given).encode())
        asked = trace_of(plain, turn)["row"]["asked"]
        copy = copied(plain, turn, form, "")
        assert f"model='{asked}'" in copy["text"]
        assert f"the client named no model; the gateway took {asked}" in copy["notes"]
    turn = send(plain, "/v1/chat/completions", b"{}", **{"x-penstock-a": "\xe9", "x-penstock-b": "b"})
    (note,) = copied(plain, turn, "curl", "")["notes"]
    assert note.endswith("x-penstock-a")


# ── shells and terminals ──────────────────────────────────────────────────────────────────────────

# In place of curl: prints the body that curl would send. `--data-binary NAME` reads a file.
FAKE_CURL = """curl() {
  while [ $# -gt 2 ]; do shift; done
  case "$1 $2" in --data-raw*) printf %s "$2";; "--data-binary @-") cat;; *) echo "curl would read $2";; esac
}
"""
PASTE_END = "\x1b[201~\x15\r"
PATIENCE = 20.0  # seconds
LINE_LIMIT = 1024  # of a terminal's line, in bytes; the smallest one known (macOS)
ARGUMENT_LIMIT = 100_000  # bytes; a longer body is piped
TEXTS = (
    st.text(min_size=1) | st.text(alphabet="\x00\x03\t\n\r\x1b\x7f\x9b'\\\"@$%`!0 \u2028\u202e🚰", min_size=1)
    | st.binary(min_size=1).map(lambda data: data.decode("utf-8", "replace"))
)  # fmt: skip
SHARED = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def obeyed(text: str) -> list[str]:
    """Returns the characters of a text that a terminal obeys or does not show."""
    return [char for char in text if char != "\n" and char not in "\u200c\u200d" and not char.isprintable()]


def curl_of(gateway: Inspected, body: str, path: str = "/v1/chat/completions", **headers: str) -> str:
    return str(copied(gateway, send(gateway, path, body.encode("utf-8", "replace"), **headers), "curl", "")["text"])


@SHARED
@given(body=TEXTS)
@example("@/etc/passwd")
@example("@-")
@example(f"hello {PASTE_END}touch PWNED\r#")
@example("\t \x00 \x7f \x9b \u2028 \u202e \\c \\033 \\0101 \\n 7\x1b7")
@example("it's " * 300 + "\x1b" * 300)
@example("\\" * 1000 + "\x01" + "🚰" * 1000)
@example("'" * 1000)
@example("z " * (ARGUMENT_LIMIT // 2 + 1))
def test_any_body_is_sent_as_it_is(plain: Inspected, body: str) -> None:
    text = curl_of(plain, body)
    assert obeyed(text) == []
    assert max(map(len, text.encode().split(b"\n"))) < LINE_LIMIT
    sent = subprocess.run(["sh"], input=(FAKE_CURL + text).encode(), capture_output=True, timeout=60, check=True)
    assert (sent.stdout, sent.stderr) == (body.encode("utf-8", "replace"), b"")


VISIBLE = "".join(map(chr, range(0x21, 0x7F)))


@SHARED
@given(
    path=st.text(min_size=1, max_size=30).filter(lambda text: text not in {".", ".."}),
    name=st.text("abc-_.!#$%&'*+^`|~", min_size=1, max_size=9),
    value=st.text(VISIBLE + " \xe9\x9b", max_size=20).map(str.strip),
)
@example("{a,b}[1-3]\x1b?#%41 '", "x", "it's; id")
def test_addresses_and_headers_hold_nothing_that_a_terminal_obeys(
    plain: Inspected, path: str, name: str, value: str
) -> None:
    place = f"/v1beta/models/{quote(path, safe='')}:generateContent"
    turn = send(plain, place, b"{}", **{f"x-penstock-q{name}": value * 50})
    text = copied(plain, turn, "curl", "")["text"]
    assert obeyed(text) == []
    print_all = 'curl() { printf "%s\\0" "$@"; }\n'
    sent = subprocess.run(["sh"], input=(print_all + text).encode(), capture_output=True, timeout=60, check=True)
    address, *arguments = sent.stdout.decode().split("\0")
    assert not set(address) & set('{}[] ?#"\\')
    assert max(map(len, text.encode().split(b"\n"))) < LINE_LIMIT
    headers = [arguments[place + 1] for place, one in enumerate(arguments[:-1]) if one == "-H"]
    assert value == "" or (f"x-penstock-q{name}: {value * 50}" in headers) is value.isascii()


@SHARED
@given(value=TEXTS)
def test_programs_hold_nothing_that_a_terminal_obeys(plain: Inspected, value: str) -> None:
    """They are programs, and have the text in them."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": value}], f"x{value}": [value]})
    turn = send(plain, "/v1/chat/completions", body.encode())
    texts = {form: copied(plain, turn, form, "")["text"] for form in ("openai", "penstock", "aisdk")}
    assert {form: obeyed(text) for form, text in texts.items()} == {key: [] for key in texts}
    for form in ("openai", "penstock"):
        constants = [node.value for node in ast.walk(ast.parse(texts[form])) if isinstance(node, ast.Constant)]
        assert value in constants, form


@pytest.mark.parametrize(
    ("shell", "start", "end"),
    [("sh -i", "", ""), ("bash --norc -i", "", ""), ("bash --norc -i", "\x1b[200~", "\x1b[201~")],
    ids=["sh", "bash", "bash, bracketed paste"],
)
def test_pasted_into_a_shell_nothing_else_runs(
    plain: Inspected, shell: str, start: str, end: str, tmp_path: Path
) -> None:
    if not shutil.which(shell.split(maxsplit=1)[0]):
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "curl"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    # The terminal drops what a line has beyond 4095 bytes: the cut may be anywhere in a quoted quote.
    bodies = [f"hello {PASTE_END}touch PWNED\r#", *(f"{'A' * size}'\ntouch PWNED\n'" for size in range(4070, 4082))]
    shown = paste(shell.split(), [f"{start}{curl_of(plain, body)}{end}\n" for body in bodies], tmp_path)
    assert not (tmp_path / "PWNED").exists()
    assert "ended" in shown


def paste(shell: list[str], texts: list[str], folder: Path) -> str:
    """Types texts into a shell on a terminal. Returns what the terminal shows until the shell has printed `ended`."""
    terminal, inner = pty.openpty()
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "TERM": "xterm", "HOME": str(folder)}
    process = subprocess.Popen(shell, cwd=folder, env=env, stdin=inner, stdout=inner, stderr=inner, process_group=0)
    os.close(inner)
    data = memoryview("".join([*texts, 'echo "en""ded"\n']).encode())
    os.set_blocking(terminal, False)
    shown, ends = b"", time.monotonic() + PATIENCE
    while b"ended" not in shown and time.monotonic() < ends:
        readable, writable, _ = select.select([terminal], [terminal] if data else [], [], PATIENCE)
        if readable:
            shown += os.read(terminal, 65536)
        if writable:
            data = data[os.write(terminal, data[:64]) :]
    process.kill()
    process.wait()
    os.close(terminal)
    return shown.decode("utf-8", "replace")
