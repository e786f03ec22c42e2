"""Refusals in the words and shapes of the vendors. Messages are those that the APIs are documented or known to send."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tools.strict_upstream.vendor_types import Path, Violation


class Refusal(Exception):  # noqa: N818 — an answer, not an error of this program
    """A request that the vendor refuses: status, body and headers of the answer.

    `fault` is true where the scenario wants it and no rule was broken.
    """

    def __init__(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        super().__init__(body.get("error", {}).get("message", ""))
        self.status = status
        self.body = body
        self.headers = headers or {}
        self.fault = False


def openai(
    message: str, *, status: int = 400, type: str = "invalid_request_error", param: str | None = None,
    code: str | None = None, headers: dict[str, str] | None = None,
) -> Refusal:  # fmt: skip
    """https://platform.openai.com/docs/guides/error-codes"""
    return Refusal(status, {"error": {"message": message, "type": type, "param": param, "code": code}}, headers)


def anthropic(
    message: str, *, status: int = 400, type: str = "invalid_request_error", headers: dict[str, str] | None = None
) -> Refusal:
    """https://docs.claude.com/en/api/errors"""
    error = {"type": type, "message": message}
    return Refusal(status, {"type": "error", "error": error, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}, headers)


def gemini(
    message: str, *, status: int = 400, code: str = "INVALID_ARGUMENT", details: list[dict[str, Any]] | None = None
) -> Refusal:
    """https://ai.google.dev/gemini-api/docs/troubleshooting"""
    error: dict[str, Any] = {"code": status, "message": message, "status": code}
    if details:
        error["details"] = details
    return Refusal(status, {"error": error})


def bracket_path(path: Path) -> str:
    """`messages[0].content`, as OpenAI and Google write it."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.lstrip(".")


def dot_path(path: Path) -> str:
    """`messages.0.content`, as Anthropic writes it."""
    return ".".join(map(str, path))


def openai_violation(found: Violation) -> Refusal:
    """A violation of the types of the Chat or Responses API."""
    place = bracket_path(found.path)
    match found.kind:
        case "unknown":
            return openai(f"Unknown parameter: '{place}'.", param=place, code="unknown_parameter")
        case "missing":
            return openai(f"Missing required parameter: '{place}'.", param=place, code="missing_required_parameter")
        case "type":
            text = f"Invalid type for '{place}': expected {_article(found.expected)}."
            return openai(text, param=place, code="invalid_type")
        case "value":
            text = f"Invalid value for '{place}'. Supported values are: {found.expected}."
            return openai(text, param=place, code="invalid_value")


def anthropic_violation(found: Violation) -> Refusal:
    """A violation of the types of the Messages API."""
    place = dot_path(found.path)
    match found.kind:
        case "unknown":
            return anthropic(f"{place}: Extra inputs are not permitted")
        case "missing":
            return anthropic(f"{place}: Field required")
        case "type":
            return anthropic(f"{place}: Input should be a valid {found.expected}")
        case "value":
            return anthropic(f"{place}: Input should be {found.expected}")


def _article(name: str) -> str:
    return f"{'an' if re.match('[aeio]', name) else 'a'} {name}"
