// Try it: what is sent after a failed exchange, the calls that can be answered, and the name of a model while it is typed.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Event } from "../src/api/types.ts";
import { callsToAnswer, canContinue, type Ending, isUnanswered, spokenMessages } from "../src/try/history.ts";
import { typedModel } from "../src/try/typedModel.ts";

function event(type: string, body: Record<string, unknown> = {}): Event {
  return { frame: null, type, body: { type, ...body } };
}

const START = event("start");
const TEXT = [START, event("text-start", { index: 0 }), event("text-delta", { index: 0, text: "Two metres." })];
const THINKING = [START, event("reasoning-start", { index: 0 }), event("reasoning-delta", { index: 0, text: "Hm" })];
const FAULT = [START, event("fault", { message: "too much to do" })];
const CALL = [START, event("call-start", { index: 0, id: "c1", name: "level" }), event("call-end", { index: 0 })];
const RESULTS = [{ id: "c1", name: "level", text: "2 m" }];

const question: Ending = { said: "How high?", images: [], results: [], events: CALL, state: "done", took: 9 };
const answered: Ending = { said: "", images: [], results: RESULTS, events: TEXT, state: "done", took: 9 };
const failed: Ending = { ...answered, events: [], state: "failed" };
const stopped: Ending = { ...answered, events: THINKING, state: "stopped" };
const faulty: Ending = { ...answered, events: FAULT };
const roles = (exchanges: Ending[], next = RESULTS) => spokenMessages(exchanges, next).map(({ role }) => role);

test("results of an exchange that is not sent do not answer a call", () => {
  for (const lost of [failed, stopped, faulty]) {
    assert.deepEqual(spokenMessages([question, lost], []), []);
    assert.deepEqual(roles([question, lost]), ["user", "assistant"]);
    assert.match(JSON.stringify(spokenMessages([question, lost, lost], RESULTS)[1]), /"tool_calls":\[\{"id":"c1"/);
  }
  assert.deepEqual(roles([question, failed, answered], []), ["user", "assistant", "tool", "assistant"]);
});

test("calls can be answered again after a message without an answer", () => {
  const ids = (exchanges: Ending[]) => callsToAnswer(exchanges).map(({ id }) => id);
  assert.deepEqual(ids([question]), ["c1"]);
  for (const lost of [failed, stopped, faulty]) {
    assert.deepEqual(ids([question, lost]), ["c1"]);
    assert.equal(isUnanswered(lost), true);
  }
  for (const other of [answered, { ...stopped, events: TEXT }, { ...failed, state: "sending" as const, took: null }]) {
    assert.deepEqual(ids([question, other]), []);
    assert.equal(isUnanswered(other), false);
  }
  assert.deepEqual(ids([question, { ...answered, events: [], took: null }]), []); // its events are still to come
  assert.equal(isUnanswered({ ...answered, events: [START] }), false); // an empty answer is an answer
  assert.deepEqual(ids([]), []);
});

test("an opened turn can be sent again until an exchange is answered", () => {
  assert.equal(canContinue(true, []), true);
  assert.equal(canContinue(true, [failed, faulty, stopped]), true);
  assert.equal(canContinue(true, [failed, answered]), false);
  assert.equal(canContinue(false, []), false);
});

test("the box for a model's name holds what was typed", () => {
  assert.equal(typedModel("openai/gpt-5", "openai/gpt-5", true), "openai/gpt-5");
  assert.equal(typedModel("openai/gpt-5-", "openai/gpt-5-", false), "openai/gpt-5-");
  assert.equal(typedModel(" own ", "own", false), " own ");
  assert.equal(typedModel("", "replay/text", true), "");
  assert.equal(typedModel("", "", false), "");
  assert.equal(typedModel("openai/gpt-5", "replay/text", true), null); // chosen elsewhere
  assert.equal(typedModel("", "openai/other", false), null);
  assert.equal(typedModel(null, "own", false), null);
});
