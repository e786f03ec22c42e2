import assert from "node:assert/strict";
import { test } from "node:test";
import { MessageParser, messages } from "../src/api/sse.ts";

const STREAM =
  ': hello\n\nevent: turns\ndata: {"a":1}\n\ndata: one\ndata:two\r\n\r\nid: 4\n\nevent: more\ndata: é🌊\n\ndata: never ended';
const WHOLE = [
  { event: "turns", data: '{"a":1}' },
  { event: "message", data: "one\ntwo" },
  { event: "more", data: "é🌊" },
];

test("whole messages, wherever the text is cut", () => {
  for (let at = 0; at <= STREAM.length; at++) {
    const parser = new MessageParser();
    assert.deepEqual([...parser.feed(STREAM.slice(0, at)), ...parser.feed(STREAM.slice(at))], WHOLE);
  }
});

test("bytes of a body, one by one", async () => {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of new TextEncoder().encode(STREAM)) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  assert.deepEqual(await Array.fromAsync(messages(body)), WHOLE);
});

test("who stops reading stops the body", async () => {
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      controller.enqueue(new TextEncoder().encode("data: x\n\n"));
    },
    cancel() {
      cancelled = true;
    },
  });
  for await (const _ of messages(body)) break;
  assert.ok(cancelled);
});
