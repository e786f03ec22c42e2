"""A `penstock.toml` that was only found: what it may say, what needs `penstock trust`, and what counts as trust."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock
from penstock.errors import InputError
from penstock.gateway import load_config
from tests.cli.command_runner import environment, inside
from tests.support import process
from tests.support.each_case import each
from tests.support.openresponses import until
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator

ANY = "*"  # a name that the user chooses
SCHEMA = json.loads((PROJECT / "docs" / "penstock.schema.json").read_bytes())
IN_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
EVIL = '[providers.openai]\nbase_url = "http://127.0.0.1:9/v1"\n'
GOOD = "[aliases]\nfast = ['replay/text']\n[serve]\nport = 0\npace = 0.0\n[features]\nprompt_caching = true\n"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="there are no links and modes of that kind there")

# What the setting decides, by its place in the file. Whoever adds a setting adds it here, or finds it refused.
SENSITIVE = {
    "where a key, or a text, goes": """
        providers.*.key providers.*.key_file providers.*.keys providers.*.env providers.*.base_url providers.*.like
        providers.*.settings.* providers.*.fields.* options.headers.* options.extra_body.* options.proxy
        options.no_proxy options.ca_bundle options.client_certificate options.client_certificate.cert
        options.client_certificate.key options.client_certificate.passphrase options.verify_ssl options.key
        """,
    "who may connect": """
        serve.tls_cert serve.tls_key serve.watch serve.host keys keys.*.hash keys.*.env keys.*.models keys.*.tenant
        keys.*.inspect keys.*.inspect_keep keys.*.note keys.*.created keys.*.team keys.*.role keys.*.max_output
        keys.*.expires keys.*.previous teams.*.models teams.*.note teams.*.created organisation.models access.hosts
        access.origins access.keys access.keys_file access.anonymous access.proxy access.trusted_proxies
        access.metrics
        """,
    "what this machine fetches, and whether content is logged": """
        fetch.requests fetch.streams fetch.size fetch.seconds fetch.redirects fetch.files log.content
        """,
    "where data is written, and how long it is kept": """
        journal.path journal.days journal.size record.path record.size record.total record.days state.path
        state.hours state.size inspector.size inspector.days
        """,
    "which servers hold keys, limits and data": """
        stores.postgres stores.postgres_connections stores.postgres_timeout stores.redis stores.redis_timeout
        stores.outage stores.limits stores.keys_hold
        """,
    "which streams and answers are kept, and for whom": """
        resume.enabled resume.background_on_disconnect cache.aliases cache.keys cache.shared cache.path
        inspector.keep
        """,
}


def every_setting(shape: Any = SCHEMA, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The place of every setting that the schema of the file knows."""
    if "$ref" in shape:
        shape = SCHEMA["$defs"][shape["$ref"].rpartition("/")[2]]
    if shape.get("properties"):
        for name, inner in shape["properties"].items():
            yield from every_setting(inner, (*before, name))
    elif isinstance(shape.get("additionalProperties"), dict):
        yield from every_setting(shape["additionalProperties"], (*before, ANY))
    elif "anyOf" in shape:
        for inner in shape["anyOf"]:
            yield from every_setting(inner, before)
    elif shape.get("type") == "object":
        yield (*before, ANY)
    elif shape.get("type") != "null":
        yield before


EVERY = sorted(set(every_setting()))
KNOWN = {tuple(path.split(".")) for paths in SENSITIVE.values() for path in paths.split()}
KNOWN |= {("providers", ANY, *path) for path in KNOWN if path[0] == "options"}
KNOWN |= {path for path in EVERY if "limits" in path[1:]}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with data beside it."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("PENSTOCK_CONFIG", raising=False)
    return folder


def refusal(**env: str) -> str:
    """Why the file of this folder is not used."""
    with pytest.raises(InputError) as raised:
        load_config(None, {**os.environ, **env})
    return str(raised.value)


def is_trusted(folder: Path, raw: dict[str, Any]) -> bool:
    """Whether a file with these tables, which is only found, needs no trust. It may be wrong in another way."""
    (folder / "penstock.toml").write_text(tomlkit.dumps(raw), encoding="utf-8")
    try:
        load_config(None, os.environ)
    except InputError as error:
        return "is not trusted" not in str(error)
    return True


