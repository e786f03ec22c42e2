"""The warning of unencrypted addresses: the gateway gives it for the same addresses as the form (web/test has them)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.event_feed import bearer
from tests.support.gateway import hash_key
from tests.support.inspector import inspected
from tests.support.inspector_calls import CLIENT

if TYPE_CHECKING:
    import pytest

CASES: Any = json.loads(Path(__file__).with_name("exposed_addresses.json").read_text(encoding="utf-8"))
ROOT = "pk-penstock-root0123456789"


def test_an_exposed_address_has_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", str(tmp_path))
    keys = {"root": {"hash": hash_key(ROOT), "role": "admin"}}
    with inspected(env=os.environ, data=tmp_path, keys=keys) as gateway:

        def warning(number: int, url: str) -> str:
            body = {"name": f"lab{number}", "base_url": url, "models": ["m"], "check": False}
            made = CLIENT.post(f"{gateway.url}/admin/custom-providers", json=body, headers=bearer(ROOT))
            if "link-local" in made.text:  # it takes no such address at all
                return ""
            assert made.status_code == 201, made.text
            return str(made.json()["warning"])

        urls = [*CASES["exposed"], *CASES["private"]]
        told = {url: warning(number, url) for number, url in enumerate(urls)}
    assert told == {url: CASES["warning"] if url in CASES["exposed"] else "" for url in urls}
