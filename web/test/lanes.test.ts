import assert from "node:assert/strict";
import { test } from "node:test";
import { kindOf, lineOf } from "../src/turn/describe.ts";
import { lanesOf, MOST_LANES } from "../src/turn/lanes.ts";
import { event } from "./traces.ts";

test("interleaved calls are two lanes, and a result stands in its call's", () => {
  const lanes = lanesOf([
    event(0, "start"),
    event(1, "call-start", { index: 0, id: "a", name: "level" }),
    event(2, "call-start", { index: 1, id: "b", name: "rain" }),
    event(3, "call-delta", { index: 0, json: "{" }),
    event(4, "call-delta", { index: 1, json: "{" }),
    event(5, "call-end", { index: 0, id: "a", name: "level", json: "{}" }),
    event(6, "result", { index: 2, call: "a", name: "level", json: "1" }),
    event(7, "call-cut", { index: 1, id: "b", name: "rain", json: "{" }),
    event(8, "finish", { reason: "calls" }),
  ]);
  assert.deepEqual(
    lanes.map((lane) => [lane.label, lane.kind, lane.events, lane.state]),
    [
      ["turn", "other", [0, 8], "ended"],
      ["level", "call", [1, 3, 5, 6], "ended"],
      ["rain", "call", [2, 4, 7], "cut"],
    ],
  );
});

test("lanes of the same name are told apart by how they begin", () => {
  const lanes = lanesOf([
    event(0, "text-start", { index: 0 }),
    event(0, "text-delta", { index: 0, text: "First  I\nlook" }),
    event(0, "call-start", { index: 1, id: "a", name: "bash" }),
    event(0, "call-delta", { index: 1, json: '{"command": "ls -la", "x": 1}' }),
    event(0, "text-start", { index: 2 }),
    event(0, "text-delta", { index: 2, text: "Then I answer" }),
  ]);
  assert.deepEqual(
    lanes.map((lane) => [lane.label, lane.title]),
    [
      ["text 1 First I look", "text: First I look"],
      ["bash", "bash: ls -la"],
      ["text 2 Then I answer", "text: Then I answer"],
    ],
  );
});

test("parts of a second turn are other parts", () => {
  const lanes = lanesOf([
    event(0, "start"),
    event(0, "text-start", { index: 0 }),
    event(0, "start"),
    event(0, "text-start", { index: 0 }),
  ]);
  assert.equal(lanes.length, 3);
});

test("sources share a lane, and a result without its call has its own", () => {
  const lanes = lanesOf([
    event(0, "source", { index: 0, url: "x" }),
    event(0, "source", { index: 1, url: "y" }),
    event(0, "result", { index: 2, call: "unknown", name: "r" }),
  ]);
  assert.deepEqual(
    lanes.map((lane) => lane.label),
    ["sources", "r"],
  );
});

test("beyond so many, parts share one lane", () => {
  const many = Array.from({ length: 10_000 }, (_, index) => event(0, "text-start", { index }));
  const lanes = lanesOf(many);
  assert.equal(lanes.length, MOST_LANES + 1);
  assert.equal(lanes.at(-1)?.events.length, 10_000 - MOST_LANES);
});

test("kinds and lines", () => {
  assert.deepEqual(["text-delta", "ask", "fault", "usage", "call-cut", "constructor"].map(kindOf), [
    "text", "call", "fault", "other", "call", "other",
  ]); // biome-ignore format: a row
  assert.equal(lineOf(event(0, "text-delta", { text: "a\nb" })), "“a⏎b”");
  assert.equal(lineOf(event(0, "usage", { input: 3, output: 4 })), "input 3 · output 4");
  assert.equal(lineOf(event(0, "new-thing", { x: 1 })), '{"x":1}');
  assert.equal(lineOf(event(0, "text-start", { type: "text-start", index: 3 })), "");
  assert.ok(lineOf(event(0, "text-delta", { text: "x".repeat(3_000_000) })).length < 300);
});
