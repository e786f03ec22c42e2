# ruff: noqa: S603, S607 — the commands are those that penstock prints
"""Runs what penstock tells people to run: each start-up hint, and each agent after `penstock setup`.

`python -m tools.agents.hints [AGENT …]` starts `penstock serve` with its packaged agent, then every agent that is
installed, headless and in a home of its own, once by the line that `penstock serve` printed and once by the files that
`penstock setup AGENT --yes` wrote. An agent is good if it read a random word from a file with its own shell.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
MODEL = "replay/agent"
PROMPT = "run `cat nonce.txt` with your shell tool and tell me what it printed"
TIMEOUT = 240
TRIES = 4
TITLES = {
    "claude": "Claude Code", "codex": "Codex", "qwen": "Qwen Code", "copilot": "Copilot CLI", "opencode": "opencode",
    "gemini": "Gemini CLI", "continue": "Continue",
}  # fmt: skip
# How each is started without a person.
HEADLESS = {
    "claude": ("-p", PROMPT, "--allowedTools", "Bash", "--permission-mode", "bypassPermissions"),
    "codex": ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT),
    "opencode": ("run", PROMPT),
    "qwen": ("-y", "-p", PROMPT),
    "gemini": ("-y", "-p", PROMPT),
    "copilot": ("-p", PROMPT, "--allow-all-tools", "--no-color"),
    "continue": ("-p", PROMPT, "--auto"),
}
PROGRAMS = {"continue": "cn"}
QUIET = {
    "IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1", "GEMINI_CLI_TRUST_WORKSPACE": "true", "COPILOT_AUTO_UPDATE": "false",
}  # fmt: skip


def environment(home: Path) -> dict[str, str]:
    """Only what an agent needs: no key of this machine, a home of its own."""
    path = f"{HERE / 'node_modules' / '.bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: os.environ[name] for name in ("LANG", "TERM", "TMPDIR") if name in os.environ}
    return {**kept, **QUIET, "PATH": path, "HOME": str(home), "PENSTOCK_DATA": str(home / "data")}


@contextmanager
def gateway(home: Path) -> Iterator[list[str]]:
    """A running `penstock serve`, and the lines that it printed."""
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--full-speed"]
    with subprocess.Popen(command, env=environment(home), cwd=home, stderr=subprocess.PIPE, text=True) as process:
        lines: list[str] = []
        try:
            for line in process.stderr or ():
                lines.append(line.rstrip())
                if line.startswith("Stop with"):
                    break
            yield lines
        finally:
            process.terminate()
            process.communicate(timeout=60)


def printed_hint(agent: str, lines: list[str]) -> str:
    """The line for an agent, asking for the packaged agent."""
    title = TITLES[agent]
    line = next(line.strip().removeprefix(title).strip() for line in lines if line.strip().startswith(f"{title} "))
    return re.sub(r"replay/\w+", MODEL, line)


def run(agent: str, how: str, lines: list[str]) -> str:
    """Empty if the agent did what it should; else what it said."""
    with tempfile.TemporaryDirectory(prefix="hint-") as folder:
        home = Path(folder)
        work = home / "work"
        work.mkdir()
        word = f"zebra-{secrets.token_hex(4)}"
        (work / "nonce.txt").write_text(f"{word}\n")
        subprocess.run(["git", "init", "-q"], cwd=work, check=False, env=environment(home))
        command = PROGRAMS.get(agent, agent)
        if how == "hint":
            command = printed_hint(agent, lines)
        else:
            exports = set_up(agent, lines, home)
            command = f"{exports}\n{command}" if exports else command
        words = " ".join(quote(word) for word in HEADLESS[agent])
        done = subprocess.run(
            ["bash", "-c", f"{command} {words}"], cwd=work, env=environment(home), capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False,
        )  # fmt: skip
        good = done.returncode == 0 and word in done.stdout
        return (
            "" if good else f"{command} {words}\nexit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        )


def set_up(agent: str, lines: list[str], home: Path) -> str:
    """Write the agent's files, by the printed line if there is one; gives the variables that are left to set."""
    base = lines[0].rpartition(" ")[2]
    printed = printed_hint(agent, lines)
    line = printed if printed.startswith("penstock setup ") else f"penstock setup {agent} --model {MODEL} --url {base}"
    command = ["bash", "-c", f"{line} --yes"]
    done = subprocess.run(command, env=environment(home), cwd=home, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return "\n".join(line for line in done.stdout.splitlines() if line.startswith("export "))


def attempt(agent: str, how: str, lines: list[str]) -> str:
    """As `run`. Again if the agent's shell gave nothing: on a busy machine Qwen Code's does so now and then."""
    problem = ""
    for _ in range(TRIES):
        try:
            problem = run(agent, how, lines)
        except (subprocess.TimeoutExpired, RuntimeError) as error:
            return str(error)
        if "Output: (empty)" not in problem:
            break
    return problem


def main() -> int:
    """Run them all; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", nargs="*", help=f"which (default: all that are installed): {', '.join(HEADLESS)}")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="hints-") as folder, gateway(Path(folder)) as lines:
        for agent in options.agents or HEADLESS:
            one_line = not printed_hint(agent, lines).startswith("penstock setup ")
            for how in ("hint", "setup") if one_line else ("setup",):
                problem = attempt(agent, how, lines)
                failed += bool(problem)
                print(f"{'FAIL' if problem else 'ok  '} {agent}, {how}", flush=True)
                if problem:
                    print(problem, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
