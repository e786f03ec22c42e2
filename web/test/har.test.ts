// HAR files: which answers are read, and that addresses show no query.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readHar } from "../src/file/har.ts";

function entry(content: object, more: object = {}) {
  const request = { method: "POST", url: "https://api.test/v1/messages?key=secret", postData: { text: '{"a":1}' } };
  return { request: { ...request, ...more }, response: { status: 200, content } };
}

test("answers of a HAR file are found, text and base64", () => {
  const sse = { mimeType: "text/event-stream; charset=utf-8", text: "data: {}\n\n" };
  const binary = { mimeType: "application/vnd.amazon.eventstream", text: btoa("\u0000\u0001"), encoding: "base64" };
  const picture = { mimeType: "image/png", text: "x" };
  const entries = [entry(sse), entry(binary), entry(picture), entry(sse, { method: "GET" }), entry({}), {}, null];
  const found = readHar(JSON.stringify({ log: { entries } }));
  assert.deepEqual(
    found?.map(({ name, body, request }) => [name, body.length, request]),
    [
      ["api.test/v1/messages", 10, '{"a":1}'],
      ["api.test/v1/messages", 2, '{"a":1}'],
    ],
  );
  assert.equal(readHar("data: {}"), null);
  assert.equal(readHar('{"log": {}}'), null);
  assert.deepEqual(readHar('{"log": {"entries": []}}'), []);
});
