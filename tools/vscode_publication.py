"""What the Marketplace needs beside the extension: its address, and pictures in the README.

The address is that of `tools/publication.py`, and empty until the project is published. Everything that depends on it
is made here: `repository`, `homepage` and `bugs` of the manifest, and the addresses of the README's pictures and links.
Without an address a package has neither: the Marketplace shows only pictures with an https address.
"""

from __future__ import annotations

import re
from typing import Any

_PICTURE = re.compile(r"^!\[.*\]\(docs/.*\)\n+", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https://|#)[^)]*\)")


def fill_manifest(manifest: dict[str, Any], repository: str) -> dict[str, Any]:
    """Returns the manifest with the fields that follow from the address."""
    if not repository:
        return manifest
    return {
        **manifest,
        "repository": {"type": "git", "url": f"{repository}.git", "directory": "vscode"},
        "homepage": f"{repository}/tree/main/vscode#readme",
        "bugs": {"url": f"{repository}/issues"},
    }


def fill_readme(text: str, repository: str, version: str) -> str:
    """Returns the README of the package: pictures and links of this version, or none."""
    if not repository:
        return _LINK.sub(r"\1", _PICTURE.sub("", text))
    raw, pages = f"{repository}/raw/v{version}/vscode", f"{repository}/blob/v{version}/vscode"
    with_pictures = re.sub(r"(!\[[^\]]*\]\()(docs/)", rf"\1{raw}/\2", text)
    return re.sub(r"(?<!!)(\[[^\]]*\]\()(?!https://|#)", rf"\1{pages}/", with_pictures)
