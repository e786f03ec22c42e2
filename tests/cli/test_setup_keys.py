"""`penstock setup`: a provider's key from the terminal, checked with one request, stored, used without a restart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import chdir
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command_runner import environment, inside, penstock
from tests.support.each_case import each
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GOOD, OTHER, BAD = "sk-good-0123456789abcdef", "sk-other-0123456789abcdef", "sk-bad-0123456789abcdef"
FAIL = "keyring.backends.fail.Keyring"


class Upstream:
    """An OpenAI-compatible server that knows two keys and remembers the key of every request."""

    def __init__(self) -> None:
        seen: list[str] = []
        self.keys = seen

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer({"object": "list", "data": [{"id": "gpt-5", "object": "model"}]})

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                choice = {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
                self._answer({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})

            def _answer(self, body: object) -> None:
                key = self.headers.get("authorization", "").removeprefix("Bearer ")
                seen.append(key)
                status = 200 if key in {GOOD, OTHER} else 401
                data = json.dumps(
                    body if status == 200 else {"error": {"message": f"Incorrect API key {key}"}}
                ).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    made = Upstream()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def config(tmp_path: Path, upstream: Upstream) -> Path:
    path = tmp_path / "named.toml"
    path.write_text(f'[providers.openai]\nbase_url = "{upstream.url}"\n')
    return path


def variables(tmp_path: Path, **more: str) -> Any:
    """No terminal, no keyring, a data folder of the test's own."""
    return {"PENSTOCK_DATA": str(tmp_path / "data"), "HOME": str(tmp_path), "PYTHON_KEYRING_BACKEND": FAIL, **more}


def store(
    tmp_path: Path, config: Path, key: str = GOOD, *words: str, **more: str
) -> subprocess.CompletedProcess[bytes]:
    return inside(
        "setup", "--provider", "openai", "--key-stdin", "--config", str(config), *words, given=f"{key}\n".encode(),
        **variables(tmp_path, **more),
    )  # fmt: skip


def index(tmp_path: Path) -> Path:
    return tmp_path / "data" / "provider-keys.json"


def test_a_key_is_checked_with_one_request_and_kept_in_a_private_file(
    tmp_path: Path, config: Path, upstream: Upstream
) -> None:
    done = store(tmp_path, config)
    assert done.returncode == 0, done.stderr
    assert upstream.keys == [GOOD]
    assert index(tmp_path).stat().st_mode & 0o777 == 0o600
    assert b"1 models" in done.stderr
    assert b"this machine has no keyring" in done.stderr
    listed = inside("setup", "--list", **variables(tmp_path))
    assert b"openai" in listed.stdout
    assert GOOD.encode() not in done.stdout + done.stderr + listed.stdout + listed.stderr


def test_a_key_goes_into_the_keyring_where_there_is_one(tmp_path: Path, config: Path) -> None:
    ring = tmp_path / "ring"
    ring.mkdir()
    more = {"PYTHON_KEYRING_BACKEND": "tests.cli.folder_keyring.FolderKeyring", "FOLDER_KEYRING": str(ring),
            "PYTHONPATH": f"{PROJECT / 'src'}{os.pathsep}{PROJECT}"}  # fmt: skip
    words = ("setup", "--provider", "openai", "--key-stdin", "--config", str(config))
    done = penstock(*words, given=f"{GOOD}\n".encode(), **variables(tmp_path, **more))
    assert done.returncode == 0, done.stderr
    assert b"the keyring of the system" in done.stderr
    assert GOOD not in index(tmp_path).read_text()
    assert [file.read_text() for file in ring.iterdir()] == [GOOD]
    asked = penstock("chat", "openai/gpt-5", "hi", "--config", str(config), **variables(tmp_path, **more))
    assert asked.stdout.strip() == b"hello", asked.stderr
    removed = penstock("setup", "--remove", "openai", **variables(tmp_path, **more))
    assert removed.returncode == 0
    assert list(ring.iterdir()) == []


