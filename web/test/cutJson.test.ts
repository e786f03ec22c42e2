import assert from "node:assert/strict";
import { test } from "node:test";
import { closeCutJson } from "../src/ui/cutJson.ts";

const VALUE = { id: 'a\\"', n: -12.5, list: [1, [true, null], { "k\u00e9": "\ud83d\ude00\n" }], empty: {}, last: "x" };

test("a JSON text can be read wherever it is cut", () => {
  for (const text of [
    JSON.stringify(VALUE),
    JSON.stringify(VALUE, null, 2),
    JSON.stringify(VALUE).replaceAll("é", "\\u00e9"),
  ]) {
    for (let length = 1; length <= text.length; length++) {
      const read = JSON.parse(closeCutJson(text.slice(0, length)));
      if (length === text.length) assert.deepEqual(read, VALUE);
    }
  }
});

test("of what is cut a text is kept, and half a number, word or name is not", () => {
  assert.equal(closeCutJson('{"id":1,"text":"abc\\u00'), '{"id":1,"text":"abc"}');
  assert.equal(closeCutJson('{"id":1,"n":12'), '{"id":1}');
  assert.equal(closeCutJson('{"a":[tr'), '{"a":[]}');
  assert.equal(closeCutJson('{"a":{"b":2},"lo'), '{"a":{"b":2}}');
});

test("a long one is closed within a moment", () => {
  for (const text of [
    `{"a":"${"\\\\".repeat(50_000)}`,
    "[".repeat(100_000),
    '{"a":'.repeat(20_000),
    '"a'.repeat(50_000),
  ]) {
    const start = performance.now();
    closeCutJson(text);
    assert.ok(performance.now() - start < 2_000);
  }
});