# ── the list ──────────────────────────────────────────────────────────────────────────────────────


def table_with(path: tuple[str, ...], names: list[str]) -> dict[str, Any]:
    """A table with this setting, under names that the user chose."""
    made: Any = "value"
    for number, name in reversed(list(enumerate(path))):
        made = {names[number % len(names)] if name == ANY else name: made}
    return dict(made)


def merged(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    made = dict(one)
    for name, value in two.items():
        both = all(isinstance(side, dict) for side in (value, made.get(name)))
        made[name] = merged(made[name], value) if both else made.get(name, value)
    return made


def test_every_setting_is_either_harmless_or_known_to_be_sensitive(here: Path) -> None:
    """A new setting is refused, and this test asks what it decides."""
    assert {path for path in EVERY if not is_trusted(here, table_with(path, ["mine"]))} == KNOWN & set(EVERY)


def test_a_setting_that_nobody_has_heard_of_is_sensitive(here: Path) -> None:
    for raw in ({"new": 1}, {"serve": {"new": 1}}, {"telemetry": {"endpoint": "x"}}, {"include": ["x"]},
                {"serve": {"*": 1}}, {"*": 1}, {"serve": {"port": {"host": 1}}}, {"serve.port": 1}, {"features": 1},
                {"aliases": {"a": {"b": 1}}}, {"providers": {"*": {"base_url": "x"}}}):  # fmt: skip
        assert not is_trusted(here, raw), raw


@IN_FOLDER
@given(
    st.lists(st.sampled_from(EVERY), min_size=1, max_size=6),
    st.lists(st.text("ab-_.* \"'é=#[", min_size=1, max_size=8), min_size=1, max_size=4),
)
def test_any_file_of_harmless_settings_is_accepted_and_any_other_is_not(
    here: Path, paths: list[tuple[str, ...]], names: list[str]
) -> None:
    raw: dict[str, Any] = {}
    for path in paths:
        raw = merged(raw, table_with(path, names))
    if not KNOWN & set(paths):
        assert is_trusted(here, raw)
    if paths[0] in KNOWN:
        assert not is_trusted(here, raw)


LINES = st.text("abc-_", min_size=1, max_size=5)
VALUES = st.recursive(
    st.integers() | st.sampled_from(["'x = 1'", '"a # b"', "'''\nx = 1\n'''", '"""\n[t]\n"""', "true"]),
    lambda inner: st.lists(inner, max_size=3).map(lambda rows: "[\n" + ",\n".join(map(str, rows)) + "\n]"),
    max_leaves=4,
)


@IN_FOLDER
@given(st.dictionaries(LINES, st.dictionaries(LINES, VALUES, max_size=3), min_size=1, max_size=4))
def test_every_setting_is_found_on_its_line(here: Path, tables: dict[str, dict[str, object]]) -> None:
    text, told = "", []
    for table, rows in tables.items():
        text += f"[{table}] # a comment = 1\n"
        for name, value in rows.items():
            told.append(f"line {text.count(chr(10)) + 1}: {table}.{name}")
            text += f"{name} = {value}\n"
    (here / "penstock.toml").write_text(text)
    if told:
        shown = "; ".join(told[:8]) + (f", and {len(told) - 8} more" if len(told) > 8 else "")
        assert f"({shown})" in refusal()


# ── what is refused ───────────────────────────────────────────────────────────────────────────────


def test_a_file_that_was_found_may_not_say_where_a_key_goes(here: Path) -> None:
    (here / "penstock.toml").write_text(GOOD + EVIL + "env = 'HOME'\n")
    said = refusal()
    assert "is not trusted" in said
    assert "line 9: providers.openai.base_url; line 10: providers.openai.env" in said
    assert "`penstock trust`" in said
    assert "`--config penstock.toml`" in said
    assert "features" not in said


def test_a_long_list_is_shortened(here: Path) -> None:
    (here / "penstock.toml").write_text("[options.headers]\n" + "".join(f"h{number} = 'x'\n" for number in range(20)))
    assert "line 9: options.headers.h7, and 12 more" in refusal()


def test_a_file_of_harmless_settings_needs_no_trust(here: Path) -> None:
    (here / "penstock.toml").write_text(GOOD)
    found = load_config(None, os.environ)
    assert (found.engine.aliases, found.features.prompt_caching) == ({"fast": ["replay/text"]}, True)


@each("text", ["[serve]\nprot = 1\n", "[access]\nhost = 1\n", "x = 1\n"])
def test_a_mistake_in_a_file_that_was_found_asks_for_trust_first(here: Path, text: str) -> None:
    (here / "penstock.toml").write_text(text)
    assert "is not trusted" in refusal()
    with pytest.raises(InputError, match="no such key"):
        load_config(Path("penstock.toml"), os.environ)


def test_what_is_no_toml_is_said_as_before(here: Path) -> None:
    (here / "penstock.toml").write_bytes(b"[serve\n")
    assert "penstock.toml:1: not TOML" in refusal()
    (here / "penstock.toml").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in refusal()


def test_a_file_that_is_named_is_trusted(here: Path) -> None:
    (here / "penstock.toml").write_text(EVIL)
    assert load_config(Path("penstock.toml"), os.environ).engine.providers
    assert load_config(None, {**os.environ, "PENSTOCK_CONFIG": "penstock.toml"}).engine.providers
    assert "is not trusted" in refusal(PENSTOCK_CONFIG="")


# ── what is trusted ───────────────────────────────────────────────────────────────────────────────


def trust(*words: str) -> subprocess.CompletedProcess[bytes]:
    return run("trust", *words)


def run(*words: str) -> subprocess.CompletedProcess[bytes]:
    return inside(*words, PENSTOCK_DATA=os.environ["PENSTOCK_DATA"])


def test_trust_is_for_one_content_of_one_file(here: Path, tmp_path: Path) -> None:
    file = here / "penstock.toml"
    file.write_text(EVIL)
    done = trust()
    assert done.returncode == 0
    assert b"penstock.toml:2: providers.openai.base_url" in done.stderr
    assert load_config(None, os.environ).engine.providers
    file.write_text(EVIL.replace("127.0.0.1", "evil.example"))
    assert "is not trusted" in refusal()
    file.write_text(EVIL)
    assert load_config(None, os.environ).engine.providers  # as it was trusted
    other = tmp_path / "other"
    other.mkdir()
    (other / "penstock.toml").write_text(EVIL)
    os.chdir(other)
    assert "is not trusted" in refusal()  # the same content elsewhere
    assert trust(str(here)).returncode == 0
    assert "is not trusted" in refusal()


@POSIX
def test_a_link_to_a_trusted_file_is_not_trusted(here: Path, tmp_path: Path) -> None:
    (here / "penstock.toml").write_text(EVIL)
    trust()
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "penstock.toml").symlink_to(here / "penstock.toml")
    os.chdir(linked)
    assert "is not trusted" in refusal()
    (tmp_path / "folder").symlink_to(here)
    os.chdir(tmp_path / "folder")
    assert load_config(None, os.environ).engine.providers  # the same file by another way


