"""What is inside an exported HTML file: its traces, decompressed."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from typing import Any

_DATA = re.compile(rb'<script type="application/gzip\+base64" id="penstock-trace">([^<]*+)</script>')


def exported_data(html: bytes) -> bytes:
    """The traces as JSON, as they were before they were compressed."""
    found = _DATA.search(html)
    assert found is not None
    return gzip.decompress(b64decode(found[1], validate=True))


def exported_traces(html: bytes) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(exported_data(html))
    traces: dict[str, Any] = data["traces"]
    return traces
