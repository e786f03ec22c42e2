// Send again: which headers of the original go with the request.
import assert from "node:assert/strict";
import { test } from "node:test";
import { headersFor } from "../src/act/headers.ts";

const HEADERS = { "anthropic-version": "2023-06-01", "anthropic-beta": "context-1m", "x-penstock-strict": "true" };

test("in its own protocol a request has all the headers that change its meaning", () => {
  assert.deepEqual(headersFor({ headers: HEADERS, removed: [] }, true), { sent: HEADERS, leftOut: [] });
});

test("in another protocol it has the gateway's own, and the others are named", () => {
  const { sent, leftOut } = headersFor({ headers: HEADERS, removed: ["x-penstock-losses"] }, false);
  assert.deepEqual(sent, { "x-penstock-strict": "true" });
  assert.deepEqual(leftOut, ["anthropic-beta", "x-penstock-losses"]);
});
