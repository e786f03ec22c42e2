import assert from "node:assert/strict";
import { test } from "node:test";
import type { Trace } from "../src/api/types.ts";
import { DerivedBuilder } from "../src/turn/derived.ts";
import { extended } from "../src/turn/extending.ts";
import { lanesOf } from "../src/turn/lanes.ts";
import { COLUMNS, type Order, orderOf } from "../src/turn/order.ts";
import { event, frames, output } from "./traces.ts";

function empty(): Trace {
  return { frames: [], events: [], outputs: [], marks: [], done: false, timed: true } as unknown as Trace;
}

/** A turn in pieces: each frame gives some events and outputs, some of which come with a later piece. */
function pieces(seed: number) {
  let [state, events] = [seed, 0];
  const random = (below: number) => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state % below;
  };
  return Array.from({ length: 40 }, (_, index) => {
    const made = {
      frames: frames(index / 10),
      events: Array.from({ length: random(4) }, () => event(index, "text-delta", { index: random(3), text: "x" })),
      outputs: Array.from({ length: random(3) }, () => output(events ? random(events) : null, index)),
      marks: [],
      done: index === 39,
    };
    events += made.events.length;
    return made;
  });
}

function checkSlots(order: Order): void {
  for (const column of COLUMNS) {
    for (const [index, slot] of order.slots[column].entries()) assert.equal(order.at[column][slot], index);
    assert.equal(order.at[column].length, order.size);
  }
}

test("a turn that grows is laid out as if it had come at once", () => {
  for (let seed = 1; seed < 40; seed++) {
    const builder = new DerivedBuilder();
    let trace = empty();
    for (const piece of pieces(seed)) {
      trace = extended(trace, piece);
      const { order, lanes, clock, links } = builder.extend(trace);
      assert.deepEqual(order, orderOf(trace), `seed ${seed}, ${trace.frames.length} frames`);
      checkSlots(order);
      assert.deepEqual(lanes, lanesOf(trace.events));
      assert.equal(clock.times.length, trace.frames.length);
      if (trace.events.length) assert.deepEqual(links.of({ column: "events", index: 0 }).events, [0]);
    }
  }
});

test("another turn begins anew", () => {
  const builder = new DerivedBuilder();
  builder.extend(extended(empty(), pieces(3)[0] as never));
  const other = { ...empty(), frames: frames(0, 1) };
  assert.deepEqual(builder.extend(other).order, orderOf(other));
});

test("an update costs the same however long the turn is", () => {
  const builder = new DerivedBuilder();
  let trace = empty();
  for (let index = 0; index < 20_000; index++) {
    const piece = {
      frames: frames(index),
      events: [event(index, "text-delta", { index: 0, text: "x" })],
      outputs: [output(index, index)],
    };
    trace = extended(trace, { ...piece, marks: [], done: false });
    builder.extend(trace); // laid out as a whole each time, this would be 200 million steps
  }
  assert.equal(builder.extend(trace).order.size, 20_000);
});