def test_a_key_that_the_provider_refuses_is_explained_and_not_stored(
    tmp_path: Path, config: Path, upstream: Upstream
) -> None:
    done = store(tmp_path, config, BAD)
    assert done.returncode == 1
    assert upstream.keys == [BAD]
    assert b"401" in done.stderr
    assert b"https://platform.openai.com/api-keys" in done.stderr
    assert BAD.encode() not in done.stderr
    assert not index(tmp_path).exists()


def test_an_unchecked_key_asks_nobody(tmp_path: Path, config: Path, upstream: Upstream) -> None:
    assert store(tmp_path, config, BAD, "--no-check").returncode == 0
    assert upstream.keys == []


def test_without_a_terminal_it_says_which_option_to_give(tmp_path: Path) -> None:
    done = inside("setup", **variables(tmp_path))
    assert done.returncode == 2
    assert b"--provider" in done.stderr
    done = inside("setup", "--provider", "openai", **variables(tmp_path))
    assert done.returncode == 2
    assert b"--key-stdin" in done.stderr


@each(  # configured, a variable; which is used
    "key, variable, used", [("", "", GOOD), ("", OTHER, OTHER), (OTHER, BAD, OTHER)]
)
def test_configuration_goes_before_variables_before_stored_keys(
    tmp_path: Path, config: Path, upstream: Upstream, key: str, variable: str, used: str
) -> None:
    assert store(tmp_path, config, GOOD, "--no-check").returncode == 0
    if key:
        config.write_text(config.read_text() + f'key = "{key}"\n')
    asked = inside(
        "chat", "openai/gpt-5", "hi", "--config", str(config), **variables(tmp_path, OPENAI_API_KEY=variable)
    )
    assert asked.stdout.strip() == b"hello", asked.stderr
    assert upstream.keys.pop() == used
    assert upstream.keys == []


@each("more", ["", 'like = "openai"\n'])  # another address, a provider of one's own
def test_a_stored_key_is_not_sent_to_another_host(tmp_path: Path, config: Path, upstream: Upstream, more: str) -> None:
    """A provider of the same name, in a configuration that is trusted."""
    assert store(tmp_path, config, GOOD, "--no-check").returncode == 0
    other = tmp_path / "other.toml"
    address = upstream.url.replace("127.0.0.1", "localhost")  # the same server, by another name
    credentials = 'fields = { credentials = [{ scheme = "bearer" }] }\n' if more else ""
    other.write_text(f'[providers.openai]\nbase_url = "{address}"\n{more}{credentials}')
    asked = inside("chat", "openai/gpt-5", "hi", "--config", str(other), **variables(tmp_path))
    assert asked.returncode != 0
    assert b"is for http://127.0.0.1" in asked.stderr
    assert b"penstock setup --provider openai" in asked.stderr
    assert upstream.keys == []
    checked = inside("serve", "--check", "--config", str(other), **variables(tmp_path))
    assert checked.returncode == 1
    assert b"is for http://127.0.0.1" in checked.stdout + checked.stderr
    listed = inside("setup", "--list", **variables(tmp_path))
    assert upstream.url.removesuffix("/v1").encode() in listed.stdout


def test_a_server_that_needs_no_key_gets_none_of_another_host(tmp_path: Path, config: Path, upstream: Upstream) -> None:
    assert store(tmp_path, config, GOOD, "--no-check").returncode == 0
    other = tmp_path / "other.toml"
    address = upstream.url.replace("127.0.0.1", "localhost")
    other.write_text(f'[providers.openai]\nbase_url = "{address}"\nlike = "openai-compatible"\n')
    inside("chat", "openai/gpt-5", "hi", "--config", str(other), **variables(tmp_path))
    assert upstream.keys == [""]


def test_a_key_of_an_older_index_goes_to_the_address_of_the_table_only(tmp_path: Path, config: Path) -> None:
    """It does not say which host it is for."""
    index(tmp_path).parent.mkdir()
    index(tmp_path).write_text(json.dumps({"openai": {"place": "file", "id": "1", "key": GOOD}}))
    index(tmp_path).chmod(0o600)
    listed = inside("providers", "openai", "--json", **variables(tmp_path))
    assert json.loads(listed.stdout)[0]["key"] == "stored by penstock setup"
    asked = inside("chat", "openai/gpt-5", "hi", "--config", str(config), **variables(tmp_path))
    assert asked.returncode != 0
    assert b"does not say which address it is for" in asked.stderr


