"""docs/cli.md says what the commands do: its picture, its options and its protocols are checked against them."""

from __future__ import annotations

import re

import pytest

from penstock import _protocols as protocols
from penstock._cli import COMMANDS, create_parser
from penstock._cli.chat_commands import COMMANDS as CHAT_COMMANDS
from tests.cli.command_runner import PROJECT, inside

PAGE = (PROJECT / "docs" / "cli.md").read_text(encoding="utf-8")


@pytest.mark.slow
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


SECTIONS = dict(re.findall(r"^## penstock ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
OTHER_PAGES = "".join(
    (PROJECT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("journal", "keys", "recording")
)


@pytest.mark.finding("LIB-14")
def test_the_list_is_that_of_the_parser() -> None:
    listed = re.findall(r"^    penstock (\w+) +(.+)$", PAGE, re.MULTILINE)
    assert listed == [(name, does) for name, (_, does) in COMMANDS.items()]


@pytest.mark.finding("LIB-14")
@pytest.mark.parametrize("command", COMMANDS)
def test_the_options_are_those_of_the_command(command: str) -> None:
    (section,) = (text for title, text in SECTIONS.items() if command in re.findall(r"\w+", title))
    parser = create_parser(command)[1][command]
    known = {name for action in parser._actions for name in action.option_strings}
    section = section.partition(f"| option of `{command}`")[2].partition("\n\n")[0] or section
    told = set(re.findall(r"^\| `(--?[a-z-]+)", section, re.MULTILINE))
    assert told <= known
    long = {name for name in known - {"--help"} if name.startswith("--")}
    missing = {name for name in long if f"`{name}" not in PAGE + OTHER_PAGES and f" {name}" not in PAGE + OTHER_PAGES}
    assert not missing


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str) -> None:
    text = inside(command, "--help").stdout.decode()
    assert f"penstock {command} " in text.partition("examples:")[2], text


@pytest.mark.finding("LIB-13")
def test_the_commands_of_a_chat_are_those_there_are() -> None:
    told = re.findall(r"^\| `(/[a-z]+)", SECTIONS["chat"], re.MULTILINE)
    assert told == list(CHAT_COMMANDS)


def test_the_protocols_are_those_there_are() -> None:
    told = re.search(r"Protocols: (.*?)\. (.*?) can be read, not written", PAGE, re.DOTALL)
    assert told is not None
    assert {name.partition("@")[0] for name in re.findall(r"`([a-z-]+)", told[1])} == set(protocols.MODULES)
    unwritten = {name for name in protocols.MODULES if protocols.protocol(name).encoder is None}
    assert set(re.findall(r"`([a-z-]+)", told[2])) == unwritten
