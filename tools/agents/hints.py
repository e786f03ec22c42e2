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
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
PATHS = (
    HERE.parents[1] / ".agents" / "bin", HERE / "node_modules" / ".bin", HERE / ".venv" / "aider-chat" / "bin",
    HERE / ".venv" / "llm" / "bin",
)  # fmt: skip
MODEL = "replay/agent"
PROMPT = "run `cat nonce.txt` with your shell tool and tell me what it printed"
TIMEOUT = 240
TRIES = 4
_START = "penstock: start: "


@dataclass(frozen=True)
class Headless:
    """How an agent is started without a person: what is added to its command, or typed into it."""

    title: str  # in the lines of `penstock serve`
    program: str
    words: tuple[str, ...] = ()
    typed: str = ""
    has_shell: bool = True  # else the file is a part of the prompt, which the packaged agent repeats


AGENTS = {
    "claude": Headless(
        "Claude Code", "claude", ("-p", PROMPT, "--allowedTools", "Bash", "--permission-mode", "bypassPermissions")
    ),
    "codex": Headless(
        "Codex", "codex", ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT)
    ),
    "opencode": Headless("opencode", "opencode", ("run", PROMPT)),
    "qwen": Headless("Qwen Code", "qwen", ("-y", "-p", PROMPT)),
    "gemini": Headless("Gemini CLI", "gemini", ("-y", "-p", PROMPT)),
    "copilot": Headless("Copilot CLI", "copilot", ("-p", PROMPT, "--allow-all-tools", "--no-color")),
    "cline": Headless("Cline", "cline", (PROMPT,)),
    "goose": Headless("Goose", "goose", typed=f"{PROMPT}\n"),
    "continue": Headless("Continue", "cn", ("-p", PROMPT, "--auto")),
    "aider": Headless(
        "aider", "aider", ("--message", "What does nonce.txt hold?", "--chat-mode", "ask", "--yes-always", "nonce.txt"),
        has_shell=False,
    ),
    "llm": Headless("llm", "llm", ("-f", "nonce.txt", "What does the file hold?"), has_shell=False),
    "pi": Headless("pi", "pi", ("-p", PROMPT)),
}  # fmt: skip
QUIET = {
    "IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1", "GEMINI_CLI_TRUST_WORKSPACE": "true", "COPILOT_AUTO_UPDATE": "false",
    "GOOSE_TELEMETRY_ENABLED": "false", "GOOSE_DISABLE_KEYRING": "1", "AIDER_ANALYTICS": "false",
    "AIDER_CHECK_UPDATE": "false", "AIDER_SHOW_MODEL_WARNINGS": "false", "PI_OFFLINE": "1",
}  # fmt: skip


def find_program(agent: str) -> str | None:
    """The agent's program, if it is there for this system."""
    return shutil.which(AGENTS[agent].program, path=os.pathsep.join(map(str, PATHS)))


def environment(home: Path) -> dict[str, str]:
    """Only what an agent needs: no key of this machine, a home of its own."""
    path = os.pathsep.join([*map(str, PATHS), str(Path(sys.executable).parent), os.environ["PATH"]])
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
    title = AGENTS[agent].title
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
        command = printed_hint(agent, lines) if how == "hint" else set_up(agent, lines, home)
        row = AGENTS[agent]
        command = " ".join([command, *map(quote, row.words)])
        done = subprocess.run(
            ["bash", "-c", command], cwd=work, env=environment(home), capture_output=True, text=True,
            input=row.typed, timeout=TIMEOUT, check=False,
        )  # fmt: skip
        # An agent may print the results of its tools as well: what counts is that the model got the word.
        answer = done.stdout.partition("gave:")[2] if row.has_shell else done.stdout
        good = done.returncode == 0 and word in answer
        return "" if good else f"{command}\nexit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def set_up(agent: str, lines: list[str], home: Path) -> str:
    """Write the agent's files, by the printed line if there is one; gives what is left to run, the agent last."""
    base = lines[0].rpartition(" ")[2]
    printed = printed_hint(agent, lines)
    line = printed if printed.startswith("penstock setup ") else f"penstock setup {agent} --model {MODEL} --url {base}"
    command = ["bash", "-c", f"{line} --yes"]
    done = subprocess.run(command, env=environment(home), cwd=home, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    left = [line for line in done.stdout.splitlines() if line.startswith(("export ", f"{AGENTS[agent].program} "))]
    start = next(line for line in done.stderr.splitlines() if line.startswith(_START))
    return "\n".join([*left, start.removeprefix(_START)])


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


def ways(agent: str, lines: list[str]) -> tuple[str, ...]:
    """`hint` is the line of `penstock serve`, `setup` the files of `penstock setup`."""
    one_line = not printed_hint(agent, lines).startswith("penstock setup ")
    return ("hint", "setup") if one_line else ("setup",)


def main() -> int:
    """Run them all; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", nargs="*", help=f"which (default: all that are installed): {', '.join(AGENTS)}")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="hints-") as folder, gateway(Path(folder)) as lines:
        for agent in options.agents or AGENTS:
            if find_program(agent) is None:
                print(f"skip {agent}: {AGENTS[agent].program} is not installed, or not made for this system")
                continue
            for how in ways(agent, lines):
                problem = attempt(agent, how, lines)
                failed += bool(problem)
                print(f"{'FAIL' if problem else 'ok  '} {agent}, {how}", flush=True)
                if problem:
                    print(problem, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
