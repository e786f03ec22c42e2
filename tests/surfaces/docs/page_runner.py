"""Runs the code blocks of one page in order, in a folder and a home of their own, as a reader would."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from penstock._gateway.config import read_config
from penstock.providers import custom
from tests.support.paths import PROJECT
from tests.support.servers import PostgresServer, RedisServer, ServerProcess, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack

    from tools.code_blocks import CodeBlock

ROOT = PROJECT
DEFAULT_PORT = "4480"
PORT = re.compile(r"(?:127\.0\.0\.1|localhost|0\.0\.0\.0|--port|port =)[: =](\d{4,5})\b")
BLOCK_TIMEOUT = 120
SERVES = re.compile(r"^(?:\w+=\S+ )*(?:penstock serve(?!.*--(?:check|help))|uvicorn )", re.MULTILINE)
LINKED = ("examples", "deploy", "docs", "tools", ".venv")
SERVER = f'exec "{sys.executable}" -W ignore "{ROOT}/tests/surfaces/docs/background_server.py"'
PENSTOCK = f'"{sys.executable}" -m penstock'
# Commands of the pages that stand for others here.
COMMANDS = {
    "penstock": f"""
served=no
case " $* " in " serve "*|*" --web "*|*" --serve "*) served=yes ;; esac
case " $* " in *" --check "*|*" --help "*) served=no ;; esac
case "$1" in demo) set -- "$@" --no-serve --fast ;; esac
if [ $served = no ]; then exec {PENSTOCK} "$@"; fi
case " $* " in *" --port "*) ;; " serve "*) set -- "$@" --port "$DEFAULT_PORT" ;; *) set -- "$@" --port "$SPARE_PORT" ;; esac
case "$1" in serve) set -- "$@" --full-speed ;; esac
{SERVER} {PENSTOCK} "$@"
""",
    "uvicorn": f'{SERVER} "{sys.executable}" -m uvicorn "$@"',
    "python": f"""
case " $* " in *" --port "*) {SERVER} "{sys.executable}" "$@" ;; esac
exec "{sys.executable}" "$@"
""",
    "pytest": f'exec "{sys.executable}" -m pytest -p no:cacheprovider "$@"',
    "make": f'exec /usr/bin/make --dry-run -C "{ROOT}" "$@"',  # whether there is such a target, and what it would do
    "pip": f'exec "{sys.executable}" "{ROOT}/tests/surfaces/docs/check_install.py" "$@"',
}


class BlockError(AssertionError):
    """A block of a page does not do what the page says."""


def map_ports(
    blocks: list[CodeBlock], shared: Callable[[], int], real: Mapping[str, Callable[[], int]]
) -> dict[str, str]:
    """A free port for each that the page names: pages run at the same time, and the usual ports may be taken.

    4480 is the gateway that all pages share, unless the page starts one. `real` has servers that are started for a page.
    """
    named = {number for block in blocks for number in PORT.findall(f"{block.marks.get('setup', '')}\n{block.text}")}
    scripts = [
        f"{block.marks.get('setup', '')}\n{block.text}" for block in blocks if block.language in {"sh", "console"}
    ]
    starts = any(SERVES.search(script.replace("$ ", "")) for script in scripts)
    found: dict[str, str] = {}
    for number in sorted(named | ({DEFAULT_PORT} if starts else set())):
        make = shared if number == DEFAULT_PORT and not starts else real.get(number, free_port)
        found[number] = str(make())
    return found


def start_stores(stack: ExitStack) -> dict[str, Callable[[], int]]:
    """Redis and PostgreSQL for pages that name their usual ports; they end with the stack."""

    def start(kind: type[ServerProcess]) -> int:
        server = kind()
        stack.callback(server.close)
        server.start()
        return server.port

    return {"6379": lambda: start(RedisServer), "5432": lambda: start(PostgresServer)}


@dataclass
class PageRun:
    """The state of a page: its folder, its ports, its Python process, and what the last block printed."""

    folder: Path
    ports: dict[str, str]
    output: str = ""
    session: subprocess.Popen[str] | None = field(default=None)

    def __post_init__(self) -> None:
        self.work, self.home, self.state, self.bin = (self.folder / name for name in ("work", "home", "state", "bin"))
        for path in (self.work, self.home, self.state, self.bin):
            path.mkdir(parents=True)
        for name in LINKED:
            (self.work / name).symlink_to(ROOT / name)
        for name, script in COMMANDS.items():
            (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
            (self.bin / name).chmod(0o755)
        self.env = {
            "PATH": f"{self.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "STATE": str(self.state),
            "ROOT": str(ROOT),
            "DEFAULT_PORT": self.ports.get(DEFAULT_PORT, "1"),
            "SPARE_PORT": str(free_port()),
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONWARNINGS": "error",
            "LANG": "C.UTF-8",
            "COLUMNS": "120",
            "BROWSER": "true",
            "NO_PROXY": "127.0.0.1,localhost",
        }

    def close(self) -> None:
        """Ends everything that the blocks left running."""
        if self.session is not None and self.session.stdin is not None:
            self.session.communicate(timeout=30)  # closes its pipes
        for file in self.state.glob("server-*"):
            with suppress(ProcessLookupError):
                os.killpg(int(file.read_text()), signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def localize(self, text: str) -> str:
        """The text with this run's ports instead of the page's."""
        for number, own in self.ports.items():
            text = re.sub(rf"\b{number}\b", own, text)
        return text

    def generalize(self, text: str) -> str:
        """The output with the page's ports instead of this run's."""
        for number, own in self.ports.items():
            text = re.sub(rf"\b{own}\b", number, text)
        return text.replace(str(self.work), "/home/ann/work").replace(str(self.home), "/home/ann")

    def run_block(self, block: CodeBlock) -> None:
        """Runs or reads a block. Raises BlockError if it is wrong."""
        text = self.localize(block.text)
        if block.title:
            self._write_file(block.title, text)
        check = _CHECKS.get(block.language)
        if check is not None and not (block.title and block.language in {"python", "sh"}):
            check(self, block, text)
        elif block.title.endswith(".py"):
            compile(text, block.title, "exec")

    def _write_file(self, title: str, text: str) -> None:
        path = self.home / title[2:] if title.startswith("~/") else self.work / title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run_python(self, block: CodeBlock, text: str) -> None:
        if self.session is None:
            command = [sys.executable, "-W", "error", str(ROOT / "tests/surfaces/docs/python_session.py")]
            pipe = subprocess.PIPE
            self.session = subprocess.Popen(
                command, cwd=self.work, env=self.env, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
            )
        assert self.session.stdin is not None
        assert self.session.stdout is not None
        setup = self.localize(block.marks.get("setup", ""))
        asked = {"code": f"{setup}\n{text}", "place": block.place, "keep": "continues" in block.marks}
        self.session.stdin.write(json.dumps(asked) + "\n")
        self.session.stdin.flush()
        line = self.session.stdout.readline()
        if not line.startswith("{"):
            raise BlockError(f"{block.place}: the process ended: {line}{self.session.stdout.read()}")
        found: dict[str, Any] = json.loads(line)
        self._finish(block, found["output"], failed=found["failed"])

    def run_shell(self, block: CodeBlock, text: str) -> None:
        setup = self.localize(block.marks.get("setup", ""))
        text = re.sub(r"^(penstock serve\b.*)&$", r"\1", text, flags=re.MULTILINE)  # it is left running anyway
        script = f"""set -euo pipefail; set -a
