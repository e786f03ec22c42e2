import assert from "node:assert/strict";
import { test } from "node:test";
import type { Breakdown } from "../src/api/types.ts";
import { bodyOf, marksOf } from "../src/request/marks.ts";
import { cacheEnd, linkCalls, parametersOf, partSize, typeWords } from "../src/request/prompt.ts";
import { phasesOf, timingWords } from "../src/request/timing.ts";
import type { Loss, RequestView } from "../src/request/types.ts";

test("parameters of a tool, with those of objects inside", () => {
  const schema = {
    type: "object",
    required: ["path"],
    properties: {
      path: { type: "string", description: "Where." },
      edits: { type: "array", items: { type: "object", properties: { line: { type: "integer" } } } },
    },
  };
  assert.deepEqual(
    parametersOf(schema).map(({ name, type, required, depth }) => [name, type, required, depth]),
    [
      ["path", "string", true, 0],
      ["edits", "array of object", false, 0],
      ["line", "integer", false, 1],
    ],
  );
  assert.deepEqual(parametersOf(null), []);
});

test("types in words", () => {
  assert.equal(typeWords({ enum: ["m", 2] }), '"m" or 2');
  assert.equal(typeWords({ type: ["string", "null"] }), "string or null");
  assert.equal(typeWords({ anyOf: [{ type: "string" }, { const: 1 }] }), "string or 1");
  assert.equal(typeWords({}), "any");
});

test("calls and results know each other's message", () => {
  const links = linkCalls({
    messages: [
      { role: "user", parts: [{ type: "text", text: "go" }] },
      { role: "assistant", parts: [{ type: "call", id: "a", name: "run" }] },
      { role: "tool", parts: [{ type: "result", call: "a" }] },
      { role: "user" },
    ],
  });
  assert.deepEqual([links.calls.get("a"), links.results.get("a"), links.names.get("a")], [1, 2, "run"]);
});

test("a cache hit ends in the message that its tokens reach", () => {
  const line = (tokens: number, message?: number) => ({ kind: "message", tokens, message, what: "", share: 0 });
  const lines = [{ ...line(100), kind: "tools" }, line(50, 0), line(30, 1), line(20, 2)];
  const counted = { lines } as unknown as Breakdown;
  assert.equal(cacheEnd(counted, 150), 0);
  assert.equal(cacheEnd(counted, 160), 1);
  assert.equal(cacheEnd(counted, 9999), 2);
  assert.equal(cacheEnd(counted, 0), null);
  assert.equal(cacheEnd(null, 5), null);
});

test("sizes count what is inside of results", () => {
  assert.equal(partSize({ type: "result", content: [{ type: "text", text: "abc" }] }), 3);
});

test("phases of a try, until its first byte or its end", () => {
  const timing = { start: 1, dns: 0.1, connect: 0.2, tls: 0.3, first_byte: 1 };
  assert.deepEqual(
    phasesOf(timing).map(({ name, seconds }) => [name, Number(seconds.toFixed(3))]),
    [
      ["dns", 0.1],
      ["connect", 0.2],
      ["tls", 0.3],
      ["waiting", 0.4],
    ],
  );
  assert.equal(
    timingWords({ start: 0, reused: true, first_byte: 0.5 }),
    "reused connection, waiting 500 ms, first byte after 500 ms",
  );
  assert.equal(timingWords({ start: 1, end: 1.4 }), "waiting 400 ms, failed after 400 ms");
  assert.equal(timingWords({ start: 0 }), "no times are known");
});

test("marks of a try, and the body that an earlier try has", () => {
  const loss: Loss = { kind: "lost", code: "c", message: "m", count: 1, attempt: 1, client: ["/a"], upstream: ["/b"] };
  const marks = marksOf([loss, { ...loss, attempt: 0 }], 1);
  assert.deepEqual(marks.client.get("/a"), [{ kind: "lost", text: "m" }]);
  assert.deepEqual(marks.upstream.get("/b"), [{ kind: "changed", text: "m" }]);
  const attempts = [
    { attempt: { body: "{}" }, same_body: null },
    { attempt: {}, same_body: 0 },
  ];
  assert.equal(bodyOf({ attempts } as unknown as RequestView, 1), "{}");
});
