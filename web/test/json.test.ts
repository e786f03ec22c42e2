import assert from "node:assert/strict";
import { test } from "node:test";
import { prettyLines } from "../src/ui/json.ts";

function shown(text: string): string[] | null {
  return (
    prettyLines(text)?.map((line) => " ".repeat(line.depth) + line.spans.map((span) => span.text).join("")) ?? null
  );
}

test("laid out, with nothing changed", () => {
  assert.deepEqual(shown('{"a":12345678901234567890,"b":[1.50,{"c":"\\u00e9:,{}"}],"d":{},"e":[]}'), [
    "{",
    ' "a": 12345678901234567890,',
    ' "b": [',
    "  1.50,",
    "  {",
    '   "c": "\\u00e9:,{}"',
    "  }",
    " ],",
    ' "d": {},',
    ' "e": []',
    "}",
  ]);
});

test("the letters stay the same ones in the same order", () => {
  const text = JSON.stringify({ a: [1, [2, [], { b: null }]], c: { d: 'x\n"y\\', e: true }, f: -1e9 });
  const joined = (prettyLines(text) ?? []).flatMap((line) => line.spans.map((span) => span.text.trim())).join("");
  assert.equal(joined, text);
});

test("keys and strings are told apart", () => {
  const kinds = prettyLines('{"a":"b","c":1,"d":null}')?.flatMap((line) => line.spans.map((span) => span.kind));
  assert.deepEqual(
    kinds?.filter((kind) => kind !== "mark"),
    ["key", "string", "key", "number", "key", "word"],
  );
});

test("what is not JSON, or is only half of it, is no lines or what there is", () => {
  assert.equal(shown("[DONE]"), null);
  assert.equal(shown("plain words"), null);
  assert.equal(shown(""), null);
  assert.equal(shown('{"a": "cut off'), null);
  assert.deepEqual(shown('{"a":[1'), ["{", ' "a": [', "  1"]);
});

test("two million letters in one string take no time to speak of", () => {
  const lines = prettyLines(`{"a":"${"x".repeat(2_000_000)}"}`);
  assert.equal(lines?.length, 3);
});
