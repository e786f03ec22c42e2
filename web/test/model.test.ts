import assert from "node:assert/strict";
import { test } from "node:test";
import type { Trace } from "../src/api/types.ts";
import { completed } from "../src/turn/completing.ts";
import { extended } from "../src/turn/extending.ts";
import { TurnModel } from "../src/turn/model.ts";
import { frames, small } from "./traces.ts";

function made(): TurnModel {
  const rest = { version: 1, row: null, title: "", protocol: "x", consumer: "y", consumers: [], request: "" } as const;
  const marks = [
    { level: "info", code: "a", message: "", frame: 2, event: 2, output: null },
    { level: "error", code: "b", message: "", frame: 0, event: null, output: null },
    { level: "info", code: "c", message: "", frame: null, event: null, output: null },
  ] as Trace["marks"];
  return new TurnModel({ ...rest, ...small(), marks, done: true, timed: true, consumers: [] });
}

test("a place lights its links, and crossing follows them", () => {
  const model = made();
  model.choose({ column: "events", index: 2 });
  assert.ok(model.isLit({ column: "frames", index: 2 }) && model.isLit({ column: "outputs", index: 2 }));
  assert.ok(!model.isLit({ column: "frames", index: 0 }));
  model.cross(1);
  assert.deepEqual(model.place.value, { column: "outputs", index: 2 });
  model.cross(1);
  assert.deepEqual(model.place.value, { column: "outputs", index: 2 }, "there is no fourth column");
  model.cross(-1);
  model.cross(-1);
  assert.deepEqual(model.place.value, { column: "frames", index: 2 });
});

test("notes are gone through in order, and round", () => {
  const model = made();
  const seen = [1, 1, 1].map((by) => {
    model.toMark(by);
    return model.place.value;
  });
  assert.deepEqual(seen, [
    { column: "frames", index: 0 },
    { column: "events", index: 2 },
    { column: "frames", index: 0 },
  ]);
  model.toMark(-1);
  assert.deepEqual(model.place.value, { column: "events", index: 2 });
});

test("the end follows what comes, a place stays", () => {
  const model = made();
  const more = { frames: frames(3), events: [], outputs: [], marks: [], done: false };
  assert.equal(model.reach.value.frames, 3);
  model.trace.value = extended(model.trace.value, more);
  assert.equal(model.reach.value.frames, 4);
  model.step(-1);
  model.trace.value = extended(model.trace.value, more);
  assert.deepEqual(model.place.value, { column: "events", index: 2 });
  assert.equal(model.trace.value.done, false);
});

test("the unit of stepping takes the place along", () => {
  const model = made();
  model.choose({ column: "events", index: 2 });
  model.stepIn("frames");
  assert.deepEqual(model.place.value, { column: "frames", index: 2 });
  model.step(-1);
  assert.deepEqual(model.place.value, { column: "frames", index: 1 });
  model.toStart();
  assert.deepEqual(model.place.value, { column: "frames", index: 0 });
  model.toEnd();
  assert.equal(model.place.value, null);
});

test("the traces of a saved page share what they have in common", () => {
  const first = made().trace.value;
  const other: Trace = { ...first, consumer: "z", frames: [], events: [], outputs: [], same: "y", request: "" };
  const whole = completed({ y: { ...first, request: "{}" }, z: other });
  assert.equal(whole.z?.frames, first.frames);
  assert.equal(whole.z?.events, first.events);
  assert.equal(whole.z?.request, "{}");
  assert.deepEqual(whole.z?.outputs, []);
  assert.equal(completed({ z: other }).z, other, "of one that is not there");
});
