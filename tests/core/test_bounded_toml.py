"""Configuration files that would take long to parse are refused before they are parsed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from penstock.errors import InputError
from penstock.gateway import Config
from tests.support.each_case import each

if TYPE_CHECKING:
    from pathlib import Path

LONG = ".".join(["a"] * 20_000)
TEXTS = {
    "key": f"\n{LONG} = 1\n", "table": f"\n[{LONG}]\n", "array of tables": f"\n[[{LONG}]]\n", "inline table": f"\nx = {{ {LONG} = 1 }}\n",
    "quoted": "\n" + " . ".join(['"a"'] * 20_000) + " = 1", "escaped quotes": "\n" + ".".join(['"\\""'] * 20_000) + " = 1",
    "33 parts": "\n" + ".".join("a" * 33) + " = 1",
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "penstock.toml"


@each("kind", TEXTS)
def test_a_key_of_many_parts_is_refused(kind: str, file: Path) -> None:
    """`tomllib` takes twenty seconds for one of 20,000 parts."""
    file.write_text(TEXTS[kind])
    said = rf"{re.escape(str(file))}:2: not a configuration: a key of more than 32 dotted parts: remove it"
    with pytest.raises(InputError, match=said):
        Config.read(file)


def test_a_large_file_is_refused(file: Path) -> None:
    file.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(InputError, match="the file has 1048577 bytes; at most 1048576 are read"):
        Config.read(file)
    file.write_bytes(b"#" * 2**20)
    Config.read(file)


@each("text, complaint", [(b"x = \xff", "byte 4 is not UTF-8"), (b"x = " + b"9" * 5000, "an integer has too many digits"),
                          (b"x = " + b"[" * 50_000, "nests too deep")])  # fmt: skip
def test_other_text_that_is_no_configuration(text: bytes, complaint: str, file: Path) -> None:
    file.write_bytes(text)
    with pytest.raises(InputError, match=complaint):
        Config.read(file)


def test_dots_in_values_are_no_key(file: Path) -> None:
    models = ", ".join(f'"replay/text.{number}"' for number in range(200))
    file.write_text(f"[aliases]\nmany = [{models}]\n# ...{'.' * 100}\n")
    Config.read(file)
    file.write_text(f"[{'.'.join(['a'] * 32)}]\nx = 1.5\n")  # allowed, and no setting
    with pytest.raises(InputError) as caught:
        Config.read(file)
    assert "dotted parts" not in str(caught.value)
