"""Writes docs/penstock.schema.json, the JSON Schema of penstock.toml, from the Structs that read it.

`python tools/schema.py` writes it, `--check` only says whether it is as it should be.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from penstock._gateway.config import ConfigFile
from penstock._http.request_options import RequestOptions

PLACE = Path(__file__).resolve().parents[1] / "docs" / "penstock.schema.json"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
_LISTS = ("ca_bundle", "no_proxy")


def schema() -> bytes:
    """The schema as it stands in the file."""
    _, parts = msgspec.json.schema_components((ConfigFile, RequestOptions), ref_template="#/$defs/{name}")
    options = {"$ref": "#/$defs/RequestOptions"}
    for name in ("ConfigFile", "Account"):
        parts[name]["properties"]["options"] = options
    _loosen(parts["RequestOptions"]["properties"])
    file = parts.pop("ConfigFile")
    made = {
        "$schema": DRAFT,
        "title": "penstock.toml",
        **{key: value for key, value in file.items() if key != "title"},
        "$defs": parts,
    }
    shown = _without_internal(made)
    return msgspec.json.format(msgspec.json.encode(shown, order="deterministic"), indent=1) + b"\n"


def _without_internal(value: Any) -> Any:
    """Leaves out the fields that only the program sets; their names begin with an underscore."""
    if isinstance(value, dict):
        fields: dict[str, Any] = value
        return {key: _without_internal(one) for key, one in fields.items() if not key.startswith("_")}
    if isinstance(value, list):
        items: list[Any] = value
        return [_without_internal(one) for one in items]
    return value


def _loosen(options: dict[str, Any]) -> None:
    """What request options take besides: a text in place of a list, a file in place of a certificate."""
    for name in _LISTS:
        options[name] = {"anyOf": [{"type": "string"}, options[name]]}
    options["client_certificate"] = {"anyOf": [{"type": "string"}, *options["client_certificate"]["anyOf"]]}


def main() -> int:
    """Write or check."""
    made = schema()
    if "--check" in sys.argv:
        there = PLACE.read_bytes() if PLACE.exists() else b""
        if there != made:
            print(f"{PLACE.name} is not up to date: python tools/schema.py", file=sys.stderr)
        return int(there != made)
    PLACE.write_bytes(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
