"""Keys that an editor hands to its gateway: who may, how they count, and that they are written nowhere."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from penstock import events as ev
from penstock.testing import Reply, scripted
from tests.support.asgi_gateway import AsgiGateway
from tests.support.process import gateway

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.testing import ReceivedRequest, Upstream

OWNER = "the-key-of-the-editor"
LIFETIME = 600.0  # seconds after which a window that says nothing is forgotten
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

    def __init__(self, made: AsgiGateway, upstream: Upstream) -> None:
        self.made, self.upstream = made, upstream

    def ask(self, path: str, body: Any = None, method: str = "", **headers: str) -> httpx.Response:
        return self.made.ask(path, body, method=method, **{"authorization": f"Bearer {OWNER}", **headers})

    def own(self, *keys: str, **more: Any) -> dict[str, Any]:
        return {"name": "lab", "title": "The Lab", "base_url": f"{self.upstream.url}/v1", "keys": keys, **more}

    def hand_over(self, window: str, *providers: dict[str, Any]) -> dict[str, Any]:
        """Hand over what can be used."""
        found: dict[str, Any] = self.put(window, *providers).raise_for_status().json()
        return found

    def put(self, window: str, *providers: dict[str, Any]) -> httpx.Response:
        reply = self.ask("/vscode/keys", {"window": window, "providers": providers}, "PUT")
        reply.request = httpx.Request("PUT", "http://gateway/vscode/keys")
        return reply

    def providers(self) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self.ask("/vscode/providers").json()["providers"]}

    def check(self, provider: str, **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("/vscode/providers/check", {"provider": provider, **more}).json()
        return found

    def models(self) -> set[str]:
        rows = self.ask("/vscode/models").json()["models"]
        return {row["id"] for row in rows if not row["id"].startswith("replay/")}

    def chat(self, model: str) -> int:
        body = {"model": model, "messages": [{"role": "user", "content": "?"}]}
        return self.ask("/v1/chat/completions", body).status_code

    def sent_keys(self) -> list[str]:
        """The keys that reached the upstream with a chat since the last call."""
        found = [seen.headers["authorization"].removeprefix("Bearer ") for seen in self.upstream.requests if seen.body]
        self.upstream.requests.clear()
        return found


@contextmanager
def asking(env: dict[str, str] | None = None, **tables: Any) -> Generator[Asking]:
    """UPSTREAM in a table is the provider's address."""
    started = {"PENSTOCK_GATEWAY_KEY": OWNER, "PENSTOCK_EDITOR_KEYS": "1", **(env or {})}
    with scripted(answer) as upstream:
        rows = tables.get("providers", {})
        tables["providers"] = {
            name: {
                key: value.replace("UPSTREAM", upstream.url) if isinstance(value, str) else value
                for key, value in row.items()
            }
            for name, row in rows.items()
        }
        with AsgiGateway(env=started, **tables) as made:
            yield Asking(made, upstream)


ROUTES = [
    ("GET", "/vscode/providers"), ("GET", "/vscode/status"), ("POST", "/vscode/providers/check"),
    ("PUT", "/vscode/keys"), ("DELETE", "/vscode/keys?window=w"),
]  # fmt: skip


def test_only_a_gateway_with_the_switch_has_the_routes() -> None:
    with asking({"PENSTOCK_EDITOR_KEYS": ""}) as window:
        for method, path in ROUTES:
            assert window.ask(path, {"window": "w", "provider": "openai"}, method).status_code == 404, path


def test_only_the_key_that_the_gateway_was_started_with_opens_them() -> None:
    with asking({"GUEST": "planted-guest-key"}, keys={"guest": {"env": "GUEST"}}) as window:
        for method, path in ROUTES:
            body = {"provider": "nobody"} if path.endswith("check") else {"window": "w"}

            def status(method: str = method, path: str = path, body: Any = body, **headers: str) -> int:
                return window.ask(path, body, method, **headers).status_code

            assert status(authorization="Bearer wrong") == 401, path
            assert status(authorization="Bearer planted-guest-key") == 403, path
            assert status(origin="http://localhost:3000") == 403, path
            assert status() == 200, path


