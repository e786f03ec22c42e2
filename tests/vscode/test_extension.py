"""The extension without an editor: its own tests, types and lint, what is packed, and that it counts as Python does."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.tokens.classes import COUNTS, counts
from tests.vscode.e2e import EXTENSION, HERE, ROOT, alone, need_packages, node, script
from tests.vscode.signed import insisting

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.node


@pytest.fixture(autouse=True)
def _packages() -> None:
    need_packages()


@pytest.mark.slow
@pytest.mark.row("G2", "S3", "S4", "R3", "L5", "L6", "K1")
def test_its_own_tests_pass() -> None:
    script("--test", "--test-isolation=none", "--test-timeout=60000", "test/**/*.test.ts", limit=300.0)


@pytest.mark.slow
def test_types_and_lint() -> None:
    script("node_modules/typescript/bin/tsc", "-p", ".")
    biome = EXTENSION / "node_modules/@biomejs/biome/bin/biome"
    for folder in (EXTENSION, HERE):
        script(biome, "check", "--error-on-warnings", ".", cwd=folder)


# ── counting ──────────────────────────────────────────────────────────────────────────────────────

COUNTING = """
import { counts, NAMES } from "./src/chat/classes.ts";
let text = "";
for await (const chunk of process.stdin) text += chunk;
console.log(JSON.stringify({ names: NAMES, counts: JSON.parse(text).map((one) => [...counts(one)]) }));
"""
LETTERS = "aZé ñß Ωж ש ت क ก \u2019— あ漢字 한 \uff46 🌊🏞 \t\n\r\n09.,;(){}  _ÀÉ"


def counted(texts: list[str]) -> dict[str, Any]:
    command = [node(), "--input-type=module-typescript", "--no-warnings", "-e", COUNTING]
    done = subprocess.run(
        command, cwd=EXTENSION, input=json.dumps(texts), capture_output=True, text=True, timeout=60, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@settings(max_examples=5)
@given(st.lists(st.one_of(st.text(st.sampled_from(LETTERS), max_size=60), st.text(max_size=40)), min_size=100))
def test_counts_are_the_same_as_in_python(texts: list[str]) -> None:
    found = counted(texts)
    assert tuple(found["names"]) == COUNTS
    for text, theirs in zip(texts, found["counts"], strict=True):
        ours = counts(text)
        assert theirs == [*ours, *[0] * (len(COUNTS) - len(ours))], repr(text)


SPEED = """
import { Counter } from "./src/chat/counting.ts";
const factors = { words: 0.87, humps: 1.2, fives: 0.3, marks: 0.14, clusters: 0.6, numbers: 1.4, digits: 0.1 };
const counter = new Counter({ factors, message: 4 });
const tools = Array.from({ length: 50 }, (_, tool) => Array.from({ length: 25 }, (_, key) =>
  key % 2 ? `property_${tool}_${key}` : `The level of gate ${key} of station ${tool}, in metres above the sill; optional.`));
const began = process.cpuUsage();
let sum = 0;
for (let pass = 0; pass < 4; pass++) for (const text of tools.flat()) sum += counter.text(text);
console.log(JSON.stringify({ calls: 4 * tools.flat().length, milliseconds: process.cpuUsage(began).user / 1000, sum }));
"""


@pytest.mark.slow
def test_a_turn_with_fifty_tools_is_counted_in_no_time(record_property: Any) -> None:
    """Time of the processor, not of the clock: the machine may be busy with other tests."""
    done = subprocess.run(
        [node(), "--input-type=module-typescript", "--no-warnings", "-e", SPEED],
        cwd=EXTENSION, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    record_property("table", f"vscode: {found['calls']} counts in {found['milliseconds']:.1f} ms of processor time")
    assert found["calls"] == 5_000
    assert found["milliseconds"] < 100
    assert found["sum"] > 0


# ── what is packed ────────────────────────────────────────────────────────────────────────────────

PACKED = [
    r"extension/LICENSE\.txt", r"extension/bundle/penstock-[^/]*\.whl", r"extension/bundle/serve\.lock",
    r"extension/dist/extension\.cjs", r"extension/media/icon\.png", r"extension/media/launch\.py",
    r"extension/media/walkthrough/[a-z]+\.md", r"extension/package\.json", r"extension/readme\.md",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.row("G2")
def test_the_package_holds_what_it_needs_and_nothing_else(tmp_path: Path) -> None:
    from tools.vscode_pack import pack

    vsix = tmp_path / "penstock.vsix"
    with alone():
        pack(vsix)
    with zipfile.ZipFile(vsix) as archive:
        names = [name for name in archive.namelist() if name.startswith("extension/")]
        manifest = json.loads(archive.read("extension/package.json"))
        code = archive.read("extension/dist/extension.cjs").decode()
    assert [name for name in names if not any(re.fullmatch(row, name) for row in PACKED)] == []
    assert [row for row in PACKED if not any(re.fullmatch(row, name) for name in names)] == []
    assert "enabledApiProposals" not in manifest
    assert "dependencies" not in manifest
    assert str(ROOT) not in code
    wheel = next(name for name in names if name.endswith(".whl"))
    assert wheel.split("-")[1] == manifest["version"], "the extension and its wheel go together"


def test_gated_fields_are_never_named() -> None:
    """A real build refuses the whole list for one of them; code-server, where the tests run, does not."""
    for file in (EXTENSION / "src").rglob("*.ts"):
        assert not re.search(r"(editTools|isDefault|requiresAuthorization)\s*:", file.read_text()), file.name


def test_settings_that_decide_what_is_run_or_asked_are_not_a_workspaces() -> None:
    properties = json.loads((EXTENSION / "package.json").read_text())["contributes"]["configuration"]["properties"]
    assert {name for name, row in properties.items() if row.get("scope") == "machine"} == {
        "penstock.gateway.url", "penstock.gateway.start", "penstock.gateway.config", "penstock.gateway.arguments",
    }  # fmt: skip
    assert properties["penstock.python"]["scope"] == "machine-overridable"


def test_the_scripted_provider_insists() -> None:
    """The test of reasoning state stands on this refusal."""
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "x", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "y"}]}
    thought = {"type": "thinking", "thinking": "", "signature": "sig_1"}
    assert insisting({"messages": [call, result]}).status == 400
    signed = {**call, "content": [thought, *call["content"]]}
    assert insisting({"messages": [signed, result]}).status == 200
