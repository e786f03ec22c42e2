"""penstock.toml: what it says, what it may not say, and where the error says it stands."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._engines.config import GATEWAY_TABLES
from penstock._gateway.config import ConfigFile, Limit, data_path, read_config
from penstock._gateway.toml_locations import index_lines
from penstock._store.sqlite import IN_MEMORY
from penstock.errors import InputError
from penstock.gateway import Config, GatewayConfig, load_config
from tests.support.paths import PROJECT

HERE = Path("penstock.toml")
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


@pytest.mark.parametrize(
    ("text", "said"), WRONG, ids=[said.split(": ")[1] + f"-{i}" for i, (_, said) in enumerate(WRONG)]
)
def test_an_error_names_file_line_and_key(text: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        read_config(text, HERE)
    assert str(raised.value).startswith(f"penstock.toml{said}")
    assert "\n" not in str(raised.value)


def test_the_example_is_read_and_fits_the_schema() -> None:
    path = PROJECT / "examples" / "penstock.toml"
    config = load_config(path, {})
    assert config.engine.aliases["default"] == "fast"
    assert config.keys["ci"].limits == {"requests": 60, "tokens": 200_000, "day_cost": 5.0}
    assert config.features.prompt_caching
    jsonschema.validate(tomllib.loads(path.read_text()), SCHEMA)


@pytest.mark.parametrize(
    "text", ["[serve]\nprot = 1", "keys = 'mine'", "[options]\nproxi = ''", "[providers.a]\nkye = ''"]
)
def test_the_schema_refuses_what_the_reader_refuses(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(text), SCHEMA)
    with pytest.raises(InputError):
        read_config(text, HERE)


def test_the_schema_is_up_to_date() -> None:
    tool = [sys.executable, str(PROJECT / "tools" / "schema.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_one_file_does_for_the_client_and_the_gateway() -> None:
    path = PROJECT / "examples" / "penstock.toml"
    assert Config.read(path) == load_config(path, {}).engine
    assert frozenset(ConfigFile.__struct_fields__) - frozenset(Config.__struct_fields__) == GATEWAY_TABLES


def test_keys_forward_has_two_spellings() -> None:
    short, long = read_config("keys = 'forward'", HERE), read_config("[access]\nkeys = 'forward'", HERE)
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
    assert data_path("", tmp_path, "x") == tmp_path / "x"
    assert data_path("y", tmp_path, "x") == Path("y")
    # One made in a program touches no disk unless it is told where.
    assert GatewayConfig().data is None
    assert data_path("", None, "x") == data_path("memory", tmp_path, "x") == IN_MEMORY


def test_a_configuration_is_not_printed_with_its_secrets() -> None:
    secret = "planted-4f1d9a"
    config = read_config(f"[options.headers]\nx = '{secret}'\n[providers.openai]\nkey = '{secret}'", HERE)
    assert config.engine.providers["openai"].key == secret
    assert secret not in repr(config)


_NAMES = st.text("abc-_", min_size=1, max_size=5)
_VALUES = st.recursive(
    st.integers() | st.sampled_from(["'x = 1'", '"a # b"', "'''\nx = 1\n'''", '"""\n[t]\n"""', "true"]),
    lambda inner: st.lists(inner, max_size=3).map(lambda rows: "[\n" + ",\n".join(map(str, rows)) + "\n]"),
    max_leaves=4,
)


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


@given(st.dictionaries(_NAMES, st.dictionaries(_NAMES, _VALUES, max_size=3), max_size=4))
def test_every_key_is_found_on_its_line(tables: dict[str, dict[str, object]]) -> None:
    text = ""
    where: dict[tuple[str, ...], int] = {}
    for table, rows in tables.items():
        where[(table,)] = text.count("\n") + 1
        text += f"[{table}] # a comment = 1\n"
        for name, value in rows.items():
            where[table, name] = text.count("\n") + 1
            text += f"{name} = {value}\n"
    tomllib.loads(text)
    assert index_lines(text) == where


def test_the_page_names_every_key() -> None:
    from penstock._gateway.config import AccessTable, FeaturesTable, Key, Log, Serve
    from penstock._gateway.config_tables import RecordTable
    from penstock.gateway import JournalTable, StateTable

    page = (PROJECT / "docs" / "configuration.md").read_text()
    tables = {
        "serve": Serve, "access": AccessTable, "journal": JournalTable, "record": RecordTable, "state": StateTable,
        "features": FeaturesTable, "log": Log,
    }  # fmt: skip
    missing = [
        f"{table}.{name}"
        for table, struct in tables.items()
        for name in struct.__struct_fields__
        if f"| `{table}.{name}` |" not in page
    ]
    missing += [name for struct in (Key, Limit) for name in struct.__struct_fields__ if f"`{name}`" not in page]
    missing += [name for name in ConfigFile.__struct_fields__ if f"`{name}" not in page]
    assert missing == []


UNREADABLE = {
    "lists": "aliases.a = " + "[" * 5000 + "]" * 5000,
    "inline tables": "a = " + "{a = " * 3000 + "1" + "}" * 3000,
    "dotted keys": ".".join(["a"] * 1500) + " = 1",
    "a header": "[" + ".".join(["a"] * 1500) + "]\nb = 1",
    "an integer": "retries = " + "9" * 10_000,
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_file_that_cannot_be_a_configuration_is_one_clear_line(case: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a configuration"):
        read_config(UNREADABLE[case], tmp_path / "penstock.toml")


@pytest.mark.parametrize("setting", ["serve.read = nan", "serve.idle = inf", "journal.days = nan", "log.blocked = inf"])
def test_times_and_sizes_are_finite(setting: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"penstock.toml:1: \S+: expected a number of at least 0"):
        read_config(setting, tmp_path / "penstock.toml")
