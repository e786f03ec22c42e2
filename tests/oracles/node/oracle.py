"""The AI SDK as an oracle: real npm packages in a Node process per script and version, fed jobs, asked for results.
`fullstream` says what `streamText` makes of a server's answer, `readui` what a page's reader makes of a UI stream,
`modelmessages` what the SDK makes of a page's messages, and whether it takes model messages as its own.
`turns` runs whole turns, tools included, and has no form of its own here: tests/oracles/ai_sdk_matrix.py asks for it;
nor has `chats`, a page whose server runs the tools: tests/client/test_web_examples.py asks for it; nor
has `answers`, one recorded answer read by `streamText` or `generateText`: tests/oracles/ai_sdk.py asks for it.
It leans on what `tests/oracles/node/setup.sh` installs and on nothing of penstock.
"""

from __future__ import annotations

import filecmp
import json
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType

HERE = Path(__file__).resolve().parent
NODE = HERE / ".node" / "bin" / "node"

Json = dict[str, Any]
Script = Literal["fullstream", "readui", "modelmessages", "turns", "answers", "chats"]
Version = Literal[4, 5, 6, 7]
Provider = Literal[
    "openai-chat", "openai-responses", "openai-compatible", "anthropic", "google", "open-responses", "mistral"
]
VERSIONS: tuple[Version, ...] = (4, 5, 6, 7)
UI_VERSIONS: tuple[Version, ...] = (5, 6, 7)


class OracleError(Exception):
    """The oracle could not answer: not installed, crashed, or silent for too long."""


@dataclass(frozen=True, kw_only=True)
class StreamJob:
    """One request of `streamText`; fullstream.mjs says how tools and settings are written."""

    provider: Provider
    base_url: str
    model: str | None = None
    tools: Mapping[str, Json] = field(default_factory=dict[str, Json])
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, kw_only=True)
class Streamed:
    """The parts of one `fullStream`, and the error if the iteration itself threw."""

    parts: list[Json]
    error: Json | None = None


@dataclass(frozen=True, kw_only=True)
class ReadJob:
    """One UI message stream; readui.mjs tells the two readers apart."""

    sse: str
    reader: Literal["chat", "iterate"] = "chat"


@dataclass(frozen=True, kw_only=True)
class Read:
    """The message a page would show, and why the reading ended early if it did; `error["kind"]` says in what way."""

    message: Json | None = None
    finish_reason: str | None = None
    data: list[Json] = field(default_factory=list[Json])
    error: Json | None = None


class Oracles:
    """A pool of Node processes, one per script and version, started at their first job and ended on leaving.

    `timeout` bounds each job, the start of its process included. A process that overstays is killed and the next job
    gets a new one.
    """

    def __init__(self, *, timeout: float = 60.0) -> None:
        self.timeout = timeout
        self._processes: dict[tuple[Script, Version], _Process] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        while self._processes:
            self._processes.popitem()[1].close()

    def fullstream(self, ai: Version, jobs: Iterable[StreamJob]) -> list[Streamed]:
        return [_streamed(lines) for lines in self.run("fullstream", ai, map(_stream_job, jobs))]

    def readui(self, ai: Version, jobs: Iterable[ReadJob]) -> list[Read]:
        return [_read(lines) for lines in self.run("readui", ai, map(_read_job, jobs))]

    def model_messages(self, ai: Version, ui: Iterable[list[Json]]) -> list[list[Json]]:
        """The model messages that the SDK makes of each list of UI messages."""
        return [line["messages"] for (line,) in self.run("modelmessages", ai, ({"ui": messages} for messages in ui))]

    def refused(self, ai: Version, models: Iterable[list[Json]]) -> list[list[int]]:
        """Which of each list's model messages the SDK does not take, by their places."""
        jobs = ({"model": messages} for messages in models)
        return [line["refused"] for (line,) in self.run("modelmessages", ai, jobs)]

    def run(self, script: Script, ai: Version, jobs: Iterable[Json]) -> Iterator[list[Json]]:
        """Each job's output lines, as the script wrote them."""
        for job in jobs:
            key = (script, ai)
            process = self._processes.pop(key, None) or _Process(script, ai)
            try:
                lines = process.run(job, self.timeout)
            except BaseException:
                process.close()
                raise
            self._processes[key] = process
            yield lines