def test_trust_can_be_listed_and_taken_away(here: Path) -> None:
    assert b"nothing is trusted" in trust("--list").stdout
    file = here / "penstock.toml"
    file.write_text(EVIL)
    assert b"was not trusted" in trust("--remove").stderr
    trust()
    listed = trust("--list").stdout.decode()
    assert str(file) in listed
    assert "another content" not in listed
    file.write_text(GOOD)
    assert b"another content" in trust("--list").stdout
    trust()
    assert len(trust("--list").stdout.splitlines()) == 2
    file.unlink()
    assert b"no such file" in trust("--list").stdout
    assert trust("--remove").returncode == 0
    assert b"nothing is trusted" in trust("--list").stdout
    assert trust("nowhere.toml").returncode == 2


@POSIX
def test_only_the_owner_can_read_what_is_trusted(here: Path, tmp_path: Path) -> None:
    (here / "penstock.toml").write_text(EVIL)
    trust()
    assert (tmp_path / "data" / "trusted.json").stat().st_mode & 0o077 == 0


def test_a_damaged_list_trusts_nothing(here: Path, tmp_path: Path) -> None:
    (here / "penstock.toml").write_text(EVIL)
    trust()
    for damage in (b"{", b"\xff", b"[1]"):
        (tmp_path / "data" / "trusted.json").write_bytes(damage)
        assert "trusted.json" in refusal()


