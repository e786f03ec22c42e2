"""The extension without an editor: its own tests, types and lint, what is packed, and that it counts as Python does."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from penstock._messages.request_codecs import reader
from penstock._tokens.families import TEXT_FEATURES, count_text_features
from penstock._tokens.tool_rendering import render_tool
from penstock.request import Tool
from penstock.tokens import HybridTokenEstimator, TokenStore
from tests.surfaces.vscode.e2e import EXTENSION, HERE, ROOT, Gateway, alone, need_packages, node, script

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _packages() -> None:
    need_packages()


def test_its_own_tests_pass() -> None:
    script("--test", "--test-isolation=none", "--test-timeout=60000", "test/**/*.test.ts", limit=300.0)


def test_types_and_lint() -> None:
    script("node_modules/typescript/bin/tsc", "-p", ".")
    biome = EXTENSION / "node_modules/@biomejs/biome/bin/biome"
    for folder in (EXTENSION, HERE):
        script(biome, "check", "--error-on-warnings", ".", cwd=folder)
    example = (ROOT / "examples/vscode/ask.mts").read_text()
    command = [str(node()), str(biome), "check", "--write", "--stdin-file-path=src/ask.mts"]
    done = subprocess.run(command, cwd=EXTENSION, input=example, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == example


# ── counting ──────────────────────────────────────────────────────────────────────────────────────

COUNTING = """
import { counts, NAMES } from "./src/chat/classes.ts";
import { rendered } from "./src/chat/rendering.ts";
let text = "";
for await (const chunk of process.stdin) text += chunk;
const { texts = [], tools = [], how = [] } = JSON.parse(text);
const found = { names: NAMES, counts: texts.map((one) => [...counts(one)]) };
console.log(JSON.stringify({ ...found, tools: tools.map((tool) => how.map((way) => rendered(tool, way))) }));
"""
LETTERS = "aZé ñß Ωж ש ت क ก \u2019— あ漢字 한 \uff46 🌊🏞 \t\n\r\n09.,;(){}  _ÀÉ"


QUICK = (Phase.explicit, Phase.reuse, Phase.generate)  # each example is a process: none is made smaller


def run(code: str, given: object) -> Any:
    """What a script in the extension's folder makes of a value."""
    command = [node(), "--input-type=module-typescript", "--no-warnings", "-e", code]
    done = subprocess.run(
        command, cwd=EXTENSION, input=json.dumps(given), capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(done.stdout)


@settings(max_examples=5, phases=QUICK)
@given(st.lists(st.one_of(st.text(st.sampled_from(LETTERS), max_size=60), st.text(max_size=40)), min_size=100))
def test_counts_are_the_same_as_in_python(texts: list[str]) -> None:
    found = run(COUNTING, {"texts": texts})
    assert tuple(found["names"]) == TEXT_FEATURES
    for text, theirs in zip(texts, found["counts"], strict=True):
        ours = count_text_features(text)
        assert theirs == [*ours, *[0] * (len(TEXT_FEATURES) - len(ours))], repr(text)


WORDS = st.text('abc "\\\n✓', max_size=8)
NAMES = st.text("abc_", min_size=1, max_size=6)
FLAT = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "number", "boolean", "", ["string", "null"]])},
    optional={
        "description": WORDS, "format": WORDS, "title": WORDS, "default": WORDS | st.integers(-9999, 9999), "minLength": st.just(3),
        "enum": st.lists(WORDS | st.integers(-9999, 9999), max_size=3),
    },
)  # fmt: skip
SCHEMAS = st.recursive(
    FLAT,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda rows, word: {word: rows}, st.lists(inner, max_size=3), st.sampled_from(["anyOf", "allOf"])),
        st.builds(
            lambda rows, needed: {"type": "object", "properties": rows, "required": needed[:2]},
            st.dictionaries(NAMES, inner, max_size=4), st.lists(NAMES, max_size=3),
        ),
    ),
    max_leaves=12,
)  # fmt: skip
HOW: tuple[Any, ...] = ("json", "spaced", "typescript", "words", "declared")


@settings(max_examples=5, phases=QUICK)
@given(st.lists(st.tuples(NAMES, WORDS, SCHEMAS), min_size=30, max_size=60))
def test_tools_are_rendered_as_in_python(rows: list[tuple[str, str, dict[str, Any]]]) -> None:
    tools = [{"name": name, "description": about, "inputSchema": schema} for name, about, schema in rows]
    theirs = run(COUNTING, {"tools": tools, "how": HOW})["tools"]
    ours = [[render_tool(Tool(*row), how) for how in HOW] for row in rows]
    assert theirs == ours


