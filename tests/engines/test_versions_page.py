"""docs/engines.md names the versions of SDKs that are supported, as the code has them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock._engines.sdk_vendors import VENDOR_SDKS

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"


@pytest.mark.finding("ADP-9")
def test_the_page_names_the_supported_versions() -> None:
    said = re.search(r"Supported are (.*?)\. ", " ".join(PAGE.read_text().split()))
    assert said is not None
    for name, vendor in VENDOR_SDKS.items():
        ability = vendor.capabilities
        words = f"{ability.oldest} alone" if ability.newest == ability.oldest else f"from version {ability.oldest} on"
        assert f"`{name}` {words}" in said[1]
