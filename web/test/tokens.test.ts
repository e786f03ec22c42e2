// Estimates: what the plots are drawn from, what is said in words, and what can be done.
import assert from "node:assert/strict";
import { test } from "node:test";
import { advise } from "../src/tokens/advice.ts";
import { explainEmpty } from "../src/tokens/empty.ts";
import {
  allowedErrors,
  bySize,
  describeAccuracy,
  errorAxis,
  errorOf,
  lowOrHigh,
  type ModelTokens,
  median,
  outliers,
  type Point,
  rollingMedian,
  signed,
  within,
} from "../src/tokens/estimates.ts";
import { describeUncertain } from "../src/tokens/uncertain.ts";

const POINT: Point = {
  time: 0,
  estimate: 100,
  low: 80,
  high: 120,
  actual: 110,
  method: "estimated",
  uncertain: "",
  id: "a",
};

function points(...actuals: number[]): Point[] {
  return actuals.map((actual, n) => ({ ...POINT, actual, id: `turn-${n}` }));
}

test("within the bounds means the bounds too", () => {
  assert.deepEqual([79, 80, 120, 121].map((actual) => within({ ...POINT, actual })), [false, true, true, false]); // biome-ignore format: one line
});

test("an error below zero is an estimate that was too low", () => {
  const cases: [estimate: number, actual: number, words: string, short: string][] = [
    [82, 100, "18% low", "−18%"],
    [104, 100, "4.0% high", "+4%"],
    [100, 100, "0.0% high", "0%"],
    [1200, 100, "1100% high", "+1,100%"],
  ];
  for (const [estimate, actual, words, short] of cases) {
    const error = errorOf({ ...POINT, estimate, actual });
    assert.deepEqual([lowOrHigh(error), signed(error)], [words, short]);
  }
  assert.equal(errorOf({ ...POINT, actual: 0 }), 0);
});

test("a point lies in the band if its count lies within its bounds", () => {
  for (const actual of [40, 79, 80, 81, 100, 119, 120, 121, 400]) {
    const point = { ...POINT, actual };
    const [low, high] = allowedErrors(point);
    assert.equal(low <= errorOf(point) && errorOf(point) <= high, within(point), String(actual));
  }
});

test("the rolling median forgets what is long ago, and one odd turn", () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 2, 3]), 2.5);
  assert.deepEqual(rollingMedian([1, 9, 1, 1, 1], 3), [null, null, 1, 1, 1]);
  assert.deepEqual(rollingMedian([5, 5, 5, 1, 1, 1, 1], 4), [null, null, 5, 5, 3, 1, 1]);
  assert.deepEqual(rollingMedian([7, 8]), [null, null]);
});

test("an axis holds every point, however far off", () => {
  const near = errorAxis(points(100, 110, 90));
  assert.equal(near.splits, undefined);
  assert.ok(near.range[0] <= -0.17 && near.range[1] >= 0.25);
  for (const actual of [1, 5, 100_000]) {
    const point = { ...POINT, actual };
    const { range, splits } = errorAxis([POINT, point]);
    assert.ok(range[0] < errorOf(point) && errorOf(point) < range[1], String(actual));
    assert.ok(splits?.includes(0) && splits.every((split) => split >= range[0] && split <= range[1]));
  }
  assert.ok(errorAxis([]).range[1] > 0);
});

test("outliers are those out of bounds, the farthest first in either direction", () => {
  assert.deepEqual(outliers(points(100, 300, 10, 125)).map(({ actual }) => actual), [10, 300, 125]); // biome-ignore format: one line
  assert.deepEqual(bySize(points(3, 1)).map(({ actual }) => actual), [1, 3]); // biome-ignore format: one line
});

function model(more: Partial<ModelTokens>): ModelTokens {
  return {
    model: "groq/b",
    family: "qwen",
    exact_text: false,
    factor: 1,
    samples: 200,
    taught: 200,
    coverage: 0.95,
    median_error: 0.047,
    bias: 0.01,
    methods: { actual: 20, hybrid: 120, estimated: 60 },
    uncertain: [],
    history: [],
    points: [],
    ...more,
  };
}

