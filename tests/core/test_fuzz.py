"""The fuzz targets with a few inputs each, and the crashes that were found before. `make nightly` fuzzes at length."""

from __future__ import annotations

from fuzz import engine, report
from fuzz.engine import Crash, Limits, fuzz
from fuzz.targets import targets
from penstock.framing import PARSERS
from tests.support import run_streams as running
from tests.support.each_case import each

SEED, INPUTS = 20, 60


@each("name", targets())
def test_a_few_inputs_for_each_target(name: str) -> None:
    result = fuzz(targets()[name], Limits(inputs=INPUTS), SEED)
    assert {crash.signature: crash.traceback for crash in result.crashes.values()} == {}
    assert result.past > 0, "no input gets past the first checks"


def test_crashes_that_were_found_before() -> None:
    crashes = dict[str, str]()
    for case in sorted(path for path in report.CASES.glob("*/*") if path.is_file()):
        _, _, attempt = targets()[case.parent.name].load()
        with engine.cpu_clock():
            found = engine.attempt(attempt, case.read_bytes())
        if isinstance(found, Crash):
            crashes[f"{case.parent.name}/{case.name}"] = found.traceback
    assert crashes == {}


def test_every_protocol_and_framing_has_its_targets() -> None:
    wanted = {f"decode-{name}" for name in running.sources()} | {f"encode-{name}" for name in running.targets()}
    wanted |= {f"framing-{name}" for name in PARSERS}
    wanted |= {f"request-read-{name}" for name in ("openai-chat", "anthropic", "gemini", "responses", "ollama")}
    assert wanted - set(targets()) == set()
