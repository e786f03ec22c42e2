"""docs/cli.md says what the commands do: its picture, its options and its protocols are checked against them."""

from __future__ import annotations

import re

import pytest

from penstock import _protocols as protocols
from tests.cli.command_runner import PROJECT, inside

PAGE = (PROJECT / "docs" / "cli.md").read_text(encoding="utf-8")


def test_the_picture_is_what_is_printed() -> None:
    columns, picture = re.findall(r"\$ COLUMNS=(\d+) penstock inspect examples/tides.sse\n(.*?)```", PAGE, re.DOTALL)[0]
    done = inside("inspect", str(PROJECT / "examples" / "tides.sse"), COLUMNS=columns)
    assert done.stdout.decode() == picture


def test_the_json_lines_are_what_is_printed() -> None:
    done = inside("inspect", "--json", str(PROJECT / "examples" / "tides.sse"))
    printed = done.stdout.decode().splitlines()
    shown = re.findall(r'^\{"kind":"(?:event|output)".*$', PAGE, re.MULTILINE)
    assert shown
    assert set(shown) <= set(printed)


@pytest.mark.parametrize("command", ["translate", "convert", "inspect", "tokens", "models", "providers", "setup"])
def test_the_options_are_those_of_the_command(command: str) -> None:
    section = PAGE.partition(f"## penstock {command}\n")[2].partition("\n## ")[0]
    told = set(re.findall(r"^\| `(--?[a-z-]+)", section, re.MULTILINE))
    there = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", inside(command, "--help").stdout.decode()))
    assert told
    assert told <= there


def test_the_protocols_are_those_there_are() -> None:
    told = re.search(r"Protocols: (.*?)\. (.*?) can be read, not written", PAGE, re.DOTALL)
    assert told is not None
    assert {name.partition("@")[0] for name in re.findall(r"`([a-z-]+)", told[1])} == set(protocols.MODULES)
    unwritten = {name for name in protocols.MODULES if protocols.protocol(name).encoder is None}
    assert set(re.findall(r"`([a-z-]+)", told[2])) == unwritten
