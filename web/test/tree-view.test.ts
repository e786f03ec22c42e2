import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ancestors,
  copyText,
  findPlaces,
  losesDigits,
  parseJson,
  pointer,
  RawNumber,
  rowText,
  sizeOf,
  treeRows,
  valueAt,
} from "../src/request/tree.ts";

test("rows are those inside of what is open", () => {
  const value = { a: { b: [1, "x"] }, c: null };
  const all = treeRows(value, () => true).map(({ place, depth, name }) => [place, depth, name]);
  assert.deepEqual(all, [
    ["", 0, null],
    ["/a", 1, "a"],
    ["/a/b", 2, "b"],
    ["/a/b/0", 3, null],
    ["/a/b/1", 3, null],
    ["/c", 1, "c"],
  ]);
  const some = treeRows(value, (place) => place === "");
  assert.deepEqual(
    some.map(({ place, count, open }) => [place, count, open]),
    [
      ["", 2, true],
      ["/a", 1, false],
      ["/c", null, false],
    ],
  );
});

test("a pointer names any key, and leads back to the value", () => {
  const value = { "a/b": { "~c": [7] } };
  const place = pointer(pointer(pointer("", "a/b"), "~c"), "0");
  assert.equal(place, "/a~1b/~0c/0");
  assert.equal(valueAt(value, place), 7);
  assert.equal(valueAt(value, "/toString"), undefined);
  assert.deepEqual(ancestors(place), ["", "/a~1b", "/a~1b/~0c"]);
  assert.deepEqual(ancestors("/a"), [""]);
});

test("a number too long for JavaScript stays as it was written", () => {
  const value = parseJson('{"id": 12345678901234567890, "n": 1.5}');
  const id = valueAt(value ?? null, "/id");
  assert.ok(id instanceof RawNumber);
  assert.equal(copyText(value ?? null), '{\n  "id": 12345678901234567890,\n  "n": 1.5\n}');
});

test("words are found in names and values, in any case", () => {
  const value = { Model: "x", messages: [{ text: "the MODEL says" }, { text: "no" }] };
  assert.deepEqual(findPlaces(value, "model"), ["/Model", "/messages/0/text"]);
  assert.deepEqual(findPlaces(value, ""), []);
});

test("sizes and texts of rows", () => {
  assert.equal(sizeOf({ a: [1, "xy"] }), '{"a":[1,"xy"]}'.length);
  assert.equal(rowText("a\nb"), '"a\\nb"');
  assert.equal(rowText("x".repeat(400)), `"${"x".repeat(300)}…`);
  assert.equal(rowText([]), "[]");
  assert.equal(parseJson("{"), undefined);
});

test("two hundred thousand values are rows within a moment", () => {
  const value = { messages: Array.from({ length: 50_000 }, (_, number) => ({ role: "user", text: `word ${number}` })) };
  assert.equal(treeRows(value, () => true).length, 150_002);
  assert.equal(findPlaces(value, "word 4999").length, 11);
});

test("only numbers that JavaScript rounds lose digits", () => {
  assert.equal(losesDigits('{"tools": [{"maximum": 18446744073709551615}]}'), true);
  assert.equal(losesDigits('{"id": "18446744073709551615", "n": [9007199254740991]}'), false);
});
