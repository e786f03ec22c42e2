"""Parts of the vendors' APIs that the gateway does not serve: 501, with what is missing and what to do instead.

The table is `unsupported.toml`. A path without a route that is listed there is answered in the form of its vendor.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping

STATUS = 501
CODE = "not_served"
# The SDKs of OpenAI and Anthropic repeat requests after a 5xx unless this header says not to.
NO_RETRY = (b"x-should-retry", b"false")
_GEMINI_VERSIONS = ("v1beta", "v1alpha", "v1beta1")
_GEMINI_HEADERS = ("x-goog-api-key", "x-goog-api-client")
_LIVE_PREFIX = "/ws/google."  # the WebSocket of Gemini's Live API


class UnsupportedFeature(msgspec.Struct, frozen=True):
    """A row of the table. `protocol`: of its errors."""

    protocol: str
    what: str
    instead: str

    @property
    def fault(self) -> Fault:
        """The error that a request gets."""
        message = f"penstock does not serve {self.what}. {self.instead}"
        return Fault("invalid", message, status=STATUS, code=CODE)


@cache
def unsupported_features() -> dict[tuple[str, str], UnsupportedFeature]:
    """Returns the table, by protocol and path; methods of Gemini begin with a colon."""
    text = files("penstock._gateway").joinpath("unsupported.toml").read_text(encoding="utf-8")
    table: dict[str, Any] = tomllib.loads(text)
    direct: str = table.pop("direct")
    found: dict[tuple[str, str], UnsupportedFeature] = {}
    for protocol, rows in table.items():
        for row in rows:
            feature = UnsupportedFeature(protocol, row["what"], row.get("instead", direct))
            for key in [*row["paths"], *(f":{method}" for method in row.get("methods", ()))]:
                found[protocol, key] = feature
    return found


def find_unsupported(path: str, headers: Mapping[str, str]) -> UnsupportedFeature | None:
    """Returns the feature that a path without a route belongs to, if it is one of a vendor's API."""
    features = unsupported_features()
    if path.startswith(_LIVE_PREFIX):
        return features["gemini", ":bidiGenerateContent"]
    version, _, rest = path.removeprefix("/upload").lstrip("/").partition("/")
    if version != "v1" and version not in _GEMINI_VERSIONS:
        return None
    keys = _lookup_keys(rest)
    for protocol in _protocols_of(version, headers):
        for key in keys:
            if (protocol, key) in features:
                return features[protocol, key]
    return None


def _lookup_keys(rest: str) -> list[str]:
    """Returns what a path is looked up by: two words, one word, or the method at its end."""
    words = rest.split("/", 2)
    method = rest.rpartition(":")[2] if ":" in rest else ""
    return [f":{method}", "/".join(words[:2]), words[0].partition(":")[0]]


def _protocols_of(version: str, headers: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the protocols to look in, the most likely one first: several vendors have `/v1/files`."""
    if version != "v1" or any(name in headers for name in _GEMINI_HEADERS):
        return ("gemini",)
    return ("anthropic", "openai-chat") if "anthropic-version" in headers else ("openai-chat", "anthropic")
