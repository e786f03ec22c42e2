"""One agent, one upstream protocol, one task: a gateway of its own, a home of its own, a time limit, and a verdict."""

from __future__ import annotations

import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from penstock.testing import scripted
from tools.agents.model import PROTOCOLS, STEPS, Model
from tools.agents.tap import tapped

if TYPE_CHECKING:
    from collections.abc import Generator

    from tools.agents.programs import Agent

HERE = Path(__file__).resolve().parent
BIN = HERE / "node_modules" / ".bin"
PROMPT = "run `cat nonce.txt` with your shell tool, turn the word round with `rev`, and tell me what it printed"
START = 60.0
# upstream protocol → what of it the provider has
UPSTREAMS = {"openai-chat": "chat", "anthropic": "", "responses": "responses"}
_PLAIN = """
[serve]
pace = 0
[state]
path = "memory"
"""
_CONFIG = """
[providers.up]
base_url = "{url}"
key = "sk-scripted"
like = "{like}"
models = ["scripted"]
{fields}
[aliases]
default = "up/scripted"
"""


class Verdict(msgspec.Struct):
    """How it went. `wrong` is empty if all is well; `said` is all that the agent printed, and the gateway after it."""

    seconds: float = 0.0
    requests: int = 0
    calls: int = 0
    wrong: list[str] = []
    said: str = ""


def attempt(agent: Agent, protocol: str, node: Path, limit: float) -> Verdict:
    """Have the agent do the task."""
    with TemporaryDirectory(prefix="penstock-agents-") as folder:
        return _attempt(agent, protocol, node, limit, Path(folder))


def _attempt(agent: Agent, protocol: str, node: Path, limit: float, folder: Path) -> Verdict:
    model, word = Model(_spoken(agent), agent.breaks), f"nonce-{secrets.token_hex(6)}"
    work = folder / "work"
    work.mkdir()
    (work / "nonce.txt").write_text(word + "\n")
    started = time.monotonic()
    with scripted(model) as up, gateway(folder, up.url, protocol) as real, tapped(real) as (base, tap):
        name = "up/scripted"
        for path, text in agent.files(base, name).items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        given = {"base": base, "model": name, "home": str(folder), "work": str(work), "prompt": PROMPT}
        code, said = _run(agent, given, node, limit)
        seen = list(up.seen)
    made = Verdict(time.monotonic() - started, len(seen), model.calls, list(model.faults), said)
    made.said += "\n--- asked\n" + "\n".join(tap.asked)
    made.said += "\n--- the gateway said\n" + (folder / "gateway.log").read_text(errors="replace")
    made.wrong += _wrong(agent, tap.asked, model.calls, _journal(folder))
    if code:
        made.wrong.append("it took too long" if code == _LATE else f"exit code {code}")
    if word[::-1] not in said:
        made.wrong.append("it did not say the word")
    return made


def _spoken(agent: Agent) -> str:
    return next((name for end, name in PROTOCOLS.items() if agent.asks.endswith(end)), "")


def _wrong(agent: Agent, asked: list[str], calls: int, ended: dict[str, int]) -> list[str]:
    """What the wire, the model and the journal have to say against it."""
    bad = [f"{count} turns: {how}" for how, count in ended.items() if not how.startswith(("finish", "cancelled"))]
    wrong = bad if len(bad) != agent.breaks else []
    if calls < STEPS:
        wrong.append(f"{calls} of {STEPS} calls")
    if not any(head.startswith(agent.asks) for head in asked):
        wrong.append(f"no {agent.asks}, but {sorted(set(asked))}")
    wrong += [f"{head} as well" for head in asked if agent.never and head.startswith(agent.never)]
    return wrong


def _journal(folder: Path) -> dict[str, int]:
    """How turns ended, by the gateway's own account."""
    with closing(sqlite3.connect(folder / "data" / "journal.sqlite")) as rows:
        return dict(
            rows.execute("SELECT trim(status || ' ' || fault || ' ' || fault_message), count(*) FROM turns GROUP BY 1")
        )


_LATE = -1000


def private(home: str, node: Path) -> dict[str, str]:
    """An environment with nothing of the user's in it."""
    return {
        "PATH": f"{node.parent}:{os.environ.get('PATH', '')}", "HOME": home, "TERM": "dumb", "CI": "1", "NO_COLOR": "1",
        "XDG_CONFIG_HOME": f"{home}/.config", "XDG_DATA_HOME": f"{home}/.local/share",
        "XDG_CACHE_HOME": f"{home}/.cache",
    }  # fmt: skip


def _run(agent: Agent, given: dict[str, str], node: Path, limit: float) -> tuple[int, str]:
    """Exit code and output. No key, proxy or address of the environment reaches the agent."""
    command = [word.format(**given) for word in agent.command]
    command[0] = str(BIN / command[0])
    env = {**private(given["home"], node), **{name: value.format(**given) for name, value in agent.env.items()}}
    process = subprocess.Popen(  # noqa: S603 — the agents are the point
        command, cwd=given["work"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        out, _ = process.communicate(timeout=limit)
        code = process.returncode
    except subprocess.TimeoutExpired:
        _end(process)
        out, _ = process.communicate()
        code = _LATE
    _end(process)
    return code, out.decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """An agent has children, and some outlive it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def gateway(folder: Path, url: str = "", protocol: str = "") -> Generator[str]:
    """`penstock serve` before the upstream, or with its packaged streams alone; its address."""
    has = UPSTREAMS.get(protocol, "")
    like = "openai-compatible" if has else protocol
    fields = f'fields = {{ has = ["{has}"] }}' if has else ""
    config = folder / "penstock.toml"
    config.write_text(_PLAIN + (_CONFIG.format(url=url, like=like, fields=fields) if url else ""))
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--config", str(config)]
    env = {name: value for name, value in os.environ.items() if not name.endswith(("_KEY", "_TOKEN"))}
    log = folder / "gateway.log"
    with log.open("wb") as out:
        env["PENSTOCK_DATA"] = str(folder / "data")
        process = subprocess.Popen(command, stderr=out, stdout=out, env=env)  # noqa: S603 — ours
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        process.wait(START)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    end = time.monotonic() + START
    while time.monotonic() < end and process.poll() is None:
        for word in log.read_text(errors="replace").split():
            if word.startswith("http://"):
                return word.rstrip("/.,")
        time.sleep(0.05)
    raise SystemExit(f"the gateway did not start: {log.read_text(errors='replace')}")
