import assert from "node:assert/strict";
import { test } from "node:test";
import { COLUMNS, orderOf } from "../src/turn/order.ts";
import { event, frames, output, small } from "./traces.ts";

test("causes and effects stand side by side", () => {
  const order = orderOf(small());
  // frame 0 │ start │ output 0; │ │ output 1; │ text-start │; frame 1; frame 2 │ delta │ output 2; end │ finish │ 3, 4
  assert.deepEqual(order.slots.frames, [0, 2, 3]);
  assert.deepEqual(order.slots.events, [0, 1, 3, 4]);
  assert.deepEqual(order.slots.outputs, [0, 1, 3, 4, 5]);
  assert.deepEqual(order.groupAt, [0, 0, 1, 2, 3, 3]);
  assert.equal(order.size, 6);
});

test("an event stands beside the first of its outputs", () => {
  const trace = {
    frames: frames(0),
    events: [event(0, "a"), event(0, "b")],
    outputs: [output(0, 0), output(0, 0), output(1, 0)],
  };
  const order = orderOf(trace);
  assert.equal(order.slots.events[1], order.slots.outputs[2]);
  assert.deepEqual(order.slots.events, [0, 2]);
});

test("every item has a slot of its own, and a slot knows its item", () => {
  const trace = small();
  trace.outputs.push(output(null, 2)); // passed on, and out of order
  const order = orderOf(trace);
  for (const column of COLUMNS) {
    const slots = order.slots[column];
    assert.equal(slots.length, trace[column].length);
    assert.equal(new Set(slots).size, slots.length);
    for (const [index, slot] of slots.entries()) assert.equal(order.at[column][slot], index);
  }
});

test("outputs without an event belong to their frame", () => {
  const order = orderOf({
    frames: frames(0, 1),
    events: [event(1, "start")],
    outputs: [output(null, 0), output(null, 1)],
  });
  assert.deepEqual(order.slots.outputs, [0, 1]);
});

test("a trace that names frames that are not there, or goes backwards, is still laid out", () => {
  const order = orderOf({ frames: frames(0), events: [event(9, "a"), event(0, "b")], outputs: [output(7, 3)] });
  assert.equal(order.size, 3);
  assert.deepEqual(order.groups.events, [1, 1]);
});

test("nothing at all", () => {
  assert.equal(orderOf({ frames: [], events: [], outputs: [] }).size, 0);
});
