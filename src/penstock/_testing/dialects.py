"""Tells which protocol a received request speaks, and which base URL a vendor's SDK needs.

A scripted upstream uses this to answer any client in its own dialect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from penstock import _protocols as protocols
from penstock._lenient_fields import as_object
from penstock._providers.registry import provider, providers
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Dialect(NamedTuple):
    """How a request expects its answer: the protocol, whether as a stream, and the framing if it is not the usual."""

    protocol: str
    stream: bool = False
    framing: str = ""


# The end of a path → the dialect; None: the body's `stream` decides. The first match counts.
_PATHS: tuple[tuple[str, str, bool | None, str], ...] = (
    (":streamGenerateContent", "gemini", True, "jsonarray"),
    (":generateContent", "gemini", False, ""),
    (":streamRawPredict", "anthropic", True, ""),
    (":rawPredict", "anthropic", False, ""),
    ("/fim/completions", "openai-chat", None, ""),
    ("/chat/completions", "openai-chat", None, ""),
    ("/completions", "completions", None, ""),
    ("/responses", "responses", None, ""),
    ("/messages", "anthropic", None, ""),
    ("/converse", "bedrock", False, ""),
    ("/converse-stream", "bedrock", True, ""),
    ("/invocations", "openai-chat", False, ""),
    ("/invocations-response-stream", "openai-chat", True, "eventstream+sse"),
    ("/text/chat", "openai-chat", False, ""),
    ("/text/chat_stream", "openai-chat", True, ""),
    ("/api/chat", "ollama", None, ""),
    ("/chat", "cohere", None, ""),
)
# Providers whose SDKs add the version of the API to the base URL themselves.
_VERSIONED_BY_SDK = frozenset({"anthropic", "gemini", "bedrock", "cohere", "ollama"})
# What the SDKs and penstock read: variables of the base URL, and of the key.
_SDK_VARIABLES = {
    "openai": (("OPENAI_BASE_URL",), ("OPENAI_API_KEY",)),
    "anthropic": (("ANTHROPIC_BASE_URL",), ("ANTHROPIC_API_KEY",)),
    "gemini": (("GOOGLE_GEMINI_BASE_URL",), ("GEMINI_API_KEY",)),
    "cohere": (("CO_API_URL",), ("CO_API_KEY",)),
    "ollama": (("OLLAMA_HOST",), ()),
    "bedrock": (("AWS_ENDPOINT_URL_BEDROCK_RUNTIME",), ("AWS_BEARER_TOKEN_BEDROCK",)),
}
TEST_KEY = "penstock-test-key"


def find_dialect(path: str, query: str = "", body: Any = None) -> Dialect | None:
    """Returns the dialect of a request by its path and body; None if it is not a request for a turn."""
    row = next((row for row in _PATHS if path.endswith(row[0])), None)
    if row is None:
        return None
    _, protocol, streams, framing = row
    if streams is None:
        wanted = as_object(body).get("stream")
        streams = protocol == "ollama" if wanted is None else bool(wanted)  # Ollama streams unless told not to
    return Dialect(protocol, streams, framing if streams and "alt=sse" not in query else "")


def require_dialect(path: str, query: str, body: Any) -> Dialect:
    """Returns the dialect of a request. Raises if it is not known."""
    found = find_dialect(path, query, body)
    if found is None:
        raise InputError(
            f"the dialect of a request to {path} is not known: name it in the reply (`protocol=…`), "
            "or answer with `Reply.body(…)`"
        )
    return found


def sdk_path(name: str) -> str:
    """Returns what stands behind the host in the base URL of a provider's SDK, such as `/v1`.

    `name` is a provider, or a protocol by any of its names.
    """
    name = _PROVIDER_OF_PROTOCOL.get(name, name)
    row = provider(name)
    if row.protocol in _VERSIONED_BY_SDK:
        return ""
    path = urlsplit(row.base_url).path if row.base_url.startswith("http") else ""
    return path.rstrip("/") if "{" not in path else ""


_PROVIDER_OF_PROTOCOL: Mapping[str, str] = {
    **{other: "openai" for other, name in protocols.OTHER_NAMES.items() if name in {"openai-chat", "responses"}},
    **dict.fromkeys(("openai-chat", "responses", "completions"), "openai"),
    "claude": "anthropic",
    "messages": "anthropic",
    "google": "gemini",
}


def provider_name(name: str) -> str:
    """Returns the provider of a name that is a provider's or a protocol's."""
    return provider(_PROVIDER_OF_PROTOCOL.get(name, name)).name


def sdk_variables(base_urls: Mapping[str, str], *, keys: bool = True) -> dict[str, str]:
    """Returns the environment variables that point the vendors' SDKs at these base URLs; `keys`: made-up ones, too."""
    found: dict[str, str] = {}
    for name, base_url in base_urls.items():
        url_names, key_names = _SDK_VARIABLES[name]
        found.update(dict.fromkeys(url_names, base_url))
        found.update(dict.fromkeys(key_names if keys else (), TEST_KEY))
    return found


SDK_NAMES = tuple(_SDK_VARIABLES)


def placeholder_settings() -> dict[str, str]:
    """Returns variables for the settings that an address needs and that have no default, such as a region."""
    found: dict[str, str] = {}
    for row in providers().values():
        for name, setting in row.settings.items():
            if setting.env and not setting.default:
                found[setting.env[0]] = "https://test.invalid" if name.endswith("_url") else "test"
    return found
