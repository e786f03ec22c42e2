// Usage and estimates: what the plots are drawn from, and what is said in words.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bySize,
  inWords,
  type ModelTokens,
  offBy,
  type Point,
  shareRange,
  signed,
  within,
} from "../src/tokens/estimates.ts";
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

const POINT: Point = { time: 0, estimate: 100, low: 80, high: 120, actual: 110 };

test("within the bounds means the bounds too", () => {
  assert.deepEqual([79, 80, 120, 121].map((actual) => within({ ...POINT, actual })), [false, true, true, false]); // biome-ignore format: one line
  assert.deepEqual([signed(offBy(110, 100)), signed(offBy(90, 100)), signed(offBy(100.2, 100)), signed(offBy(5, 0))], ["+10%", "−10%", "0%", "0%"]); // biome-ignore format: one line
});

test("an axis holds all points but not the absurd ones", () => {
  const [low, high] = shareRange([POINT, { ...POINT, actual: 100_000 }]);
  assert.ok(low <= -0.2 && high >= 0.2 && high < 4);
  assert.ok(shareRange([])[1] > 0);
  assert.deepEqual(bySize([{ ...POINT, actual: 3 }, { ...POINT, actual: 1 }]).map(({ actual }) => actual), [1, 3]); // biome-ignore format: one line
});

function model(more: Partial<ModelTokens>): ModelTokens {
  return {
    model: "a/b",
    factor: 1,
    samples: 200,
    coverage: 0.95,
    median_error: 0.057,
    history: [],
    points: [],
    ...more,
  };
}

test("figures in words", () => {
  assert.match(
    inWords(model({})).join(" "),
    /200 requests.*less than 5.7%.*95%.*promise 90%: they hold.*nothing is corrected/,
  );
  assert.match(inWords(model({ coverage: 0.6 })).join(" "), /too narrow/);
  assert.match(
    inWords(model({ samples: 1 })).join(" "),
    /One request was.*The estimate was off by 5.7%.*says little yet/,
  );
  assert.match(inWords(model({ factor: 1.042 })).join(" "), /4.2% more tokens.*multiplied by 1.042/);
  assert.match(inWords(model({ factor: 0.9 })).join(" "), /10.0% fewer/);
});