def test_a_key_counts_with_the_next_request_and_is_gone_when_it_is_removed() -> None:
    with asking() as window:
        assert window.models() == set()
        assert window.chat("lab/tide-1") == 404
        window.hand_over("one", window.own(GOOD))
        assert window.models() == {"lab/tide-1", "lab/tide-2"}
        assert window.chat("lab/tide-1") == 200
        assert window.sent_keys() == [GOOD]
        row = window.providers()["lab"]
        assert (row["label"], row["source"], row["configured"], row["keys"], row["own"]) == (
            "The Lab", "editor", True, 1, True,
        )  # fmt: skip
        window.hand_over("one", window.own(OTHER))
        assert window.chat("lab/tide-1") == 200
        assert window.sent_keys() == [OTHER]
        window.hand_over("one", window.own(GOOD, OTHER))
        assert [window.chat("lab/tide-1") for _ in range(4)] == [200] * 4
        assert set(window.sent_keys()) == {GOOD, OTHER}
        window.hand_over("one")
        assert window.models() == set()
        assert window.chat("lab/tide-1") == 404
        assert "lab" not in window.providers()


def test_an_open_circuit_does_not_outlive_the_key_that_opened_it() -> None:
    with asking(breaker={"failures": 1}) as window:
        window.hand_over("one", window.own(BAD))
        assert [window.chat("lab/tide-1") for _ in range(3)] == [401] * 3
        window.hand_over("one", window.own(GOOD))
        assert window.chat("lab/tide-1") == 200


def test_two_windows_give_their_keys_together() -> None:
    with asking() as window:
        window.hand_over("one", window.own(GOOD))
        window.hand_over("two", window.own(GOOD), window.own(OTHER, name="second"))
        assert {name.partition("/")[0] for name in window.models()} == {"lab", "second"}
        window.hand_over("one")
        assert window.chat("lab/tide-1") == 200  # the other window still gives it
        window.ask("/vscode/keys?window=two", method="DELETE")
        assert window.models() == set()


def test_the_keys_of_windows_are_a_union_and_a_silent_window_is_forgotten() -> None:
    with asking() as window:

        def sent() -> set[str]:
            assert [window.chat("lab/tide-1") for _ in range(4)] == [200] * 4
            return set(window.sent_keys())

        window.made.set_clock(0.0)
        window.hand_over("a", window.own(GOOD))
        window.hand_over("b", window.own(OTHER, GOOD))
        assert (sent(), window.providers()["lab"]["keys"]) == ({GOOD, OTHER}, 2)
        window.made.set_clock(LIFETIME - 1.0)
        window.hand_over("b", window.own(OTHER))
        assert sent() == {GOOD, OTHER}
        window.made.set_clock(LIFETIME + 1.0)
        window.hand_over("b", window.own(OTHER))
        assert sent() == {OTHER}, "the window that gave the other one is gone"
        window.ask("/vscode/keys?window=b", method="DELETE")
        assert window.models() == set()


def test_one_request_proves_a_key() -> None:
    with asking(providers={"set": {"base_url": "UPSTREAM/v1", "key": BAD}}) as window:
        url = f"{window.upstream.url}/v1"
        good = window.check("lab", key=GOOD, base_url=url)
        assert (good["ok"], good["kind"], good["models"]) == (True, "", ["tide-1", "tide-2"])
        bad = window.check("lab", key=BAD, base_url=url)
        assert (bad["ok"], bad["kind"]) == (False, "auth")
        assert bad["message"].startswith("lab refused the key (401: Incorrect API key provided: [secret]).")
        assert BAD not in bad["message"]
        assert window.check("set")["kind"] == "auth"  # the key that the gateway has
        assert window.check("set", key=GOOD)["ok"]
        window.hand_over("one", window.own(GOOD))
        assert window.check("lab")["ok"]
        unknown = window.check("nobody")
        assert (unknown["ok"], unknown["kind"]) == (False, "config")
        nowhere = window.check("lab", key=GOOD, base_url="http://127.0.0.1:1/v1")
        assert (nowhere["ok"], nowhere["kind"]) == (False, "network")
        assert len(window.upstream.requests) == 5


def test_a_key_for_one_host_is_never_sent_to_another() -> None:
    with asking(providers={"openai": {"base_url": "UPSTREAM/v1", "models": ["tide-1"]}}) as window:
        said = window.hand_over("one", {"name": "openai", "keys": [GOOD]})
        assert said["problems"]["openai"].startswith("the key is for https://api.openai.com")
        assert window.chat("openai/tide-1") == 401
        assert window.upstream.requests == []
        origin = window.providers()["openai"]["origin"]
        window.hand_over("one", {"name": "openai", "keys": [GOOD], "origin": origin})
        assert window.chat("openai/tide-1") == 200
        # A variable's key stays at the provider's own address.
    with asking({"OPENAI_API_KEY": BAD}) as window:
        window.hand_over("one", {"name": "openai", "base_url": f"{window.upstream.url}/v1"})
        window.chat("openai/tide-1")
        assert not window.check("openai", base_url=f"{window.upstream.url}/v1")["ok"]
        assert window.upstream.requests
        assert all("authorization" not in seen.headers for seen in window.upstream.requests)


