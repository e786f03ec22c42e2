"""Which pages may ask the inspector: its own, and those that the configuration names. Stricter than the gateway.

Other pages of this machine may use models; what others have said to them is none of their business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.gateway.callers import refused

if TYPE_CHECKING:
    from collections.abc import Mapping

_NEAR = frozenset({"", "none", "same-origin"})  # of Sec-Fetch-Site: no browser, the address bar, our own page


def check_own(headers: Mapping[str, str], welcome: frozenset[str]) -> None:
    """Raise where another page asks. `welcome` are origins that may."""
    origin = headers.get("origin", "").lower()
    if "*" in welcome or (origin and origin in welcome):
        return
    own = _place(origin) == headers.get("host", "").lower() if origin else headers.get("sec-fetch-site", "") in _NEAR
    if not own:
        said = "only the inspector's own page may ask here, or one that access.origins in penstock.toml names"
        raise refused(403, "permission", said, code="origin_not_allowed")


def _place(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
