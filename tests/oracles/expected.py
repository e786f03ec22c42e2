"""What the AI SDK's `doStream()` is asserted to make of a recorded stream, as Outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tests.oracles.outcome import Outcome, arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Part = dict[str, Any]


class Case(msgspec.Struct, kw_only=True):
    """One asserted run. A fixture file may list runs over other bodies too: ask `belongs` first.

    `outcomes` has one Outcome per finish part, its `finish` being the provider's own word where the AI SDK keeps it.
    What follows the last finish is left out: in the fixtures that is the parser's complaint about the file's last line.
    """

    test: str
    outcomes: list[Outcome]
    unified: list[str]
    """The AI SDK's own word for each finish."""
    reshaped: bool
    """The run turned a call into text (its way to structured output): text and calls are not those of the stream."""
    whole: bool
    """Whether all parts are listed; some tests assert the first few only."""
    evidence: list[str]

    def belongs(self, payloads: Iterable[Any]) -> bool:
        """Whether the words of the case are in these payloads."""
        said = "\0".join(_strings(list(payloads)))
        return bool(self.evidence) and all(word in said for word in self.evidence)


def cases(document: dict[str, Any]) -> list[Case]:
    return [_case(row["test"], row["parts"]) for row in document["cases"]]


def _case(test: str, parts: list[Part]) -> Case:
    outcomes = [Outcome()]
    for part in parts:
        _read(part, outcomes[-1])
        if part["type"] == "finish":
            outcomes.append(Outcome())
    finishes = [part["finishReason"] for part in parts if part["type"] == "finish"]
    return Case(
        test=test,
        outcomes=outcomes[:-1] or outcomes,
        unified=[reason["unified"] for reason in finishes],
        reshaped=any(reason.get("raw") == "tool_use" and reason["unified"] == "stop" for reason in finishes),
        whole=bool(finishes),
        evidence=_evidence(parts),
    )


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def _evidence(parts: list[Part]) -> list[str]:
    deltas = [p["delta"] for p in parts if p["type"] in {"text-delta", "reasoning-delta"} and p["delta"]]
    names = [p["toolName"] for p in parts if p["type"] == "tool-call" and not p.get("providerExecuted")]
    ids = [p["id"] for p in parts if p["type"] == "response-metadata" and p.get("id")]
    # The AI SDK gives the provider's built-in tools names of its own.
    return deltas or [name for name in names if name not in {"shell", "apply_patch"}] or ids


def _read(part: Part, outcome: Outcome) -> None:
    match part["type"]:
        case "text-delta":
            outcome.text += part["delta"]
        case "reasoning-delta":
            outcome.reasoning += part["delta"]
        case "tool-call" if not part.get("providerExecuted"):
            outcome.calls.append((part["toolCallId"], part["toolName"], arguments(part["input"])))
        case "source":
            outcome.link(part.get("url"), part.get("title"))
        case "error":
            error = part["error"]
            outcome.error = error.get("message") or error.get("$js") if isinstance(error, dict) else str(error)
        case "finish":
            _finish(part, outcome)
        case _:
            pass  # starts, ends, metadata and provider-run tools: not what an Outcome speaks of


def _finish(part: Part, outcome: Outcome) -> None:
    reason, usage = part["finishReason"], part["usage"]
    outcome.finish = reason.get("raw")
    outcome.usage = usage.get("raw") or {}
    outcome.input = usage["inputTokens"].get("total")
    outcome.output = usage["outputTokens"].get("total")