TURN = """
import { Counter } from "./src/chat/counting.ts";
let text = "";
for await (const chunk of process.stdin) text += chunk;
const { models, tools, messages } = JSON.parse(text);
class Part {}
const host = { Text: Part, Call: Part, Result: Part, Data: Part };
const strings = (value) => typeof value !== "object" ? [String(value)]
  : Object.entries(value).flatMap(([key, inner]) => Array.isArray(value) ? strings(inner) : [key, ...strings(inner)]);
const asked = tools.flatMap(strings);
const found = models.map(({ id, counting }) => {
  const counter = new Counter(counting);
  const began = process.cpuUsage();
  let sum = 0;
  for (let call = 0; call < 5000; call++) sum += counter.text(asked[call % asked.length]);
  const { user } = process.cpuUsage(began);
  return { id, sum, milliseconds: user / 1000, prompt: counter.prompt(messages, tools, host) };
});
console.log(JSON.stringify({ asked: asked.length, found }));
"""
MODELS = {
    "anthropic": "claude-sonnet-4-5", "openai": "gpt-5.2", "gemini": "gemini-2.5-pro", "mistral": "mistral-large-latest",
    "deepseek": "deepseek-chat", "cohere": "command-a-03-2025",
}  # fmt: skip


def fifty_tools() -> list[dict[str, Any]]:
    def field(number: int, place: int) -> dict[str, str]:
        about = f"The level of gate {place} of station {number}, in metres above the sill; optional."
        return {"type": "string" if place % 2 else "number", "description": about}

    return [
        {
            "name": f"read_gauge_{number}",
            "description": f"Reads what station {number} measures; for questions about levels, or before a gate is moved.",
            "inputSchema": {
                "type": "object", "required": ["gate_0"],
                "properties": {f"gate_{place}": field(number, place) for place in range(6)},
            },
        }
        for number in range(50)
    ]  # fmt: skip


TALK = [
    {"role": 3, "content": [{"value": "You keep the log of a power station, and answer in few words. " * 40}]},
    {"role": 1, "content": [{"value": "How high is the water at the upper gate, and is that usual for November?"}]},
    {"role": 2, "content": [{"callId": "gw-1", "name": "read_gauge_1", "input": {"gate_0": 3, "gate_1": "upper"}}]},
    {"role": 1, "content": [{"callId": "gw-1", "content": [{"value": "3.2 m above the sill, at 06:10."}]}]},
]


def teach(path: Path, provider: str, model: str) -> TokenStore:
    """A store in which a model counts far more than is estimated."""
    path.parent.mkdir()
    store = TokenStore(path)
    estimator = HybridTokenEstimator(learned=store.factors)
    asked = reader("vscode")({"messages": TALK})
    for _ in range(12):
        estimator.calibrate(asked, 1_500, model, provider)
    return store


def test_a_turn_with_fifty_tools_is_counted_in_no_time_as_the_gateway_does(
    tmp_path: Path, record_property: Any
) -> None:
    """Time of the processor, not of the clock: the machine may be busy with other tests. One factor was learned."""
    store = teach(tmp_path / "penstock/tokens.sqlite", "openai", MODELS["openai"])
    rows = [f'[providers.{name}]\nkey = "x"\nmodels = ["{model}"]\n' for name, model in MODELS.items()]
    tools = fifty_tools()
    with Gateway(tmp_path, config="".join(rows)) as gateway:
        models = [model for model in gateway.ask("/vscode/models")["models"] if not model.get("played")]
    assert len(models) == len(MODELS)
    learned = {model["id"]: model["counting"]["factor"] for model in models}
    assert learned.pop(f"openai/{MODELS['openai']}") > 1.2
    assert set(learned.values()) == {1}
    told = run(TURN, {"models": models, "tools": tools, "messages": TALK})
    assert told["asked"] > 1_000, "more strings than a cache of one or two would hold"
    estimator = HybridTokenEstimator(learned=store.factors)
    for row in told["found"]:
        provider, _, model = row["id"].partition("/")
        asked = reader("vscode")({"messages": TALK, "tools": tools})
        theirs = estimator.estimate_conversation(asked, model, provider).tokens
        assert abs(row["prompt"] / theirs - 1) < 0.02, row["id"]
        assert row["milliseconds"] < 100
    worst = max(row["milliseconds"] for row in told["found"])
    record_property("table", f"vscode: 5,000 counts of 50 tools in {worst:.1f} ms of processor time at most")


# ── what is packed ────────────────────────────────────────────────────────────────────────────────

