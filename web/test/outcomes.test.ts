// Small words: usage, outcomes, groups of parts, names of files, the sample stream.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sampleStream } from "../src/file/sample.ts";
import { pageName } from "../src/file/saving.ts";
import { byChoice } from "../src/message/groups.ts";
import { describeFault, describeFinish, faultFacts, formatUsage, size } from "../src/message/outcomes.ts";
import type { Part, TextPart } from "../src/message/parts.ts";

const NONE = { input: null, output: null, cached: null, written: null, reasoning: null, exact: true };

test("usage leaves out what is not known, and says what is a guess", () => {
  assert.equal(
    formatUsage({ ...NONE, input: 1204, cached: 1000, output: 56, reasoning: 12 }),
    "1,204 in (1,000 cached) · 56 out (12 thinking)",
  );
  assert.equal(formatUsage({ ...NONE, output: 5, exact: false }), "about 5 out");
  assert.equal(formatUsage({ ...NONE, input: 0, cached: 0 }), "0 in");
  assert.equal(formatUsage(NONE), "no figures");
});

test("ends in plain words, also those that nobody has heard of", () => {
  assert.equal(describeFinish("other", "eos"), "Ended: eos");
  assert.equal(describeFinish("new-word", ""), "Ended");
  assert.equal(describeFinish("calls", ""), "Stopped to get the results of its calls"); // also where they were sent since
  assert.equal(describeFault("new-word"), "Something went wrong");
  assert.equal(describeFault("new-word", "gateway"), "Something went wrong");
  const fault = { kind: "rate-limit", message: "", status: 429, code: "x", retryAfter: 2, inStream: false };
  assert.deepEqual(faultFacts(fault), ["rate-limit", "status 429", "code x", "try again in 2 s"]);
  assert.deepEqual([size(12), size(12_345), size(2_000_000)], ["12 characters", "12 k characters", "2.0 M characters"]);
});

test("an error names who made it: the gateway, the provider, or nobody if that is not known", () => {
  for (const kind of ["auth", "permission", "quota", "not-found", "invalid", "too-large", "rate-limit", "overloaded"]) {
    assert.match(describeFault(kind, "provider"), /provider/);
    assert.match(describeFault(kind, "gateway"), /gateway/);
    assert.doesNotMatch(describeFault(kind, "gateway"), /provider/);
    assert.doesNotMatch(describeFault(kind), /gateway|provider/);
  }
  assert.equal(describeFault("auth", "unsent"), "The gateway has no key for the provider");
  assert.equal(describeFault("cancelled", "gateway"), "The client left");
  assert.equal(
    describeFault("overloaded", "gateway", "circuit-open"),
    "No provider was asked: it has failed too often",
  );
  assert.equal(describeFault("auth", "provider", "key_revoked"), "The provider did not accept the key");
});

function text(index: number, item = "", choice = 0): TextPart {
  return { kind: "text", index, item, choice, text: String(index), open: false };
}

test("neighbouring texts of one item are one, choices stand apart", () => {
  const step: Part = { kind: "step", index: -1, name: "2", text: "" };
  const parts: Part[] = [text(0), text(1), text(2, "m2"), step, text(3, "m2"), text(4, "", 1)];
  const shape = byChoice(parts).map(({ number, groups }) => [
    number,
    groups.map((group) => (group.kind === "texts" ? group.parts.map((part) => part.index) : group.kind)),
  ]);
  assert.deepEqual(shape, [
    [0, [[0, 1], [2], "step", [3]]],
    [1, [[4]]],
  ]);
  assert.deepEqual(byChoice([]), []);
});

test("a shared file has a name that every disk takes", () => {
  assert.equal(pageName("the gates.sse"), "the-gates.html");
  assert.equal(pageName("../../etc/passwd"), "etc-passwd.html");
  assert.equal(pageName('<script>"|?*'), "script.html");
  assert.equal(pageName("…"), "stream.html");
  assert.ok(pageName("x".repeat(500)).length < 100);
});

test("the sample is a stream of server-sent events", () => {
  const frames = sampleStream().trim().split("\n\n");
  for (const frame of frames) {
    const [event = "", data = ""] = frame.split("\n");
    assert.equal(JSON.parse(data.replace("data: ", "")).type, event.replace("event: ", ""));
  }
  assert.equal(frames.length, 20);
});
