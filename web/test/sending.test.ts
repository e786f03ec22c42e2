// Send again: which headers of the original go with the request, and answers that come too late.
import assert from "node:assert/strict";
import { test } from "node:test";
import { headersFor } from "../src/act/headers.ts";
import { chooseProtocol, draft, editText, openDraft } from "../src/act/sending.ts";
import { explainUnsendable } from "../src/act/unsendable.ts";
import type { Row } from "../src/api/types.ts";
import { fakeGateway, settle } from "./fakeGateway.ts";

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

const TRACE = { request: '{"model":"m"}', row: { protocol: "openai-chat", asked: "m", stream: false } };
const HEADERS_ANSWER = { headers: {}, removed: [] };

test("a draft that is loaded twice keeps what was written", async () => {
  const { requests, close } = fakeGateway();
  void openDraft("t1");
  void openDraft("t1");
  await requests[1]?.answer(TRACE);
  await requests[2]?.answer(HEADERS_ANSWER);
  editText('{"model":"mine"}');
  await requests[0]?.answer(TRACE);
  assert.equal(requests.length, 3);
  assert.equal(draft.value?.text, '{"model":"mine"}');
  close();
});

test("what is written while the protocol is changed stays", async () => {
  const { requests, close } = fakeGateway();
  void chooseProtocol("anthropic");
  await settle();
  assert.equal(draft.value?.state, "converting");
  editText('{"model":"later"}');
  await requests[0]?.answer({ body: { model: "old" }, notes: [] });
  assert.equal(draft.value?.text, '{"model":"later"}');
  assert.equal(draft.value?.protocol, "openai-chat");
  assert.equal(draft.value?.state, "editing");
  assert.match(draft.value?.error ?? "", /Choose the protocol again/);
  void chooseProtocol("anthropic");
  await requests[1]?.answer({ body: { model: "new" }, notes: [] });
  assert.equal(draft.value?.protocol, "anthropic");
  assert.match(draft.value?.text ?? "", /"new"/);
  draft.value = null;
  close();
});
