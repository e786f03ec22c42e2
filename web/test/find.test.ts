import assert from "node:assert/strict";
import { test } from "node:test";
import type { Trace } from "../src/api/types.ts";
import { formatPlace, parsePlace } from "../src/turn/address.ts";
import { type FindQuery, findHits, NO_QUERY, plainMatcher, searchedText } from "../src/turn/find.ts";
import { gapsOf } from "../src/turn/gaps.ts";
import { lanesOf } from "../src/turn/lanes.ts";
import { orderOf } from "../src/turn/order.ts";
import { answerRegex } from "../src/turn/regexMatch.ts";
import { event } from "./traces.ts";

const frame = (data: string, name = "") => ({ t: null, name, data, size: data.length });
const trace = {
  frames: [frame('{"a":"He said \\"no\\""}', "message"), frame('{"b":"Gate"}'), frame('{"c":" opens"}')],
  events: [
    event(0, "start"),
    event(1, "text-start", { index: 0 }),
    event(1, "text-delta", { index: 0, text: "The gate" }),
    event(2, "text-delta", { index: 0, text: " opens" }),
    event(2, "call-start", { index: 1, id: "c", name: "gate" }),
  ],
  outputs: [
    { event: 2, frame: 1, name: "", data: '{"out":"The gate"}', size: 1 },
    { event: 4, frame: 2, name: "", data: '{"tool":"gate"}', size: 1 },
  ],
} as unknown as Trace;
const [lanes, order] = [lanesOf(trace.events), orderOf(trace)];

function find(part: Partial<FindQuery>) {
  const query = { ...NO_QUERY, ...part };
  const { items, slots } = findHits({ trace, lanes, order, query }, plainMatcher(query.text, query.matchCase));
  const indexes = Object.entries(items).map(([column, found]) => [column, [...found.keys()]]);
  return { ...Object.fromEntries(indexes), rows: slots.length } as Record<string, unknown>;
}

test("text is found in frames, events and outputs", () => {
  assert.deepEqual(find({ text: "gate" }), { frames: [1], events: [2, 4], outputs: [0, 1], rows: 3 });
  assert.deepEqual(find({ text: "Gate", matchCase: true }), { frames: [1], events: [], outputs: [], rows: 1 });
  assert.deepEqual(find({ text: "message" }), { frames: [0], events: [], outputs: [], rows: 1 }, "names too");
  assert.deepEqual(find({ text: "nothing" }).rows, 0);
});

test("words that came in pieces are found in each piece", () => {
  assert.deepEqual(find({ text: "gate opens" }).events, [2, 3]);
});

test("JSON's escapes do not hide a text", () => {
  assert.deepEqual(find({ text: 'said "no"' }).frames, [0]);
  assert.deepEqual(find({ text: 'said \\"no' }).frames, [0], "as it came");
  assert.ok(searchedText("", '{"x":"a\\u00e9\\n"}').includes("aé\n"));
});

test("by the type of an event, and by part", () => {
  assert.deepEqual(find({ type: "text-delta" }), { frames: [], events: [2, 3], outputs: [], rows: 2 });
  assert.deepEqual(find({ type: "text-delta", text: "gate" }), { frames: [1], events: [2], outputs: [0], rows: 2 });
  const gate = lanes.findIndex((lane) => lane.label === "gate");
  assert.deepEqual(find({ lane: gate, text: "gate" }), { frames: [], events: [4], outputs: [1], rows: 1 });
});

test("a regular expression finds texts and places", () => {
  const answer = answerRegex({
    id: 1, pattern: "g.te$", matchCase: false, texts: ["The GATE", "gates", "the gate\nx"], parts: ["gate\ngate"],
  }); // biome-ignore format: short
  assert.deepEqual(answer.found, ["GATE", null, "gate"]);
  assert.deepEqual(answer.places, [[{ start: 0, end: 4 }, { start: 5, end: 9 }]]); // biome-ignore format: short
  assert.deepEqual(answerRegex({ id: 2, pattern: "x*", matchCase: true, texts: ["a"], parts: ["aaa"] }).places, [[]]);
});

test("gaps are waits that stand out", () => {
  assert.deepEqual(gapsOf([0.2, 0.3, 0.4, 5.4, 5.5]), [{ frame: 3, wait: 5 }]);
  assert.deepEqual(gapsOf([2.5, 2.6, 2.7]), [{ frame: 0, wait: 2.5 }], "the wait for the first frame is one");
  assert.deepEqual(gapsOf([1, 2.2, 3.3, 4.6, 5.7]), [], "a model that is slow throughout has none");
  assert.deepEqual(gapsOf([]), []);
});

test("a place in the address has the number that is shown", () => {
  assert.equal(formatPlace({ column: "events", index: 23 }), "event-24");
  assert.deepEqual(parsePlace("event-24"), { column: "events", index: 23 });
  assert.deepEqual(parsePlace("output-1"), { column: "outputs", index: 0 });
  for (const wrong of ["", "event-0", "event--1", "thing-3", "event-3x", "__proto__-1"])
    assert.equal(parsePlace(wrong), null);
  assert.equal(formatPlace(null), "");
});
