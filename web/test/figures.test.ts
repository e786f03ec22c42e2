// Usage: what the plots are drawn from.
import assert from "node:assert/strict";
import { test } from "node:test";
import { asked, largest, RANGES, REST, type Series, slots, stacked, tokensOf } from "../src/usage/figures.ts";

function series(name: string, tokens: number): Series {
  const total = { requests: 2, input: tokens, output: 1, cost: 0.5, faults: 1, ttft: 1, p95: 2, duration: 3 };
  const lists = { requests: [1, 1], input: [tokens, 0], output: [0, 1], cost: [0.5, 0], faults: [0, 1] };
  return { name, ...lists, ttft: [1, null], p95: [2, null], duration: [3, null], total };
}

test("the largest come first, and what has no colour of its own is counted together", () => {
  const many = Array.from({ length: 12 }, (_, n) => series(`m${n}`, n * 100));
  const shown = largest(many);
  assert.equal(shown.length, 8);
  assert.deepEqual([shown[0]?.name, shown[7]?.name], ["m11", REST]);
  const sum = (list: Series[]) => list.reduce((all, one) => all + one.total.input + one.total.requests, 0);
  assert.equal(sum(shown), sum(many));
  assert.deepEqual(shown[7]?.requests, [5, 5]);
  assert.equal(shown[7]?.total.ttft, null);
  assert.equal(largest(many.slice(0, 8)).length, 8);
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
    cost: [0, 0, 0],
    faults: [0, 0, 1],
  };
  const found = slots({ bucket: 60, buckets: [0, 60, 120], series: [empty, empty], total: empty.total });
  assert.deepEqual(found.map(({ time, requests, input, faults }) => [time, requests, input, faults]), [[120, 4, 12, 2], [0, 2, 10, 0]]); // biome-ignore format: one line
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
