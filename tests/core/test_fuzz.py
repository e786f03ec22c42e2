"""The fuzz targets with a few inputs each, the crashes that were found, and the machinery that finds them."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from fuzz import engine, report
from fuzz.engine import Crash, Limits, Result, fuzz
from fuzz.mutation import BytesMutator, JsonMutator
from fuzz.target import Target, Verdict, promise
from fuzz.targets import chosen, targets
from fuzz.workers import Workers
from penstock import _protocols as protocols
from penstock.framing import PARSERS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SEED = 20
CASES = sorted(path for path in report.CASES.glob("*/*") if path.is_file())


@pytest.mark.parametrize("name", targets())
def test_a_few_inputs(name: str) -> None:
    result = fuzz(targets()[name], Limits(inputs=200), SEED)
    found = {crash.signature: (crash.data[:2000], crash.traceback) for crash in result.crashes.values()}
    assert found == {}
    assert result.past > 0, "no input gets past the first checks"


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_crash_that_was_found_before(case: Path) -> None:
    _, _, check = targets()[case.parent.name].load()
    with engine.cpu_clock():
        found = engine.attempt(check, case.read_bytes())
    assert not isinstance(found, Crash), found.traceback


def test_every_protocol_and_framing_has_its_targets() -> None:
    names = set(targets())
    for name in protocols.MODULES:
        row = protocols.protocol(name)
        assert row.decoder is None or f"decode-{name}" in names
        assert row.encoder is None or f"encode-{name}" in names
    assert {f"framing-{name}" for name in PARSERS} <= names
    assert {f"request-read-{name}" for name in ("openai-chat", "anthropic", "gemini", "responses", "ollama")} <= names
    assert [target.name for target in chosen(["framing-n"])] == ["framing-ndjson"]
    with pytest.raises(SystemExit, match="no target begins with nothing-like-it"):
        chosen(["nothing-like-it"])


# ── the machinery ─────────────────────────────────────────────────────────────────────────────────


def made(check: Any, seeds: Sequence[bytes] = (b'{"a":{"b":[1,2]},"c":"x"}',), mutator: Any = None) -> Target:
    return Target("made-up", "always", lambda: (seeds, mutator or JsonMutator(seeds), check))


def test_the_same_seed_gives_the_same_inputs() -> None:
    runs: list[list[bytes]] = []
    for seed in (1, 1, 2):
        inputs: list[bytes] = []

        def check(data: bytes, inputs: list[bytes] = inputs) -> Verdict:
            inputs.append(data)
            return True, len(data)

        result = fuzz(made(check), Limits(inputs=300), seed)
        assert (result.inputs, result.past) == (300, 300)
        runs.append(inputs)
    assert runs[0] == runs[1] != runs[2]
    assert len(set(runs[0])) > 100


def test_a_crash_is_found_once_and_made_small() -> None:
    def check(data: bytes) -> Verdict:
        promise(b'"b"' in data, f"there is no b in {len(data)} bytes")
        return True, 0

    result = fuzz(made(check, [b'{"b":1,"text":"long enough"}\n{"x":[1,2,3],"b":2}']), Limits(inputs=300), 1)
    (crash,) = result.crashes.values()
    assert crash.count > 1
    assert crash.data == b""
    assert "there is no b" in crash.message


def test_what_is_left_of_a_crash_is_readable() -> None:
    def check(data: bytes) -> Verdict:
        promise(b"boom" not in data, "boom")
        return True, 0

    seed = b'{"keep":{"inner":"boom","other":5},"more":[1,2]}\n{"type":"second"}'
    found = engine.attempt(check, seed)
    assert isinstance(found, Crash)
    assert engine.minimised(check, found) == b'{"keep":{"inner":"boom"}}'


def test_an_input_that_takes_too_long_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CPU_LIMIT", 0.05)

    def check(data: bytes) -> Verdict:
        while data:
            pass
        return True, 0

    handler = signal.getsignal(signal.SIGVTALRM)
    with engine.cpu_clock():
        found = engine.attempt(check, b"x")
    assert isinstance(found, Crash)
    assert found.signature.startswith("TooSlow")
    assert signal.getsignal(signal.SIGVTALRM) is handler
    assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0


def test_it_goes_on_until_enough_inputs_are_past_the_checks() -> None:
    def check(data: bytes) -> Verdict:
        return len(data) % 3 == 0, len(data) % 7

    result = fuzz(made(check, [b"abc"], BytesMutator()), Limits(past=50), 1)
    assert result.past == 50
    assert result.inputs > 50


def test_targets_run_side_by_side_and_a_dead_process_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["think-tags", "picture-size", "http-packed-body"]
    workers = Workers(names, Limits(inputs=50), 1, count=2)
    assert {result.target: result.inputs for result in workers.run()} == dict.fromkeys(names, 50)

    def die(*_: object) -> None:
        raise SystemExit(3)

    monkeypatch.setattr("fuzz.workers.fuzz", die)
    (result,) = Workers(names[:1], Limits(inputs=50), 1, count=2).run()
    assert [crash.message for crash in result.crashes.values()] == ["exit code 3, after 0 inputs"]


def test_crashes_are_kept_and_figures_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "testing.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    for name, value in {"ROOT": tmp_path, "CRASHES": tmp_path / "crashes", "PAGE": page}.items():
        monkeypatch.setattr(report, name, value)
    crash = Crash("KeyError x.py:read", "KeyError: 'a'", b'{"a":1}', 3, "Traceback …")
    result = Result("keys-file", "the input is JSON", 1000, 900, crashes={crash.signature: crash})
    (path,) = report.save(result)
    assert path.read_bytes() == crash.data
    assert "KeyError: 'a'" in path.with_suffix(".txt").read_text()
    shown = report.advice(result.target, crash, path)
    assert "--target keys-file --replay crashes/keys-file/" in shown
    assert "tests/fuzz_cases/keys-file" in shown
    report.write([result, Result("tokens", "", 10, 5)], "make fuzz MINUTES=1", 1.2)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith(f"{report.END}\nafter\n")
    assert "| `keys-file` | 1,000 | 900 | 1 |" in text
    assert "| all | 1,010 | 905 | 1 |" in text
    assert "old" not in text
    page.write_text("nothing to fill in")
    with pytest.raises(SystemExit, match="are missing"):
        report.write([], "x", 1)