PACKED = [
    r"extension/LICENSE\.txt", r"extension/bundle/penstock-[^/]*\.whl", r"extension/bundle/runtime\.lock",
    r"extension/changelog\.md", r"extension/media/penstock\.svg",
    r"extension/dist/extension\.cjs", r"extension/media/icon\.png", r"extension/media/launch\.py",
    r"extension/media/walkthrough/[a-z]+\.md", r"extension/package\.json", r"extension/readme\.md",
]  # fmt: skip


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
    assert manifest["engines"]["vscode"] == "^1.108.0"
    assert "dependencies" not in manifest
    assert str(ROOT) not in code
    wheel = next(name for name in names if name.endswith(".whl"))
    assert wheel.split("-")[1] == manifest["version"], "the extension and its wheel go together"


def test_gated_fields_are_never_named() -> None:
    """A real build refuses the whole list for one of them; code-server, where the tests run, does not."""
    for file in (EXTENSION / "src").rglob("*.ts"):
        assert not re.search(r"(editTools|isDefault|requiresAuthorization)\s*:", file.read_text()), file.name


def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EXTENSION / "package.json").read_text())
    return found


OUTSIDE_WORKSPACES = {"machine", "application"}  # scopes that no workspace can set
# Settings that an untrusted workspace may set. Each entry says why that sends nothing.
HARMLESS = {
    "penstock.reasoning": "changes how thinking is shown",
    "penstock.completions.exclude": "values of a workspace only add patterns (vscode/src/policy.ts)",
}


def test_an_untrusted_workspace_sets_only_what_is_harmless() -> None:
    """A new setting fails here until it has a scope, a restriction or a reason."""
    properties = manifest()["contributes"]["configuration"]["properties"]
    restricted = set(manifest()["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"])
    outside = {name for name, row in properties.items() if row.get("scope") in OUTSIDE_WORKSPACES}
    assert set(properties) == outside | restricted | set(HARMLESS)
    assert restricted.isdisjoint(HARMLESS)
    assert outside.isdisjoint(HARMLESS)
    policy = (EXTENSION / "src/policy.ts").read_text()
    named = re.search(r"HARMLESS[^=]*= new Set\(\[([^\]]*)\]\)", policy)
    assert named is not None
    assert {f"penstock.{name}" for name in re.findall(r'"([^"]+)"', named[1])} == set(HARMLESS)


def test_where_requests_go_and_what_is_run_is_never_a_workspaces() -> None:
    properties = manifest()["contributes"]["configuration"]["properties"]
    gateway = {name for name in properties if name.startswith("penstock.gateway.")}
    assert {name for name, row in properties.items() if row.get("scope") in OUTSIDE_WORKSPACES} >= gateway
    assert properties["penstock.python"]["scope"] == "machine-overridable"
    # Without a scope a setting is the window's: the folders of a workspace file cannot set it one by one.
    scopes = {row.get("scope", "window") for row in properties.values()}
    assert scopes <= {*OUTSIDE_WORKSPACES, "machine-overridable", "window"}


def test_settings_are_read_in_one_place() -> None:
    """Whatever else read them could count values of an untrusted workspace."""
    for file in (EXTENSION / "src").rglob("*.ts"):
        readers = re.findall(r"getConfiguration\((\w*|\"\w+\")\)[^;]*", file.read_text())
        assert set(readers) <= ({"SECTION"} if file.name in {"settings.ts", "commands.ts"} else {'"chat"'}), file.name
    commands = (EXTENSION / "src/commands.ts").read_text()
    assert "from.get" not in commands
    assert ").get" not in re.sub(r"\s", "", commands.replace("getExtension", ""))


def test_completions_and_commit_messages_are_off_by_default() -> None:
    contributes = json.loads((EXTENSION / "package.json").read_text())["contributes"]
    properties = contributes["configuration"]["properties"]
    switches = {name: row["default"] for name, row in properties.items() if name.endswith(".enabled")}
    assert switches == {"penstock.completions.enabled": False, "penstock.commitMessage.enabled": False}
    shown = [row["when"] for rows in contributes["menus"].values() for row in rows if "Commit" in row["command"]]
    assert all("config.penstock.commitMessage.enabled" in when for when in shown)


def test_the_examples_name_settings_and_vendors_that_exist() -> None:
    contributes = json.loads((EXTENSION / "package.json").read_text())["contributes"]
    examples = ROOT / "examples/vscode"
    given, groups = (
        json.loads(re.sub(r"^\s*//.*", "", (examples / name).read_text(), flags=re.MULTILINE))
        for name in ("settings.json", "chatLanguageModels.json")
    )
    properties = contributes["configuration"]["properties"]
    assert [name for name in given if name.startswith("penstock.") and name not in properties] == []
    vendors = {row["vendor"]: row for row in contributes["languageModelChatProviders"]}
    for group in groups:
        wanted = vendors[group["vendor"]]["configuration"]
        assert set(wanted["required"]) <= set(group) - {"name", "vendor"} <= set(wanted["properties"])
    assert "configuration" not in vendors["penstock"], "a host would not find what is chosen for its models"
