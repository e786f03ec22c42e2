"""Writes a page for each example, with the output of a run: python -m tools.example_pages [NAME…].

Every example runs here as a user would run it, without a key and without a network. `example_pages.toml` has what the
pages say. Ids and times of the output are replaced by …, and long lines and outputs are cut.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES, PAGES = ROOT / "examples", ROOT / "docs/examples"
TABLE: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "tools/example_pages.toml").read_text(encoding="utf-8"))
_MAX_COLUMNS, _MAX_LINES = 150, 24
_SECONDS = 120
_VARIABLE = re.compile(r'(?<![0-9a-f])[0-9a-f]{12,32}(?![0-9a-f])|(?<="created":)[0-9]+|(?<= in )[0-9.]+s\b')
_QUESTION = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "How high is the water?"}]}
_BODY = json.dumps({"id": "chat", "messages": [_QUESTION]}, separators=(",", ":"))
_CURL = f"curl -N http://127.0.0.1:8000/api/chat -H 'content-type: application/json' -d '{_BODY}'"
# Asks an ASGI application as a page would, in a process of its own.
_ASK_WEB = """
import asyncio, httpx, importlib, json, sys
sys.path.insert(0, sys.argv[1])
async def ask():
    transport = httpx.ASGITransport(importlib.import_module(sys.argv[2]).app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        reply = await client.post("/api/chat", json=json.loads(sys.argv[3]))
        print(reply.text, end="")
asyncio.run(ask())
"""


def main() -> None:
    """Write the pages, and the list of them."""
    chosen = sys.argv[1:] or TABLE
    PAGES.mkdir(exist_ok=True)
    for name in chosen:
        (PAGES / f"{name}.md").write_text(write_page(name, run_example(name)), encoding="utf-8")
    (PAGES / "README.md").write_text(write_list(), encoding="utf-8")


def run_example(name: str) -> str:
    """Run an example in an empty folder. Return what it prints; nothing for one that is only described."""
    kind = TABLE[name].get("kind", "script")
    if kind == "described":
        return ""
    path = str(EXAMPLES / f"{name}.py")
    words = {
        "script": [path],
        "pytest": ["-m", "pytest", "-q", "-p", "no:cacheprovider", path],
        "web": ["-c", _ASK_WEB, str(EXAMPLES), name, _BODY],
    }[kind]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PENSTOCK_DATA": folder, "COLUMNS": "80"}
        done = subprocess.run(  # noqa: S603 — our own examples
            [sys.executable, *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{name}: {done.stdout}{done.stderr}")
    return done.stdout


def shorten_output(name: str, output: str) -> str:
    """Return what a page shows of an output: the same for every run."""
    chosen = re.compile(TABLE[name].get("lines", ""))
    lines = [_shorten_line(line) for line in output.splitlines() if chosen.search(line)]
    if len(lines) > _MAX_LINES:
        half = _MAX_LINES // 2
        lines = [*lines[:half], f"… {len(lines) - 2 * half} more lines", *lines[-half:]]
    return "\n".join(lines).strip("\n") + "\n"


def _shorten_line(line: str) -> str:
    line = _VARIABLE.sub("…", line).rstrip()
    return line if len(line) <= _MAX_COLUMNS else f"{line[: _MAX_COLUMNS - 1]}…"


def write_page(name: str, output: str) -> str:
    """Return the page of an example."""
    row = TABLE[name]
    path = f"examples/{name}.py" if (EXAMPLES / f"{name}.py").is_file() else f"examples/{name}"
    parts = [f"# {row['title']}", row["shows"], f"Source: [{path}](../../{path})"]
    if commands := list_commands(name):
        parts += [
            "## Run it",
            "<!-- not run: tests run the example itself -->\n```sh\n" + "\n".join(commands) + "\n```",
        ]
        parts.append("No key and no network: packaged streams or a server on this machine answer.")
    if output:
        parts += ["## Output", f"```text\n{shorten_output(name, output)}```"]
    parts.append("More: " + ", ".join(f"[{page}](../{page}.md)" for page in row["also"]) + ".")
    return "\n\n".join(parts) + "\n"


def list_commands(name: str) -> list[str]:
    """Return the commands that run an example."""
    row = TABLE[name]
    install = f"pip install 'penstock[{row['needs']}]'" if "needs" in row else "pip install penstock"
    commands: list[str] = {
        "script": [f"python examples/{name}.py"],
        "pytest": [f"pytest examples/{name}.py"],
        "web": [f"pip install uvicorn {name.removeprefix('web_')}", f"uvicorn --app-dir examples {name}:app &", _CURL],
        "described": row.get("commands", []),
    }[row.get("kind", "script")]
    return [install, *commands] if commands else []


_LIST = """# Examples

Each example is a file of [examples](../../examples) that runs without a key and without a network: the
[replay](../replay.md) provider, or a server on this machine, answers. The output on the pages is that of a run
(`python -m tools.example_pages`), and tests compare it with what the examples print today.

| example | what it shows |
|---|---|
"""


def write_list() -> str:
    """Return the page that lists all examples."""
    first = {name: row["shows"].partition(". ")[0].rstrip(".") for name, row in TABLE.items()}
    return _LIST + "".join(f"| [{TABLE[name]['title']}]({name}.md) | {shows} |\n" for name, shows in first.items())


if __name__ == "__main__":
    main()
