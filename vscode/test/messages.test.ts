import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesOf, wireMessages, wireTools } from "../src/chat/messages.ts";
import { bare, Call, Data, full, Result, Text, Thinking } from "./host.ts";

const one = (part: unknown, host = full) => wireMessages([{ role: 1, content: [part] }], host)[0]?.content[0];

test("parts are told by class", () => {
  assert.deepEqual(one(new Text("hi")), { kind: "text", value: "hi" });
  assert.deepEqual(one(new Thinking(["a", "b"], "t1", { signature: "s" })), {
    kind: "thinking",
    value: ["a", "b"],
    id: "t1",
    metadata: { signature: "s" },
  });
  assert.deepEqual(one(new Thinking("plain")), { kind: "thinking", value: "plain" });
  assert.deepEqual(one(new Call("gw-1", "look", { at: 1 })), {
    kind: "call",
    callId: "gw-1",
    name: "look",
    input: { at: 1 },
  });
  assert.deepEqual(one(new Data(new Uint8Array([1, 2, 255]), "image/png")), {
    kind: "data",
    mimeType: "image/png",
    data: "AQL/",
  });
});

test("a host without the thinking class is no trouble", () => {
  assert.deepEqual(one(new Text("hi"), bare), { kind: "text", value: "hi" });
});

test("a tool's result keeps text, images and values, whose classes are lost on the way", () => {
  const png = { $mid: 24, mimeType: "image/png", data: { 0: 137, 1: 80 } };
  const result = new Result("gw-1", [
    { $mid: 21, value: "06:10" },
    png,
    "plain",
    { $mid: 22, value: { node: 1 } },
    null,
  ]);
  assert.deepEqual(one(Object.assign(result, { isError: true })), {
    kind: "result",
    callId: "gw-1",
    content: [
      { kind: "text", value: "06:10" },
      { kind: "data", mimeType: "image/png", data: "iVA=" },
      "plain",
      { $mid: 22, value: { node: 1 } },
      { value: null },
    ],
    isError: true,
  });
});

test("system messages keep the host's number, and names stay", () => {
  assert.deepEqual(wireMessages([{ role: 3, name: "ann", content: [new Text("x")] }], full), [
    { role: 3, name: "ann", content: [{ kind: "text", value: "x" }] },
  ]);
});

test("half a surrogate pair never leaves", () => {
  const sent = JSON.stringify([
    wireMessages([{ role: 1, content: [new Text("a\ud83c"), new Call("c", "n", { "k\udc00": ["\ud83c"] })] }], full),
    wireTools([{ name: "t", description: "\ud800", inputSchema: { title: "\udfff" } }]),
  ]);
  assert.equal(/\\ud[89a-f]/i.test(sent), false);
  assert.ok(sent.includes("a\ufffd"));
});

test("a whole pair does", () => {
  assert.deepEqual(one(new Text("🌊")), { kind: "text", value: "🌊" });
});

test("a call takes along what its provider wants back", () => {
  const extras = new Map([["gw-1", { gemini: { signature: "s" } }]]);
  const [message] = wireMessages(
    [{ role: 2, content: [new Call("gw-1", "n", {}), new Call("gw-2", "n", {})] }],
    full,
    extras,
  );
  assert.deepEqual(
    message?.content.map(({ extra }) => extra),
    [{ gemini: { signature: "s" } }, undefined],
  );
});

test("bytes come in many forms", () => {
  for (const form of [
    new Uint8Array([1, 2]),
    [1, 2],
    "AQI=",
    { 0: 1, 1: 2 },
    { type: "Buffer", data: [1, 2] },
    { buffer: new Uint8Array([1, 2]) },
  ]) {
    assert.deepEqual([...bytesOf(form)], [1, 2]);
  }
  assert.equal(bytesOf(undefined).length, 0);
});

test("what is newer than this extension is sent as it is", () => {
  assert.deepEqual(one({ value: { tree: [1] } }), { value: { tree: [1] } });
  assert.deepEqual(one("bare text"), { kind: "text", value: "bare text" });
});