class _Process:
    """One Node process. Jobs go in one at a time, so neither side ever waits for the other to drain a pipe."""

    def __init__(self, script: Script, ai: Version) -> None:
        require_packages(f"ai{ai}")
        self._name = f"{script}.mjs --ai {ai}"
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        self._jobs = 0
        self._process = subprocess.Popen(
            [NODE, HERE / f"{script}.mjs", "--ai", str(ai)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            # No proxy, key or address of the environment may reach the SDKs.
            env={"HOME": "/nonexistent", "NODE_NO_WARNINGS": "1"},
        )

    def run(self, job: Json, timeout: float) -> list[Json]:
        self._jobs += 1
        late = threading.Event()

        def kill() -> None:
            late.set()
            self._process.kill()

        # Killing ends both waits below, the write's and the read's.
        watchdog = threading.Timer(timeout, kill)
        watchdog.start()
        try:
            return list(self._exchange({**job, "id": self._jobs}))
        except (OSError, EOFError) as gone:
            why = f"did not end within {timeout:g} s" if late.is_set() else "ended the process"
            raise OracleError(f"{self._name}: job {self._jobs} {why}: {job!r:.500}{self._last_words()}") from gone
        finally:
            watchdog.cancel()
            watchdog.join()

    def _exchange(self, job: Json) -> Iterator[Json]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(job).encode() + b"\n")
        stdin.flush()
        while line := stdout.readline():
            answer: Json = json.loads(line)
            if answer.pop("id") != job["id"]:
                raise OracleError(f"{self._name}: an answer to no job: {line!r:.500}")
            end = answer.pop("end", False)
            if answer:
                yield answer
            if end:
                return
        raise EOFError

    def _last_words(self) -> str:
        self._process.wait(timeout=10)
        self._stderr.seek(0)
        words = self._stderr.read().decode(errors="replace").strip()
        return f"\n(exit code {self._process.returncode}) {words[-2000:]}"

    def close(self) -> None:
        # It keeps nothing worth a goodbye.
        self._process.kill()
        self._process.wait(timeout=10)
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            assert pipe is not None
            # A dead process may leave an unwritten job in the buffer, which closing would try to flush.
            try:
                pipe.close()
            except BrokenPipeError:
                continue


def require_packages(folder: str) -> None:
    """Raise if the packages of a folder are not installed."""
    lock, stamp = HERE / folder / "package-lock.json", HERE / folder / "node_modules" / ".installed-lock.json"
    if not NODE.exists() or not stamp.exists() or not filecmp.cmp(lock, stamp, shallow=False):
        raise OracleError(
            f"the packages of {folder} are not installed, or are out of date: run tests/oracles/node/setup.sh"
        )


def _stream_job(job: StreamJob) -> Json:
    return {
        "provider": job.provider,
        "baseURL": job.base_url,
        "model": job.model,
        "tools": dict(job.tools),
        "settings": dict(job.settings),
    }


def _streamed(lines: list[Json]) -> Streamed:
    errors = [line["error"] for line in lines if "error" in line]
    return Streamed(parts=[line["part"] for line in lines if "part" in line], error=errors[0] if errors else None)


def _read_job(job: ReadJob) -> Json:
    return {"sse": job.sse, "reader": job.reader}


def _read(lines: list[Json]) -> Read:
    (line,) = lines
    return Read(
        message=line.get("message"),
        finish_reason=line.get("finishReason"),
        data=line.get("data", []),
        error=line.get("error"),
    )
