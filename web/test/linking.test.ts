import assert from "node:assert/strict";
import { test } from "node:test";
import { Links, lastUpTo } from "../src/turn/linking.ts";
import { orderOf } from "../src/turn/order.ts";
import { event, frames, output, small } from "./traces.ts";

function linksOf(trace: ReturnType<typeof small>): Links {
  return new Links(trace, orderOf(trace));
}

test("a frame lights its events and all that came of them", () => {
  assert.deepEqual(linksOf(small()).of({ column: "frames", index: 0 }), {
    frames: [0],
    events: [0, 1],
    outputs: [0, 1],
  });
  assert.deepEqual(linksOf(small()).of({ column: "frames", index: 1 }), { frames: [1], events: [], outputs: [] });
});

test("an event lights its frame and its outputs only", () => {
  assert.deepEqual(linksOf(small()).of({ column: "events", index: 0 }), { frames: [0], events: [0], outputs: [0, 1] });
  assert.deepEqual(linksOf(small()).of({ column: "events", index: 1 }), { frames: [0], events: [1], outputs: [] });
  assert.deepEqual(linksOf(small()).of({ column: "events", index: 3 }).frames, []);
});

test("an output lights the event it says and the frame of that event, however late it left", () => {
  const trace = { frames: frames(0, 1), events: [event(0, "call-start")], outputs: [output(0, 1)] };
  assert.deepEqual(new Links(trace, orderOf(trace)).of({ column: "outputs", index: 0 }), {
    frames: [0],
    events: [0],
    outputs: [0],
  });
});

test("what was passed on as it came is lit with its frame", () => {
  const trace = {
    frames: frames(0, 1),
    events: [event(0, "a"), event(1, "b")],
    outputs: [output(null, 0), output(null, 1)],
  };
  const links = new Links(trace, orderOf(trace));
  assert.deepEqual(links.of({ column: "frames", index: 1 }).outputs, [1]);
  assert.deepEqual(links.of({ column: "outputs", index: 0 }), { frames: [0], events: [], outputs: [0] });
});

test("across goes to what is linked, or else to the nearest before", () => {
  const links = linksOf(small());
  assert.deepEqual(links.across({ column: "events", index: 2 }, "frames"), { column: "frames", index: 2 });
  assert.deepEqual(links.across({ column: "events", index: 1 }, "outputs"), { column: "outputs", index: 1 });
  assert.deepEqual(links.across({ column: "frames", index: 1 }, "events"), { column: "events", index: 1 });
  const empty = { frames: frames(0), events: [], outputs: [] };
  assert.equal(new Links(empty, orderOf(empty)).across({ column: "frames", index: 0 }, "events"), null);
});

test("the reach of what is lit", () => {
  const links = linksOf(small());
  assert.deepEqual(links.reachOf(links.of({ column: "frames", index: 0 })), { first: 0, last: 1 });
});

test("the last value up to a limit", () => {
  assert.deepEqual(
    [-1, 0, 1, 2, 9].map((limit) => lastUpTo([0, 1, 1, 5], limit)),
    [-1, 0, 2, 2, 3],
  );
});
