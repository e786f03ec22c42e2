import assert from "node:assert/strict";
import { test } from "node:test";
import { counts, NAMES } from "../src/chat/classes.ts";
import { Counter, CounterCache, TextCache } from "../src/chat/counting.ts";
import { held, rendered } from "../src/chat/rendering.ts";
import { Call, Data, full, model, Result, Text, Thinking } from "./host.ts";

const named = (text: string) =>
  Object.fromEntries(NAMES.map((name, place) => [name, counts(text)[place]] as const).filter(([, number]) => number));

test("a text is taken apart", () => {
  assert.deepEqual(named("fooBar  12\n"), {
    words: 1,
    humps: 1,
    fives: 1,
    gaps: 1,
    digits: 2,
    numbers: 1,
    lines: 1,
    breaks: 1,
  });
  assert.deepEqual(named("  x"), { words: 1 });
  assert.deepEqual(named("HTTP"), { words: 1, capitals: 2 });
  assert.deepEqual(named("水🌊é"), { words: 1, han: 1, astral: 1, latin: 1 });
  assert.deepEqual(named("\ud83c"), { hangul: 1 });
});

test("counts are not rounded, and add up", () => {
  const counter = new Counter({ factors: { words: 0.7, marks: 0.1 } });
  assert.ok(Math.abs(counter.text("a") - 0.7) < 1e-9);
  assert.ok(Math.abs(counter.text("a, b") - 1.5) < 1e-9);
  assert.equal(counter.text(""), 0);
});

test("a message counts all of its content", () => {
  const counter = new Counter(model().counting);
  const words = (...content: unknown[]) => counter.message({ role: 1, content }, full) - 4;
  assert.equal(words(new Text("one two")), 2);
  assert.equal(words(new Thinking("one two three")), 3);
  assert.equal(words(new Call("gw-1", "look", { at: "Oban" })), 1 + counter.text('{"at":"Oban"}'));
  assert.equal(words(new Result("gw-1", [new Text("one two"), "three"])), 3);
  assert.equal(words(new Data(new Uint8Array(10), "image/png")), 85);
  assert.equal(words(new Data(Buffer.from("one two"), "text/plain")), 2);
  assert.equal(words(new Data(Buffer.from("x"), "cache_control"), new Data(Buffer.from("x"), "stateful_marker")), 0);
});

test("JSON is counted as the provider reads it", () => {
  const given = '{"at": "Oban \\"Bay\\"", "deep": [1, true]}';
  assert.equal(held(given, "json"), given);
  assert.equal(held(given, "words"), 'at Oban "Bay" deep');
  assert.equal(held(given, "declared"), '{at:  " Oban "Bay" " , deep: [1, true]}');
  const counter = new Counter({ factors: { words: 1, marks: 1 }, rendering: "words" });
  assert.equal(counter.message({ role: 1, content: [new Call("gw-1", "look", { at: "Oban" })] }, full), 3);
});

test("what stands beside the content is counted where the gateway says so", () => {
  const counter = new Counter({ factors: { words: 1 }, message: 4, call: 8, result: 5, reasoning: 0.5 });
  const beside = (part: unknown) => counter.message({ role: 1, content: [part] }, full) - 4;
  assert.equal(beside(new Call("gw-1", "look", {})), 9);
  assert.equal(beside(new Result("gw-1", ["one"])), 6);
  assert.equal(beside(new Thinking(["one two", " three four"])), 2);
});

test("the learned factor is in the factors of texts, and is applied to all else", () => {
  const plain = { base: 3, message: 4, call: 8, result: 5, tools: 100, tool: 10, schema: 2, reasoning: 0.5, image: 85 };
  const [before, after] = [{ factors: { words: 1 } }, { factors: { words: 1.5 }, factor: 1.5 }].map(
    (learned) => new Counter({ ...plain, ...learned }),
  );
  const content = [
    new Text("one two"),
    new Thinking("three"),
    new Call("gw-1", "look", {}),
    new Result("gw-1", ["four"]),
    new Data(new Uint8Array(10), "image/png"),
  ];
  const prompt = [[{ role: 1, content }], [{ name: "a" }], full] as const;
  assert.ok(before && after);
  assert.equal(after.text("one two"), 3);
  assert.equal(after.prompt(...prompt), 1.5 * before.prompt(...prompt));
});

const TOOL = {
  name: "look",
  description: "Looks",
  inputSchema: {
    type: "object",
    properties: { at: { type: "string", description: "Where" }, deep: { type: "array", items: { enum: [1, "b"] } } },
    required: ["at"],
  },
};

test("a tool is rendered as the provider reads it", () => {
  assert.match(rendered(TOOL, "json"), /^{"name":"look","description":"Looks","parameters":{"type":"object",/);
  assert.match(rendered(TOOL, "spaced"), /^{"name": "look", "description": "Looks", "parameters": {"type": "object", /);
  const typed = '// Looks\ntype look = (_: {\n// Where\nat: string,\ndeep?: 1 | "b"[],\n}) => any;\n\n';
  assert.equal(rendered(TOOL, "typescript"), typed);
  assert.equal(rendered(TOOL, "words"), "look Looks obje at at Where stri deep arra 1 b");
  assert.match(rendered(TOOL, "declared"), /^declaration:look{description: " Looks " ,parameters:{required:\[/);
  assert.equal(rendered({ name: "x" }, "toString"), '{"name":"x","description":""}');
});

test("a whole prompt has what is paid once, for the conversation and for its tools", () => {
  const counter = new Counter({ factors: { words: 1 }, base: 3, message: 4, tools: 100, tool: 10, schema: 2 });
  const messages = [{ role: 1, content: [new Text("one two")] }];
  assert.equal(counter.prompt(messages, [], full), 9);
  assert.equal(counter.prompt(messages, [{ name: "a" }, { name: "b" }], full), 9 + 100 + 2 * (10 + 2 * 3));
});

test("a gateway without factors is counted roughly", () => {
  assert.ok(new Counter(undefined).text("some words here") > 2);
});

test("the cache is bounded, and forgets what is not used", () => {
  const cache = new TextCache(10, 1000);
  for (let number = 0; number < 100; number++) {
    cache.set(`text ${number}`, number);
    cache.get("text 0");
  }
  assert.ok(cache.size <= 20);
  assert.equal(cache.get("text 0"), 0);
  assert.equal(cache.get("text 20"), undefined);
  cache.set("x".repeat(900), 1);
  cache.set("y".repeat(900), 2);
  cache.set("z".repeat(900), 3);
  assert.equal(cache.get("x".repeat(900)), undefined);
});

test("models with the same factors share what was counted, and factors that are replaced are forgotten", () => {
  const counters = new CounterCache();
  const [one, other] = [counters.get({ factors: { words: 1 } }), counters.get({ factors: { words: 1 }, message: 4 })];
  assert.notEqual(one, other);
  assert.equal(one.cache, other.cache);
  assert.equal(counters.get({ factors: { words: 1 } }), one);
  for (let round = 1; round <= 100; round++) {
    const learned = counters.get({ factors: { words: 1 + round / 100 } });
    assert.equal(learned.text("one two"), 2 + round / 50);
    counters.prune([learned]);
    assert.equal(counters.size, 1);
  }
  assert.notEqual(counters.get({ factors: { words: 1 } }).cache, one.cache);
});
