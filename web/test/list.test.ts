import assert from "node:assert/strict";
import { test } from "node:test";
import type { Row } from "../src/api/types.ts";
import { readSettings } from "../src/streams/columnSettings.ts";
import { applyOption } from "../src/streams/completion.ts";
import {
  countSets,
  listingOf,
  liveRows,
  MAX_PAGES,
  merged,
  missingPages,
  PAGE_ROWS,
  partialNote,
  rowAt,
  setOf,
  trimLive,
  withNews,
  withPage,
} from "../src/streams/listing.ts";

function row(id: string, time: number, more: Partial<Row> = {}): Row {
  return { id, time, decisions: [], state: "finish", fault: "", message: "", ...more } as unknown as Row;
}

const ids = (rows: Row[]) => rows.map(({ id }) => id);

test("newer rows replace older ones, and the newest turn is first", () => {
  const rows = merged([row("a", 1, { state: "open" })], [row("b", 2), row("a", 1, { state: "fault" })]);
  assert.deepEqual(rows.map(({ id, state }) => [id, state]), [["b", "finish"], ["a", "fault"]]); // biome-ignore format: one line
});

test("a turn stays in its place when it is reported again", () => {
  const rows = [row("b", 2), row("a", 1)];
  assert.deepEqual(merged(rows, [row("b", 2)]), rows);
  assert.equal(merged(rows, []), rows);
});

test("news are above the history, updates change known rows only, and rows that match no longer go", () => {
  let now = listingOf({ rows: [row("a", 1)], upto: 7, offset: 0, total: 1, requests: 1, states: { finish: 1 } });
  now = withNews(now, [row("b", 2, { state: "open" })], [row("a", 1, { finish: "new" }), row("z", 0)]);
  assert.deepEqual(ids(now.live), ["b"]);
  assert.equal(rowAt(now, 0)?.finish, "new");
  assert.deepEqual(countSets(now), { all: 2, running: 1, finished: 1, warnings: 0, broken: 0 });
  assert.deepEqual(ids(liveRows(now, "broken", true)), []);
  assert.deepEqual(ids(liveRows(now, "running", true)), ["b"]);
  assert.deepEqual(liveRows(now, "all", false), []);
  assert.deepEqual(ids(liveRows(now, "running", false)), ["b"]); // they are nowhere else
  assert.deepEqual(withNews(now, [], [], ["b"]).live, []);
});

test("of very many turns above the history the newest and the running ones are kept", () => {
  const live = [
    row("e", 5),
    row("d", 4, { state: "open" }),
    row("c", 3),
    row("b", 2),
    row("a", 1, { state: "streaming" }),
  ];
  const now = { ...listingOf({ rows: [], upto: 1, offset: 0, total: 0 }), live };
  assert.deepEqual(ids(trimLive(now, 1).live), ["e", "d", "a"]);
  assert.deepEqual(ids(trimLive(now, 9).live), ids(live));
});

test("a turn that did not end well is not among the finished", () => {
  const of = (more: Partial<Row>) => setOf(row("a", 1, more));
  assert.equal(of({ warning: "length" }), "warnings");
  assert.equal(of({ state: "cancelled" }), "warnings");
  assert.equal(of({ state: "refused" }), "broken");
  assert.equal(of({ state: "streaming" }), "running");
  assert.equal(of({}), "finished");
});

test("pages are asked for where they are shown, and are not kept for ever", () => {
  let now = listingOf({ rows: [], upto: 1, offset: 0, total: 100_000 });
  assert.deepEqual(missingPages(now, -20, 30), []);
  assert.deepEqual(missingPages(now, 50_000 - 1, 50_000 + 1), [499, 500]);
  assert.deepEqual(missingPages(now, 99_990, 100_030), [999]);
  for (let number = 1; number < 2 * MAX_PAGES; number++) now = withPage(now, number, [row(String(number), number)]);
  assert.equal(now.pages.size, MAX_PAGES);
  assert.equal(rowAt(now, (2 * MAX_PAGES - 1) * PAGE_ROWS)?.id, String(2 * MAX_PAGES - 1));
  assert.equal(rowAt(now, 0), undefined);
});

test("an option replaces what was typed", () => {
  const completion = { start: 3, end: 8, options: [], error: null };
  const taken = applyOption("ok model rest", completion, { text: "model:", about: "" });
  assert.deepEqual(taken, { text: "ok model: rest", at: 9 });
  const value = applyOption("model:o", { ...completion, start: 6, end: 7 }, { text: "opus", about: "" });
  assert.deepEqual(value, { text: "model:opus ", at: 11 });
  const after = applyOption("\u{1F600} mod x", { ...completion, start: 2, end: 5 }, { text: "model:", about: "" });
  assert.deepEqual(after, { text: "\u{1F600} model: x", at: 9 });
});

test("settings of columns are checked when they are read", () => {
  const known = ["time", "model"];
  assert.deepEqual(readSettings(null, known), { shown: null, widths: {} });
  assert.deepEqual(readSettings("{", known), { shown: null, widths: {} });
  const text = JSON.stringify({ shown: ["model", "x"], widths: { model: 5, x: 9, time: "a" } });
  assert.deepEqual(readSettings(text, known), { shown: ["model"], widths: { model: 48 } });
});

test("turns that were searched in part are counted in words", () => {
  assert.match(partialNote(1), /^1 turn was searched only in part/);
  assert.match(partialNote(2000), /^2,000 turns were searched only in part/);
  assert.deepEqual(listingOf({ rows: [], upto: 0, offset: 0 }).hints, []);
});
