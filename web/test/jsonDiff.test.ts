import assert from "node:assert/strict";
import { test } from "node:test";
import { countChanges, diffJson, isEqual, type Pair, pairRows } from "../src/request/jsonDiff.ts";

function changes(whole: Pair): string[] {
  const found: string[] = [];
  const look = (pair: Pair): void => {
    if (pair.children.length === 0 && pair.change !== "same") {
      const place = pair.change === "added" ? pair.rightPlace : pair.leftPlace;
      found.push(`${pair.change} ${pair.right !== undefined && pair.left === undefined ? pair.rightPlace : place}`);
    }
    for (const child of pair.children) look(child);
  };
  look(whole);
  return found;
}

test("added, removed and changed fields", () => {
  const whole = diffJson({ a: 1, b: 2, c: { d: 3 } }, { a: 1, c: { d: 4 }, e: 5 });
  assert.deepEqual(changes(whole), ["removed /b", "changed /c/d", "added /e"]);
  assert.equal(whole.change, "inside");
});

test("equal values have no difference, whatever the order of their fields", () => {
  assert.equal(diffJson({ a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 }).change, "same");
  assert.ok(!isEqual({ a: 1 }, { a: "1" }));
  assert.ok(!isEqual([], {}));
});

test("an element put into a list does not change those behind it", () => {
  const left = ["one", "two", "three"].map((text) => ({ text }));
  const right = [{ text: "zero" }, ...left];
  assert.deepEqual(changes(diffJson(left, right)), ["added /0/text"]);
  assert.deepEqual(changes(diffJson(right, left)), ["removed /0/text"]);
});

test("an element in the middle is paired with the one in its place", () => {
  assert.deepEqual(changes(diffJson(["a", "b", "c"], ["a", "x", "c"])), ["changed /1"]);
  assert.deepEqual(changes(diffJson(["a", "b", "c", "d"], ["b", "c", "x", "d"])), ["removed /0", "added /2"]);
});

test("a value that is elsewhere now has moved", () => {
  const left = { system: "Be brief.", max_tokens: 4000 };
  const right = { messages: [{ role: "system", content: "Be brief." }], max_completion_tokens: 4000 };
  const whole = diffJson(left, right);
  assert.deepEqual(changes(whole).sort(), [
    "added /messages/0/role",
    "moved /max_completion_tokens",
    "moved /max_tokens",
    "moved /messages/0/content",
    "moved /system",
  ]);
  const system = whole.children.find((pair) => pair.name === "system");
  assert.equal(system?.other, "/messages/0/content");
  assert.deepEqual(countChanges(whole), { added: 1, removed: 0, changed: 0, moved: 2 });
});

test("short values are not said to have moved", () => {
  assert.deepEqual(changes(diffJson({ a: true, n: 1 }, { b: true, m: 1 })), [
    "removed /a",
    "removed /n",
    "added /b",
    "added /m",
  ]);
});

test("rows fold what is equal", () => {
  const whole = diffJson({ a: 1, b: 2, c: 3, d: { e: 1 } }, { a: 1, b: 2, c: 4, d: { e: 1 } });
  const byDefault = (_: string, open: boolean) => open;
  const rows = pairRows(whole, byDefault, true);
  assert.deepEqual(
    rows.map(({ equal, pair }) => equal ?? pair.change),
    ["inside", 2, "changed", 1],
  );
  assert.equal(pairRows(whole, byDefault, false).length, 5);
});

test("elements that only have their fields in another order are the same", () => {
  const left = [{ a: 1, b: 2 }, { text: "one" }, { a: 3, b: 4 }];
  const right = [{ b: 2, a: 1 }, { text: "one" }, { b: 4, a: 3 }];
  assert.deepEqual(changes(diffJson(left, right)), []);
});

test("an element that is put into a long list does not change the others", () => {
  const left = Array.from({ length: 1000 }, (_, number) => ({ text: `message ${number}` }));
  const right = [...left.slice(0, 500), { text: "new" }, ...left.slice(500, 999), { text: "last" }];
  assert.deepEqual(changes(diffJson(left, right)), ["added /500/text", "changed /999/text"]);
});

test("a conversation of a thousand messages is compared at once", () => {
  const left = Array.from({ length: 1000 }, (_, number) => ({ role: "user", content: `message ${number}` }));
  const right = [...left, { role: "user", content: "one more" }];
  assert.deepEqual(changes(diffJson({ messages: left }, { messages: right })), [
    "added /messages/1000/role",
    "added /messages/1000/content",
  ]);
});