test("figures in words", () => {
  const cases: [Partial<ModelTokens>, RegExp][] = [
    [{}, /200 requests.*less than 4.7%.*95%.*promise 90%: they hold.*nothing is corrected/],
    [{ coverage: 0.6 }, /too narrow/],
    [{ samples: 1 }, /One request was.*The estimate was off by 4.7%.*says little yet/],
    [{ factor: 1.042 }, /4.2% more tokens.*multiplied by 1.042/],
    [{ factor: 0.9 }, /10.0% fewer/],
    [{ taught: 0 }, /No turn has taught/],
    [{ taught: 4, factor: 1.1 }, /multiplied by 1.100 so far/],
  ];
  for (const [more, words] of cases) assert.match(describeAccuracy(model(more)).join(" "), words);
});

test("advice names what can be done, with the numbers of this model", () => {
  const far = [...points(100, 100), { ...POINT, actual: 900, id: "far" }];
  const cases: [Partial<ModelTokens>, RegExp][] = [
    [{}, /^fine Nothing has to be done. Half of 200 estimates were off by less than 4.7%; 95% .*$/],
    [{ taught: 4, samples: 4, bias: -0.18 }, /^wait Estimates are 18% low: the factor is still learning \(4 of about 12 turns\)/],
    [{ taught: 0, samples: 1, bias: 0 }, /^wait Estimates are about right: .*\(0 of about 12 turns\). The median of 1 turn\./],
    [{ bias: -0.2, factor: 2 }, /^act Estimates are 20% low after 200 turns. The factor is at its limit, ×2.00.*provider_overrides=\{"groq": 4.0\}/],
    [{ bias: 0.12 }, /^act Estimates are 12% high after 200 turns. One factor \(×1.00\) cannot/],
    [{ uncertain: [{ kind: "image-urls", turns: 12, median_error: 0.34 }], points: points(100) }, /^act 12 of 200 requests give images by URL. .*1800 × 1200.*34.0%, against 0.0%.*Send the image's data/],
    [{ uncertain: [{ kind: "provider-tools", turns: 1, median_error: 0.5 }] }, /^act 1 of 200 requests use tools that the provider runs.*counted by the provider and not shown/],
    [{ coverage: 0.7 }, /^act Only 70% of 200 turns lay within the bounds, which promise 90%.*x-penstock-tokens-high/],
    [{ points: far }, /^act 1 turn is far off. The farthest was estimated at 100 and counted at 900.* far$/],
    [{ median_error: 0.2, points: [...points(...Array(6).fill(50)), ...points(...Array(6).fill(100)).map((one) => ({ ...one, estimate: 1000, actual: 1010, low: 900, high: 1200 }))] }, /fine Short prompts make up the error: 100.0% below 200 tokens. Longer prompts are off by 1.0%/],
    [{ methods: { actual: 0, hybrid: 5, estimated: 95 } }, /^act 95% of the counts are estimates from the first to the last token/],
    [{ exact_text: true, median_error: 0.15 }, /^act The error stays at 15.0%.*penstock\[bpe\]/],
  ]; // biome-ignore format: a table
  for (const [more, words] of cases) {
    const said = advise(model(more)).map(({ kind, title, text, turn = "" }) =>
      `${kind} ${title}. ${text} ${turn}`.trim(),
    );
    assert.ok(said.some((line) => words.test(line)), `${words} in ${said.join("\n")}`); // biome-ignore format: one line
  }
  assert.equal(advise(model({})).length, 1);
});

test("advice knows nothing of kinds that a newer gateway has", () => {
  const [only] = advise(model({ uncertain: [{ kind: "smells", turns: 3, median_error: 1 }] }));
  assert.equal(only?.kind, "fine");
  assert.equal(describeUncertain("smells"), null);
});

test("an empty page says what must happen", () => {
  const seen = { sampling: true, turns: 0, counted: 0 };
  const cases: [journal: boolean, Parameters<typeof explainEmpty>[1], RegExp][] = [
    [false, seen, /^The journal is off. .*journal.path/],
    [true, { ...seen, sampling: false }, /^Estimates are off. .*features.estimates/],
    [true, seen, /^Nothing to compare yet. Ask a model.* try$/],
    [true, undefined, /^Nothing to compare yet/],
    [true, { ...seen, turns: 1 }, /^No provider has counted a prompt. There was one request/],
    [true, { ...seen, turns: 1200, counted: 1100 }, /^Nothing to compare yet. There were 1,100 requests with a count/],
  ];
  for (const [journal, found, words] of cases) {
    const { title, text, tries } = explainEmpty(journal, found);
    assert.match(`${title}. ${text}${tries ? " try" : ""}`, words);
  }
});
