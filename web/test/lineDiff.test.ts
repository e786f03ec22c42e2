// Differences of two lists, compared with a slow but certain way; and changes to JSON texts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { indentJson, setJsonValue } from "../src/ui/jsonText.ts";
import { diffItems, diffLines, MOST_DIFFERENCES, wordsOf } from "../src/ui/lineDiff.ts";

function apply(before: string[], after: string[]): void {
  const changes = diffItems(before, after);
  const left = changes.filter(({ kind }) => kind !== "added").flatMap(({ items }) => items);
  const right = changes.filter(({ kind }) => kind !== "removed").flatMap(({ items }) => items);
  assert.deepEqual(left, before);
  assert.deepEqual(right, after);
}

/** The length of the longest common subsequence. */
function common(before: string[], after: string[]): number {
  let row = new Array<number>(after.length + 1).fill(0);
  for (const item of before) {
    const next = [0];
    for (const [index, other] of after.entries()) {
      next.push(item === other ? (row[index] ?? 0) + 1 : Math.max(row[index + 1] ?? 0, next[index] ?? 0));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

test("both sides can be put together from the differences, and these are as few as can be", () => {
  let seed = 7;
  const random = (most: number) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed % most;
  };
  for (let round = 0; round < 300; round++) {
    const make = () => Array.from({ length: random(14) }, () => "abcd"[random(4)] ?? "");
    const [before, after] = [make(), make()];
    apply(before, after);
    const same = diffItems(before, after).flatMap(({ kind, items }) => (kind === "same" ? items : []));
    assert.equal(same.length, common(before, after));
  }
});

test("lists that have little in common are shown as replaced, soon", () => {
  const before = Array.from({ length: 20_000 }, (_, index) => `a${index}`);
  const after = before.map((item) => `${item}x`);
  assert.deepEqual(
    diffItems(before, after, MOST_DIFFERENCES).map(({ kind }) => kind),
    ["removed", "added"],
  );
  apply([], ["x"]);
  apply(["x"], []);
  apply([], []);
});

test("very many lines are compared", () => {
  const before = Array.from({ length: 300_000 }, (_, index) => `${index}`);
  const found = diffLines(before, before.toSpliced(150_000, 1));
  assert.equal(found.length, 300_000);
  assert.deepEqual(
    found.filter(({ kind }) => kind !== "same"),
    [{ kind: "removed", text: "150000" }],
  );
});

test("a changed line shows its words", () => {
  const [line, ...rest] = diffLines(["a", "the gate is open", "b"], ["a", "the gate was open", "b"]).slice(1);
  assert.equal(line?.kind, "changed");
  assert.deepEqual(
    line?.words?.map(({ kind, items }) => [kind, items.join("")]),
    [
      ["same", "the gate "],
      ["removed", "is "],
      ["added", "was "],
      ["same", "open"],
    ],
  );
  assert.equal(rest.length, 1);
  assert.equal(wordsOf("a  b\n\nc ").join(""), "a  b\n\nc ");
});

test("a JSON text is laid out and changed without its numbers being read", () => {
  const text = '{"model":"a","seed":90071992547409931,"x":{"model":"inner"}}';
  assert.equal(JSON.stringify(JSON.parse(indentJson(text))), JSON.stringify(JSON.parse(text)));
  assert.ok(indentJson(text).includes("90071992547409931"));
  const changed = setJsonValue(text, "model", 'b"');
  assert.ok(
    changed.includes('"model": "b\\""') && changed.includes('"inner"') && changed.includes("90071992547409931"),
  );
  assert.equal(JSON.parse(setJsonValue('{"a":1}', "model", "b")).model, "b");
  assert.equal(setJsonValue("[1]", "model", "b"), "[1]");
  assert.equal(setJsonValue("{}", "model", "b"), "{}");
});
