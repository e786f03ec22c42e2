import assert from "node:assert/strict";
import { test } from "node:test";
import type { Row } from "../src/api/types.ts";
import {
  atLeast,
  barScale,
  describeContext,
  describeGap,
  type Gap,
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
  assert.equal(describeGap({ seconds: 4.1, kind: "tools", calls: [call("bash")] }), "running bash, 4.10 s");
  assert.equal(
    describeGap({ seconds: 2, kind: "tools", calls: [call("a"), call("b")] }),
    "running a, b, 2.00 s together",
  );
  assert.equal(describeGap({ seconds: 3, kind: "tools", calls: [] }), "running tools, 3.00 s");
  assert.equal(describeGap({ seconds: 200, kind: "user", calls: [] }), "waiting for the user, 3 min 20 s");
  assert.equal(describeGap({ seconds: 0.5, kind: "client", calls: [] }), "waiting for the client, 500 ms");
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
  assert.deepEqual(
    totals.map(({ unpriced }) => unpriced),
    [1, 1, 2, 2],
  );
  assert.deepEqual(runningTotals([step({ cost: null, duration: null })]), [{ cost: null, unpriced: 0 }]);
});

test("a sum without some of its amounts is a lower bound, and one without any is unknown", () => {
  assert.equal(atLeast("$0.50", true, 0), "$0.50");
  assert.equal(atLeast("$0.50", true, 2), "≥ $0.50");
  assert.equal(atLeast("–", false, 2), "–");
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
    describeContext(steps),
    "From 1,000 to 20.0k tokens, 60.0k at most. That is 30% of the model's window of 200.0k.",
  );
  assert.match(describeContext([step({}, null, 0)]), /window is not known/);
  assert.match(describeContext([step({ input: null })]), /No provider/);
});

test("waiting for the client is not drawn as tools", () => {
  const parts = overview(report(step({ id: "a" }), step({ id: "b" }, { seconds: 8, kind: "client", calls: [] })), 0);
  assert.deepEqual(
    parts.map(({ kind }) => kind),
    ["waiting", "streaming", "client", "waiting", "streaming"],
  );
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
  const pause = parts.find(({ kind }) => kind === "user");
  assert.ok(pause && pause.seconds < 0.15);
  assert.deepEqual(
    parts.map(({ kind }) => kind),
    ["waiting", "streaming", "tools", "waiting", "streaming", "user", "waiting", "streaming"],
  );
});
