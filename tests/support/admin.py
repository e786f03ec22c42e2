"""Gateways with an admin, a viewer and a user; their admin API; and a provider to add to them."""

from __future__ import annotations

import json
import os
import re
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import jsonschema
from jsonschema.validators import Draft202012Validator
from msgspec.structs import replace

from penstock._gateway import provider_layers
from penstock._store.provider_keys import ProviderKeys
from penstock.gateway import App
from penstock.testing import Reply, scripted
from tests.support.gateway import LIMIT, Running, answer, config, hash_key
from tests.support.key_file import key_file

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    import pytest

    from penstock.gateway import GatewayConfig
    from penstock.testing import ReceivedRequest, Upstream

ROOT, SEER, USER = "pk-penstock-of-root", "pk-penstock-of-seer", "pk-penstock-of-user"
GOOD, BAD = "planted-good-0123456789abcdef", "planted-bad-0123456789abcdef"
PATH = "/admin/custom-providers"


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def add_keys(data: Path) -> None:
    keys = key_file(data)
    keys.add("root", {"hash": hash_key(ROOT), "role": "admin"})
    keys.add("seer", {"hash": hash_key(SEER), "role": "viewer"})
    keys.add("user", {"hash": hash_key(USER)})


def lab(seen: ReceivedRequest) -> Reply:
    """At /lab a server that has two models for those with the good key; /open needs none; /bare has no list."""
    place = seen.path.split("/")[1]
    if place == "lab" and seen.headers.get("authorization") != f"Bearer {GOOD}":
        return Reply.error("openai-chat", 401, f"Invalid API Key: {BAD}")
    if seen.path.endswith("/models"):
        if place == "bare":
            return Reply.error("openai-chat", 404, "no such page")
        return Reply.body({"object": "list", "data": [{"id": "tide-1"}, {"id": "tide-2"}]})
    return answer(seen)


def configured(data: Path, up: Upstream, *, path: Path | None = None, **accounts: Any) -> GatewayConfig:
    """A gateway on this folder, with these providers beside those of `config`."""
    made = config(up.url, serve={"pace": 0.0}, data=data, providers=accounts)
    return replace(made, path=path)


class Admin:
    """A client of the admin API. Every response is checked against the description. `up`: what is at its providers."""

    def __init__(self, running: Running, up: Upstream | None = None, key: str = ROOT) -> None:
        self.running, self.url = running, running.url
        self.http = httpx.Client(base_url=running.url, headers=bearer(key), timeout=LIMIT)
        self.description: dict[str, Any] = self.http.get("/admin/openapi.json").json()
        self.seen: set[tuple[str, str]] = set()
        self._up = up

    @property
    def up(self) -> Upstream:
        assert self._up is not None
        return self._up

    def ask(self, method: str, path: str, *, status: int = 200, **more: Any) -> Any:
        reply = self.http.request(method, path, **more)
        assert reply.status_code == status, reply.text
        assert reply.headers["cache-control"] == "no-store"
        self.check(method, path, reply)
        return reply.json() if reply.content else None

    def check(self, method: str, path: str, reply: httpx.Response) -> None:
        bare = path.partition("?")[0]
        (shape,) = (
            one
            for one in self.description["paths"]
            if re.fullmatch(one.replace("{name}", "[^/]+").replace(".", "[.]"), bare)
        )
        described = self.description["paths"][shape][method.lower()]["responses"][str(reply.status_code)]
        self.seen.add((method, shape))
        if "content" not in described:
            assert reply.content == b""
            return
        schema = {**described["content"]["application/json"]["schema"], "components": self.description["components"]}
        jsonschema.validate(reply.json(), schema, Draft202012Validator, format_checker=jsonschema.FormatChecker())

    def routes(self) -> set[tuple[str, str]]:
        """The methods and paths that the description has."""
        return {(method.upper(), path) for path, methods in self.description["paths"].items() for method in methods}

    # ── providers ─────────────────────────────────────────────────────────────────────────────────

    def body(self, **more: Any) -> dict[str, Any]:
        return {"name": "lab", "base_url": f"{self.up.url}/open/v1", **more}

    def add(self, status: int = 201, **more: Any) -> Any:
        """Add the custom provider `lab`."""
        return self.ask("POST", PATH, status=status, json=self.body(**more))

    def row(self, name: str = "lab") -> dict[str, Any]:
        rows: list[dict[str, Any]] = self.ask("GET", "/admin/providers")["data"]
        nothing: dict[str, Any] = {}
        return next((row for row in rows if row["name"] == name), nothing)

    def models(self) -> set[str]:
        rows = self.http.get("/v1/models").json()["data"]
        return {row["id"] for row in rows if row["id"].startswith("lab/")}

    def chat(self, model: str = "lab/tide-1", **headers: str) -> int:
        body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
        return self.http.post("/v1/chat/completions", json=body, headers=headers).status_code

    def sent_keys(self) -> set[str]:
        """The keys that reached the server since the last call."""
        found = {seen.headers.get("authorization", "").removeprefix("Bearer ") for seen in self.up.requests}
        self.up.requests.clear()
        return found


