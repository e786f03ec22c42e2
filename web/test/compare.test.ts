// Two turns compared: their figures side by side.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Row } from "../src/api/types.ts";
import { missingAnswer } from "../src/compare/answers.ts";
import { compareFigures } from "../src/compare/figures.ts";

function row(more: Partial<Row> = {}): Row {
  return {
    asked: "m",
    model: "m",
    state: "finish",
    finish: "stop",
    http: 200,
    warning: "",
    malformed: 0,
    ...more,
  } as Row;
}

function states(first: Row, second: Row): string[] {
  const found = compareFigures(first, second).find(({ name }) => name === "State");
  return found ? [found.first, found.second, found.difference] : [];
}

test("a state is called what the list calls it", () => {
  assert.deepEqual(states(row(), row()), ["stop", "stop", ""]);
  const cut = row({ finish: "length", warning: "length" });
  assert.deepEqual(states(row(), cut), ["stop", "length", "differs"]);
  const refusals = [
    row({ finish: "refusal", warning: "refusal" }),
    row({ warning: "malformed", malformed: 2 }),
  ] as const;
  assert.deepEqual(states(...refusals), ["refusal", "malformed", "differs"]);
  const failed = row({ state: "refused", finish: "", http: 500 });
  assert.deepEqual(states(failed, row({ state: "refused", finish: "", http: 429 })), ["failed", "refused", "differs"]);
  assert.deepEqual(states(row({ state: "open", finish: "" }), row({ state: "cancelled" })), [
    "waiting",
    "cancelled",
    "differs",
  ]);
});

test("an answer is missing if it is lost, and not if it says nothing", () => {
  const empty = { text: [], reasoning: [], calls: [] };
  assert.equal(missingAnswer({ lost: "it was deleted" }, empty), "it was deleted");
  assert.equal(missingAnswer({ lost: "" }, empty), "");
  assert.equal(missingAnswer({ lost: "the end was cut" }, { ...empty, calls: ["read:"] }), "");
});
