// Usage: what the plots are drawn from.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  asked,
  listAddress,
  RANGES,
  type Series,
  slicePeriod,
  slots,
  stacked,
  tokensOf,
} from "../src/usage/figures.ts";

function series(name: string, tokens: number): Series {
  const errors = { errors: 1, faults: 1, refused: 0, cancelled: 0 };
  const total = {
    requests: 2,
    input: tokens,
    output: 1,
    cost: 0.5,
    unpriced: 0,
    ...errors,
    ttft: 1,
    p95: 2,
    duration: 3,
  };
  const lists = { requests: [1, 1], input: [tokens, 0], output: [0, 1], cost: [0.5, null], errors: [0, 1] };
  return { name, query: `model=${name}`, ...lists, ttft: [1, null], total };
}

test("a figure leads to its requests", () => {
  assert.equal(listAddress("state:broken", "", "model=a/b"), "#/streams?q=state%3Abroken+model%3Da%2Fb");
  assert.equal(slicePeriod(1_700_000_000, 60), "since:2023-11-14T22:13:20Z until:2023-11-14T22:14:20Z");
});

test("stacks stand upon each other", () => {
  assert.deepEqual(stacked([[1, 2], [3, 0], [0, 5]]), [[1, 2], [4, 2], [4, 7]]); // biome-ignore format: one line
  assert.deepEqual(stacked([]), []);
  assert.deepEqual(tokensOf(series("a", 7)), [7, 1]);
});

test("slices of time without a turn are left out, the newest first", () => {
  const empty = {
    ...series("a", 5),
    requests: [1, 0, 2],
    input: [5, 0, 6],
    output: [1, 0, 1],
    cost: [0.5, null, null],
    errors: [0, 0, 1],
  };
  const rest = { period: "", names: [], partial: false };
  const found = slots({ ...rest, bucket: 60, buckets: [0, 60, 120], series: [empty, empty], total: empty.total });
  assert.deepEqual(found.map(({ time, requests, input, cost, errors }) => [time, requests, input, cost, errors]), [[120, 4, 12, null, 2], [0, 2, 10, 1, 0]]); // biome-ignore format: one line
});

test("a range ends on a whole bucket and holds now", () => {
  for (const range of RANGES) {
    const query = new URLSearchParams(asked(range, "key", 1_700_000_123.4).split("?")[1]);
    const [since, until, bucket] = ["since", "until", "bucket"].map((name) => Number(query.get(name)));
    assert.ok(since !== undefined && until !== undefined && bucket !== undefined);
    assert.ok(until >= 1_700_000_123.4 && until - 1_700_000_123.4 <= bucket);
    assert.equal(until % bucket, 0);
    assert.equal(until - since, range.seconds);
  }
});
