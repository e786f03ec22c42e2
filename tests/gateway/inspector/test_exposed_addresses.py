"""The warning of unencrypted addresses: the gateway gives it for the same addresses as the form (web/test reads them)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock._gateway.custom_provider_validation import describe_exposure

CASES: Any = json.loads(Path(__file__).with_name("exposed_addresses.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("url", CASES["exposed"])
def test_an_exposed_address_has_a_warning(url: str) -> None:
    assert describe_exposure(url) == CASES["warning"]


@pytest.mark.parametrize("url", CASES["private"])
def test_a_private_or_encrypted_address_has_none(url: str) -> None:
    assert describe_exposure(url) == ""
