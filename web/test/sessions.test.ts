import assert from "node:assert/strict";
import { test } from "node:test";
import type { Row } from "../src/api/types.ts";
import {
  barScale,
  contextWords,
  type Gap,
  gapWords,
  overview,
  type Report,
  runningTotals,
  type Step,
  share,
  toolNames,
  turnParts,
} from "../src/runs/sessions.ts";

const call = (name: string) => ({ name, preview: "{}", failed: false });

function step(row: Partial<Row>, gap: Gap | null = null, window = 200_000): Step {
  const whole = { id: "a", time: 0, duration: 4, ttft: 1, input: 100, output: 10, cached: 50, cost: 0.5, ...row };
  return {
    row: whole as Row,
    link: "continue",
    previous: "",
    messages: 1,
    added: 1,
    gap,
    calls: [],
    silence: 0,
    silent_from: 0,
    window,
  };
}

function report(...steps: Step[]): Report {
  return { session: {} as Report["session"], steps, findings: [] };
}

test("tools are named once, with how often they ran", () => {
  assert.equal(toolNames([call("bash"), call("edit"), call("bash")]), "bash ×2, edit");
  assert.equal(toolNames([]), "");
});

test("a gap is named after what ran in it", () => {
  assert.equal(gapWords({ seconds: 4.1, kind: "tools", calls: [call("bash")] }), "bash, 4.10 s");
  assert.equal(gapWords({ seconds: 2, kind: "tools", calls: [call("a"), call("b")] }), "a, b, 2.00 s together");
  assert.equal(gapWords({ seconds: 200, kind: "user", calls: [] }), "the user, 3 min 20 s");
  assert.equal(gapWords({ seconds: 0.5, kind: "client", calls: [] }), "the client, 500 ms");
});

test("a turn waits, then streams", () => {
  assert.deepEqual(turnParts(step({}).row, 9), { waiting: 1, streaming: 3 });
  assert.deepEqual(turnParts(step({ ttft: null }).row, 9), { waiting: 4, streaming: 0 });
  assert.deepEqual(turnParts(step({ duration: null, ttft: null, time: 2 }).row, 9), { waiting: 7, streaming: 0 });
});

test("one that is far too long does not press the others flat", () => {
  const usual = Array.from({ length: 20 }, () => step({ duration: 2 }));
  assert.equal(barScale(report(...usual), 0), 2);
  assert.equal(barScale(report(...usual, step({ duration: 500 })), 0), 6);
  assert.equal(barScale(report(step({}, { seconds: 900, kind: "user", calls: [] })), 0), 4);
});

test("totals grow, and an unknown cost stays unknown", () => {
  const totals = runningTotals([step({ cost: null }), step({ cost: 0.25 }), step({ cost: null }), step({})]);
  assert.deepEqual(
    totals.map(({ cost }) => cost),
    [null, 0.25, 0.25, 0.75],
  );
  assert.deepEqual(totals.at(-1), { input: 400, output: 40, cached: 200, cost: 0.75 });
});

test("shares", () => {
  assert.deepEqual(
    [share(1, 3), share(1, 900), share(0, 9), share(null, 9), share(1, 0)],
    ["33%", "<1%", "0%", "–", "–"],
  );
});

test("the context in words", () => {
  const steps = [step({ input: 1000 }), step({ input: 60_000 }), step({ input: 20_000 })];
  assert.equal(
    contextWords(steps),
    "From 1,000 to 20.0k tokens, 60.0k at most. That is 30% of the model's window of 200.0k.",
  );
  assert.match(contextWords([step({}, null, 0)]), /window is not known/);
  assert.match(contextWords([step({ input: null })]), /No provider/);
});

test("the overview fills its width, and pauses of the user are short", () => {
  const parts = overview(
    report(
      step({ id: "a" }),
      step({ id: "b" }, { seconds: 8, kind: "tools", calls: [] }),
      step({ id: "c" }, { seconds: 5000, kind: "user", calls: [] }),
    ),
    0,
  );
  const last = parts.at(-1);
  assert.ok(last && Math.abs(last.start + last.seconds - 1) < 1e-9);
  const pause = parts.find(({ kind }) => kind === "pause");
  assert.ok(pause && pause.seconds < 0.15);
  assert.deepEqual(
    parts.map(({ kind }) => kind),
    ["waiting", "streaming", "tools", "waiting", "streaming", "pause", "waiting", "streaming"],
  );
});
