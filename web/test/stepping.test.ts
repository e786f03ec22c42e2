import assert from "node:assert/strict";
import { test } from "node:test";
import { orderOf, type Place } from "../src/turn/order.ts";
import { reachAt, stepped } from "../src/turn/stepping.ts";
import { small } from "./traces.ts";

const trace = small();
const order = orderOf(trace);
const reach = (place: Place | null) => reachAt(trace, order, place);

test("at no place all has happened", () => {
  assert.deepEqual(reach(null), { frames: 3, events: 4, outputs: 5 });
});

test("at a frame all that it caused has happened", () => {
  assert.deepEqual(reach({ column: "frames", index: 0 }), { frames: 1, events: 2, outputs: 2 });
  assert.deepEqual(reach({ column: "frames", index: 1 }), { frames: 2, events: 2, outputs: 2 });
  assert.deepEqual(reach({ column: "frames", index: -1 }), { frames: 0, events: 0, outputs: 0 });
});

test("at an event those after it have not, nor what came of them", () => {
  assert.deepEqual(reach({ column: "events", index: 0 }), { frames: 1, events: 1, outputs: 2 });
  assert.deepEqual(reach({ column: "events", index: 3 }), { frames: 3, events: 4, outputs: 5 });
});

test("at an output its event has happened", () => {
  assert.deepEqual(reach({ column: "outputs", index: 0 }), { frames: 1, events: 1, outputs: 1 });
  assert.deepEqual(reach({ column: "outputs", index: 2 }), { frames: 3, events: 3, outputs: 3 });
});

test("stepping stays inside a column", () => {
  assert.deepEqual(stepped(order, "events", { column: "events", index: 0 }, -1), { column: "events", index: 0 });
  assert.deepEqual(stepped(order, "events", { column: "events", index: 0 }, 1), { column: "events", index: 1 });
  assert.deepEqual(stepped(order, "events", { column: "events", index: 3 }, 9), { column: "events", index: 3 });
});

test("from the end one goes back, and from another column to the nearest", () => {
  assert.deepEqual(stepped(order, "events", null, -1), { column: "events", index: 2 });
  assert.deepEqual(stepped(order, "events", { column: "frames", index: 1 }, 1), { column: "events", index: 2 });
  assert.equal(stepped(orderOf({ frames: [], events: [], outputs: [] }), "events", null, 1), null);
});
