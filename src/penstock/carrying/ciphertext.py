"""What only its provider can read (encrypted search results, sealed thoughts) never becomes words for another."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

# https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool (encrypted_content, encrypted_index),
# …/code-execution-tool (encrypted_stdout), …/build-with-claude/extended-thinking (signature; data of redacted thinking)
FIELDS: Final = frozenset({
    "encrypted_content", "encrypted_index", "encrypted_stdout", "encrypted_stderr", "signature", "thoughtSignature",
    "thought_signature", "redactedContent",
})  # fmt: skip
_SEALED: Final = frozenset({"redacted_thinking", "reasoning.encrypted"})  # types whose `data` is sealed
_encode = msgspec.json.Encoder().encode


def without_ciphertext(text: str) -> str:
    """A JSON text without fields that are sealed; the same text where there are none, or where it is no JSON."""
    if not any(name in text for name in FIELDS) and not any(name in text for name in _SEALED):
        return text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text
    return _encode(value).decode() if _stripped(value) else text


def _stripped(value: Any) -> bool:
    """Take sealed fields out of a value, at any depth; whether there were any."""
    found = False
    waiting: list[Any] = [value]
    while waiting:  # not recursive: the value may be of any depth
        one: Any = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            fields = cast("dict[str, Any]", one)
            kind = fields.get("type")
            sealed = FIELDS | {"data"} if isinstance(kind, str) and kind in _SEALED else FIELDS
            for name in sealed & fields.keys():
                del fields[name]
                found = True
            waiting += fields.values()
    return found
