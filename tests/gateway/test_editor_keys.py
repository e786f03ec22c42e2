"""Keys that an editor hands to its gateway: who may, how they count, and that they are written nowhere."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock._gateway.editor_keys import WINDOW_LIFETIME, EditorKeys, EditorProvider
from penstock.errors import InputError
from penstock.testing import Reply, scripted
from tests.support.process import gateway

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.testing import ReceivedRequest, Upstream
    from tests.support.process import Gateway

OWNER = "the-key-of-the-editor"
GOOD, OTHER, BAD = "planted-good-key", "planted-other-key", "planted-bad-key"
EVENTS: list[ev.AnyEvent] = [
    ev.Start(id="1", model="m"), ev.TextStart(0), ev.TextDelta(0, "hello"), ev.TextEnd(0),
    ev.Usage(input=3, output=2), ev.Finish("stop"),
]  # fmt: skip


def answer(seen: ReceivedRequest) -> Reply:
    """A provider that checks its key, and repeats a wrong one in its error."""
    sent = seen.headers.get("authorization", "").removeprefix("Bearer ")
    if sent not in {GOOD, OTHER}:
        return Reply.error("openai-chat", 401, f"Incorrect API key provided: {sent}")
    if not seen.body:
        return Reply.body({"data": [{"id": "tide-1"}, {"id": "tide-2"}]})
    return Reply.of("openai-chat", EVENTS)


class Asking:
    """The extension's side: one gateway, the key it was started with, windows."""

    def __init__(self, server: Gateway, upstream: Upstream) -> None:
        self.server, self.upstream = server, upstream
        self.http = httpx.Client(base_url=server.base, headers={"authorization": f"Bearer {OWNER}"}, timeout=30.0)

    def own(self, *keys: str, **more: Any) -> dict[str, Any]:
        return {"name": "lab", "title": "The Lab", "base_url": f"{self.upstream.url}/v1", "keys": keys, **more}

    def hand_over(self, window: str, *providers: dict[str, Any]) -> httpx.Response:
        return self.http.put("/vscode/keys", json={"window": window, "providers": providers})

    def providers(self) -> dict[str, dict[str, Any]]:
        rows = self.http.get("/vscode/providers").raise_for_status().json()["providers"]
        return {row["name"]: row for row in rows}

    def check(self, provider: str, **more: Any) -> dict[str, Any]:
        body = {"provider": provider, **more}
        found: dict[str, Any] = self.http.post("/vscode/providers/check", json=body).raise_for_status().json()
        return found

    def models(self) -> set[str]:
        rows = self.http.get("/vscode/models").raise_for_status().json()["models"]
        return {row["id"] for row in rows if not row["id"].startswith("replay/")}

    def chat(self, model: str) -> int:
        body = {"model": model, "messages": [{"role": "user", "content": "?"}]}
        return self.http.post("/v1/chat/completions", json=body).status_code

    def sent_keys(self) -> list[str]:
        """The keys that reached the upstream with a chat since the last call."""
        found = [seen.headers["authorization"].removeprefix("Bearer ") for seen in self.upstream.requests if seen.body]
        self.upstream.requests.clear()
        return found


@contextmanager
def asking(folder: Path, config: str = "", *options: str, **env: str) -> Generator[Asking]:
    started = {"PENSTOCK_GATEWAY_KEY": OWNER, "PENSTOCK_EDITOR_KEYS": "1", **env}
    with scripted(answer) as upstream:
        text = config.replace("UPSTREAM", upstream.url)
        with gateway(folder, text, "--log", "debug", *options, **started) as server:
            window = Asking(server, upstream)
            with window.http:
                yield window


ROUTES = [
    ("GET", "/vscode/providers"), ("GET", "/vscode/status"), ("POST", "/vscode/providers/check"),
    ("PUT", "/vscode/keys"), ("DELETE", "/vscode/keys?window=w"),
]  # fmt: skip


def test_only_a_gateway_with_the_switch_has_the_routes(tmp_path: Path) -> None:
    with asking(tmp_path, PENSTOCK_EDITOR_KEYS="") as window:
        for method, path in ROUTES:
            assert window.http.request(method, path, json={"window": "w", "provider": "openai"}).status_code == 404, (
                path
            )


def test_only_the_key_that_the_gateway_was_started_with_opens_them(tmp_path: Path) -> None:
    config = "[keys.guest]\nenv = 'GUEST'\n"
    with asking(tmp_path, config, GUEST="planted-guest-key") as window:
        for method, path in ROUTES:
            body = {"provider": "nobody"} if path.endswith("check") else {"window": "w"}

            def status(method: str = method, path: str = path, body: Any = body, **headers: str) -> int:
                return window.http.request(method, path, json=body, headers=headers).status_code

            assert status(authorization="Bearer wrong") == 401, path
            assert status(authorization="Bearer planted-guest-key") == 403, path
            assert status(origin="http://localhost:3000") == 403, path
            assert status() == 200, path


