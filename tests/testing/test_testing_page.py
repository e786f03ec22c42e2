"""docs/testing-your-app.md: the message that it shows, and the replies that it lists. tests/docs runs its examples."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from penstock.testing import Cassette, Reply, UnrecordedRequest, scripted
from tests.cli.command_runner import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.row("Y5"), pytest.mark.slow]
PAGE = (PROJECT / "docs" / "testing-your-app.md").read_text(encoding="utf-8")


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder with the recording that the page's example replays."""
    path = tmp_path / "recordings" / "tide.json"
    with scripted(Reply.text("High tide is at 06:12.", usage=(12, 6))) as up, Cassette(path, "once") as cassette:
        config = {"providers": {"openai": {"base_url": f"{up.url}/v1", "key": "made-up"}}}
        with cassette.sync_client(config) as client:
            client.chat("openai/gpt-4o", "When is high tide?")
    return tmp_path


def test_the_message_of_the_page(recorded: Path) -> None:
    shown = PAGE[PAGE.index("POST https://") :].partition("\n```")[0].splitlines()
    cassette = Cassette(recorded / "recordings" / "tide.json")
    with cassette, cassette.sync_client() as client, pytest.raises(UnrecordedRequest) as caught:
        client.chat("openai/gpt-4o", "When is low tide?")
    lines = str(caught.value).splitlines()
    assert (lines[0], lines[3:6]) == (shown[0], shown[3:6])
    assert [line.split()[0] for line in lines[:6]] == [line.split()[0] for line in shown[:6]]


def test_every_reply_of_the_page_exists() -> None:
    names = set(re.findall(r"`Reply\.(\w+)\(", PAGE)) | set(re.findall(r"`\.(\w+)\(", PAGE))
    assert len(names) > 12
    assert [name for name in names if not hasattr(Reply, name)] == []
