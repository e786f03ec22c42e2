"""A stream taken apart: which frame means what, and what leaves for a client because of it. No key, no network.

With the inspector's page built (a released wheel has it), `penstock inspect --web FILE` shows the same in a browser.
"""

from pathlib import Path

from penstock import tracer
from penstock.events import Fault

STREAM = Path(__file__).with_name("tides.sse").read_bytes()

traced = tracer("responses", "vscode")
for at, start in enumerate(range(0, len(STREAM), 500)):
    traced.feed(STREAM[start : start + 500], at / 10)  # as it would come: in pieces that end anywhere
traced.finish()

kinds = [step.kind for step in traced.steps]
print({kind: kinds.count(kind) for kind in ("frame", "event", "output")})

for step in traced.steps:
    if step.kind == "output" and step.of is not None and step.cause is not None:
        event = traced.steps[step.of]
        frame = traced.steps[event.cause] if event.cause is not None else None
        came = frame.item[0].decode() if frame is not None else "the end"
        print(f"{came:<38} {type(event.item).__name__:<15} {step.item[1].decode()[:60]}")

for finding in traced.findings:
    print("found:", finding.row.code, finding.row.message)
assert not any(isinstance(event, Fault) for event in traced.events)
