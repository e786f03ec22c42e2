import assert from "node:assert/strict";
import { test } from "node:test";
import type { Breakdown } from "../src/api/types.ts";
import { describeNoStatus, explainUnsent } from "../src/request/attemptOutcome.ts";
import { bodyOf, marksOf } from "../src/request/marks.ts";
import {
  cacheEnd,
  describeCache,
  describeCacheHit,
  describeType,
  IN_TOOLS,
  linkCalls,
  otherLines,
  parametersOf,
  partSize,
} from "../src/request/prompt.ts";
import { describeTiming, phasesOf } from "../src/request/timing.ts";
import type { Attempt, Loss, RequestView } from "../src/request/types.ts";

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
  assert.equal(describeType({ enum: ["m", 2] }), '"m" or 2');
  assert.equal(describeType({ type: ["string", "null"] }), "string or null");
  assert.equal(describeType({ anyOf: [{ type: "string" }, { const: 1 }] }), "string or 1");
  assert.equal(describeType({}), "any");
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

const line = (tokens: number, message?: number, kind = "message") => ({ kind, tokens, message, what: "", share: 0 });
const NO_FILES = { messages: [] };

test("a cache hit ends in the message that its tokens reach", () => {
  const lines = [line(100, undefined, "tools"), line(50, 0), line(30, 1), line(20, 2)];
  const counted = { lines } as unknown as Breakdown;
  const end = (cached: number | null) => cacheEnd(counted, cached, NO_FILES);
  assert.deepEqual([end(100), end(101), end(150), end(160), end(9999)], [IN_TOOLS, 0, 0, 1, 2]);
  assert.deepEqual([end(0), end(null), cacheEnd(null, 5, NO_FILES)], [null, null, null]);
});

test("a cache hit is in the provider's tokens, and files are in the messages that hold them", () => {
  const lines = [line(50, 0), line(50, 1), line(100, undefined, "images")];
  const request = { messages: [{ role: "user", parts: [{ type: "file" }] }, { role: "user" }] };
  const counted = { lines, tokens: 200, actual: 400 } as unknown as Breakdown;
  assert.deepEqual([cacheEnd(counted, 300, request), cacheEnd(counted, 301, request)], [0, 1]);
});

test("what the provider said of its cache", () => {
  assert.match(describeCache(0), /read none of them from its cache/);
  assert.match(describeCache(1200), /read 1,200 of them/);
  assert.match(describeCache(null), /did not say/);
  assert.equal(describeCache(null, true), "");
  assert.match(describeCache(7, true), /read 7 of them/);
});

test("the parts beside messages and tools, so that the rows add up", () => {
  const lines = [line(50, 0), line(9, undefined, "tools"), line(4, undefined, "framing"), line(7, undefined)];
  assert.deepEqual(
    otherLines({ lines } as unknown as Breakdown).map(({ kind, tokens }) => [kind, tokens]),
    [
      ["framing", 4],
      ["message", 7],
    ],
  );
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
    describeTiming({ start: 0, reused: true, first_byte: 0.5 }, false),
    "reused connection, waiting 500 ms, first byte after 500 ms",
  );
  assert.equal(describeTiming({ start: 1, end: 1.4 }, true), "waiting 400 ms, failed after 400 ms");
  assert.equal(describeTiming({ start: 1, end: 1.4 }, false), "waiting 400 ms, ended after 400 ms");
  assert.equal(describeTiming({ start: 0 }, false), "no times are known");
});

test("a try without a status is running until it fails or its turn ends", () => {
  const running = { engine: "native", sent: false, timing: { start: 0 } } as Attempt;
  const ended = { start: 0, end: 1 };
  const outcomes: [Partial<Attempt>, string, string][] = [
    [{}, "running", "It has not been sent yet."], // it waits for a token, or for TLS
    [{ engine: "" }, "running", "It has not been sent yet."],
    [{ error: "auth" }, "not sent", "The gateway could not send it."],
    [{ timing: ended }, "not sent", "It was not sent."], // the client left
    [{ engine: "replay" }, "running", "The engine replay sends no HTTP request."],
    [{ engine: "replay", timing: ended }, "ended", "The engine replay sends no HTTP request."],
    [{ engine: "replay", error: "server" }, "failed", "The engine replay sends no HTTP request."],
  ];
  for (const [change, outcome, reason] of outcomes) {
    const attempt = { ...running, ...change };
    assert.deepEqual([describeNoStatus(attempt), explainUnsent(attempt)], [outcome, reason]);
  }
  const sent = { ...running, sent: true };
  assert.equal(describeNoStatus(sent), "running");
  assert.equal(describeNoStatus({ ...sent, error: "timeout" }), "timed out");
  assert.equal(describeNoStatus({ ...sent, error: "network" }), "no response");
  assert.equal(describeNoStatus({ ...sent, timing: ended }), "no response");
});

test("where a cache hit ends", () => {
  assert.equal(
    describeCacheHit(1200, "this message"),
    "The provider's cache hit (1,200 tokens) ends about in this message.",
  );
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
