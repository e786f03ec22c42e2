import assert from "node:assert/strict";
import { test } from "node:test";
import { seenRows, topToShow } from "../src/ui/virtual.ts";

test("as many rows are drawn as are seen, and some around, however long the list", () => {
  for (const count of [0, 1, 30, 10_000, 1_000_000]) {
    for (const top of [0, 21, 22, 5_000, count * 22]) {
      const { first, end } = seenRows(top, 600, 22, count, 8);
      assert.ok(first >= 0 && end <= count && first <= end);
      assert.ok(end - first <= Math.ceil(600 / 22) + 2 * 8 + 1);
      if (top + 600 <= count * 22) assert.ok(first * 22 <= top && end * 22 >= top + 600);
    }
  }
});

test("scrolls no further than it must", () => {
  assert.equal(topToShow(220, 440, 22, 12, 14), 220, "already seen");
  assert.equal(topToShow(220, 440, 22, 5, 5), 88, "above: with a row to spare");
  assert.equal(topToShow(0, 440, 22, 30, 30), 32 * 22 - 440, "below");
  assert.equal(topToShow(100, 440, 22, 0, 0), 0);
});