@each(
    "name, settings, env, origin",
    [
        ("openai", "", {}, "https://api.openai.com"),
        ("bedrock", "settings.region = 'eu-west-1'", {}, "https://bedrock-runtime.{region}.amazonaws.com"),
        ("azure", "settings.resource = 'ours'", {}, "https://{resource}.openai.azure.com"),
        ("azure", "", {"AZURE_OPENAI_ENDPOINT": "https://Ours.test:443/x"}, "https://ours.test"),
        ("openai-compatible", "", {}, ""),
    ],
)
def test_the_host_that_a_key_is_bound_to(
    tmp_path: Path, name: str, settings: str, env: dict[str, str], origin: str
) -> None:
    config = tmp_path / "hosts.toml"
    config.write_text(f"[providers.{name}]\n{settings}\n")
    words = ("setup", "--provider", name, "--key-stdin", "--no-check", "--config", str(config))
    done = inside(*words, given=GOOD.encode(), **variables(tmp_path, **env))
    assert done.returncode == 0, done.stderr
    assert json.loads(index(tmp_path).read_text())[name].get("origin", "") == origin


def test_a_removed_key_is_not_used(tmp_path: Path, config: Path, upstream: Upstream) -> None:
    store(tmp_path, config, GOOD, "--no-check")
    assert inside("setup", "--remove", "openai", **variables(tmp_path)).returncode == 0
    assert inside("setup", "--remove", "openai", **variables(tmp_path)).returncode == 2
    asked = penstock("chat", "openai/gpt-5", "hi", "--config", str(config), **variables(tmp_path))
    assert b"penstock setup --provider openai" in asked.stderr
    assert upstream.keys == []


def test_a_running_gateway_uses_a_new_key_without_a_restart(tmp_path: Path, config: Path, upstream: Upstream) -> None:
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--config", str(config)]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, env=environment(**variables(tmp_path)), text=True
    ) as process:
        try:
            assert process.stderr is not None
            base = next(line.split()[-1] for line in process.stderr if line.startswith("penstock is listening on "))
            assert ask(base)[0] == 401
            assert upstream.keys == []
            store(tmp_path, config, GOOD, "--no-check")
            deadline = time.monotonic() + 20
            while ask(base)[0] != 200 and time.monotonic() < deadline:
                time.sleep(0.1)
            assert ask(base)[0] == 200
            assert set(upstream.keys) == {GOOD}
        finally:
            process.terminate()
            process.communicate(timeout=60)


def ask(base: str) -> tuple[int, bytes]:
    body = {"model": "openai/gpt-5", "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(  # noqa: S310 — our own gateway
        f"{base}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@each("words", [("serve",), ("chat", "openai/gpt-5", "hi"), ("setup", "--provider", "openai", "--key-stdin")])
def test_a_stored_key_is_never_sent_to_the_address_of_an_untrusted_file(
    tmp_path: Path, config: Path, upstream: Upstream, words: tuple[str, ...]
) -> None:
    """A cloned folder may hold a penstock.toml that names another address for a provider whose key is stored."""
    store(tmp_path, config, GOOD, "--no-check")
    cloned = tmp_path / "cloned"
    cloned.mkdir(exist_ok=True)
    (cloned / "penstock.toml").write_text(config.read_text())
    with chdir(cloned):
        done = inside(*words, given=f"{OTHER}\n".encode(), **variables(tmp_path))
    assert done.returncode == 2
    assert b"is not trusted" in done.stderr
    assert upstream.keys == []


def test_other_providers_do_not_get_the_key(tmp_path: Path, config: Path, upstream: Upstream) -> None:
    store(tmp_path, config, GOOD, "--no-check")
    config.write_text(f'[providers.mine]\nbase_url = "{upstream.url}"\nlike = "openai"\n')
    inside("chat", "mine/gpt-5", "hi", "--config", str(config), **variables(tmp_path))
    assert GOOD not in upstream.keys
