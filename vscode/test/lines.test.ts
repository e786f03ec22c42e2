import assert from "node:assert/strict";
import { test } from "node:test";
import { replyLines, textLines } from "../src/chat/lines.ts";
import { readLine } from "../src/wire.ts";

async function* chunked(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const STREAM = '{"kind":"start","version":1}\n\n{"kind":"text","value":"Grüße 🌊"}\r\n{"kind":"end","reason":"stop"}';

test("any cutting of the bytes gives the same lines", async () => {
  const bytes = Buffer.from(STREAM);
  const whole = await Array.fromAsync(replyLines(chunked(bytes, bytes.length)));
  assert.equal(whole.length, 3);
  for (let size = 1; size < bytes.length; size++) {
    assert.deepEqual(await Array.fromAsync(replyLines(chunked(bytes, size))), whole, `chunks of ${size}`);
  }
});

test("a line has a limit", async () => {
  const long = chunked(Buffer.from("x".repeat(100)), 10);
  await assert.rejects(Array.fromAsync(textLines(long, 50)), /over 50 characters/);
});

test("what is not understood is skipped, and told", async () => {
  const skipped: string[] = [];
  const odd =
    '{"kind":"hologram","value":1}\nnot json\n{"kind":"text"}\n{"kind":"call","callId":"a","name":"b","input":null}\n[1]\n{"kind":"text","value":"x","new":1}\n';
  const found = await Array.fromAsync(replyLines(chunked(Buffer.from(odd), 7), (line) => skipped.push(line)));
  assert.deepEqual(found, [{ kind: "text", value: "x", new: 1 }]);
  assert.equal(skipped.length, 5);
});

test("a kind that every object has is no kind", () => {
  assert.equal(readLine('{"kind":"toString"}'), undefined);
  assert.equal(readLine('{"kind":"constructor"}'), undefined);
});
