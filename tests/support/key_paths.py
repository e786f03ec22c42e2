"""Every key path that occurs in recorded payloads, so that a decoder can be asked about each one.
A path reads `choices[].delta.content`; a list is entered as `[]`, and a map with arbitrary keys is not entered at all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

# Where the keys below are data, not protocol: tool arguments and results, JSON schemas, maps keyed by an id or a name.
# `*` stands for any one key. The path itself is listed, what is below it is not.
STOPS: dict[str, tuple[str, ...]] = {
    "anthropic-messages": (
        "content_block.input",
        "message.content[].input",
    ),
    "openai-chat": (
        # A gateway's account of what its upstream said, in the upstream's own words.
        "choices[].delta.provider_metadata.*",
    ),
    "openai-responses": (
        "item.arguments",
        "item.action.env",
        "item.tools[].input_schema",
        "item.tools[].parameters",
        "response.metadata",
        "response.output[].arguments",
        "response.output[].action.env",
        "response.output[].tools[].input_schema",
        "response.output[].tools[].parameters",
        "response.text.format.schema",
        # The request's own tools, echoed.
        "response.tools[]",
    ),
    "gemini": (
        "candidates[].content.parts[].functionCall.args",
        "candidates[].content.parts[].toolCall.args",
        "candidates[].content.parts[].toolResponse.response",
    ),
    "gemini-interactions": ("delta.arguments", "step.arguments", "delta.result[]"),
    "bedrock-converse": (
        "contentBlockDelta.delta.toolResult[].json",
        "messageStop.additionalModelResponseFields",
        # Both are keyed by the guardrail's id.
        "metadata.trace.guardrail.inputAssessment",
        "metadata.trace.guardrail.outputAssessments",
    ),
    "ollama": ("message.tool_calls[].function.arguments",),
    "ai-sdk-full-stream": (
        "input",
        "output",
        "toolCall.input",
        "providerMetadata.*",
        "performance.toolExecutionMs",
        "rawValue",
        "request",
        "response.headers",
        "error",
    ),
    "ai-sdk-ui-stream": ("input", "output", "data", "messageMetadata", "providerMetadata.*"),
}


class Paths:
    """The key paths of JSON values. Knows where to stop, and remembers what it has decided."""

    def __init__(self, stops: Iterable[str] = ()) -> None:
        alternatives = "|".join(re.escape(stop).replace(r"\*", r"[^.\[]+") for stop in stops)
        self._stop = re.compile(alternatives or r"(?!)")
        self._stopped: dict[str, bool] = {}

    def of(self, value: Any) -> set[str]:
        found: set[str] = set()
        self._walk(value, "", found)
        return found

    def _walk(self, value: Any, path: str, found: set[str]) -> None:
        if path:
            found.add(path)
        if not isinstance(value, dict | list) or self._ends(path):
            return
        if isinstance(value, dict):
            for key, inner in value.items():
                self._walk(inner, f"{path}.{key}" if path else key, found)
        else:
            for inner in value:
                self._walk(inner, f"{path}[]", found)

    def _ends(self, path: str) -> bool:
        known = self._stopped.get(path)
        if known is None:
            known = self._stopped[path] = self._stop.fullmatch(path) is not None
        return known
