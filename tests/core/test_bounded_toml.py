"""Configuration files that would take long to parse are refused before they are parsed."""

from __future__ import annotations

import re
import time
import tomllib
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from penstock._gateway.config import read_config
from penstock._input_limits import MAX_TOML_BYTES, MAX_TOML_KEY_PARTS
from penstock._option_checks import read_toml
from penstock.errors import InputError
from penstock.gateway import Config

if TYPE_CHECKING:
    from pathlib import Path

LONG = ".".join(["a"] * 20_000)
QUICK = 2.0  # seconds; tomllib takes twenty for the same


@pytest.mark.parametrize(
    "text",
    [f"\n{LONG} = 1\n", f"\n[{LONG}]\n", f"\n[[{LONG}]]\n", f"\nx = {{ {LONG} = 1 }}\n", "\n" + " . ".join(['"a"'] * 20_000) + " = 1",
     "\n" + ".".join(['"\\""'] * 20_000) + " = 1"],
    ids=["key", "table", "array of tables", "inline table", "quoted", "escaped quotes"],
)  # fmt: skip
def test_a_key_of_many_parts_is_refused_at_once(text: str, tmp_path: Path) -> None:
    place = tmp_path / "penstock.toml"
    place.write_text(text)
    began = time.process_time()
    with pytest.raises(
        InputError,
        match=rf"{re.escape(str(place))}:2: not a configuration: a key of more than 32 dotted parts: remove it",
    ):
        read_config(text, place)
    with pytest.raises(InputError, match=":2: not a configuration: a key of more than 32"):
        Config.read(place)
    assert time.process_time() - began < QUICK


@pytest.mark.parametrize("char", ["a", ".", '"', "'", "[", '"a".', "a. ", " ", "a.", '".', '\\"', '"\\"".'])
def test_looking_at_a_text_takes_linear_time(char: str) -> None:
    text = "# " + char * (MAX_TOML_BYTES // len(char) - 2)
    began = time.process_time()
    with suppress(InputError, tomllib.TOMLDecodeError):
        read_toml(text.encode(), "file")
    assert time.process_time() - began < QUICK


def test_a_large_file_is_refused() -> None:
    with pytest.raises(InputError, match="the file has 1048577 bytes; at most 1048576 are read"):
        read_toml(b"#" * (MAX_TOML_BYTES + 1), "file")


def test_dots_in_values_are_no_key() -> None:
    hosts = ", ".join(f'"host{number}.example.com"' for number in range(200))
    text = f"[access]\nhosts = [{hosts}]\n# ...{'.' * 100}\n[{'.'.join(['a'] * MAX_TOML_KEY_PARTS)}]\nx = 1.5\n"
    _, tables = read_toml(text.encode(), "file")
    assert len(tables["access"]["hosts"]) == 200
