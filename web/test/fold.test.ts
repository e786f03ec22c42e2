// The fold: events to a message, at any point of a stream.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Event } from "../src/api/types.ts";
import { Fold, foldMessage } from "../src/message/fold.ts";
import type { CallPart, TextPart } from "../src/message/parts.ts";

function events(...bodies: Record<string, unknown>[]): Event[] {
  return bodies.map(({ type, ...body }, frame) => ({ frame, type: String(type), body }));
}

function said(stream: Event[], upto = stream.length): TextPart {
  const found = foldMessage(stream, upto)[0]?.parts.find((part) => part.kind === "text");
  assert.ok(found?.kind === "text");
  return found;
}

const STREAM = events(
  { type: "start", id: "msg_1", model: "m" },
  { type: "reasoning-start", index: 0, form: "summary" },
  { type: "reasoning-delta", index: 0, text: "hm" },
  { type: "reasoning-end", index: 0 },
  { type: "text-start", index: 1 },
  { type: "text-delta", index: 1, text: "Hello " },
  { type: "call-start", index: 2, id: "a", name: "find" },
  { type: "call-start", index: 3, id: "b", name: "search", by: "provider" },
  { type: "call-delta", index: 3, json: '{"q":' },
  { type: "text-delta", index: 1, text: "there" },
  { type: "call-delta", index: 2, json: "{" },
  { type: "call-end", index: 3, id: "b", name: "search", json: '{"q":1}', by: "provider" },
  { type: "result", index: 4, call: "b", name: "search", json: "[1]", partial: true },
  { type: "result", index: 5, call: "b", name: "search", json: "[2]", failed: true },
  { type: "call-cut", index: 2, id: "a", name: "find", json: "{" },
  { type: "text-end", index: 1 },
  { type: "source", index: 6, url: "https://a.example/", title: "A", of: 1, span: [0, 5] },
  { type: "source", index: 7, url: "https://b.example/", of: 1 },
  { type: "source", index: 8, url: "https://a.example/", title: "A", of: 1, span: [6, 11] },
  { type: "usage", input: 10, output: 2 },
  { type: "usage", input: 10, output: 5, reasoning: 1, exact: false },
  { type: "fault", kind: "truncated", message: "the bytes ended", retry_after: 1.5 },
);

test("parts keep the order in which they opened, and interleave", () => {
  const [message] = foldMessage(STREAM);
  assert.deepEqual(
    message?.parts.map((part) => part.kind),
    ["reasoning", "text", "call", "call"],
  );
  assert.equal(said(STREAM).text, "Hello there");
});

test("a cut call is told from a whole one, a provider's from the client's, and the last result counts", () => {
  const parts = foldMessage(STREAM)[0]?.parts ?? [];
  const [cut, whole] = parts.filter((part): part is CallPart => part.kind === "call");
  assert.deepEqual([cut?.state, cut?.by, cut?.result], ["cut", "client", null]);
  assert.deepEqual([whole?.state, whole?.by, whole?.json], ["whole", "provider", '{"q":1}']);
  assert.deepEqual(whole?.result, { json: "[2]", failed: true, partial: false });
});

test("a source has one number however often it is cited", () => {
  const sources = foldMessage(STREAM)[0]?.sources ?? [];
  assert.deepEqual(
    sources.map((source) => source.number),
    [1, 2, 1],
  );
  assert.deepEqual(sources[2]?.span, [6, 11]);
});

test("the last usage counts, and a fault keeps its words", () => {
  const [message] = foldMessage(STREAM);
  assert.deepEqual([message?.usage?.output, message?.usage?.exact, message?.usage?.cached], [5, false, null]);
  assert.deepEqual([message?.fault?.kind, message?.fault?.retryAfter, message?.finish], ["truncated", 1.5, null]);
});

test("at any point the message is what had come by then", () => {
  const fold = new Fold();
  const points = [0, 6, 3, 21, 22, 10, 999, -1, 5];
  for (const point of points) {
    assert.deepEqual(fold.advance(STREAM, point), foldMessage(STREAM.slice(0, Math.max(0, point))), `at ${point}`);
  }
  assert.deepEqual([said(STREAM, 6).open, said(STREAM).open], [true, false]);
});

test("going on with a longer list is the same as folding it anew; another list begins anew", () => {
  const fold = new Fold();
  for (let end = 0; end <= STREAM.length; end++) fold.advance(STREAM.slice(0, end), end);
  assert.deepEqual(fold.messages, foldMessage(STREAM));
  const other = events({ type: "start", model: "other" }, { type: "finish", reason: "stop" });
  assert.equal(fold.advance(other, 2)[0]?.model, "other");
});

test("steps are summed until the turn's own usage comes", () => {
  const steps = events(
    { type: "start" },
    { type: "usage", step: 1, input: 3, output: 1 },
    { type: "usage", step: 2, input: 5, output: 1 },
    { type: "usage", step: 2, input: 5, output: 2 },
    { type: "usage", input: 9, output: 4 },
  );
  assert.deepEqual([foldMessage(steps, 4)[0]?.usage?.input, foldMessage(steps, 4)[0]?.usage?.output], [8, 3]);
  assert.equal(foldMessage(steps)[0]?.usage?.input, 9);
});

test("bytes that hold several turns give several messages", () => {
  const two = [
    ...events({ type: "start", id: "1" }, { type: "text-start", index: 0 }, { type: "finish", reason: "stop" }),
    ...events({ type: "start", id: "2" }, { type: "text-start", index: 0 }, { type: "finish", reason: "stop" }),
  ];
  assert.deepEqual(
    foldMessage(two).map((message) => [message.id, message.parts.length]),
    [
      ["1", 1],
      ["2", 1],
    ],
  );
});

test("unlawful events harm nothing", () => {
  const odd = events(
    { type: "text-delta", index: 7, text: "lost" },
    { type: "call-end", index: 7, json: 4 },
    { type: "result", call: "never", name: "x", json: "1" },
    { type: "ask", call: "never", id: "q" },
    { type: "__proto__" },
    { type: "constructor" },
    { type: "file-start", index: null, media: 3 },
    { type: "data", name: "weather", id: "1", json: "1" },
    { type: "data", name: "weather", id: "1", json: "2" },
    { type: "unknown", data: "?" },
  );
  const [message] = foldMessage(odd);
  assert.deepEqual(
    message?.parts.map((part) => part.kind),
    ["result", "ask", "file", "data"],
  );
  assert.equal(message?.unknown, 1);
});

test("100,000 deltas fold in good time", () => {
  const many = [...events({ type: "start" }, { type: "text-start", index: 0 })];
  for (let n = 0; n < 100_000; n++) many.push({ frame: n, type: "text-delta", body: { index: 0, text: "word " } });
  const fold = new Fold();
  for (let n = 0; n < many.length; n += 10) fold.advance(many, n);
  assert.deepEqual(fold.advance(many, many.length), foldMessage(many));
  assert.equal(said(many).text.length, 500_000);
});
