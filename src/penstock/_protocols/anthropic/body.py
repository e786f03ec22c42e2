"""The non-stream body, HTTP errors and usage of Anthropic Messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import _lenient_fields as lenient
from penstock import _provider_tools as provider_tools
from penstock import events as ev
from penstock._jsontext import decode_or_keep_raw, decode_trusted
from penstock._markers.marks import PROVIDER_CALL_PREFIX
from penstock._protocols.anthropic import wire
from penstock._protocols.anthropic.wire import NAME
from penstock._vendor_errors import ErrorTable, VendorError, provider_error_object, vendor_error, vendor_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._diagnostics import Diagnostics
    from penstock._framing.frame import Frame
    from penstock.events import Fault

_REQUIRED_FIELDS: dict[str, Any] = {"type": "message", "role": "assistant", "content": [], "stop_reason": None}

# ── the non-stream body ───────────────────────────────────────────────────────────────────────────


def build_body(frames: Sequence[Frame]) -> bytes:
    """Joins the frames of an encoded stream into one message, so that stream and body cannot differ."""
    message: dict[str, Any] = {}
    blocks: list[JoinedBlock] = []
    for _, data in frames:
        payload = lenient.as_object(decode_trusted(data))  # a payload of an unknown type may have any shape
        kind = payload.get("type")
        if kind == "error":
            return data
        if kind == "message_start":
            message.update(lenient.get_object(payload, "message"))
        elif kind == "content_block_start":
            blocks.append(JoinedBlock(lenient.get_object(payload, "content_block")))
        elif kind == "content_block_delta" and blocks:
            blocks[-1].append_delta(lenient.get_object(payload, "delta"))
        elif kind == "message_delta":
            message.update(lenient.get_object(payload, "delta"))
            message["usage"] = lenient.get_object(payload, "usage")
    message = message | {name: value for name, value in _REQUIRED_FIELDS.items() if name not in message}
    cut = message["stop_reason"] == "max_tokens"
    content = [block.build(cut=cut and block is blocks[-1]) for block in blocks]
    message["content"] = [block for block in content if block is not None]
    return msgspec.json.encode(message)


class JoinedBlock:
    """A content block and its string deltas, which are joined once at the end."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._block = start
        self._deltas: dict[str, list[str]] = {}
        self._citations: list[Any] = []

    def append_delta(self, delta: dict[str, Any]) -> None:
        for key, value in delta.items():
            if key == "citation":
                self._citations.append(value)
            elif key != "type" and isinstance(value, str):
                self._deltas.setdefault(key, []).append(value)
            elif key != "type":
                self._block[key] = value

    def build(self, *, cut: bool) -> dict[str, Any] | None:
        """Returns the block; None for a call that was cut off, because a client must not run it."""
        block = self._block
        json = "".join(self._deltas.pop("partial_json", ()))
        for key, texts in self._deltas.items():
            block[key] = lenient.get_text(block, key) + "".join(texts)
        if self._citations:
            block["citations"] = [*lenient.get_list(block, "citations"), *self._citations]
        if not json:
            return None if cut and block.get("type") == "tool_use" else block
        try:
            block["input"] = decode_or_keep_raw(json)
        except msgspec.DecodeError:
            return None
        return block


# ── errors ────────────────────────────────────────────────────────────────────────────────────────

# Types and statuses: https://docs.claude.com/en/api/errors. As users report them:
# https://github.com/anthropics/anthropic-sdk-python/issues/938 (413 request_too_large, "Request exceeds the maximum
# size"), https://github.com/anthropics/claude-code/issues/10314 (the same, in Claude Code). The filter's message is not
# documented, but many clients compare it. Claude Code prints it as "API Error: 400 Output blocked by content filtering
# policy".
#
# Claude Code compares messages: it compacts a conversation only after "prompt is too long: N tokens > M maximum", and
# recognizes a wrong key by "x-api-key" and an empty account by "Your credit balance is too low".
#
# An error in a stream has no status, and `api_error` alone does not make a client retry. Agents search the message:
# opencode for "connection error", Continue for "premature close". The type `overloaded_error` would be wrong, and
# Continue does not read types:
# https://github.com/continuedev/continue/blob/main/extensions/cli/src/util/exponentialBackoff.ts
# https://github.com/sst/opencode/blob/dev/packages/opencode/src/session/retry.ts
_API_ERROR = VendorError(status=500, type="api_error")
_INVALID = VendorError(status=400, type="invalid_request_error")
_BAD_GATEWAY = replace(_API_ERROR, status=502)
_OVERFLOW = "prompt is too long: {tokens} tokens > {limit} maximum"
ERRORS: ErrorTable = {
    "auth": VendorError(status=401, type="authentication_error", opening="invalid x-api-key"),
    "permission": VendorError(status=403, type="permission_error"),
    "quota": VendorError(status=402, type="billing_error", opening="Your credit balance is too low"),
    "not-found": VendorError(status=404, type="not_found_error"),
    "invalid": _INVALID,
    "too-large": replace(_INVALID, opening="prompt is too long", overflow=_OVERFLOW),
    "body-size": VendorError(status=413, type="request_too_large", opening="Request exceeds the maximum size"),
    "rate-limit": VendorError(status=429, type="rate_limit_error"),
    "filter": replace(_INVALID, opening="Output blocked by content filtering policy"),
    "overloaded": VendorError(status=529, type="overloaded_error"),
    "timeout": VendorError(status=504, type="timeout_error"),
    "server": _API_ERROR,
    "other": _API_ERROR,
    "cancelled": replace(_API_ERROR, status=499),
    "network": replace(_BAD_GATEWAY, opening="Connection error"),
    "truncated": replace(_BAD_GATEWAY, opening="Connection error (premature close)"),
    "malformed": _BAD_GATEWAY,
    "grammar": _BAD_GATEWAY,
}


