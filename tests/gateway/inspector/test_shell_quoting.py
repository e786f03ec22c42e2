"""Copied commands hold no character that a terminal obeys, and send the same bytes. Pasted, they run nothing else."""

from __future__ import annotations

import ast
import json
import os
import select
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock._inspector.copied_commands import MAX_ARGUMENT_BYTES, CopiedRequest, write_command
from penstock._inspector.program_text import format_python, format_typescript

if TYPE_CHECKING:
    from pathlib import Path

pty = pytest.importorskip("pty", reason="a POSIX shell and its terminal are needed")

# In place of curl: prints the body that curl would send. `--data-binary NAME` reads a file.
FAKE_CURL = """curl() {
  while [ $# -gt 2 ]; do shift; done
  case "$1 $2" in --data-raw*) printf %s "$2";; "--data-binary @-") cat;; *) echo "curl would read $2";; esac
}
"""
PASTE_END = "\x1b[201~\x15\r"
PATIENCE = 20.0  # seconds
LINE_LIMIT = 1024  # of a terminal's line, in bytes; the smallest one known (macOS)
BODIES = st.text() | st.text(alphabet="\x00\x03\t\n\r\x1b\x7f\x9b'\\\"@$%`!0 \u2028\u202e🚰") | st.binary().map(
    lambda data: data.decode("utf-8", "replace")
)  # fmt: skip


def copied(body: str, form: str = "curl", path: str = "/v1/chat/completions", **headers: str) -> str:
    request = CopiedRequest("openai-chat", path, body, "http://127.0.0.1:1", headers=headers)
    return write_command(form, request).text


def obeyed(text: str) -> list[str]:
    """Returns the characters of a text that a terminal obeys or does not show."""
    return [char for char in text if char != "\n" and char not in "\u200c\u200d" and not char.isprintable()]


@given(BODIES)
@example("@/etc/passwd")
@example("@-")
@example(f"hello {PASTE_END}touch PWNED\r#")
@example("\t \x00 \x7f \x9b \u2028 \u202e \\c \\033 \\0101 \\n 7\x1b7")
@example("")
@example("it's " * 300 + "\x1b" * 300)
@example("\\" * 1000 + "\x01" + "🚰" * 1000)
@example("'" * 1000)
@example("z" * (MAX_ARGUMENT_BYTES + 1))
def test_any_body_is_sent_as_it_is(body: str) -> None:
    text = copied(body)
    assert obeyed(text) == []
    assert max(map(len, text.encode().split(b"\n"))) < LINE_LIMIT
    sent = subprocess.run(["sh"], input=(FAKE_CURL + text).encode(), capture_output=True, timeout=60, check=True)
    assert (sent.stdout, sent.stderr) == (body.encode("utf-8", "replace"), b"")


@given(st.text(), st.text(), st.text())
@example("/v1beta/models/{a,b}[1-3]\x1b?#%41 '", "x\x1b[201~", "it's; id")
def test_addresses_and_headers_hold_nothing_that_a_terminal_obeys(path: str, name: str, value: str) -> None:
    text = copied("{}", path=f"/v1/{path}", **{f"x-penstock-{name}": value * 50})
    assert obeyed(text) == []
    print_all = 'curl() { printf "%s\\0" "$@"; }\n'
    sent = subprocess.run(["sh"], input=(print_all + text).encode(), capture_output=True, timeout=60, check=True)
    address, *arguments = sent.stdout.decode().split("\0")
    assert not set(address) & set('{}[] ?#"\\')
    assert max(map(len, text.encode().split(b"\n"))) < LINE_LIMIT
    headers = [arguments[place + 1] for place, one in enumerate(arguments[:-1]) if one == "-H"]
    sendable = f"{name}{value}".isascii() and f"{name}{value}".isprintable()
    assert (f"x-penstock-{name}: {value * 50}" in headers) is sendable


def test_a_header_that_cannot_be_sent_alike_is_named() -> None:
    headers = {"x-penstock-a": "é", "x-penstock-b": "b"}
    command = write_command("curl", CopiedRequest("openai-chat", "/v1/x", "{}", "http://x", headers=headers))
    assert [note for note in command.notes if note.endswith("x-penstock-a")] == command.notes
    assert len(command.notes) == 1


@given(BODIES)
def test_programs_hold_nothing_that_a_terminal_obeys(value: str) -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": value}], value: [value]})
    for form in ("openai", "penstock", "aisdk"):
        assert obeyed(copied(body, form)) == []
    assert ast.literal_eval(format_python({value: [value]}, 0)) == {value: [value]}
    assert json.loads(format_typescript(value, 0)) == value


@pytest.mark.parametrize(
    ("shell", "start", "end"),
    [("sh -i", "", ""), ("bash --norc -i", "", ""), ("bash --norc -i", "\x1b[200~", "\x1b[201~")],
    ids=["sh", "bash", "bash, bracketed paste"],
)
def test_pasted_into_a_shell_nothing_else_runs(shell: str, start: str, end: str, tmp_path: Path) -> None:
    if not shutil.which(shell.split(maxsplit=1)[0]):
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "curl"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    # The terminal drops what a line has beyond 4095 bytes: the cut may be anywhere in a quoted quote.
    bodies = [f"hello {PASTE_END}touch PWNED\r#", *(f"{'A' * size}'\ntouch PWNED\n'" for size in range(4070, 4082))]
    shown = paste(shell.split(), [f"{start}{copied(body)}{end}\n" for body in bodies], tmp_path)
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