def test_the_bytes_that_were_parsed_are_those_that_are_trusted(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changes between two reads gains nothing: it is read once."""
    (here / "penstock.toml").write_text(EVIL)
    trust()
    contents = [EVIL.replace("127.0.0.1", "evil.example").encode(), EVIL.encode()]
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: contents.pop() if path.name == "penstock.toml" else read(path))
    assert load_config(None, os.environ).engine.providers["openai"].base_url == "http://127.0.0.1:9/v1"
    contents += [EVIL.encode(), EVIL.replace("127.0.0.1", "evil.example").encode()]
    assert "is not trusted" in refusal()


def test_files_that_are_trusted_at_once_are_all_kept(here: Path) -> None:
    folders = [here / str(number) for number in range(4)]
    for folder in folders:
        folder.mkdir()
        (folder / "penstock.toml").write_text(EVIL)
    started = [subprocess.Popen([sys.executable, "-m", "penstock", "trust", str(folder)], env=environment(),
                                stderr=subprocess.DEVNULL) for folder in folders]  # fmt: skip
    assert [one.wait(60) for one in started] == [0] * len(folders)
    assert len(trust("--list").stdout.splitlines()) == len(folders)


# ── whoever reads it ──────────────────────────────────────────────────────────────────────────────


def test_every_command_that_finds_the_file_asks_for_trust(here: Path) -> None:
    (here / "penstock.toml").write_text(EVIL)
    for words in (["serve", "--check"], ["keys", "list"], ["usage"]):
        done = run(*words)
        assert (done.returncode, b"is not trusted" in done.stderr, done.stderr.count(b"\n")) == (2, True, 1), words
        trust()
        assert b"is not trusted" not in run(*words).stderr, words
        trust("--remove")


def test_every_command_that_looks_for_it_asks_for_trust(here: Path) -> None:
    (here / "penstock.toml").write_text('[providers.planted]\nbase_url = "http://127.0.0.1:9/v1"\n')
    for words in (["doctor"], ["models"], ["providers"], ["chat", "planted/m", "hi"], ["tokens", "--model", "m"]):
        done = run(*words)
        assert (done.returncode, done.stdout, b"is not trusted" in done.stderr) == (2, b"", True), words


def test_a_client_of_the_library_does_not_look_for_it(here: Path) -> None:
    (here / "penstock.toml").write_text('[providers.planted]\nbase_url = "http://127.0.0.1:9/v1"\n')
    with penstock.SyncClient() as client, pytest.raises(InputError, match="planted"):
        client.chat("planted/model", "Hi.")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP there")
def test_a_gateway_in_a_folder_with_such_a_file(tmp_path: Path) -> None:
    """As in the report: a cloned repository, and a key in the environment. The upstream hears nothing of it."""
    folder = tmp_path / "cloned"
    folder.mkdir()
    file = folder / "penstock.toml"
    file.write_text(EVIL)
    env = environment(PENSTOCK_DATA=str(tmp_path / "data"), OPENAI_API_KEY="sk-of-the-user")
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0"]
    refused = subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=60, check=False)
    assert refused.returncode == 2
    assert b"penstock trust" in refused.stderr
    assert b"sk-of-the-user" not in refused.stderr
    file.write_text(GOOD)
    running = subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, bufsize=0)
    assert running.stderr is not None
    try:
        base = running.stderr.readline().decode().split()[-1]
        body: dict[str, Any] = {"model": "fast", "messages": []}
        assert httpx.post(f"{base}/v1/chat/completions", json=body).status_code == 200
        file.write_text(GOOD.replace("fast", "other") + EVIL)
        running.send_signal(signal.SIGHUP)
        line = b""
        while b"not reloaded" not in line:
            line = running.stderr.readline()
            assert line
        assert b"is not trusted" in line
        assert httpx.post(f"{base}/v1/chat/completions", json=body).status_code == 200
        assert inside("trust", str(file), PENSTOCK_DATA=str(tmp_path / "data")).returncode == 0
        running.send_signal(signal.SIGHUP)
        until(lambda: httpx.post(f"{base}/v1/chat/completions", json={**body, "model": "other"}).status_code == 200)
    finally:
        running.terminate()
        running.wait(process.LIMIT)
        running.stderr.close()
