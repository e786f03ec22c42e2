"""penstock.toml: what it says, what it may not say, and where the error says it stands."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from penstock.errors import InputError
from penstock.gateway import Config, GatewayConfig, load_config
from tests.support.each_case import each
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = json.loads((PROJECT / "docs" / "penstock.schema.json").read_bytes())
HASH = "sha256:" + "0" * 64

# A file, and what is said about it after its name: line, key, what is wrong.
WRONG = [
    ("[serve]\nport = 'x'", ":2: serve.port: expected int, found str"),
    ("# a\n\n[serve]\nhost = 'a'\nprot = 1", ":5: serve.prot: no such key; did you mean port?"),
    ("nonsense = 1", ":1: nonsense: no such key; there are: providers, aliases"),
    ("[serve\n", ":1: not TOML: Expected ']' at the end of a table declaration (column 7)"),
    ("a = [1,\n2", ":2: not TOML: Unclosed array"),
    ("a = 1\na = 2", ":2: not TOML: Cannot overwrite a value"),
    ("[providers.mine]\nbase_url = 'http://x'\nkye = 's'", ":3: providers.mine.kye: no such key; did you mean key?"),
    ("[providers.a]\nbase_url = 'http://x'\n[providers.b]\nbase_url = 3", ":4: providers.b.base_url: expected str"),
    ("providers.a.base_url = 3", ":1: providers.a.base_url: expected str, found int"),
    ("providers = { a = { base_url = 'http://x' }, b = { base_url = 3 } }", ":1: providers.b.base_url: expected str"),
    ("[providers.nobody]\nkey = 'k'", ":1: providers.nobody: unknown provider 'nobody'"),
    ("[aliases]\nfast = 3", ":2: aliases.fast: expected str | object | array, found int"),
    ("[aliases.fast]\ntargets = []", ":1: aliases.fast: targets: expected at least one model, found none"),
    ("[aliases.fast]\ntargets = ['a/b']\nstrategy = 'fast'", ":3: aliases.fast.strategy: invalid enum value 'fast'; kn"),
    ("[aliases.fast]\ntargets = ['a/b']\nstick = true", ":3: aliases.fast.stick: no such key; did you mean sticky?"),
    ("[access]\n# a\ntrusted_proxies = ['10.0.0.7', '10.0.0.300/8']", ":3: access.trusted_proxies: [1]: expected an address"),
    (
        "[access]\ntrusted_proxies = ['10.1.2.3/8']",
        ":2: access.trusted_proxies: [0]: expected a network without bits of a host, found '10.1.2.3/8': write 10.0.0.0/8",
    ),
    ("access.trusted_proxies = ['']", ":1: access.trusted_proxies: [0]: expected an address such as 10.0.0.7"),
    ("[options]\nno_proxy = ['a.example', '10.0.0.0/33']", ":1: options: request options: no_proxy[1]: expected a host or a network"),
    ("[providers.openai]\noptions = { no_proxy = 'h,a/b' }", ":2: providers.openai.options: request options: no_proxy[1]: "),
    ("[providers.openai]\nkey_file = ['/a', 'b']", ":1: providers.openai: key_file[1]: expected an absolute path"),
    ("[options]\nproxy = 'ftp://x'", ":1: options: "),
    ("[options]\ntimeouts = { total = 0 }", ":1: options: "),
    ("[providers.openai]\noptions = { verify = 1 }", ":2: providers.openai.options: "),
    ("[keys.a]\nhash = 'the key itself'", ":2: keys.a.hash: expected sha256: and 64 hexadecimal digits"),
    ("[keys.a]\nnote = 'neither'", ":1: keys.a: expected either `hash`"),
    (f"[keys.a]\nhash = '{HASH}'\nenv = 'K'", ":1: keys.a: expected either `hash`"),
    ("[keys.a]\nenv = 'K'\n[keys.a.limits]\nrequests = 1.5", ":4: keys.a.limits.requests: expected int, found float"),
    ("[access]\nkeys = 'mine'", ":2: access.keys: invalid enum value 'mine'; known are: "),
    ("[features]\nmax_input = 'bogus'", ":2: features.max_input: invalid enum value 'bogus'; known are: context-window"),
    ("[features]\nmax_input = 0.000_001", ":2: features.max_input: a fraction of the context window is from 0.01 to 1"),
    ("[features]\nmax_input = 1.5", ":2: features.max_input: a fraction of the context window is from 0.01 to 1"),
    ("[features]\nmax_input = nan", ":2: features.max_input: a fraction of the context window is from 0.01 to 1"),
    ("[serve]\nport = 70_000", ":2: serve.port: expected a port from 0 to 65535, found 70000"),
    ("# a\nretries = -1", ":2: retries: expected a number of at least 0, found -1"),
    ("[breaker]\nfailures = 2\ncool = -1", ":3: breaker.cool: expected a number of at least 0, found -1"),
    ("[serve]\nping = -1.0", ":2: serve.ping: expected a number of at least 0, found -1"),
    ("[aliases]\na = '''\nport = 1\n'''\n[serve]\nport = ''", ":6: serve.port: expected int"),
]  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "penstock.toml"


def read(file: Path, text: str) -> GatewayConfig:
    file.write_text(text, encoding="utf-8")
    return load_config(file, {"PENSTOCK_DATA": str(file.parent)})


def refusal(file: Path, text: str) -> str:
    """What is said of a file, after its name."""
    with pytest.raises(InputError) as raised:
        read(file, text)
    said = str(raised.value)
    assert said.startswith(str(file))
    assert "\n" not in said
    return said.removeprefix(str(file))


@each("text, said", WRONG)
def test_an_error_names_file_line_and_key(file: Path, text: str, said: str) -> None:
    assert refusal(file, text).startswith(said)


def test_the_example_is_read_and_fits_the_schema() -> None:
    path = PROJECT / "examples" / "penstock.toml"
    config = load_config(path, {})
    assert config.engine.aliases["default"] == "fast"
    limits = config.keys["ci"].limits
    assert limits is not None
    assert (limits.requests, limits.tokens, limits.day_cost) == (60, 200_000, 5.0)
    assert config.features.prompt_caching
    jsonschema.validate(tomllib.loads(path.read_text()), SCHEMA)


@each("text", ["[serve]\nprot = 1", "keys = 'mine'", "[options]\nproxi = ''", "[providers.a]\nkye = ''"])
def test_the_schema_refuses_what_the_reader_refuses(file: Path, text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(text), SCHEMA)
    assert refusal(file, text)


def test_the_schema_is_up_to_date() -> None:
    tool = [sys.executable, str(PROJECT / "tools" / "schema.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_one_file_does_for_the_client_and_the_gateway() -> None:
    path = PROJECT / "examples" / "penstock.toml"
    assert Config.read(path) == load_config(path, {}).engine


def test_keys_forward_has_two_spellings(file: Path) -> None:
    short, long = read(file, "keys = 'forward'"), read(file, "[access]\nkeys = 'forward'")
    assert short.forward
    assert short == long
    assert not GatewayConfig().forward


def test_where_the_file_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_config(None, {}).path is None
    named, here = tmp_path / "other.toml", tmp_path / "penstock.toml"
    named.write_text("[serve]\nport = 1")
    here.write_text("[serve]\nport = 2")
    assert load_config(None, {}).serve.port == 2
    assert load_config(None, {"PENSTOCK_CONFIG": str(named)}).serve.port == 1
    assert load_config(named, {"PENSTOCK_CONFIG": str(here)}).serve.port == 1
    with pytest.raises(FileNotFoundError):
        load_config(tmp_path / "none.toml", {})


def test_where_things_are_kept(tmp_path: Path) -> None:
    assert load_config(None, {"PENSTOCK_DATA": str(tmp_path)}).data == tmp_path
    # One made in a program touches no disk unless it is told where.
    assert GatewayConfig().data is None


def test_a_configuration_is_not_printed_with_its_secrets(file: Path) -> None:
    secret = "planted-4f1d9a"
    config = read(file, f"[options.headers]\nx = '{secret}'\n[providers.openai]\nkey = '{secret}'")
    assert config.engine.providers["openai"].key == secret
    assert secret not in repr(config)


def test_addresses_of_stores_come_from_the_file_or_the_environment_and_are_not_shown(tmp_path: Path) -> None:
    env = {"PENSTOCK_DATA": str(tmp_path), "PENSTOCK_CONFIG": str(tmp_path / "penstock.toml")}
    file = tmp_path / "penstock.toml"
    file.write_text('[stores]\npostgres = "postgresql://me:hunter2@db/penstock"\nkeys_hold = 5.0\n')
    more = {"PENSTOCK_POSTGRES_URL": "postgresql://other@db/x", "PENSTOCK_REDIS_URL": "redis://:hunter2@cache/0"}
    stores = load_config(None, env | more).stores
    assert (stores.postgres, stores.redis, stores.keys_hold) == (
        "postgresql://me:hunter2@db/penstock",
        "redis://:hunter2@cache/0",
        5.0,
    )
    assert "hunter2" not in repr(stores)
    for wrong in ("PENSTOCK_POSTGRES_URL", "PENSTOCK_REDIS_URL"):
        file.write_text("")
        with pytest.raises(InputError, match=wrong) as caught:
            load_config(None, env | {wrong: "mysql://me:hunter2@db/x"})
        assert "hunter2" not in str(caught.value)
    file.write_text('[stores]\nredis = "http://me:hunter2@db/x"\n')
    with pytest.raises(InputError, match=r"penstock.toml:\d: stores") as caught:
        load_config(None, env)
    assert "hunter2" not in str(caught.value)


def test_the_page_names_every_key() -> None:
    page = (PROJECT / "docs" / "configuration.md").read_text()
    shapes: dict[str, Any] = SCHEMA["$defs"]
    tables = {
        name: shapes[table["$ref"].rpartition("/")[2]]
        for name, table in SCHEMA["properties"].items()
        if "$ref" in table
    }
    missing = [name for name in SCHEMA["properties"] if f"`{name}" not in page]
    missing += [
        f"{table}.{name}"
        for table in ("serve", "access", "journal", "record", "state", "features", "log")
        for name in tables[table]["properties"]
        if f"| `{table}.{name}` |" not in page
    ]
    missing += [name for shape in ("Key", "Limit") for name in shapes[shape]["properties"] if f"`{name}`" not in page]
    assert missing == []


UNREADABLE = {
    "lists": "aliases.a = " + "[" * 5000 + "]" * 5000,
    "inline tables": "a = " + "{a = " * 3000 + "1" + "}" * 3000,
    "dotted keys": ".".join(["a"] * 1500) + " = 1",
    "a header": "[" + ".".join(["a"] * 1500) + "]\nb = 1",
    "an integer": "retries = " + "9" * 10_000,
}


@each("case", UNREADABLE)
def test_a_file_that_cannot_be_a_configuration_is_one_clear_line(file: Path, case: str) -> None:
    assert "not a configuration" in refusal(file, UNREADABLE[case])


@each("setting", ["serve.read = nan", "serve.idle = inf", "journal.days = nan", "log.blocked = inf"])
def test_times_and_sizes_are_finite(file: Path, setting: str) -> None:
    assert refusal(file, setting).startswith(f":1: {setting.split(maxsplit=1)[0]}: expected a number of at least 0")