@contextmanager
def running_lab(data: Path, up: Upstream, env: Any = None, **accounts: Any) -> Generator[Admin]:
    """An admin of a gateway on this folder, with the variables of this process unless others are given."""
    with Running(App(configured(data, up, **accounts), env=env)) as running:
        running.upstream = up.url
        client = Admin(running, up)
        with closing(client.http):
            yield client


@contextmanager
def managed_app(data: Path, *, path: Path | None = None, env: Any = None, keyed: bool = True) -> Generator[App]:
    """A gateway with a provider `groq` that has no key; with an admin, a viewer and a user unless it is not `keyed`."""
    if keyed:
        add_keys(data)
    with scripted(lab) as up:
        yield App(configured(data, up, path=path, groq={"base_url": f"{up.url}/lab"}), env=env)


# ── what fails inside ─────────────────────────────────────────────────────────────────────────────


def slow_watch(patch: pytest.MonkeyPatch, seconds: float = 60.0) -> None:
    """Have gateways look for changed providers as often as this."""
    patch.setattr(provider_layers, "WATCH_INTERVAL", seconds)


def busy_loop(patch: pytest.MonkeyPatch) -> None:
    """Have no change wait for the event loop that uses it."""
    patch.setattr(provider_layers, "APPLY_TIMEOUT", 0.0)


def fail_to_apply(running: Running, times: int) -> list[str]:
    """Have changed providers not be used so often. What is returned grows with each attempt."""
    watcher = running.app.services.custom_providers_watcher
    apply, tried = watcher._apply, list[str]()

    def fail() -> None:
        tried.append("")
        if len(tried) <= times:
            raise RuntimeError("it does not work yet")
        apply()

    watcher._apply = fail
    return tried


def fail_to_write(patch: pytest.MonkeyPatch, running: Running, what: str) -> None:
    """Have the disk be full: for the keys of providers (`add`, `remove`), or for an action's row of the audit log."""

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    if what in {"add", "remove"}:
        patch.setattr(ProviderKeys, what, fail)
        return
    store = running.app.services.access.ring.store
    assert store is not None
    write = store.add_audit
    patch.setattr(
        store, "add_audit", lambda *, action, **row: fail() if action == what else write(action=action, **row)
    )


def store_key(name: str, key: str, origin: str) -> None:
    """Store a key as `penstock setup` does, in the folder that the environment names."""
    ProviderKeys.of(os.environ).add(name, key, origin=origin, keyring=False)


def write_providers(data: Path, rows: dict[str, Any]) -> None:
    """The file of custom providers, as another process writes it."""
    content = json.dumps({"format": 1, "providers": rows})
    (data / "custom-providers.json.new").write_text(content)
    (data / "custom-providers.json.new").replace(data / "custom-providers.json")


def read_providers(data: Path) -> dict[str, Any]:
    file = data / "custom-providers.json"
    return dict(json.loads(file.read_text())["providers"]) if file.exists() else {}


def stored(data: Path) -> list[object]:
    """What the files hold: custom providers, the ids of stored keys, and the ids of the audit log's rows."""
    keys = data / "provider-keys.json"
    ids = {name: row["id"] for name, row in json.loads(keys.read_text()).items()} if keys.exists() else {}
    log = data / "keys.json.audit"
    return [read_providers(data), ids, log.read_text().splitlines() if log.is_file() else []]
