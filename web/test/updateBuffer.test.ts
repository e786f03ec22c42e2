// What comes of a live turn: gathered, shown at intervals, and discarded when another trace is asked for.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import type { Additions, State, Trace } from "../src/api/types.ts";
import { describeUnsent } from "../src/request/attemptOutcome.ts";
import { pinTry } from "../src/request/pinTry.ts";
import { awaitsAnswer } from "../src/request/useRequest.ts";
import { DRAWN_EVERY, UpdateBuffer } from "../src/turn/updateBuffer.ts";
import { event, frames } from "./traces.ts";

function empty(): Trace {
  return { frames: [], events: [], outputs: [], marks: [], done: false, timed: true } as unknown as Trace;
}

function additions(done = false): Additions {
  return { frames: frames(1), events: [event(0, "start")], outputs: [], marks: [], done } as unknown as Additions;
}

/** A buffer, and how many frames and events of the trace are shown. */
function shown(signal: AbortSignal) {
  let trace: Trace | null = empty();
  const buffer = new UpdateBuffer((change) => {
    trace = change(trace);
  }, signal);
  return { buffer, count: () => [trace?.frames.length, trace?.events.length] };
}

test("additions are shown together, the last of them at once", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { buffer, count } = shown(new AbortController().signal);
  buffer.add(additions());
  buffer.add(additions());
  assert.deepEqual(count(), [0, 0]);
  mock.timers.tick(DRAWN_EVERY);
  assert.deepEqual(count(), [2, 2]);
  buffer.add(additions());
  buffer.add(additions(true));
  assert.deepEqual(count(), [4, 4]);
  mock.timers.tick(DRAWN_EVERY);
  assert.deepEqual(count(), [4, 4]);
  mock.timers.reset();
});

test("what waits is discarded when another trace is asked for", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const stop = new AbortController();
  const { buffer, count } = shown(stop.signal);
  buffer.add(additions());
  stop.abort();
  mock.timers.tick(DRAWN_EVERY);
  assert.deepEqual(count(), [0, 0]);
  buffer.add(additions(true));
  assert.deepEqual(count(), [0, 0]);
  mock.timers.reset();
});

test("a turn awaits its answer until the first frame or event, or its end", () => {
  const trace = empty();
  assert.equal(awaitsAnswer(trace), true);
  assert.equal(awaitsAnswer({ ...trace, done: true }), false);
  assert.equal(awaitsAnswer({ ...trace, frames: frames(1) }), false);
  assert.equal(awaitsAnswer({ ...trace, events: [event(null, "start")] }), false);
});

test("a turn without tries is called refused only if it was", () => {
  const row = (state: State, engine = "") => ({ state, engine });
  assert.equal(describeUnsent(false, row("open")), "Nothing has been sent to a provider yet.");
  assert.match(describeUnsent(true, row("refused")), /refused before any try/);
  assert.match(describeUnsent(true, row("finish", "cache")), /the response cache had the answer\.$/);
  for (const other of [row("cancelled"), row("fault", "native"), null]) {
    assert.equal(describeUnsent(true, other), "Nothing was sent to a provider.");
  }
});

test("the try under the reader stays, elsewhere the last one is followed", () => {
  assert.equal(pinTry(null, "upstream", 0), null);
  assert.equal(pinTry(null, "upstream", 1), 0);
  assert.equal(pinTry(0, "upstream", 2), 0);
  assert.equal(pinTry(0, "canonical", 3), 0);
  assert.equal(pinTry(0, "prompt", 3), null);
  assert.equal(pinTry(null, "canonical", 3), 2);
});
