"""A question, and an answer with signed thinking before a call: what a provider wants back and most clients cannot keep."""

from __future__ import annotations

from penstock import events as ev

USER = {"role": "user", "content": "How high is the water?"}
THOUGHT = {"type": "thinking", "thinking": "The gauge must be read.", "signature": "c2lnbmVk"}
CALLING: list[ev.AnyEvent] = [
    ev.Start(id="msg_1", model="claude"), ev.ReasoningStart(0), ev.ReasoningDelta(0, THOUGHT["thinking"]),
    ev.ReasoningEnd(0, extra={"anthropic": {"signature": THOUGHT["signature"]}}),
    ev.CallStart(1, id="toolu_1", name="read_gauge"), ev.CallDelta(1, "{}"),
    ev.CallEnd(1, id="toolu_1", name="read_gauge", json="{}"), ev.Usage(input=10, output=5), ev.Finish("calls"),
]  # fmt: skip