def test_a_key_counts_with_the_next_request_and_is_gone_when_it_is_removed(tmp_path: Path) -> None:
    with asking(tmp_path) as window:
        assert window.models() == set()
        assert window.chat("lab/tide-1") == 404
        window.hand_over("one", window.own(GOOD)).raise_for_status()
        assert window.models() == {"lab/tide-1", "lab/tide-2"}
        assert window.chat("lab/tide-1") == 200
        assert window.sent_keys() == [GOOD]
        row = window.providers()["lab"]
        assert (row["label"], row["source"], row["configured"], row["keys"], row["own"]) == (
            "The Lab", "editor", True, 1, True,
        )  # fmt: skip
        window.hand_over("one", window.own(OTHER)).raise_for_status()
        assert window.chat("lab/tide-1") == 200
        assert window.sent_keys() == [OTHER]
        window.hand_over("one", window.own(GOOD, OTHER)).raise_for_status()
        assert [window.chat("lab/tide-1") for _ in range(4)] == [200] * 4
        assert set(window.sent_keys()) == {GOOD, OTHER}
        window.hand_over("one").raise_for_status()
        assert window.models() == set()
        assert window.chat("lab/tide-1") == 404
        assert "lab" not in window.providers()


def test_an_open_circuit_does_not_outlive_the_key_that_opened_it(tmp_path: Path) -> None:
    with asking(tmp_path, "[breaker]\nfailures = 1\n") as window:
        window.hand_over("one", window.own(BAD)).raise_for_status()
        assert [window.chat("lab/tide-1") for _ in range(3)] == [401] * 3
        window.hand_over("one", window.own(GOOD)).raise_for_status()
        assert window.chat("lab/tide-1") == 200


def test_two_windows_give_their_keys_together(tmp_path: Path) -> None:
    with asking(tmp_path) as window:
        window.hand_over("one", window.own(GOOD)).raise_for_status()
        window.hand_over("two", window.own(GOOD), window.own(OTHER, name="second")).raise_for_status()
        assert {name.partition("/")[0] for name in window.models()} == {"lab", "second"}
        window.hand_over("one").raise_for_status()
        assert window.chat("lab/tide-1") == 200  # the other window still gives it
        window.http.delete("/vscode/keys", params={"window": "two"}).raise_for_status()
        assert window.models() == set()


def test_the_keys_of_windows_are_a_union_and_a_silent_window_is_forgotten() -> None:
    now = 0.0
    keys = EditorKeys({"PENSTOCK_EDITOR_KEYS": "1"}, lambda: now)
    assert keys.set_window("a", (EditorProvider(name="openai", keys=("one",)),))
    assert keys.set_window("b", (EditorProvider(name="openai", keys=("two", "one")),))
    assert keys.merged()["openai"].keys == ("one", "two")
    assert not keys.set_window("b", (EditorProvider(name="openai", keys=("two", "one")),))  # nothing new
    now = WINDOW_LIFETIME - 1
    assert not keys.set_window("b", (EditorProvider(name="openai", keys=("two", "one")),))
    now = WINDOW_LIFETIME + 1
    assert keys.set_window("b", (EditorProvider(name="openai", keys=("two",)),))
    assert keys.merged()["openai"].keys == ("two",)  # the window that gave the other one is gone
    assert keys.remove("b")
    assert keys.merged() == {}


def test_one_request_proves_a_key(tmp_path: Path) -> None:
    with asking(tmp_path, "[providers.set]\nbase_url = 'UPSTREAM/v1'\nkey = 'planted-bad-key'\n") as window:
        url = f"{window.upstream.url}/v1"
        good = window.check("lab", key=GOOD, base_url=url)
        assert (good["ok"], good["kind"], good["models"]) == (True, "", ["tide-1", "tide-2"])
        bad = window.check("lab", key=BAD, base_url=url)
        assert (bad["ok"], bad["kind"]) == (False, "auth")
        assert bad["message"].startswith("lab refused the key (401: Incorrect API key provided: [secret]).")
        assert BAD not in bad["message"]
        assert window.check("set")["kind"] == "auth"  # the key that the gateway has
        assert window.check("set", key=GOOD)["ok"]
        window.hand_over("one", window.own(GOOD)).raise_for_status()
        assert window.check("lab")["ok"]
        unknown = window.check("nobody")
        assert (unknown["ok"], unknown["kind"]) == (False, "config")
        nowhere = window.check("lab", key=GOOD, base_url="http://127.0.0.1:1/v1")
        assert (nowhere["ok"], nowhere["kind"]) == (False, "network")
        assert len(window.upstream.requests) == 5


def test_a_key_for_one_host_is_never_sent_to_another(tmp_path: Path) -> None:
    moved = "[providers.openai]\nbase_url = 'UPSTREAM/v1'\nmodels = ['tide-1']\n"
    with asking(tmp_path, moved) as window:
        said = window.hand_over("one", {"name": "openai", "keys": [GOOD]}).raise_for_status().json()
        assert said["problems"]["openai"].startswith("the key is for https://api.openai.com")
        assert window.chat("openai/tide-1") == 401
        assert window.upstream.requests == []
        origin = window.providers()["openai"]["origin"]
        window.hand_over("one", {"name": "openai", "keys": [GOOD], "origin": origin}).raise_for_status()
        assert window.chat("openai/tide-1") == 200
        # A variable's key stays at the provider's own address.
    with asking(tmp_path, OPENAI_API_KEY=BAD) as window:
        window.hand_over("one", {"name": "openai", "base_url": f"{window.upstream.url}/v1"}).raise_for_status()
        window.chat("openai/tide-1")
        assert not window.check("openai", base_url=f"{window.upstream.url}/v1")["ok"]
        assert window.upstream.requests
        assert all("authorization" not in seen.headers for seen in window.upstream.requests)


