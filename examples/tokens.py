"""Counting tokens: what a request costs before it is sent, and how a provider's own figures help the next count."""

from penstock import Turn, Usage
from penstock.events import Finish
from penstock.request import Message, Request, Text, Tool
from penstock.tokens import HybridTokenEstimator

estimator = HybridTokenEstimator()

# A text by itself. Every family of models counts its own way.
for model in ("gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash"):
    print(f"{model:18}", estimator.estimate_text("How high is the tide in 東京 today?", model).tokens)

# A whole request: messages, tools, and what the provider puts around them.
tide = Tool("tide", "The height of the water.", {"type": "object", "properties": {"place": {"type": "string"}}})
asked = Request(
    model="claude-sonnet-4-5", messages=[Message("user", [Text(text="How high is the tide?")])], tools=[tide]
)
first = estimator.estimate_conversation(asked)
print(f"\nfirst turn: {first.tokens} tokens, {first.low} to {first.high}, {first.method}")

# The provider answers, and says what it counted. The next prompt begins with the same words: only its end is estimated.
turn = Turn(parts=[Text(text="Two metres.")], usage=Usage(input=589, output=7), finish=Finish("stop"))
estimator.calibrate(asked, turn)
asked.messages += [Message("assistant", turn.parts), Message("user", [Text(text="And tomorrow?")])]
second = estimator.estimate_conversation(asked)
print(f"second turn: {second.tokens} tokens, {second.low} to {second.high}, {second.method}")
assert second.method == "hybrid"

# A warning from 90% of a limit on.
near = estimator.preflight(asked, limit=640)
print(f"\n{near.code}: {near.message}" if near else "room enough")

# What a thin client needs to count for this model by itself.
factors = estimator.factors("claude-sonnet-4-5")
print(f"\n{len(factors.json()):,} bytes of factors, family {factors.family}, learned factor {factors.factor}")
