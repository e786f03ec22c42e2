import assert from "node:assert/strict";
import { test } from "node:test";
import { firstHit, highlightText, MOST_MARKS, splitHits } from "../src/ui/highlight.ts";

const marked = (text: string, sought: string, matchCase = false) =>
  splitHits(text, highlightText(sought, matchCase)).map(({ text: piece, hit }) => (hit ? `[${piece}]` : piece));

test("every place is marked, whatever its case", () => {
  assert.deepEqual(marked("Rain and rain", "rain"), ["[Rain]", " and ", "[rain]"]);
  assert.deepEqual(marked("Rain and rain", "rain", true), ["Rain and ", "[rain]"]);
  assert.deepEqual(marked("aaaa", "aa"), ["[aa]", "[aa]"]);
  assert.deepEqual(marked("nothing", "rain"), ["nothing"]);
});

test("a text is found as JSON writes it", () => {
  assert.deepEqual(marked(JSON.stringify({ text: 'say "hi"\nnow' }), 'say "hi"\nnow'), [
    '{"text":"',
    '[say \\"hi\\"\\nnow]',
    '"}',
  ]);
});

test("letters that are longer in lower case do not shift the marks", () => {
  assert.deepEqual(marked("İİ rain", "rain"), ["İİ ", "[rain]"]);
});

test("a text is whole again, and very many places are not all marked", () => {
  const text = "ab".repeat(10 * MOST_MARKS);
  const pieces = splitHits(text, highlightText("a", false));
  assert.equal(pieces.map(({ text: piece }) => piece).join(""), text);
  assert.ok(pieces.length <= 2 * MOST_MARKS + 2);
});

test("where the first mark is", () => {
  assert.equal(firstHit("one two", highlightText("TWO", false)), 4);
  assert.equal(firstHit("one two", highlightText("TWO", true)), -1);
  assert.equal(firstHit("one two", undefined), -1);
});