[ ! -f "$STATE/env" ] || . "$STATE/env"
[ ! -f "$STATE/cwd" ] || cd "$(cat "$STATE/cwd")"
trap 'export -p > "$STATE/env"; pwd > "$STATE/cwd"' EXIT
{setup}
{text}"""
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.work, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=BLOCK_TIMEOUT, check=False,
        )  # fmt: skip
        self._finish(block, done.stdout.decode(errors="replace"), failed=done.returncode != 0)

    def run_console(self, block: CodeBlock, text: str) -> None:
        """Commands behind `$`, continued behind `>`; the lines between them are what they print."""
        commands = [line[2:] for line in text.splitlines() if line.startswith(("$ ", "> "))]
        self.run_shell(block, "\n".join(commands))
        self.compare(block, "\n".join(line for line in block.text.splitlines() if not line.startswith(("$ ", "> "))))

    def _finish(self, block: CodeBlock, output: str, *, failed: bool) -> None:
        self.output = self.generalize(output)
        if block.marks.get("prints", "") not in self.output:
            raise BlockError(f"{block.place}: {block.marks['prints']!r} is not printed:\n{self.output}")
        if failed is not ("fails" in block.marks):
            raise BlockError(f"{block.place}: {'failed' if failed else 'did not fail'}\n{block.text}---\n{self.output}")

    def check_output(self, block: CodeBlock, _: str) -> None:
        if "prints" in block.marks:
            self.compare(block, block.text)

    def compare(self, block: CodeBlock, expected: str) -> None:
        """Each line of the page is a line of the output, in the same order; `…` stands for anything."""
        lines = iter(self.output.splitlines())
        for line in expected.splitlines():
            if line.strip() in {"", "…"}:
                continue
            pattern = re.compile(".*".join(re.escape(piece) for piece in line.strip().split("…")))
            if not any(pattern.fullmatch(one.strip()) for one in lines):
                raise BlockError(f"{block.place}: {line!r} is not printed, or not in this order:\n{self.output}")

    def load_toml(self, block: CodeBlock, text: str) -> None:
        match block.marks.get("reader", "gateway"):
            case "gateway":
                read_config(text, Path("penstock.toml"))
            case "provider":
                for name, row in tomllib.loads(text).items():
                    check_provider_row(name, row)
            case _:
                tomllib.loads(text)

    def parse_json(self, block: CodeBlock, text: str) -> None:
        try:
            json.loads(text)
        except ValueError:
            for line in text.splitlines():  # JSON lines
                json.loads(line)

    def parse_yaml(self, block: CodeBlock, text: str) -> None:
        reader: Any = YAML(typ="safe", pure=True)
        assert reader.load(text), block.place


def check_provider_row(name: str, row: dict[str, Any]) -> None:
    """Reads a row of the table of providers as the package does."""
    custom(name, row.pop("base_url"), **row)


_CHECKS: dict[str, Callable[[PageRun, CodeBlock, str], None]] = {
    "python": PageRun.run_python,
    "sh": PageRun.run_shell,
    "console": PageRun.run_console,
    "text": PageRun.check_output,
    "toml": PageRun.load_toml,
    "json": PageRun.parse_json,
    "jsonl": PageRun.parse_json,
    "yaml": PageRun.parse_yaml,
}
