// Try it: turns that are opened late, messages without an answer, and the wait for the answer before.
import assert from "node:assert/strict";
import { test } from "node:test";
import { PROTOCOLS } from "../src/act/protocols.ts";
import { about } from "../src/api/about.ts";
import type { About } from "../src/api/types.ts";
import * as session from "../src/try/session.ts";
import { fakeGateway, settle } from "./fakeGateway.ts";

const WAY = PROTOCOLS[0];
assert.ok(WAY);
const row = { protocol: "openai-chat", asked: "m" };
const trace = { request: '{"model":"m"}', row };
const converted = (text: string, more = {}) => ({
  body: { model: "m", messages: [{ role: "user", content: text }], ...more },
  notes: [],
});
const message = (said: string, images: string[] = []) => ({ said, images, results: [] });
const send = (said: string, images: string[] = []) => session.send(message(said, images), "m", WAY);

/** A new conversation with a gateway that has no live feed. */
function begin() {
  about.value = { live: false } as About;
  session.startAnew();
  return fakeGateway();
}

test("of two turns the one that was opened last stays", async () => {
  const { requests, close } = begin();
  const first = session.openTurn("t1");
  const second = session.openTurn("t2");
  await requests[1]?.answer(trace);
  await requests[2]?.answer(converted("two"));
  await requests[0]?.answer(trace);
  await requests[3]?.answer(converted("one"));
  assert.equal(await first, null);
  assert.deepEqual(await second, { model: "m", protocol: "openai-chat" });
  assert.equal(session.writing.value, "two");
  assert.equal(session.opening.value?.turn, "t2");
  close();
});

test("a turn that comes late does not replace what was begun since", async () => {
  const { requests, close } = begin();
  const opened = session.openTurn("t1");
  session.startAnew();
  await requests[0]?.answer({ error: { message: "gone" } }, 404);
  assert.equal(await opened, null);
  assert.equal(session.openError.value, "");
  close();
});

test("a turn with long numbers says that they are rounded", async () => {
  const { requests, close } = begin();
  const opened = session.openTurn("t1");
  await requests[0]?.answer(trace);
  await requests[1]?.answer('{"body":{"messages":[],"seed_of_mine":18446744073709551615},"notes":[]}');
  await opened;
  assert.match(session.opening.value?.notes?.join() ?? "", /rounded/);
  close();
});

test("a message without an answer is put before what was written since", async () => {
  const { requests, close } = begin();
  send("Old", ["data:old"]);
  session.writing.value = "New";
  session.attachedImages.value = ["data:new"];
  await settle();
  await requests[0]?.answer({ error: { message: "no" } }, 400);
  assert.equal(session.writing.value, "Old\n\nNew");
  assert.deepEqual(session.attachedImages.value, ["data:old", "data:new"]);
  close();
});

test("a message that is stopped while it waits does not end the wait of the next one", async () => {
  const { requests, close } = begin();
  send("One");
  await settle();
  assert.equal(requests.length, 1);
  const [one] = session.talk.value;
  assert.ok(one);
  session.talk.value = [{ ...one, state: "done" }]; // its answer is complete, its events are not
  assert.equal(send("Two"), true);
  session.stop();
  await settle();
  assert.equal(session.talk.value[1]?.state, "stopped");
  assert.equal(send("Three"), true);
  await settle();
  assert.equal(requests.length, 1);
  await requests[0]?.answer({ error: { message: "no" } }, 400);
  assert.equal(requests.length, 2);
  session.startAnew();
  await settle();
  close();
});
