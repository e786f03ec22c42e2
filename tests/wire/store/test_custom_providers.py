"""The file of servers that an admin added: whole changes, bounded, never read in half, never written over if damaged."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.client_requests import get, post
from tests.support.event_feed import bearer
from tests.support.gateway import hash_key
from tests.support.stores import Place, full_disk

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.support.inspector import Inspected

MOST, MOST_BYTES = 100, 2**20
ROOT = {"root": {"hash": hash_key("root"), "role": "admin"}}


def add(running: Inspected, name: str, **more: Any) -> httpx.Response:
    body = {"name": name, "base_url": "http://127.0.0.1:8000/v1", "check": False, **more}
    return post(f"{running.url}/admin/custom-providers", json=body, headers=bearer("root"))


def written(folder: Path) -> list[str]:
    return sorted(json.loads((folder / "custom-providers.json").read_text())["providers"])


def test_changes_of_several_gateways_are_all_kept_up_to_a_bound(tmp_path: Path) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        both = [stack.enter_context(Place("file", tmp_path).open(keys=ROOT)) for _ in range(2)]
        names = [f"lab-{number:03}" for number in range(30)]
        statuses = {reply.status_code for reply in pool.map(add, both * 15, names)}
        assert statuses == {201}
        assert written(tmp_path) == names
        rows = json.loads((tmp_path / "custom-providers.json").read_text())
        template = rows["providers"]["lab-000"]
        rows["providers"] |= {f"lab-{number:03}": template for number in range(30, MOST)}
    (tmp_path / "custom-providers.json").write_text(json.dumps(rows))
    with Place("file", tmp_path).open(keys=ROOT) as running:
        refused = add(running, "one-more")
        assert refused.status_code in (400, 409)
        assert f"{MOST} custom providers" in refused.text
        listed = get(f"{running.url}/admin/providers", headers=bearer("root")).json()["data"]
        assert sum(row["name"].startswith("lab-") for row in listed) == MOST
    names = sorted(path.name for path in tmp_path.glob("custom-providers*"))
    assert names == ["custom-providers.json", "custom-providers.json.lock"]


def test_a_write_that_fails_leaves_the_file_and_no_other(tmp_path: Path) -> None:
    with Place("file", tmp_path).open(keys=ROOT) as running:
        assert add(running, "lab").status_code == 201
        before = (tmp_path / "custom-providers.json").read_bytes()
        with full_disk(0):
            assert add(running, "other").status_code >= 500
        assert (tmp_path / "custom-providers.json").read_bytes() == before
        assert len([*tmp_path.glob("custom-providers*")]) == 2
        assert add(running, "other").status_code == 201


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "truncated"), (b"[]", "Expected `object`"), (b"\xff\xfe", "malformed"),
        (b'{"format": 2, "providers": {}, "more": 1}', "format 2 was written by a newer version"),
        (b'{"format": 1, "providers": {"lab": {"base_url": "http://x"}}}', "missing required field `like`"),
        (b'{"format": 1, "providers": {"lab": {"base_url": "http://x", "like": "vllm", "key": "k"}}}', "`key`"),
        (b" " * (MOST_BYTES + 1), "bytes"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named_and_not_written_over(
    tmp_path: Path, content: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "custom-providers.json"
    file.write_bytes(content)
    with Place("file", tmp_path).open(keys=ROOT) as running:
        refused = add(running, "lab")
    assert refused.status_code >= 400
    assert "custom-providers.json: " in refused.text + caplog.text
    assert reason in (refused.text + caplog.text).replace("\\", "")
    assert file.read_bytes() == content
