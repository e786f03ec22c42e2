// Numbers with their nouns, and sentences.
import assert from "node:assert/strict";
import { test } from "node:test";
import { describeContext, type Step } from "../src/runs/sessions.ts";
import { partialNote } from "../src/streams/listing.ts";
import { formatDuration, formatMany, formatManyShort, formatSentence } from "../src/ui/format.ts";

test("one thing, several things", () => {
  assert.deepEqual(
    [0, 1, 2, 1204].map((count) => formatMany(count, "token")),
    ["0 tokens", "1 token", "2 tokens", "1,204 tokens"],
  );
  assert.equal(formatMany(2, "try", "tries"), "2 tries");
});

test("a minute has sixty seconds", () => {
  const shown = [0.0004, 9.5, 99.9, 100, 119.6, 3600].map(formatDuration);
  assert.deepEqual(shown, ["0 ms", "9.50 s", "99.9 s", "1 min 40 s", "2 min 0 s", "60 min 0 s"]);
});

test("large counts are short", () => {
  assert.deepEqual(
    [1, 2, 20_400].map((count) => formatManyShort(count, "token")),
    ["1 token", "2 tokens", "20.4k tokens"],
  );
  assert.equal(formatManyShort(null, "token"), "– tokens");
  assert.equal(formatManyShort(1, "turn is", "turns are"), "1 turn is");
});

test("one of a kind, wherever the page counts", () => {
  const answer = { row: { input: 1 }, window: 0 } as Step;
  assert.equal(describeContext([answer]), "From 1 to 1 token, 1 at most. The model's window is not known.");
  assert.match(partialNote(1), /^1 turn was searched/);
  assert.match(partialNote(1200), /^1,200 turns were searched/);
});

test("what the gateway says becomes a sentence", () => {
  assert.deepEqual(
    [formatSentence("it was deleted"), formatSentence("Why?"), formatSentence("")],
    ["It was deleted.", "Why?", ""],
  );
});
