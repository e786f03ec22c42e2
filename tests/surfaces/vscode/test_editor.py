"""The extension in a real VS Code, against a real gateway that plays its packaged streams."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.testing import Reply, scripted
from tests.surfaces.vscode.e2e import Control, Editor, Gateway, Server, alone, need_editor, script
from tests.surfaces.vscode.newer_gateway import Later
from tests.surfaces.vscode.signed_upstream import Provider, insisting, said
from tests.surfaces.vscode.standalone import built
from tools.vscode_pack import GATEWAY, add_gateway, bundle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import ReceivedRequest, Upstream

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(autouse=True)
def _built() -> Iterator[None]:
    need_editor()
    with alone():
        script("tools/build.mjs", "--tests")
        yield


def settings(gateway: Gateway) -> dict[str, Any]:
    return {"penstock.gateway.url": gateway.url, "penstock.models.replay": True, "telemetry.telemetryLevel": "off"}


CONFIG = """
[features]
context_management = true
[providers.anthropic]
base_url = "{url}"
models = ["claude-{words}"]
[providers.tiny]
like = "openai"
base_url = "{url}/v1"
key = "made-up"
models = ["gpt-4", "gpt-5.2"]
fields = {{ has = ["chat"] }}
[providers.panel]
like = "openai-compatible"
base_url = "{url}"
models = ["files"]
fields = {{ has = ["chat"], endpoints = {{ chat = {{ path = "/panel", protocol = "uistream" }} }} }}
"""
WORDS = ("script", "slow", "bad", "limited", "never", "locked", "words", "twice")


def config(upstream: Upstream, *more: str) -> str:
    return CONFIG.format(url=upstream.url, words='", "claude-'.join([*WORDS, *more]))


def closed(upstream: Upstream) -> int:
    """How many requests were left by those who asked; some time is given for the first."""
    deadline = time.monotonic() + 10
    while not (gone := sum(seen.disconnected.is_set() for seen in upstream.requests)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return gone


def looking_at(upstream: Upstream) -> dict[str, Any]:
    return {
        "closed": lambda _: closed(upstream),
        "asked": lambda _: len(upstream.requests),
        "last": lambda _: upstream.requests[-1].body.decode(),
        "bodies": lambda _: [seen.body.decode() for seen in upstream.requests],
    }


def right(found: dict[str, str], *, least: int) -> None:
    wrong = [f"{name}: {error[:500]}" for name, error in found.items() if error]
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)
    assert len(found) >= least


def test_every_part_kind_reaches_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packaged streams and a provider that insists, through a gateway that is killed, restarted and told of more."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "made-up")
    with scripted(Provider()) as upstream, Gateway(tmp_path, config=config(upstream)) as gateway:

        def count(body: Any) -> int:
            return sum(gateway.ask("/vscode/count", body)["counts"])

        def restart(_: Any) -> None:
            gateway.stop()
            gateway.start()

        commands: dict[str, Any] = {
            **looking_at(upstream), "count": count, "restart": restart,
            "kill": lambda _: gateway.stop(signal.SIGKILL), "start": lambda _: gateway.start(),
            "more": lambda _: gateway.configure(config(upstream, "new")),
        }  # fmt: skip
        with Control(commands) as control:
            editor = Editor(tmp_path, settings(gateway))
            right(editor.suites(["parts", "first", "second", "limits"], control), least=33)


def test_the_extension_starts_its_own_gateway(tmp_path: Path) -> None:
    """The wheel in the bundle says which version it may start; the interpreter that runs the tests has just that.

    Its key is another one after every start; whose state it is stays the same.
    """
    bundle()
    env = {"PENSTOCK_DATA": str(tmp_path / "penstock"), "PATH": "/usr/bin", "ANTHROPIC_API_KEY": ""}
    editor = Editor(tmp_path, {"penstock.python": sys.executable, "penstock.models.replay": True}, env)
    pids: list[int] = []
    keys: set[str] = set()
    state = tmp_path / "data/User/globalStorage/penstock.penstock"

    def machine(values: dict[str, Any]) -> None:
        file = tmp_path / "data/Machine/settings.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | values))

    def running(_: Any) -> dict[str, Any]:
        row: dict[str, Any] = json.loads((state / "gateway.json").read_text())
        if row["pid"] not in pids:
            pids.append(row["pid"])
        keys.add(row["key"])
        return row | {"windows": len(list((state / "windows").iterdir()))}

    with scripted(Provider()) as upstream, socket.create_server(("127.0.0.1", 0)) as taken:
        file = tmp_path / "own.toml"
        key = 'models = ["claude-script"'
        file.write_text(config(upstream).replace(key, f'key = "made-up"\n{key}'))
        commands = {
            **looking_at(upstream), "machine": machine, "running": running, "config": lambda _: str(file),
            "log": lambda _: (state / "gateway.log").read_text(),
            "taken": lambda _: taken.getsockname()[1], "restart": lambda _: ended(running(None)["pid"], signal.SIGTERM),
        }  # fmt: skip
        with Control(commands) as control:
            right(editor.suites(["own", "first", "second"], control), least=20)
    assert len(keys) == len(pids) >= 5
    for pid in pids:
        ended(pid)


def test_a_package_for_one_platform_needs_nothing(tmp_path: Path) -> None:
    """No Python and no uv on the PATH, no network but loopback: the gateway inside the extension is started, and stops."""
    env = {
        "PATH": str(tmp_path / "nowhere"), "VSCODE_CLI": "1", "PENSTOCK_DATA": str(tmp_path / "penstock"),
        "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1",
    }  # fmt: skip
    state = tmp_path / "data/User/globalStorage/penstock.penstock"
    pids: set[int] = set()

    def running(_: Any) -> dict[str, Any]:
        row: dict[str, Any] = json.loads((state / "gateway.json").read_text())
        pids.add(row["pid"])
        words = Path(f"/proc/{row['pid']}/cmdline").read_text().replace("\0", " ")
        return row | {"command": words}

    def gone(pid: int) -> bool:
        ended(pid)
        return True

    gateway = built()
    bundle()
    add_gateway(gateway)
    waits = tmp_path / "waits"
    waits.touch()
    slow_down(GATEWAY / "penstock", waits)
    try:
        with scripted(Provider()) as upstream:
            file = tmp_path / "own.toml"
            key = 'models = ["claude-script"'
            file.write_text(config(upstream).replace(key, f'key = "made-up"\n{key}'))
            editor = Editor(tmp_path, {"penstock.gateway.config": str(file)}, env)
            commands = {**looking_at(upstream), "running": running, "ended": gone, "go": lambda _: waits.unlink()}
            with Control(commands) as control:
                right(editor.suites(["bundled"], control), least=4)
        assert len(pids) == 3
        for pid in pids:
            ended(pid)
        assert not list(state.glob("environment-*"))
    finally:
        shutil.rmtree(GATEWAY)


def slow_down(executable: Path, while_there: Path) -> None:
    """Puts a script before an executable that waits as long as a file is there."""
    real = executable.rename(executable.with_name("penstock-itself"))
    executable.write_text(f'#!/bin/sh\nwhile [ -e "{while_there}" ]; do /bin/sleep 0.2; done\nexec "{real}" "$@"\n')
    executable.chmod(0o755)


def ended(pid: int, by: signal.Signals | None = None) -> None:
    """The windows are gone: so is their gateway, soon; or it was told to."""
    if by is not None:
        os.kill(pid, by)
    deadline = time.monotonic() + 60
    while lives(pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not lives(pid)


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


MANY = """
[providers.mistral]
base_url = "{url}"
key = "made-up"
models = ["codestral-latest"]
[providers.many]
like = "openai"
base_url = "{url}"
key = "made-up"
models = ["gpt-4", "{models}"]
"""
FILLED = {
    "id": "f1", "object": "chat.completion", "created": 1, "model": "codestral-latest",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "42 cm high"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
}  # fmt: skip


def filling(seen: ReceivedRequest) -> Reply:
    """One of the models takes its time."""
    if not seen.body:
        return Reply.body({"data": []})
    slow = seen.json["model"] == "delta-7"
    return said("openai-chat", "drop by drop " * 200).slow(0.05) if slow else Reply.body(FILLED)


def test_many_models_further_gateways_keys_and_what_is_off_by_default(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    names = '", "'.join(f"delta-{number}" for number in range(300))
    with (
        scripted(filling) as upstream,
        Gateway(tmp_path, config=MANY.format(url=upstream.url, models=names), key="the-right-key") as gateway,
        Gateway(tmp_path / "other") as other,
        Server(Later) as later,
    ):
        commit = {"penstock.commitMessage.enabled": True, "penstock.commitMessage.model": "replay/text"}
        editor = Editor(tmp_path, {**settings(gateway), **commit})
        groups = tmp_path / "data/User/chatLanguageModels.json"
        groups.parent.mkdir(parents=True)
        rows = [
            {"name": name, "vendor": "penstock-gateway", "url": row.url}
            for name, row in (("Other", other), ("L", later))
        ]
        groups.write_text(json.dumps(rows))
        hosts = [row.url.removeprefix("http://") for row in (other, later)]
        commands: dict[str, Any] = {
            **looking_at(upstream), "hosts": lambda _: hosts, "away": lambda _: other.stop(), "back": lambda _: other.start(),
        }  # fmt: skip
        with Control(commands) as control:
            right(editor.suites(["keys", "extras"], control), least=13)
    assert [notice for notice in editor.notices if "Set Key" in notice]


SIZES = """
[providers.mine]
like = "openai-compatible"
base_url = "{url}"
key = "made-up"
[providers.mine.models.tide]
name = "Tide"
context = 50_000
max_output = 8_000
[providers.mine.models.strict]
context = 50_000
max_output = 8_000
[providers.mine.models.heavy]
context = 50_000
[providers.mine.models.unknown]
[providers.anthropic]
base_url = "{url}"
key = "made-up"
models = ["claude-sonnet-4-5"]
"""
TOO_LONG = "This model's maximum context length is 42000 tokens. However, your messages resulted in 61000 tokens."


def counting(seen: ReceivedRequest) -> Reply:
    """Usage that no estimate would guess. What comes after the first answer is slow: its size is looked at meanwhile."""
    if not seen.body:
        return Reply.body({"data": []})  # the list of its models has none: the configuration names them
    body = seen.json
    if seen.path.endswith("/messages"):
        return insisting(body, 3_000).slow(0.2)
    if body["model"] == "strict":
        return Reply.error("openai-chat", 400, TOO_LONG)
    long = len(seen.body) > 100_000
    first = len(body["messages"]) == 1 and not long
    if body["model"] == "heavy":  # twice what is estimated for the prompt of the test
        return said("openai-chat", "Understood.")
    usage = ev.Usage(input=1_700, output=40) if first else ev.Usage(input=61_000 if long else 2_500, output=60)
    words: list[ev.AnyEvent] = [ev.TextDelta(0, word) for word in ["Understood.", *[" So."] * 60]]
    events = [ev.Start("m", "tide"), ev.TextStart(0), *words, ev.TextEnd(0), usage, ev.Finish("stop")]
    return Reply.of("openai-chat", events) if first else Reply.of("openai-chat", events).slow(0.05)


def test_prompts_are_counted_by_earlier_usage_and_never_refused(tmp_path: Path) -> None:
    with scripted(counting) as upstream, Gateway(tmp_path, config=SIZES.format(url=upstream.url)) as gateway:

        def known(body: Any) -> bool:
            """Whether the usage of this prompt is stored."""
            found = gateway.ask("/vscode/count", body)
            return bool(found["prompt"]["method"] == "actual")

        def restart(_: Any) -> None:
            gateway.stop()
            gateway.start()

        def count(body: Any) -> int:
            return sum(gateway.ask("/vscode/count", body)["counts"])

        asked = {"asked": lambda _: sum(bool(seen.body) for seen in upstream.requests)}
        with Control({**asked, "known": known, "count": count, "restart": restart}) as control:
            right(Editor(tmp_path, settings(gateway)).suites(["sizes"], control), least=7)


FILLING = """
[providers.mistral]
base_url = "{url}"
key = "made-up"
models = ["codestral-latest", "evil-1"]
"""


def test_completions_are_asked_for_by_allowed_documents_only(tmp_path: Path) -> None:
    with scripted(filling) as upstream, Gateway(tmp_path, config=FILLING.format(url=upstream.url)) as gateway:
        editor = Editor(tmp_path, settings(gateway))
        with Control(looking_at(upstream)) as control:
            right(editor.suites(["privacy"], control), least=10)


STRANGE = """
[providers.mistral]
base_url = "{url}"
key = "made-up"
[providers.mistral.models.codestral-latest]
[providers.mistral.models.evil-1]
fim = true
"""
# What a stranger's folder would set: everything on, every request to a model of the stranger's choice.
EVIL = {
    "penstock.completions.enabled": True, "penstock.completions.model": "mistral/evil-1",
    "penstock.completions.delay": 0, "penstock.commitMessage.enabled": True,
    "penstock.commitMessage.model": "mistral/evil-1", "penstock.models.utility": "mistral/evil-1",
    "penstock.models.show": ["mistral/evil-1"], "penstock.models.assumedContext": 7, "penstock.python": "/evil/python",
    "penstock.gateway.url": "http://127.0.0.1:9", "penstock.gateway.arguments": ["--evil"],
    "penstock.gateway.config": "/evil/penstock.toml",
}  # fmt: skip


def test_an_untrusted_workspace_switches_nothing_on(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    (folder / ".vscode").mkdir(parents=True)
    (folder / ".vscode/settings.json").write_text(json.dumps(EVIL))
    file = tmp_path / "evil.code-workspace"
    file.write_text(json.dumps({"folders": [{"path": str(folder)}], "settings": EVIL}))
    with scripted(filling) as upstream, Gateway(tmp_path, config=STRANGE.format(url=upstream.url)) as gateway:
        editor = Editor(tmp_path, {**settings(gateway), "security.workspace.trust.startupPrompt": "never"}, trust=True)
        editor.opened = {"untrustedFile": str(file)}

        def bodies(_: Any) -> list[str]:  # the gateway also asks for the list of models
            return [seen.body.decode() for seen in upstream.requests if seen.body]

        commands = {"asked": lambda _: len(bodies(_)), "last": lambda _: bodies(_)[-1], "bodies": bodies}
        with Control(commands) as control:
            right(editor.suites(["untrustedFile", "untrusted"], control), least=3)


def test_where_nothing_can_start_it_says_so(tmp_path: Path) -> None:
    bundle()
    # As if it was started from a terminal: else the editor asks a login shell for a PATH, and finds more than it should.
    editor = Editor(tmp_path, {}, {"PATH": str(tmp_path / "nowhere"), "VSCODE_CLI": "1"})
    with Control({}) as control:
        right(editor.suites(["nothing"], control), least=4)
    found = [notice for notice in editor.notices if "no Python was found" in notice]
    # It is looked at many times, also while its buttons are being drawn: only its sentence is the same each time.
    assert len({notice[notice.index("The gateway") :].partition("\n")[0] for notice in found}) == 1, editor.notices
    assert any("Show How" in notice for notice in found)
