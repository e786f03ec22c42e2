import assert from "node:assert/strict";
import { test } from "node:test";
import type { Row } from "../src/api/types.ts";
import { counted, matching } from "../src/streams/filtering.ts";
import { MOST_ROWS, merged } from "../src/streams/merging.ts";

function row(id: string, time: number, more: Partial<Row> = {}): Row {
  const plain = {
    client: "",
    route: "",
    key: "",
    asked: "",
    model: "",
    provider: "",
    engine: "",
    protocol: "",
    upstream: "",
  };
  return { id, time, ...plain, decisions: [], state: "finish", fault: "", message: "", ...more } as Row;
}

test("newer words replace older ones, and the newest turn is first", () => {
  const rows = merged([row("a", 1, { state: "open" })], [row("b", 2), row("a", 1, { state: "fault" })]);
  assert.deepEqual(
    rows.map(({ id, state }) => [id, state]),
    [
      ["b", "finish"],
      ["a", "fault"],
    ],
  );
});

test("a turn stays in its place when it is told of again", () => {
  const rows = [row("b", 2), row("a", 1)];
  assert.deepEqual(merged(rows, [row("b", 2)]), rows);
  assert.equal(merged(rows, []), rows);
});

test("the list is bounded", () => {
  const many = Array.from({ length: MOST_ROWS + 10 }, (_, index) => row(String(index), index));
  const kept = merged([], many);
  assert.equal(kept.length, MOST_ROWS);
  assert.equal(kept[0]?.id, String(MOST_ROWS + 9));
});

test("words look everywhere, fields in one place", () => {
  const rows = [
    row("a", 1, { model: "opus-9", client: "vscode", decisions: ["engine: native in place of sdk"] }),
    row("b", 2, { model: "small", client: "opus-reader", state: "fault", fault: "overloaded" }),
  ];
  const found = (query: string) => matching(rows, query).map(({ id }) => id);
  assert.deepEqual(found("opus"), ["a", "b"]);
  assert.deepEqual(found("model:OPUS"), ["a"]);
  assert.deepEqual(found("opus state:fault"), ["b"]);
  assert.deepEqual(found("engine:sdk"), ["a"]);
  assert.deepEqual(found("nothing:opus"), []);
  assert.deepEqual(found("  "), ["a", "b"]);
  assert.deepEqual(counted(rows), { all: 2, running: 0, finished: 1, broken: 1 });
});
