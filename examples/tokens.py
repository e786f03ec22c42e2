"""Counting tokens: what a request costs before it is sent, how a provider's counts help, and what to leave out."""

from typing import Any

from penstock import HybridTokenEstimator, Turn, Usage
from penstock.events import Finish
from penstock.request import Text

estimator = HybridTokenEstimator()

# A text by itself. Every family of models counts differently.
for model in ("gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash"):
    print(f"{model:18}", estimator.estimate_text("How high is the tide in 東京 today?", model).tokens)

# A whole request, as it is sent: a body of any protocol, messages of a VS Code host, or a canonical request.
tide = {"name": "tide", "description": "The height of the water.", "input_schema": {"type": "object"}}
messages = [{"role": "user", "content": "How high is the tide?"}]
body: dict[str, Any] = {"model": "claude-sonnet-4-5", "max_tokens": 500, "messages": messages, "tools": [tide]}
first = estimator.estimate_conversation(body)
print(f"\nfirst turn: {first.tokens} tokens, {first.low} to {first.high}, {first.method}")
for line in estimator.breakdown(body).lines:
    print(f"  {line.what:22} {line.estimate.tokens:5} {line.share:5.0%}")

# The provider answers and reports its count. The next prompt begins with the same messages: only its end is estimated.
turn = Turn(parts=[Text(text="Two metres.")], usage=Usage(input=589, output=7), finish=Finish("stop"))
estimator.calibrate(body, turn)
messages += [{"role": "assistant", "content": turn.text}, {"role": "user", "content": "And tomorrow?"}]
second = estimator.estimate_conversation(body)
print(f"\nsecond turn: {second.tokens} tokens, {second.low} to {second.high}, {second.method}")
assert second.method == "hybrid"

# A warning from 90% of a limit on.
near = estimator.preflight(body, limit=640)
print(f"\n{near.code}: {near.message}" if near else "room enough")

# A conversation that is too long: the oldest turns go, and the result says which.
for day in range(40):
    messages += [{"role": "assistant", "content": f"Day {day}: two metres."}, {"role": "user", "content": "And then?"}]
found = estimator.fit(body, limit=2000, reserve=500)
print(f"\n{found.before.tokens} tokens are now {found.estimate.tokens}: {len(found.removed)} messages went")
assert found.fits
assert found.request["messages"][-1] == messages[-1]

# What a thin client needs to count for this model by itself.
factors = estimator.factors("claude-sonnet-4-5")
print(f"\n{len(factors.json()):,} bytes of factors, family {factors.family}, learned factor {factors.factor}")
