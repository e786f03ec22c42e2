// The tokens of a prompt, part by part: sums, names and words.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Breakdown, BreakdownLine, Trace } from "../src/api/types.ts";
import {
  colourOf,
  describeBounds,
  describeTotal,
  formatShare,
  KINDS,
  lineName,
  sumKinds,
} from "../src/turn/breakdown.ts";
import { completed } from "../src/turn/completing.ts";

function line(kind: BreakdownLine["kind"], tokens: number, more: Partial<BreakdownLine> = {}): BreakdownLine {
  return { what: kind, kind, tokens, share: tokens / 1000, low: tokens - 5, high: tokens + 10, method: "estimated", ...more };
} // biome-ignore format: one line

const LINES = [
  line("system", 200),
  line("tools", 300),
  line("message", 100, { what: "user", message: 0, about: "Open?" }),
  line("message", 390, { what: "assistant", message: 1 }),
  line("framing", 7),
  line("hidden", 3),
  line("images", 0),
];
const FOUND: Breakdown = {
  model: "m",
  provider: "p",
  family: "gpt",
  tokens: 1000,
  low: 900,
  high: 1200,
  method: "estimated",
  confidence: 0.8,
  actual: null,
  uncertain: {},
  lines: LINES,
  lost: "",
};

test("messages are one kind, and a kind without tokens is left out", () => {
  const sums = sumKinds(LINES).map(({ kind, tokens }) => [kind, tokens]);
  assert.deepEqual(sums, [["system", 200], ["tools", 300], ["message", 490], ["framing", 7], ["hidden", 3]]); // biome-ignore format: one line
  assert.equal(new Set(KINDS.map(({ kind }) => colourOf(kind))).size, KINDS.length);
  assert.equal(colourOf("newer"), 8);
});

test("a line has a name, a share and bounds", () => {
  assert.deepEqual(LINES.slice(0, 3).map(lineName), ["System prompt", "Tools", "1. user"]);
  assert.deepEqual([0, 0.003, 0.01, 0.456, 1].map(formatShare), ["0%", "<1%", "1%", "46%", "100%"]);
  assert.equal(describeBounds({ low: 1295, high: 1310, method: "estimated" }), "1,295 to 1,310, estimated");
  assert.equal(describeBounds({ low: 9, high: 9, method: "actual" }), "actual");
});

test("the total is said by its method, and beside the provider's count", () => {
  const cases: [Partial<Breakdown>, RegExp][] = [
    [{}, /all of it is estimated. Nine times in ten it is between 900 and 1,200.$/],
    [{ method: "hybrid" }, /^The provider counted the beginning/],
    [{ low: 1000, high: 1000, method: "actual", actual: 1000 }, /How it divides into parts is estimated.$/],
    [{ actual: 1250 }, /^It is estimated from what the request shows.* counted 1,250: the estimate is 20% low.$/],
    [{ actual: 950 }, /counted 950: the estimate is 5.3% high.$/],
    [{ method: "newer", actual: 0 }, /^Nine times in ten/],
  ];
  for (const [more, words] of cases) assert.match(describeTotal({ ...FOUND, ...more }).join(" "), words);
});

test("a saved page has the tokens once, for all consumers", () => {
  const trace = { frames: [], events: [], outputs: [], marks: [], request: "{}", row: null } as unknown as Trace;
  const both = completed({ a: { ...trace, breakdown: FOUND }, b: { ...trace, same: "a" } });
  assert.equal(both.b?.breakdown, FOUND);
  assert.equal("breakdown" in (completed({ a: trace, b: { ...trace, same: "a" } }).b ?? {}), false);
});