def test_providers_are_told_with_where_their_keys_are_and_never_with_a_key(tmp_path: Path) -> None:
    config = "[providers.mistral]\nkey = 'planted-file-key'\n"
    with asking(tmp_path, config, GROQ_API_KEY="planted-env-key") as window:
        window.hand_over("one", {"name": "anthropic", "keys": [GOOD]}, {"name": "ollama"}).raise_for_status()
        text = window.http.get("/vscode/providers").text
        assert "planted" not in text
        rows = window.providers()
        sources = {name: rows[name]["source"] for name in ("anthropic", "mistral", "groq", "openai", "ollama")}
        assert sources == {
            "anthropic": "editor", "mistral": "configuration", "groq": "environment", "openai": "", "ollama": "editor",
        }  # fmt: skip
        assert rows["groq"]["variable"] == "GROQ_API_KEY"
        assert (rows["openai"]["configured"], rows["groq"]["configured"]) == (False, True)
        assert {name for name, row in rows.items() if row["has_key"]} == {"anthropic", "mistral", "groq"}
        assert rows["openai"]["keys_url"].startswith("https://platform.openai.com")
        assert (rows["openai"]["needs_key"], rows["ollama"]["needs_key"]) == (True, False)
        assert "replay" not in rows
        account = next(one for one in rows["cloudflare"]["settings"] if one["name"] == "account")
        assert account["required"]


def test_facts_of_an_own_server_are_used(tmp_path: Path) -> None:
    facts = {
        "context": 65_536,
        "max_output": 4_096,
        "vision": True,
        "tools": False,
        "prices": {"input": 1, "output": 2},
    }
    with asking(tmp_path) as window:
        window.hand_over("one", window.own(GOOD, models={"tide-1": facts})).raise_for_status()
        rows = window.http.get("/vscode/models").json()["models"]
        tide = next(row for row in rows if row["id"] == "lab/tide-1")
        assert tide["maxContextWindowTokens"] == 65_536
        assert tide["capabilities"] == {"imageInput": True, "toolCalling": False}
        assert tide["prices"] == {"input": 1, "output": 2}


def test_bodies_that_cannot_be_used_are_refused_without_their_keys(tmp_path: Path) -> None:
    with asking(tmp_path) as window:
        bodies: list[bytes] = [
            b'{"window": "one", "providers": [{"name": "openai", "keys": ["planted-good-key"',
            b'{"window": "one", "providers": [{"name": "openai", "keys": {"a": "planted-good-key"}}]}',
            b'{"window": "", "providers": []}',
            b'{"window": "one", "providers": [{"name": "No Such", "keys": ["planted-good-key"]}]}',
            b'{"window": "one", "providers": [{"name": "lab", "base_url": "no-url", "keys": ["planted-good-key"]}]}',
            b'{"window": "one", "providers": [{"name": "openai", "keys": ["planted-good-key\\n\\u00e9"]}]}',
        ]
        for body in bodies:
            said = window.http.put("/vscode/keys", content=body)
            assert said.status_code == 400, body
            assert "planted" not in said.text
        assert window.models() == set()


def test_bounds() -> None:
    keys = EditorKeys({})
    with pytest.raises(InputError, match="at most 200"):
        keys.set_window("a", tuple(EditorProvider(name=f"n{number}", base_url="http://x") for number in range(201)))
    with pytest.raises(InputError, match="at most 32 keys"):
        keys.set_window("a", (EditorProvider(name="openai", keys=tuple(map(str, range(33)))),))
    for number in range(64):
        keys.set_window(f"w{number}", ())
    with pytest.raises(InputError, match="more than 64 windows"):
        keys.set_window("one more", ())


def test_keys_are_in_memory_only(tmp_path: Path) -> None:
    config = f"[record]\npath = '{tmp_path / 'recordings'}'\n"
    with asking(tmp_path, config) as window:
        window.hand_over("one", window.own(GOOD, BAD)).raise_for_status()
        assert {window.chat("lab/tide-1") for _ in range(4)} <= {200, 401}
        window.check("lab", key=OTHER)
        window.check("lab", key=BAD)
        pid = window.server.process.pid
        process = (
            [Path(f"/proc/{pid}/{name}") for name in ("cmdline", "environ")] if Path("/proc/self").exists() else []
        )
        seen = b"".join(file.read_bytes() for file in process)
        window.server.stop()
        written = [Path(folder, name) for folder, _, names in os.walk(tmp_path) for name in names]
        assert len(written) > 4
        seen += b"".join(file.read_bytes() for file in written)
    for key in (GOOD, OTHER, BAD):
        assert key.encode() not in seen, key
