import assert from "node:assert/strict";
import { test } from "node:test";
import { Clock, formatSeconds, niceStep } from "../src/turn/clock.ts";
import { orderOf } from "../src/turn/order.ts";
import { event, frames, small } from "./traces.ts";

const trace = small();
const clock = new Clock(trace.frames, orderOf(trace), true);

test("items lie where their frames came", () => {
  assert.equal(clock.duration, 2);
  assert.equal(clock.share("time", { column: "frames", index: 1 }), 0.5);
  assert.equal(clock.share("time", { column: "events", index: 1 }), 0.25);
  assert.equal(clock.share("time", { column: "events", index: 3 }), 1, "the end is as late as the last frame");
});

test("in order they lie as in the ledger", () => {
  assert.equal(clock.share("order", { column: "frames", index: 1 }), 2.5 / 6);
});

test("a share of the axis is the last frame that had come", () => {
  const found = (share: number) => clock.frameAt("time", share);
  assert.deepEqual([0, 0.2, 0.25, 0.6, 1].map(found), [-1, -1, 0, 1, 2]);
  for (const index of [0, 1, 2]) {
    for (const axis of ["time", "order"] as const) {
      assert.equal(clock.frameAt(axis, clock.share(axis, { column: "frames", index })), index);
    }
  }
});

test("times never go backwards, and missing ones are those before", () => {
  const list = frames(1, 0.5, null, 3);
  const made = new Clock(list, orderOf({ frames: list, events: [], outputs: [] }), true);
  assert.deepEqual(made.times, [1, 1, 1, 3]);
});

test("without times there is no duration", () => {
  const made = new Clock(trace.frames, orderOf(trace), false);
  assert.equal(made.timed, false);
  assert.equal(made.share("time", { column: "frames", index: 1 }), 0);
});

test("frames that came all at once are known to be", () => {
  const made = (...times: number[]) => {
    const list = frames(...times);
    return new Clock(list, orderOf({ frames: list, events: [], outputs: [] }), true);
  };
  assert.equal(made(1, 1, 1, 1.0001, 1.0001).bunched, true);
  assert.equal(made(0.1, 0.2, 0.3, 0.3, 0.4).bunched, false);
});

test("the ticks of a short turn are as precise as they are close", () => {
  const list = frames(0.0005, 0.001, 0.002);
  const made = new Clock(list, orderOf({ frames: list, events: [], outputs: [] }), true);
  const labels = made.ticks("time", 1100).map((tick) => tick.label);
  assert.deepEqual(labels.slice(0, 4), ["0", "0.2 ms", "0.4 ms", "0.6 ms"]);
  assert.equal(new Set(labels).size, labels.length);
});

test("labels of ticks do not lie on one another", () => {
  // One frame with a hundred events: the next frames stand close together at its end.
  const list = frames(...Array.from({ length: 12 }, (_, index) => index));
  const events = Array.from({ length: 100 }, () => event(0, "text-delta", { index: 0 }));
  const made = new Clock(list, orderOf({ frames: list, events, outputs: [] }), true);
  const ticks = made.ticks("order", 600);
  for (const [index, tick] of ticks.entries()) {
    const before = ticks[index - 1];
    if (before) assert.ok((tick.at - before.at) * 600 > 12, `${before.label} and ${tick.label}`);
  }
});

test("ticks are round numbers", () => {
  assert.deepEqual(
    clock.ticks("time", 440).map((tick) => tick.label),
    ["0", "0.5 s", "1.0 s", "1.5 s", "2.0 s"],
  );
  assert.deepEqual(clock.ticks("time", 0), []);
  assert.equal(clock.ticks("order", 330).at(0)?.label, "1", "frames are numbered from 1, as everywhere");
  assert.deepEqual([0.03, 0.11, 0.2, 3, 7, 49].map(niceStep), [0.05, 0.2, 0.2, 5, 10, 50]);
});

test("seconds as people read them", () => {
  assert.deepEqual(
    [0, 0.042, 0.5, 1.234, 12.34].map((value) => formatSeconds(value)),
    ["0", "42 ms", "0.50 s", "1.23 s", "12.3 s"],
  );
});
