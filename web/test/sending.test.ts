// Send again: which headers of the original go with the request.
import assert from "node:assert/strict";
import { test } from "node:test";
import { headersFor } from "../src/act/headers.ts";
import { explainUnsendable } from "../src/act/unsendable.ts";
import type { Row } from "../src/api/types.ts";

const HEADERS = { "anthropic-version": "2023-06-01", "anthropic-beta": "context-1m", "x-penstock-strict": "true" };

test("in its own protocol a request has all the headers that change its meaning", () => {
  assert.deepEqual(headersFor({ headers: HEADERS, removed: [] }, true), { sent: HEADERS, leftOut: [] });
});

test("in another protocol it has the gateway's own, and the others are named", () => {
  const { sent, leftOut } = headersFor({ headers: HEADERS, removed: ["x-penstock-losses"] }, false);
  assert.deepEqual(sent, { "x-penstock-strict": "true" });
  assert.deepEqual(leftOut, ["anthropic-beta", "x-penstock-losses"]);
});

test("a request that cannot be sent again says why", () => {
  const row = {} as Row;
  assert.equal(explainUnsendable({ request: '{"model":"m"}', row }), "");
  assert.equal(explainUnsendable({ request: "", request_lost: "it was deleted", row }), "It was deleted.");
  assert.equal(
    explainUnsendable({ request: '{"mod', request_lost: "only its beginning is kept", row }),
    "Only its beginning is kept.",
  );
  for (const request of ["hello", "[]", "5", "null"]) {
    assert.equal(explainUnsendable({ request, row }), "The body of the request is not a JSON object.");
  }
  assert.equal(explainUnsendable({ request: "{}", row: null }), "The request of this turn is not known.");
});
