"""Providers and their keys in a real VS Code: added, changed and removed by hand, and written nowhere."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from penstock import events as ev
from penstock._providers.registry import COMPATIBLE
from penstock.providers import providers
from penstock.testing import Reply, scripted
from tests.surfaces.vscode.e2e import EXTENSION, Control, Editor, alone, need_editor, script
from tests.surfaces.vscode.test_editor import right
from tools.vscode_pack import bundle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import ReceivedRequest

FIRST, SECOND, WRONG = "planted-first-key-1234", "planted-second-key-5678", "planted-wrong-key-9012"
PLANTED = (b"planted-first", b"planted-second", b"planted-wrong")  # processes of other tests have other keys
EVENTS: list[ev.AnyEvent] = [
    ev.Start("m", "tide"), ev.TextStart(0), ev.TextDelta(0, "Understood."), ev.TextEnd(0),
    ev.Usage(input=9, output=2), ev.Finish("stop"),
]  # fmt: skip


def answer(seen: ReceivedRequest) -> Reply:
    """A provider that checks its key, and repeats a wrong one in its error."""
    sent = seen.headers.get("authorization", "").removeprefix("Bearer ")
    if sent not in {FIRST, SECOND}:
        return Reply.error("openai-chat", 401, f"Incorrect API key provided: {sent}")
    if not seen.body:
        return Reply.body({"data": [{"id": "tide-1"}, {"id": "tide-2"}]})
    return Reply.of("openai-chat", EVENTS)


def leaks(folder: Path) -> list[str]:
    """Where a key is that should not be: files of the editor and the gateway, and what the system shows of processes."""
    files = [Path(place, name) for place, _, names in os.walk(folder) for name in names]
    processes = [one / name for one in Path("/proc").iterdir() if one.name.isdigit() for name in ("cmdline", "environ")]
    assert len(files) > 10
    return [str(file) for file in (*files, *processes) if any(key in _read(file) for key in PLANTED)]


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # a process that ended, or that is not ours
        return b""


@pytest.fixture
def _built() -> Iterator[None]:
    need_editor()
    with alone():
        script("tools/build.mjs", "--tests")
        yield


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("_built")
def test_providers_are_added_changed_and_removed_in_the_editor(tmp_path: Path) -> None:
    bundle()
    state = tmp_path / "data/User/globalStorage/penstock.penstock"
    file = tmp_path / "own.toml"
    file.write_text("")
    with scripted(answer) as upstream:
        env = {
            "PENSTOCK_DATA": str(tmp_path / "penstock"), "PATH": "/usr/bin", "DATABRICKS_HOST": upstream.url,
            **{name: "" for row in providers().values() for name in row.env},
        }  # fmt: skip
        editor = Editor(tmp_path, {"penstock.python": sys.executable, "penstock.gateway.config": str(file)}, env)

        def sent(_: Any) -> str:
            keys = {seen.headers["authorization"].removeprefix("Bearer ") for seen in upstream.requests if seen.body}
            assert len(keys) == 1
            return keys.pop()

        commands: dict[str, Any] = {
            "keys": lambda _: {"url": f"{upstream.url}/v1", "first": FIRST, "second": SECOND, "wrong": WRONG},
            "forget": lambda _: upstream.requests.clear(),
            "sent": sent,
            "leaks": lambda _: leaks(tmp_path),
            "configure": file.write_text,
            "running": lambda _: json.loads((state / "gateway.json").read_text()),
        }
        with Control(commands) as control:
            right(editor.suites(["providers"], control), least=8)
    assert leaks(tmp_path) == []


def test_the_native_configuration_offers_every_provider() -> None:
    """`Add Models` of VS Code has the providers of the table, by their names, sorted."""
    contributes = json.loads((EXTENSION / "package.json").read_text())["contributes"]
    vendor = next(row for row in contributes["languageModelChatProviders"] if row["vendor"] == "penstock-provider")
    properties = vendor["configuration"]["properties"]
    rows = sorted(
        (row for row in providers().values() if row.engine == "native" and row.name != COMPATIBLE),
        key=lambda row: row.title.lower(),
    )
    assert properties["provider"]["enum"] == [row.name for row in rows]
    assert properties["provider"]["enumItemLabels"] == [row.title for row in rows]
    about = [
        f"keys: {urlsplit(row.keys_url).netloc}" if row.keys_url else "runs on this machine" if row.local else ""
        for row in rows
    ]
    assert properties["provider"]["enumDescriptions"] == about
    assert properties["apiKey"]["secret"] is True