def build_error_body(fault: Fault) -> dict[str, Any]:
    """Returns the body of an HTTP error, which is also the payload of an error in a stream."""
    row = vendor_error(ERRORS, fault)
    error = provider_error_object(fault, NAME) or {"type": row.type, "message": vendor_message(fault, row)}
    payload: dict[str, Any] = {"type": "error", "error": error}
    if fault.request_id:
        payload["request_id"] = fault.request_id
    return payload


# ── usage ─────────────────────────────────────────────────────────────────────────────────────────


def read_usage(raw: dict[str, Any], diagnostics: Diagnostics) -> ev.Usage | None:
    """Returns canonical usage; None if the object has another shape.

    The message's counts leave out the tokens of compactions, which are billed like the others: "sum across all entries
    in the `usage.iterations` array" (https://platform.claude.com/docs/en/build-with-claude/compaction). An advisor is
    another model with other prices, so its tokens are not added; the complete object is in `extra`.
    """
    known = _convert_usage(raw) or _convert_usage({key: value for key, value in raw.items() if key != "iterations"})
    if known is None:
        diagnostics.add("wrong-shape", "usage has an unexpected shape and is left out")
        return None
    runs = known.iterations or ()
    counted: list[wire.InputCounts] = [known, *(run for run in runs if run.type == "compaction")]
    for model in {run.model for run in runs if run.type == "advisor_message"}:
        diagnostics.add("usage-advisor", f"the tokens of the advisor {model!r} are not part of this model's usage")
    read, written = _sum_counts(counted, "cache_read_input_tokens"), _sum_counts(counted, "cache_creation_input_tokens")
    uncached = _sum_counts(counted, "input_tokens")
    prompt = None if uncached is read is written is None else (uncached or 0) + (read or 0) + (written or 0)
    details = known.output_tokens_details or wire.OutputTokenDetails()
    output = _sum_counts(counted, "output_tokens")
    return ev.Usage(prompt, output, read, written, details.thinking_tokens, extra={NAME: raw})


def _convert_usage(raw: dict[str, Any]) -> wire.MessageUsage | None:
    try:
        return msgspec.convert(raw, wire.MessageUsage, strict=False)
    except msgspec.ValidationError:
        return None


def _sum_counts(counted: list[wire.InputCounts], name: str) -> int | None:
    counts = [count for row in counted if (count := getattr(row, name)) is not None]
    return sum(counts) if counts else None


def build_result_block(event: ev.Result, name: str) -> dict[str, Any]:
    """Returns the result block of another provider's search or program."""
    block = {"type": f"{name}_tool_result", "tool_use_id": PROVIDER_CALL_PREFIX + event.call}
    if name == "code_execution":
        text = provider_tools.program_output(event.json)
        streams = {"stdout": "", "stderr": text} if event.failed else {"stdout": text, "stderr": ""}
        result: dict[str, Any] = {"type": "code_execution_result", **streams}
        return {**block, "content": {**result, "return_code": int(event.failed), "content": []}}
    if event.failed:
        return {**block, "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"}}
    hidden = {"encrypted_content": "", "page_age": None}
    rows = [(url, title or url) for url, title in provider_tools.found_pages(event.json)]
    return {**block, "content": [{"type": "web_search_result", "url": u, "title": t, **hidden} for u, t in rows]}