def test_providers_are_told_with_where_their_keys_are_and_never_with_a_key() -> None:
    env, mistral = {"GROQ_API_KEY": "planted-env-key"}, {"key": "planted-file-key"}
    with asking(env, providers={"mistral": mistral}) as window:
        window.hand_over("one", {"name": "anthropic", "keys": [GOOD]}, {"name": "ollama"})
        text = window.ask("/vscode/providers").text
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


def test_facts_of_an_own_server_are_used() -> None:
    facts = {
        "context": 65_536,
        "max_output": 4_096,
        "vision": True,
        "tools": False,
        "prices": {"input": 1, "output": 2},
    }
    with asking() as window:
        window.hand_over("one", window.own(GOOD, models={"tide-1": facts}))
        rows = window.ask("/vscode/models").json()["models"]
        tide = next(row for row in rows if row["id"] == "lab/tide-1")
        assert tide["maxContextWindowTokens"] == 65_536
        assert tide["capabilities"] == {"imageInput": True, "toolCalling": False}
        assert tide["prices"] == {"input": 1, "output": 2}


def test_bodies_that_cannot_be_used_are_refused_without_their_keys() -> None:
    with asking() as window:
        bodies: list[bytes] = [
            b'{"window": "one", "providers": [{"name": "openai", "keys": ["planted-good-key"',
            b'{"window": "one", "providers": [{"name": "openai", "keys": {"a": "planted-good-key"}}]}',
            b'{"window": "", "providers": []}',
            b'{"window": "one", "providers": [{"name": "No Such", "keys": ["planted-good-key"]}]}',
            b'{"window": "one", "providers": [{"name": "lab", "base_url": "no-url", "keys": ["planted-good-key"]}]}',
            b'{"window": "one", "providers": [{"name": "openai", "keys": ["planted-good-key\\n\\u00e9"]}]}',
        ]
        for body in bodies:
            said = window.ask("/vscode/keys", body, "PUT")
            assert said.status_code == 400, body
            assert "planted" not in said.text
        assert window.models() == set()


def test_bounds() -> None:
    with asking() as window:

        def refused(name: str, *providers: dict[str, Any]) -> str:
            reply = window.put(name, *providers)
            assert reply.status_code == 400
            return reply.text

        many = [{"name": f"n{number}", "base_url": "http://127.0.0.1:1"} for number in range(201)]
        assert "at most 200" in refused("a", *many)
        assert "at most 32 keys" in refused("a", {"name": "openai", "keys": [str(number) for number in range(33)]})
        for number in range(64):
            window.hand_over(f"w{number}")
        assert "more than 64 windows" in refused("one more")


def test_keys_are_in_memory_only(tmp_path: Path) -> None:
    """A real process, whose command line, variables and files are searched."""
    config = f"[record]\npath = '{tmp_path / 'recordings'}'\n"
    env = {"PENSTOCK_GATEWAY_KEY": OWNER, "PENSTOCK_EDITOR_KEYS": "1"}
    with scripted(answer) as up, gateway(tmp_path, config, "--log", "debug", **env) as server:
        own = {"name": "lab", "base_url": f"{up.url}/v1", "keys": [GOOD, BAD]}
        with httpx.Client(base_url=server.base, headers={"authorization": f"Bearer {OWNER}"}, timeout=30.0) as http:
            http.put("/vscode/keys", json={"window": "one", "providers": [own]}).raise_for_status()
            chat = {"model": "lab/tide-1", "messages": [{"role": "user", "content": "?"}]}
            assert {http.post("/v1/chat/completions", json=chat).status_code for _ in range(4)} <= {200, 401}
            for key in (OTHER, BAD):
                body = {"provider": "lab", "key": key}
                assert http.post("/vscode/providers/check", json=body).json()["ok"] is (key == OTHER)
        places = [Path(f"/proc/{server.process.pid}/{name}") for name in ("cmdline", "environ")]
        seen = b"".join(place.read_bytes() for place in places if Path("/proc/self").exists())
        server.stop()
        written = [Path(folder, name) for folder, _, names in os.walk(tmp_path) for name in names]
        assert len(written) > 4
        seen += b"".join(file.read_bytes() for file in written)
    for key in (GOOD, OTHER, BAD):
        assert key.encode() not in seen, key
